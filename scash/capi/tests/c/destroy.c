/* Objects of synchronisation come to an end: at all ranks, or, if one is in use, at none; and nothing else
 * ever has their numbers. */
#include "check.h"

static int last;

/* The last rank has something: all are told so by the words, and it is destroyed when it was given back. */
#define NOT_WHILE(take, destroy, give, words)                                                         \
    do {                                                                                              \
        CHECK(!last || (take) == 0);                                                                  \
        FAILS(destroy, words);                                                                        \
        CHECK(strstr(dsm_error(), whose) != NULL);                                                    \
        CHECK(!last || (give) == 0);                                                                  \
        CHECK((destroy) == 0);                                                                        \
    } while (0)

static void in_use(void)
{
    char whose[64];
    dsm_lock_t lock;
    dsm_rwlock_t rwlock;
    sprintf(whose, "a thread of rank %d has it: give it back first", dsm_size() - 1);
    CHECK(dsm_locks_create(3, &lock) == 0 && dsm_rwlocks_create(2, &rwlock) == 0);
    NOT_WHILE(dsm_lock(lock + 2), dsm_locks_destroy(lock, 3), dsm_unlock(lock + 2), "cannot be destroyed");
    NOT_WHILE(dsm_read_lock(rwlock), dsm_rwlocks_destroy(rwlock, 1), dsm_rw_unlock(rwlock), "reader-writer lock");
    rwlock++;
    NOT_WHILE(dsm_write_lock(rwlock), dsm_rwlocks_destroy(rwlock, 1), dsm_rw_unlock(rwlock), "reader-writer lock");
}

static void gone(dsm_lock_t lock, dsm_rwlock_t rwlock, dsm_semaphore_t semaphore, dsm_condition_t condition,
                 dsm_flag_t flag)
{
    FAILS(dsm_lock(lock), "any more: it was destroyed");
    FAILS(dsm_try_lock(lock), "it was destroyed");
    FAILS(dsm_unlock(lock), "it was destroyed");
    FAILS(dsm_read_lock(rwlock), "it was destroyed");
    FAILS(dsm_write_lock(rwlock), "it was destroyed");
    FAILS(dsm_rw_unlock(rwlock), "it was destroyed");
    FAILS(dsm_semaphore_wait(semaphore), "it was destroyed");
    FAILS(dsm_semaphore_post(semaphore, 1), "it was destroyed");
    FAILS(dsm_condition_wait(condition, lock), "it was destroyed");
    FAILS(dsm_condition_signal(condition), "it was destroyed");
    FAILS(dsm_condition_broadcast(condition), "it was destroyed");
    FAILS(dsm_flag_wait(flag, 0), "it was destroyed");
    FAILS(dsm_flag_raise(flag, 1), "it was destroyed");
    FAILS(dsm_locks_destroy(lock, 1), "it was destroyed");
    FAILS(dsm_rwlocks_destroy(rwlock, 1), "it was destroyed");
    FAILS(dsm_semaphores_destroy(semaphore, 1), "it was destroyed");
    FAILS(dsm_conditions_destroy(condition, 1), "it was destroyed");
    FAILS(dsm_flags_destroy(flag, 1), "it was destroyed");
}

/* One of each kind, used by all and destroyed, again and again. */
static void again_and_again(void)
{
    dsm_lock_t lock;
    dsm_rwlock_t rwlock;
    dsm_semaphore_t semaphore;
    dsm_condition_t condition;
    dsm_flag_t flag;
    long *count;
    CHECK((count = dsm_alloc(sizeof *count)) != NULL);
    for (int round = 1; round <= 20; round++) {
        CHECK(dsm_locks_create(1, &lock) == 0 && dsm_rwlocks_create(1, &rwlock) == 0);
        CHECK(dsm_semaphores_create(1, 1, &semaphore) == 0);
        CHECK(dsm_conditions_create(1, &condition) == 0 && dsm_flags_create(1, &flag) == 0);
        CHECK(dsm_lock(lock) == 0);
        ++*count;
        CHECK(dsm_unlock(lock) == 0);
        CHECK(dsm_read_lock(rwlock) == 0 && dsm_rw_unlock(rwlock) == 0);
        CHECK(dsm_semaphore_wait(semaphore) == 0 && dsm_semaphore_post(semaphore, 1) == 0);
        CHECK(dsm_condition_signal(condition) == 0);
        CHECK(dsm_flag_raise(flag, 9) == 0 && dsm_flag_wait(flag, 9) == 0);
        /* Each is a memory barrier. */
        CHECK(dsm_locks_destroy(lock, 1) == 0);
        CHECK(*count == (long)round * dsm_size());
        CHECK(dsm_rwlocks_destroy(rwlock, 1) == 0 && dsm_semaphores_destroy(semaphore, 1) == 0);
        CHECK(dsm_conditions_destroy(condition, 1) == 0 && dsm_flags_destroy(flag, 1) == 0);
    }
    gone(lock, rwlock, semaphore, condition, flag);
}

static void bad_arguments(void)
{
    dsm_lock_t lock;
    CHECK(dsm_locks_create(2, &lock) == 0);
    FAILS(dsm_locks_destroy(lock, 0), "at least one");
    FAILS(dsm_flags_destroy(lock, -3), "dsm_flags_destroy of -3");
    FAILS(dsm_locks_destroy(lock, 3), "there is no lock");
    FAILS(dsm_flags_destroy(lock, 2), "is a lock: use a number that was returned when flags were made");
    CHECK(dsm_lock(lock) == 0 && dsm_unlock(lock) == 0);
    CHECK(dsm_locks_destroy(lock, 2) == 0);
}

static void all_fail(const char *words)
{
    FAILS(dsm_locks_destroy(0, 1), words);
    FAILS(dsm_rwlocks_destroy(0, 1), words);
    FAILS(dsm_semaphores_destroy(0, 1), words);
    FAILS(dsm_conditions_destroy(0, 1), words);
    FAILS(dsm_flags_destroy(0, 1), words);
}

int main(void)
{
    all_fail("before dsm_init");
    CHECK(dsm_init() == 0);
    all_fail("none were made");
    last = dsm_rank() == dsm_size() - 1;
    again_and_again();
    in_use();
    bad_arguments();
    CHECK(dsm_finalize() == 0);
    all_fail("after dsm_finalize");
    return 0;
}
