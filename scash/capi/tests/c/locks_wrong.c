/* Locks used as they must not be: each call says so and does nothing, and the job goes on. */
#include "check.h"
#include <pthread.h>

static dsm_lock_t first;

static void *unlock_it(void *unused)
{
    (void)unused;
    FAILS(dsm_unlock(first), "another thread of this rank has");
    return NULL;
}

static void of_others(void)
{
    pthread_t thread;
    CHECK(dsm_lock(first) == 0);
    FAILS(dsm_lock(first), "not recursive");
    CHECK(pthread_create(&thread, NULL, unlock_it, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(dsm_unlock(first) == 0);
    FAILS(dsm_unlock(first), "does not have it");
}

int main(void)
{
    long *count;
    FAILS(dsm_locks_create(1, &first), "before dsm_init");
    FAILS(dsm_lock(0), "before dsm_init");
    FAILS(dsm_unlock(0), "before dsm_init");
    CHECK(dsm_init() == 0);
    FAILS(dsm_lock(0), "there is no lock 0: none were made");
    FAILS(dsm_unlock(0), "none were made");
    FAILS(dsm_locks_create(0, &first), "at least one");
    FAILS(dsm_locks_create(-1, &first), "at least one");
    FAILS(dsm_locks_create(1, NULL), "NULL");
    CHECK(dsm_locks_create(3, &first) == 0);
    FAILS(dsm_lock(first + 3), "there is no lock 3");
    FAILS(dsm_unlock(first + 3), "there is no lock 3");
    FAILS(dsm_lock((dsm_lock_t)-1), "there is no lock");
    of_others();

    /* Nothing of it has done harm. */
    CHECK((count = dsm_alloc(sizeof *count)) != NULL);
    for (int i = 0; i < 20; i++) {
        CHECK(dsm_lock(first + 2) == 0);
        ++*count;
        CHECK(dsm_unlock(first + 2) == 0);
    }
    CHECK(dsm_barrier() == 0);
    CHECK(*count == 20L * dsm_size());
    CHECK(dsm_finalize() == 0);
    FAILS(dsm_locks_create(1, &first), "after dsm_finalize");
    FAILS(dsm_lock(first), "after dsm_finalize");
    FAILS(dsm_unlock(first), "after dsm_finalize");
    return 0;
}
