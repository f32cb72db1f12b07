/* Locks of the C library that know which thread has them, held across barriers at which ranks die: by the thread that
   comes to the barriers, by one that sleeps, and wanted by others that wait. Each is its owner's afterwards, and
   nobody else's. */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <pthread.h>
#include <time.h>

#define ROUNDS 12

/* A recursive and an error-checking mutex, one with priority inheritance and one that is both robust and recursive,
   and a reader-writer lock. */
struct locks {
    pthread_mutex_t again, checks, inherits, robust;
    pthread_rwlock_t written;
};

/* Those of the thread that comes to barriers, and those of one that sleeps. */
static struct locks mine;
static struct locks *of_the_sleeper;
static int is_over, sleeper_has_its_own;
/* What those that wait count when they have got it. */
static int got;

static void make(pthread_mutex_t *mutex, int type, int protocol, int robust)
{
    pthread_mutexattr_t kind;

    CHECK(pthread_mutexattr_init(&kind) == 0);
    CHECK(pthread_mutexattr_settype(&kind, type) == 0);
    CHECK(pthread_mutexattr_setprotocol(&kind, protocol) == 0);
    CHECK(pthread_mutexattr_setrobust(&kind, robust) == 0);
    CHECK(pthread_mutex_init(mutex, &kind) == 0);
}

static void take(struct locks *locks)
{
    make(&locks->again, PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED);
    make(&locks->checks, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED);
    make(&locks->inherits, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED);
    make(&locks->robust, PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST);
    CHECK(pthread_rwlock_init(&locks->written, NULL) == 0);
    CHECK(pthread_mutex_lock(&locks->again) == 0 && pthread_mutex_lock(&locks->again) == 0);
    CHECK(pthread_mutex_lock(&locks->checks) == 0);
    CHECK(pthread_mutex_lock(&locks->inherits) == 0);
    CHECK(pthread_mutex_lock(&locks->robust) == 0);
    CHECK(pthread_rwlock_wrlock(&locks->written) == 0);
}

/* The calling thread has them. */
static void check(struct locks *locks)
{
    CHECK(pthread_mutex_trylock(&locks->again) == 0 && pthread_mutex_unlock(&locks->again) == 0);
    CHECK(pthread_mutex_lock(&locks->checks) == EDEADLK);
    CHECK(pthread_mutex_trylock(&locks->robust) == 0 && pthread_mutex_unlock(&locks->robust) == 0);
    CHECK(pthread_rwlock_wrlock(&locks->written) == EDEADLK);
    CHECK(pthread_mutex_trylock(&locks->inherits) == EBUSY);
}

static void give_back(struct locks *locks)
{
    CHECK(pthread_mutex_unlock(&locks->again) == 0 && pthread_mutex_unlock(&locks->again) == 0);
    CHECK(pthread_mutex_unlock(&locks->again) == EPERM);
    CHECK(pthread_mutex_unlock(&locks->checks) == 0);
    CHECK(pthread_mutex_unlock(&locks->inherits) == 0);
    CHECK(pthread_mutex_unlock(&locks->robust) == 0);
    CHECK(pthread_rwlock_unlock(&locks->written) == 0);
}

static void nap(void)
{
    struct timespec millisecond = {0, 1000000};

    nanosleep(&millisecond, NULL);
}

static void *sleeper(void *unused)
{
    (void)unused;
    take(of_the_sleeper);
    __atomic_store_n(&sleeper_has_its_own, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST)) {
        nap();
        check(of_the_sleeper);
    }
    give_back(of_the_sleeper);
    return NULL;
}

static void *wants_a_recursive_one(void *unused)
{
    (void)unused;
    CHECK(pthread_mutex_lock(&mine.again) == 0);
    CHECK(pthread_mutex_lock(&mine.again) == 0);
    __atomic_fetch_add(&got, 1, __ATOMIC_SEQ_CST);
    CHECK(pthread_mutex_unlock(&mine.again) == 0 && pthread_mutex_unlock(&mine.again) == 0);
    return NULL;
}

static void *wants_one_that_inherits(void *unused)
{
    (void)unused;
    CHECK(pthread_mutex_lock(&of_the_sleeper->inherits) == 0);
    __atomic_fetch_add(&got, 1, __ATOMIC_SEQ_CST);
    CHECK(pthread_mutex_unlock(&of_the_sleeper->inherits) == 0);
    return NULL;
}

static void *wants_to_read(void *unused)
{
    (void)unused;
    CHECK(pthread_rwlock_rdlock(&mine.written) == 0);
    __atomic_fetch_add(&got, 1, __ATOMIC_SEQ_CST);
    CHECK(pthread_rwlock_unlock(&mine.written) == 0);
    return NULL;
}

/* One thread waits for a robust mutex that another has: of such a rank no image can be taken. */
static void *wants_a_robust_one(void *unused)
{
    (void)unused;
    CHECK(pthread_mutex_lock(&mine.robust) == 0);
    CHECK(pthread_mutex_unlock(&mine.robust) == 0);
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t threads[5];
    int started = 0, i;

    CHECK(dsm_init() == 0);
    /* At a place of the heap where a lock lies in two pages, after the words that are its owner's. */
    char *pages = aligned_alloc(4096, 3 * 4096);
    CHECK(pages != NULL);
    of_the_sleeper = (struct locks *)(pages + 4096 - 16);
    take(&mine);
    CHECK(pthread_create(&threads[started++], NULL, sleeper, NULL) == 0);
    while (!__atomic_load_n(&sleeper_has_its_own, __ATOMIC_SEQ_CST))
        nap();
    CHECK(pthread_create(&threads[started++], NULL, wants_a_recursive_one, NULL) == 0);
    CHECK(pthread_create(&threads[started++], NULL, wants_one_that_inherits, NULL) == 0);
    CHECK(pthread_create(&threads[started++], NULL, wants_to_read, NULL) == 0);
    if (count > 1 && strcmp(arguments[1], "waits") == 0)
        CHECK(pthread_create(&threads[started++], NULL, wants_a_robust_one, NULL) == 0);
    for (i = 0; i < ROUNDS; i++) {
        nap();
        CHECK(dsm_barrier() == 0);
        check(&mine);
        CHECK(__atomic_load_n(&got, __ATOMIC_SEQ_CST) == 0);
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_SEQ_CST);
    give_back(&mine);
    for (i = 0; i < started; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(got == 3);
    printf("rank %d ends\n", dsm_rank());
    CHECK(dsm_finalize() == 0);
    return 0;
}
