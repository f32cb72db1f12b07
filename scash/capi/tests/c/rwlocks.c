/* Reader-writer locks: many read together, one writes alone. Locks that are tried: nobody waits for who has
 * them. */
#include "check.h"
#include <pthread.h>

enum { ROUNDS = 60, THREADS = 3, PAGE = DSM_PAGE_SIZE / sizeof(long) };

static int rank, size;

/* All ranks have one lock to read at the same time, or none of them would go on. */
static void read_together(void)
{
    dsm_rwlock_t lock;
    dsm_semaphore_t here;
    dsm_flag_t all;
    CHECK(dsm_rwlocks_create(1, &lock) == 0);
    CHECK(dsm_semaphores_create(1, 0, &here) == 0);
    CHECK(dsm_flags_create(1, &all) == 0);
    CHECK(dsm_read_lock(lock) == 0);
    CHECK(dsm_semaphore_post(here, 1) == 0);
    for (int i = 0; rank == 0 && i < size; i++)
        CHECK(dsm_semaphore_wait(here) == 0);
    if (rank == 0)
        CHECK(dsm_flag_raise(all, 1) == 0);
    CHECK(dsm_flag_wait(all, 1) == 0);
    CHECK(dsm_rw_unlock(lock) == 0);
    CHECK(dsm_barrier() == 0);
}

static long *pair;
static dsm_rwlock_t pair_lock;

/* Two numbers on two pages that only grow, and are the same whenever somebody may look. */
static void *read_and_write(void *unused)
{
    long last = 0;
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(dsm_read_lock(pair_lock) == 0);
        CHECK(pair[0] == pair[PAGE] && pair[0] >= last);
        last = pair[0];
        CHECK(dsm_rw_unlock(pair_lock) == 0);
        if (i % 3 == 0) {
            CHECK(dsm_write_lock(pair_lock) == 0);
            CHECK(pair[0]++ >= last);
            pair[PAGE]++;
            CHECK(dsm_rw_unlock(pair_lock) == 0);
        }
    }
    return NULL;
}

static void write_alone(void)
{
    pthread_t thread[THREADS];
    CHECK((pair = dsm_alloc(2 * DSM_PAGE_SIZE)) != NULL);
    CHECK(dsm_rwlocks_create(1, &pair_lock) == 0);
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_create(&thread[t], NULL, read_and_write, NULL) == 0);
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_join(thread[t], NULL) == 0);
    CHECK(dsm_barrier() == 0);
    CHECK(pair[0] == (long)THREADS * (ROUNDS / 3) * size && pair[PAGE] == pair[0]);
}

/* Rank 0 has the lock until all others have tried it in vain. */
static void try_in_vain(void)
{
    dsm_lock_t lock;
    dsm_semaphore_t tried;
    dsm_flag_t taken;
    CHECK(dsm_locks_create(1, &lock) == 0);
    CHECK(dsm_semaphores_create(1, 0, &tried) == 0);
    CHECK(dsm_flags_create(1, &taken) == 0);
    if (rank == 0) {
        CHECK(dsm_try_lock(lock) == 1);
        CHECK(dsm_flag_raise(taken, 1) == 0);
        for (int i = 1; i < size; i++)
            CHECK(dsm_semaphore_wait(tried) == 0);
        CHECK(dsm_unlock(lock) == 0);
    } else {
        CHECK(dsm_flag_wait(taken, 1) == 0);
        CHECK(dsm_try_lock(lock) == 0);
        CHECK(dsm_semaphore_post(tried, 1) == 0);
    }
    CHECK(dsm_barrier() == 0);
}

/* Whoever gets the lock by trying sees what was counted before. */
static void try_and_count(void)
{
    dsm_lock_t lock;
    long *count, mine = 0, *of;
    CHECK(dsm_locks_create(1, &lock) == 0);
    CHECK((count = dsm_alloc(sizeof *count)) != NULL);
    CHECK((of = dsm_alloc((size_t)size * sizeof *of)) != NULL);
    for (int i = 0; i < ROUNDS; i++) {
        int got = dsm_try_lock(lock);
        CHECK(got == 0 || got == 1);
        if (!got)
            continue;
        ++*count;
        mine++;
        CHECK(dsm_unlock(lock) == 0);
    }
    of[rank] = mine;
    CHECK(dsm_barrier() == 0);
    for (int r = 0; rank == 0 && r < size; r++)
        *count -= of[r];
    CHECK(dsm_barrier() == 0);
    CHECK(*count == 0);
}

int main(void)
{
    CHECK(dsm_init() == 0);
    rank = dsm_rank();
    size = dsm_size();
    read_together();
    write_alone();
    try_in_vain();
    try_and_count();
    CHECK(dsm_finalize() == 0);
    return 0;
}
