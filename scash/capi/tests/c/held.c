/* A rank holds a lock while all pass barriers, in turns; then all others have it. Each rank checks the sums
 * under the lock, and prints a line. */
#include "check.h"

enum { ROUNDS = 8 };

static dsm_lock_t lock;
static volatile long *sums;

/* What this rank adds under the lock, which nobody else has meanwhile. */
static void add(long number)
{
    CHECK(sums[0] == sums[512]);
    sums[0] += number;
    sums[512] += number;
}

int main(void)
{
    long expected = 0;
    int rank, size, round, holds;

    CHECK(dsm_init() == 0);
    rank = dsm_rank();
    size = dsm_size();
    CHECK(dsm_locks_create(1, &lock) == 0);
    sums = dsm_alloc(2 * DSM_PAGE_SIZE);
    CHECK(sums != NULL);
    CHECK(dsm_barrier() == 0);
    for (round = 0; round < ROUNDS; round++) {
        holds = round % size == rank;
        if (holds) {
            CHECK(dsm_lock(lock) == 0);
            add(round + 1);
        }
        CHECK(dsm_barrier() == 0);
        expected += round + 1;
        CHECK(sums[0] == expected && sums[512] == expected);
        CHECK(dsm_barrier() == 0);
        if (holds) {
            add(round + 1);
            CHECK(dsm_unlock(lock) == 0);
        } else {
            CHECK(dsm_lock(lock) == 0);
            add(100);
            CHECK(dsm_unlock(lock) == 0);
        }
        CHECK(dsm_barrier() == 0);
        expected += round + 1 + 100 * (size - 1);
        CHECK(sums[0] == expected && sums[512] == expected);
        /* Nobody may have the lock of the next round before all have looked. */
        CHECK(dsm_barrier() == 0);
    }
    printf("rank %d: %ld\n", rank, sums[0]);
    CHECK(dsm_finalize() == 0);
    return 0;
}
