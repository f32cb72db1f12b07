/* Objects of synchronisation used as they must not be: each call says so and does nothing, and the job goes
 * on. */
#include "check.h"
#include <pthread.h>

static dsm_lock_t lock;
static dsm_rwlock_t rwlock;
static dsm_semaphore_t semaphore;
static dsm_condition_t condition;
static dsm_flag_t flag;

static void all_fail(const char *words)
{
    uint32_t first;
    FAILS(dsm_rwlocks_create(1, &first), words);
    FAILS(dsm_semaphores_create(1, 0, &first), words);
    FAILS(dsm_conditions_create(1, &first), words);
    FAILS(dsm_flags_create(1, &first), words);
    FAILS(dsm_try_lock(0), words);
    FAILS(dsm_read_lock(0), words);
    FAILS(dsm_write_lock(0), words);
    FAILS(dsm_rw_unlock(0), words);
    FAILS(dsm_semaphore_wait(0), words);
    FAILS(dsm_semaphore_post(0, 1), words);
    FAILS(dsm_condition_wait(0, 0), words);
    FAILS(dsm_condition_signal(0), words);
    FAILS(dsm_condition_broadcast(0), words);
    FAILS(dsm_flag_wait(0, 1), words);
    FAILS(dsm_flag_raise(0, 1), words);
}

static void none_were_made(void)
{
    FAILS(dsm_read_lock(0), "there is no reader-writer lock 0: none were made");
    FAILS(dsm_semaphore_wait(0), "there is no semaphore 0: none were made");
    FAILS(dsm_condition_signal(0), "there is no condition 0: none were made");
    FAILS(dsm_flag_wait(0, 1), "there is no flag 0: none were made");
}

static void bad_makes(void)
{
    uint32_t first;
    FAILS(dsm_rwlocks_create(0, &first), "at least one");
    FAILS(dsm_semaphores_create(-1, 0, &first), "dsm_semaphores_create of -1");
    FAILS(dsm_conditions_create(1, NULL), "dsm_conditions_create(..., NULL)");
    FAILS(dsm_flags_create(-7, &first), "at least one");
}

static void of_another_kind(void)
{
    FAILS(dsm_lock(flag), "is a flag: use a number that was returned when locks were made");
    FAILS(dsm_try_lock(rwlock), "is a reader-writer lock");
    FAILS(dsm_write_lock(lock), "is a lock");
    FAILS(dsm_semaphore_post(condition, 1), "is a condition");
    FAILS(dsm_condition_broadcast(semaphore), "is a semaphore");
    FAILS(dsm_flag_raise(flag + 1, 1), "there is no flag 5");
}

static void *not_its_own(void *unused)
{
    (void)unused;
    FAILS(dsm_rw_unlock(rwlock), "does not have it");
    FAILS(dsm_condition_wait(condition, lock), "take the lock first");
    CHECK(dsm_try_lock(lock) == 0);
    return NULL;
}

/* The calls of a thread that has a lock and a reader-writer lock, and of another one that has neither. Of one
 * rank: the others would wait. */
static void of_others(void)
{
    pthread_t thread;
    CHECK(dsm_lock(lock) == 0 && dsm_read_lock(rwlock) == 0);
    FAILS(dsm_try_lock(lock), "not recursive");
    FAILS(dsm_read_lock(rwlock), "has it to read");
    FAILS(dsm_write_lock(rwlock), "no reader becomes a writer");
    CHECK(pthread_create(&thread, NULL, not_its_own, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(dsm_rw_unlock(rwlock) == 0 && dsm_write_lock(rwlock) == 0);
    FAILS(dsm_read_lock(rwlock), "has it to write");
    CHECK(dsm_rw_unlock(rwlock) == 0 && dsm_unlock(lock) == 0);
    FAILS(dsm_rw_unlock(rwlock), "does not have it");
    FAILS(dsm_condition_wait(condition, lock), "take the lock first");
    FAILS(dsm_semaphore_post(semaphore, 0), "at least");
}

int main(void)
{
    long *count;
    all_fail("before dsm_init");
    CHECK(dsm_init() == 0);
    none_were_made();
    bad_makes();
    CHECK(dsm_locks_create(1, &lock) == 0 && dsm_rwlocks_create(1, &rwlock) == 0);
    CHECK(dsm_semaphores_create(1, 1, &semaphore) == 0);
    CHECK(dsm_conditions_create(1, &condition) == 0 && dsm_flags_create(1, &flag) == 0);
    of_another_kind();
    if (dsm_rank() == 0)
        of_others();

    /* Nothing of it has done harm. */
    CHECK((count = dsm_alloc(sizeof *count)) != NULL);
    for (int i = 0; i < 20; i++) {
        CHECK(dsm_semaphore_wait(semaphore) == 0);
        ++*count;
        CHECK(dsm_semaphore_post(semaphore, 1) == 0);
    }
    CHECK(dsm_barrier() == 0);
    CHECK(*count == 20L * dsm_size());
    CHECK(dsm_finalize() == 0);
    all_fail("after dsm_finalize");
    return 0;
}
