/*
 * parmacs.h - the PARMACS macros on scash, as C macros.
 *
 * Programs that say MAIN_ENV, CREATE, BARRIER, LOCK and G_MALLOC run as the ranks of a job, with this header
 * in place of a set of m4 macros:
 *
 *     cc -I.../scash/compat -include parmacs.h program.c -lscash
 *     scash run --no-aslr -n 4 ./a.out
 *
 * Rank 0 runs main. CREATE starts functions at the other ranks, which find the program's static variables as
 * rank 0 has them then (scash_spawn.h has what is copied, and what is not). What processes change for each
 * other lies in memory of G_MALLOC.
 *
 * What differs from processes of one machine:
 * - There are as many processes as ranks, for barriers, too: a program that creates more or fewer is told so.
 * - CREATE(f) starts the next process. CREATE(f, n) starts n - 1 processes, and runs f as well.
 * - Memory of G_MALLOC is seen by others behind a barrier, a lock, a pause or GETSUB, not at once.
 * - Macros that say what the system's headers declare (_GNU_SOURCE, _XOPEN_SOURCE, _FILE_OFFSET_BITS) are given
 *   by -D: this header includes some of these before the program's first line.
 * - PAUSEDEC, SETPAUSE and the like take one pause each, without a number behind it.
 *
 * Each macro that cannot do its work says why and ends the rank, and so the job.
 */
#ifndef SCASH_PARMACS_H
#define SCASH_PARMACS_H

#include "scash_spawn.h"
#include <sys/time.h>

/* What a program has of these macros: one for all its files, and copied to the ranks as its variables are. */
struct parmacs_ {
    /* Processes created so far, and what they run. */
    int created;
    void (*function)(void);
};
__attribute__((weak)) struct parmacs_ parmacs_ = {0, NULL};

/* A pause: processes wait until it is set. In shared memory. */
struct parmacs_pause_ {
    dsm_lock_t lock;
    dsm_condition_t condition;
    int is_set;
};

/* A counter from which processes take numbers. In shared memory. */
struct parmacs_counter_ {
    uint64_t next;
};

__attribute__((unused, noreturn)) static void parmacs_fail_(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

__attribute__((unused)) static void parmacs_must_(int result, const char *what)
{
    if (result != 0)
        parmacs_fail_(what, dsm_error());
}

/* Ranks make locks by themselves when all have made one together, which they do before they part. */
__attribute__((unused)) static void parmacs_prepare_(void)
{
    dsm_lock_t first;
    parmacs_must_(dsm_locks_create(1, &first), "MAIN_INITENV");
}

__attribute__((unused)) static void parmacs_begin_(void)
{
    if (dsm_init_spawn_with(parmacs_prepare_) != 0)
        exit(1);
}

__attribute__((unused)) static dsm_lock_t parmacs_new_lock_(void)
{
    dsm_lock_t lock;
    parmacs_must_(dsm_lock_new(&lock), "LOCKINIT");
    return lock;
}

__attribute__((unused)) static void parmacs_new_locks_(dsm_lock_t *locks, int count)
{
    int i;
    for (i = 0; i < count; i++)
        locks[i] = parmacs_new_lock_();
}

__attribute__((unused)) static void parmacs_run_(void *unused)
{
    (void)unused;
    parmacs_.function();
}

__attribute__((unused)) static void parmacs_start_(void)
{
    if (dsm_spawn(parmacs_run_, NULL) != 0)
        exit(1);
}

__attribute__((unused, noreturn)) static void parmacs_too_many_(void)
{
    parmacs_fail_("CREATE", "more processes than ranks: start the program on as many ranks as it makes processes (scash run -n)");
}

/* Another process: all are started together when the last one is created. */
__attribute__((unused)) static void parmacs_create_(void (*function)(void))
{
    if (parmacs_.created > 0 && parmacs_.function != function)
        parmacs_fail_("CREATE", "all processes run the same function");
    parmacs_.function = function;
    parmacs_.created++;
    if (parmacs_.created == dsm_size() - 1)
        parmacs_start_();
    else if (parmacs_.created >= dsm_size())
        parmacs_too_many_();
}

__attribute__((unused)) static void parmacs_create_all_(void (*function)(void), int processes)
{
    int i;
    if (processes > dsm_size())
        parmacs_too_many_();
    for (i = 1; i < processes; i++)
        parmacs_create_(function);
    function();
}

/* Whether all processes of the job are there, as whoever waits for them must know. */
__attribute__((unused)) static void parmacs_all_there_(int processes, const char *what)
{
    if (processes != dsm_size() || (dsm_size() > 1 && parmacs_.created != dsm_size() - 1)) {
        fprintf(stderr, "%s: %d processes are meant, %d are made, and the job has %d ranks: start it on as many ranks (scash run -n)\n",
                what, processes, parmacs_.created + 1, dsm_size());
        exit(1);
    }
}

__attribute__((unused)) static void parmacs_barrier_(int processes)
{
    parmacs_all_there_(processes, "BARRIER");
    parmacs_must_(dsm_barrier(), "BARRIER");
}

/* The processes have ended, and others may be created. */
__attribute__((unused)) static void parmacs_wait_(void)
{
    if (parmacs_.created > 0 && parmacs_.created < dsm_size() - 1)
        parmacs_all_there_(dsm_size(), "WAIT_FOR_END");
    if (dsm_spawn_wait() != 0)
        exit(1);
    parmacs_.created = 0;
}

__attribute__((unused)) static void parmacs_end_(void)
{
    parmacs_wait_();
    if (dsm_finalize_spawn() != 0)
        exit(1);
}

__attribute__((unused)) static void *parmacs_malloc_(size_t bytes)
{
    void *p = dsm_malloc(bytes);
    if (p == NULL)
        fprintf(stderr, "G_MALLOC: %s\n", dsm_error());
    return p;
}

__attribute__((unused)) static void parmacs_free_(void *p)
{
    if (p != NULL)
        parmacs_must_(dsm_free(p), "G_FREE");
}

__attribute__((unused)) static void parmacs_pause_init_(struct parmacs_pause_ *pause)
{
    pause->lock = parmacs_new_lock_();
    parmacs_must_(dsm_condition_new(&pause->condition), "PAUSEINIT");
    pause->is_set = 0;
}

__attribute__((unused)) static void parmacs_set_(struct parmacs_pause_ *pause, int to)
{
    parmacs_must_(dsm_lock(pause->lock), "SETPAUSE");
    pause->is_set = to;
    if (to)
        parmacs_must_(dsm_condition_broadcast(pause->condition), "SETPAUSE");
    parmacs_must_(dsm_unlock(pause->lock), "SETPAUSE");
}

__attribute__((unused)) static void parmacs_wait_pause_(struct parmacs_pause_ *pause)
{
    parmacs_must_(dsm_lock(pause->lock), "WAITPAUSE");
    while (!pause->is_set)
        parmacs_must_(dsm_condition_wait(pause->condition, pause->lock), "WAITPAUSE");
    parmacs_must_(dsm_unlock(pause->lock), "WAITPAUSE");
}

/* The next number up to `most`; -1 to all processes when there are no more, and then they begin anew. */
__attribute__((unused)) static int parmacs_next_(struct parmacs_counter_ *counter, int most, int processes)
{
    uint64_t number;
    parmacs_must_(dsm_fetch_add_u64(&counter->next, 1, &number), "GETSUB");
    if (number <= (uint64_t)most && most >= 0)
        return (int)number;
    parmacs_barrier_(processes);
    if (dsm_rank() == 0)
        parmacs_must_(dsm_store_u64(&counter->next, 0), "GETSUB");
    parmacs_barrier_(processes);
    return -1;
}

__attribute__((unused)) static unsigned long parmacs_clock_(void)
{
    struct timeval now;
    gettimeofday(&now, NULL);
    return (unsigned long)now.tv_sec * 1000000ul + (unsigned long)now.tv_usec;
}

/* Where a program begins and ends. Arguments of MAIN_INITENV do not matter. */
#define MAIN_ENV
#define EXTERN_ENV
#define ENV
#define MAIN_INITENV(...) { parmacs_begin_(); }
#define INITENV(...) { parmacs_begin_(); }
#define MAIN_END { parmacs_end_(); exit(0); }

/* Processes. */
#define PARMACS_PICK_(one, two, which, ...) which
#define PARMACS_ONE_(function) parmacs_create_((void (*)(void))(function))
#define PARMACS_ALL_(function, processes) parmacs_create_all_((void (*)(void))(function), (processes))
#define CREATE(...) { PARMACS_PICK_(__VA_ARGS__, PARMACS_ALL_, PARMACS_ONE_, 0)(__VA_ARGS__); }
#define WAIT_FOR_END(processes) { (void)(processes); parmacs_wait_(); }

/* Shared memory, of one process and for all. */
#define G_MALLOC(bytes) parmacs_malloc_(bytes)
#define G_MALLOC_F(bytes) parmacs_malloc_(bytes)
#define NU_MALLOC(bytes, node) parmacs_malloc_(bytes)
#define NU_MALLOC_F(bytes, node) parmacs_malloc_(bytes)
#define G_FREE(p) { parmacs_free_(p); }

/* Locks. */
#define LOCKDEC(name) dsm_lock_t name;
#define LOCKINIT(name) { (name) = parmacs_new_lock_(); }
#define LOCK(name) { parmacs_must_(dsm_lock(name), "LOCK"); }
#define UNLOCK(name) { parmacs_must_(dsm_unlock(name), "UNLOCK"); }
#define ALOCKDEC(name, count) dsm_lock_t name[count];
#define ALOCKINIT(name, count) { parmacs_new_locks_((name), (count)); }
#define ALOCK(name, i) { parmacs_must_(dsm_lock((name)[i]), "ALOCK"); }
#define AULOCK(name, i) { parmacs_must_(dsm_unlock((name)[i]), "AULOCK"); }
#define AUNLOCK(name, i) AULOCK(name, i)

/* Barriers of all processes. */
#define BARDEC(name) int name;
#define PARMACS_FIRST_(one, ...) (one)
#define BARINIT(...) { PARMACS_FIRST_(__VA_ARGS__, 0) = 0; }
#define BARRIER(name, processes) { (void)(name); parmacs_barrier_(processes); }

/* Pauses. Of several, PAUSEDEC(name[8]) and SETPAUSE(name[3]). */
#define PAUSEDEC(name) struct parmacs_pause_ name;
#define PAUSEINIT(name) { parmacs_pause_init_(&(name)); }
#define SETPAUSE(name) { parmacs_set_(&(name), 1); }
#define CLEARPAUSE(name) { parmacs_set_(&(name), 0); }
#define WAITPAUSE(name) { parmacs_wait_pause_(&(name)); }

/* Loops whose iterations processes take one after the other. */
#define GSDEC(name) struct parmacs_counter_ name;
#define GSINIT(name) { (name).next = 0; }
#define GETSUB(name, i, most, processes) { (i) = parmacs_next_(&(name), (most), (processes)); }

/* Microseconds. */
#define CLOCK(time) { (time) = parmacs_clock_(); }

#endif /* SCASH_PARMACS_H */
