/* A thread has a lock of the C library that knows its owner by the system's number, while barriers are passed: the
   thread that comes to them, or one that sleeps. A rank from before may be killed meanwhile. Whoever has the lock
   can give it back, and nobody else. Arguments: the lock, who has it, and "long" if that is for many rounds. */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <pthread.h>
#include <time.h>

/* The lock is held after barriers 4, 5 and 6, or for ten more. */
#define FIRST 4
static int last = 6, rounds = 9;

static pthread_rwlock_t written;
/* At a place where such a lock lies in two pages. */
static pthread_mutex_t *mutex;
static const char *what;
/* Rounds that the sleeping thread is asked for, and has had. */
static int asked, had;

static int is(const char *name)
{
    return strcmp(what, name) == 0;
}

static void make(void)
{
    pthread_mutexattr_t kind;
    char *pages = aligned_alloc(4096, 2 * 4096);

    CHECK(pages != NULL);
    mutex = (pthread_mutex_t *)(pages + 4096 - 16);
    CHECK(pthread_rwlock_init(&written, NULL) == 0 && pthread_mutexattr_init(&kind) == 0);
    if (is("recursive"))
        CHECK(pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE) == 0);
    if (is("checking"))
        CHECK(pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK) == 0);
    if (is("inheriting"))
        CHECK(pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT) == 0);
    if (is("robust"))
        CHECK(pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST) == 0);
    CHECK(pthread_mutex_init(mutex, &kind) == 0);
}

static void take(void)
{
    CHECK(is("written") ? pthread_rwlock_wrlock(&written) == 0 : pthread_mutex_lock(mutex) == 0);
    if (is("recursive"))
        CHECK(pthread_mutex_lock(mutex) == 0);
}

/* The calling thread has it. */
static void check(void)
{
    if (is("written"))
        CHECK(pthread_rwlock_wrlock(&written) == EDEADLK);
    else if (is("recursive"))
        CHECK(pthread_mutex_trylock(mutex) == 0 && pthread_mutex_unlock(mutex) == 0);
    else if (is("checking"))
        CHECK(pthread_mutex_lock(mutex) == EDEADLK);
}

static void give_back(void)
{
    CHECK(is("written") ? pthread_rwlock_unlock(&written) == 0 : pthread_mutex_unlock(mutex) == 0);
    if (is("recursive"))
        CHECK(pthread_mutex_unlock(mutex) == 0);
}

static void nap(void)
{
    struct timespec millisecond = {0, 1000000};

    nanosleep(&millisecond, NULL);
}

/* What whoever has the lock does when a barrier is behind him. */
static void round_of(int round)
{
    if (round == FIRST)
        take();
    if (round >= FIRST && round <= last)
        check();
    if (round == last)
        give_back();
}

static void *sleeper(void *unused)
{
    int round;

    (void)unused;
    for (round = 1; round <= rounds; round++) {
        while (__atomic_load_n(&asked, __ATOMIC_SEQ_CST) < round)
            nap();
        round_of(round);
        __atomic_store_n(&had, round, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t thread;
    int sleeps, round;

    CHECK(dsm_init() == 0);
    CHECK(count > 2);
    what = arguments[1];
    sleeps = strcmp(arguments[2], "sleeper") == 0;
    if (count > 3) {
        last += 10;
        rounds += 10;
    }
    make();
    if (sleeps)
        CHECK(pthread_create(&thread, NULL, sleeper, NULL) == 0);
    for (round = 1; round <= rounds; round++) {
        CHECK(dsm_barrier() == 0);
        if (!sleeps) {
            round_of(round);
            continue;
        }
        __atomic_store_n(&asked, round, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&had, __ATOMIC_SEQ_CST) < round)
            nap();
    }
    if (sleeps)
        CHECK(pthread_join(thread, NULL) == 0);
    printf("rank %d ends\n", dsm_rank());
    CHECK(dsm_finalize() == 0);
    return 0;
}
