/*
 * histogram: ranks add to the same counts, one rank at a time.
 *
 * A rank that gets the lock sees what the rank before it wrote under the lock, so no barrier is needed
 * between them. Each rank counts for itself first, and takes the lock once.
 *
 * Of the numbers of 10 bits, C(10,k) have k one bits.
 */
#include <scash.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(ok) ((ok) ? (void)0 : (fprintf(stderr, "%s\n", dsm_error()), exit(1)))

enum { BITS = 10 };

int main(void)
{
    CHECK(dsm_init() == 0);
    int rank = dsm_rank(), size = dsm_size();
    int *counts = dsm_alloc((BITS + 1) * sizeof *counts);
    CHECK(counts != NULL);
    dsm_lock_t lock;
    CHECK(dsm_locks_create(1, &lock) == 0);

    int mine[BITS + 1] = {0};
    for (int number = rank; number < 1 << BITS; number += size) {
        int ones = 0;
        for (int bit = 0; bit < BITS; bit++)
            ones += number >> bit & 1;
        mine[ones]++;
    }
    CHECK(dsm_lock(lock) == 0);
    for (int ones = 0; ones <= BITS; ones++)
        counts[ones] += mine[ones];
    CHECK(dsm_unlock(lock) == 0);

    CHECK(dsm_barrier() == 0); /* all have added theirs */
    if (rank == 0) {
        printf("numbers of %d bits, by their one bits:", BITS);
        for (int ones = 0; ones <= BITS; ones++)
            printf(" %d", counts[ones]);
        printf("\n");
    }
    CHECK(dsm_finalize() == 0);
    return 0;
}
