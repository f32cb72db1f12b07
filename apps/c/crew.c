/* Threads and their barrier. */
#define _GNU_SOURCE
#include "crew.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A barrier for threads that expect each other soon: it spins, and gives its processor away when the others
 * take longer, or when there are not enough processors for all. Each word that changes has its cache lines
 * for itself (two: processors fetch them in pairs). */
struct barrier {
    _Alignas(128) atomic_size_t missing; /* threads yet to arrive in this round */
    _Alignas(128) atomic_size_t round;   /* complete rounds */
    _Alignas(128) size_t count;
    int spins;
    void (*wait)(void); /* for the other ranks, or NULL */
};

/* Turns of the waiting loop before a thread yields: some tens of microseconds, more than the workers of a
 * balanced program are apart, and less than the kernel's time slice. */
enum { SPINS = 1 << 12 };

static void barrier_init(struct barrier *barrier, struct ranks ranks, size_t threads)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    atomic_init(&barrier->missing, threads);
    atomic_init(&barrier->round, 0);
    barrier->count = threads;
    barrier->spins = processors > 0 && threads * ranks.count <= (size_t)processors ? SPINS : 0;
    barrier->wait = ranks.wait;
}

static inline void spin_hint(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* How often a thread yields before it naps: threads that do nothing else keep others from running. */
enum { YIELDS = 400 };
static const struct timespec nap = {0, 50000};

/* The last to arrive has seen, by acquire-release on `missing`, what all did before; it meets the other
 * ranks, and passes all this on with the end of the round. A round cannot end before the thread that reads it
 * here arrives. */
static void barrier_wait(struct barrier *barrier)
{
    size_t round = atomic_load_explicit(&barrier->round, memory_order_relaxed);
    if (atomic_fetch_sub_explicit(&barrier->missing, 1, memory_order_acq_rel) == 1) {
        if (barrier->wait)
            barrier->wait();
        atomic_store_explicit(&barrier->missing, barrier->count, memory_order_relaxed);
        atomic_store_explicit(&barrier->round, round + 1, memory_order_release);
        return;
    }
    int spins = barrier->spins, yields = YIELDS;
    while (atomic_load_explicit(&barrier->round, memory_order_acquire) == round) {
        if (spins > 0) {
            spins--;
            spin_hint();
        } else if (yields > 0) {
            yields--;
            sched_yield();
        } else {
            nanosleep(&nap, NULL);
        }
    }
}

void crew_wait(const struct worker *worker)
{
    barrier_wait(worker->barrier);
}

struct member {
    struct worker worker;
    void (*work)(const struct worker *worker, void *data);
    void *data;
    const cpu_set_t *pin_to; /* NULL: any processor */
};

/* Keeps the calling thread on the n-th of the processors in `allowed`, counted round and round. */
static void pin(const cpu_set_t *allowed, size_t n)
{
    n %= (size_t)CPU_COUNT(allowed);
    size_t processor = 0;
    while (!CPU_ISSET(processor, allowed) || n-- > 0)
        processor++;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        die("cannot pin a thread to its processor (%s); leave out --pin", strerror(errno));
}

static void *member_main(void *argument)
{
    struct member *member = argument;
    if (member->pin_to)
        pin(member->pin_to, member->worker.index);
    member->work(&member->worker, member->data);
    return NULL;
}

void crew_run(struct ranks ranks, size_t threads, bool pin, void (*work)(const struct worker *worker, void *data),
              void *data)
{
    cpu_set_t allowed;
    if (pin && sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        die("cannot ask for the processors (%s); leave out --pin", strerror(errno));
    struct barrier barrier;
    barrier_init(&barrier, ranks, threads);
    struct member *members = calloc(threads, sizeof *members);
    pthread_t *handles = calloc(threads, sizeof *handles);
    if (!members || !handles)
        die("no memory for %zu threads; choose fewer --threads", threads);
    for (size_t i = 0; i < threads; i++) {
        struct worker worker = {ranks.index * threads + i, ranks.count * threads, i == 0, &barrier};
        members[i] = (struct member){worker, work, data, pin ? &allowed : NULL};
    }
    for (size_t i = 1; i < threads; i++) {
        int error = pthread_create(&handles[i], NULL, member_main, &members[i]);
        if (error)
            die("cannot start a thread (%s); choose fewer --threads", strerror(error));
    }
    member_main(&members[0]);
    for (size_t i = 1; i < threads; i++)
        pthread_join(handles[i], NULL);
    free(handles);
    free(members);
}

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("error: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(2);
}
