/*
 * globals: a program for threads becomes one for ranks where its global variables are annotated.
 *
 * DSM_SHARED makes a static variable one for all ranks, with the value that it begins with. DSM_SHARED_ZERO
 * does for a large array of zeros. What is not annotated is each rank's own. The program is linked with what
 * `pkg-config --libs scash-shared` says.
 *
 * The ranks sieve a part of the numbers each, then count pairs of primes that are two apart. There are 1224 of
 * them below 100000.
 */
#include <scash_shared.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(ok) ((ok) ? (void)0 : (fprintf(stderr, "%s\n", dsm_error()), exit(1)))

enum { MOST = 100000 };

DSM_SHARED int limit = MOST;
DSM_SHARED int pairs;
DSM_SHARED_ZERO char is_composite[MOST + 1];
/* Each rank's own. */
static int begin, end;

static void sieve(void)
{
    for (int i = 2; i * i <= limit; i++) {
        int first = (begin + i - 1) / i * i;
        for (int multiple = first > 2 * i ? first : 2 * i; multiple < end; multiple += i)
            is_composite[multiple] = 1;
    }
}

static int count(void)
{
    int found = 0;
    for (int i = begin > 3 ? begin : 3; i < end && i + 2 < limit; i++)
        found += !is_composite[i] && !is_composite[i + 2];
    return found;
}

int main(void)
{
    CHECK(dsm_init() == 0);
    dsm_lock_t lock;
    CHECK(dsm_locks_create(1, &lock) == 0);
    begin = (int)((long)limit * dsm_rank() / dsm_size());
    end = (int)((long)limit * (dsm_rank() + 1) / dsm_size());

    sieve();
    CHECK(dsm_barrier() == 0);
    int found = count();
    CHECK(dsm_lock(lock) == 0);
    pairs += found;
    CHECK(dsm_unlock(lock) == 0);

    CHECK(dsm_barrier() == 0);
    if (dsm_rank() == 0)
        printf("%d pairs of primes below %d are two apart\n", pairs, limit);
    CHECK(dsm_finalize() == 0);
    return 0;
}
