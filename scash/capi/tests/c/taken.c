/* The system takes pages out of memory at any time: their entries in the page table are gone, their bytes are
 * not. A thread of each rank does the same to all shared memory while the others write it, under locks and
 * between barriers. */
#define _DEFAULT_SOURCE
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum { PAGES = 24, LONGS = DSM_PAGE_SIZE / sizeof(long), WORDS = PAGES * LONGS, LOCKS = 8, STEPS = 60 };

static long *a, *guarded;
static atomic_int over;

static void *take(void *nothing)
{
    (void)nothing;
    for (long times = 0; !atomic_load(&over); times++) {
        CHECK(madvise(a, WORDS * sizeof *a, MADV_DONTNEED) == 0);
        CHECK(madvise(guarded, LOCKS * DSM_PAGE_SIZE, MADV_DONTNEED) == 0);
        for (volatile int pause = 0; pause < times % 7 * 5000; pause++)
            ;
    }
    return NULL;
}

int main(void)
{
    pthread_t taker;
    dsm_lock_t locks;

    CHECK(dsm_init() == 0);
    long rank = dsm_rank(), size = dsm_size();
    CHECK((a = dsm_alloc(WORDS * sizeof *a)) != NULL);
    CHECK((guarded = dsm_alloc(LOCKS * DSM_PAGE_SIZE)) != NULL);
    CHECK(dsm_locks_create(LOCKS, &locks) == 0);
    CHECK(pthread_create(&taker, NULL, take, NULL) == 0);
    for (long step = 1; step <= STEPS; step++) {
        /* Each page has words of every rank. */
        for (long i = rank; i < WORDS; i += size)
            a[i] += i;
        for (long lock = 0; lock < LOCKS; lock++) {
            CHECK(dsm_lock(locks + lock) == 0);
            for (long i = 0; i < 8; i++)
                guarded[lock * LONGS + i * 64] += lock + 1;
            CHECK(dsm_unlock(locks + lock) == 0);
        }
        CHECK(dsm_barrier() == 0);
        for (long i = 0; i < WORDS; i++)
            CHECK(a[i] == step * i);
        for (long i = 0; i < LOCKS * 8; i++)
            CHECK(guarded[i / 8 * LONGS + i % 8 * 64] == step * size * (i / 8 + 1));
        CHECK(dsm_barrier() == 0);
    }
    atomic_store(&over, 1);
    CHECK(pthread_join(taker, NULL) == 0);
    CHECK(dsm_finalize() == 0);
    return 0;
}
