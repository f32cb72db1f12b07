/*
 * scash_spawn.h - a start like that of fork: rank 0 runs main, the others run what it gives them.
 *
 * A program for processes made by fork begins alone, sets up its variables, and then starts processes that
 * find these variables as they are. With this header it does so on the ranks of a job:
 *
 *     #include <scash_spawn.h>
 *
 *     static double *matrix;                // each rank has this variable,
 *     static int rows;                      // with rank 0's value when dsm_spawn is called
 *
 *     static void work(void *unused) { ... dsm_rank() ... dsm_barrier() ... }
 *
 *     int main(int argc, char **argv)
 *     {
 *         if (dsm_init_spawn() != 0)        // returns at rank 0 only
 *             return 1;
 *         rows = atoi(argv[1]);
 *         matrix = dsm_malloc(rows * rows * sizeof *matrix);
 *         dsm_spawn(work, NULL);            // all others run it,
 *         work(NULL);                       // and so does rank 0
 *         dsm_spawn_wait();
 *         return dsm_finalize_spawn();
 *     }
 *
 * Start it with `scash run --no-aslr -n 4 ./program`: pointers to functions and variables mean the same in
 * all ranks then. What is copied are the static variables of the program itself, in C: not what malloc has
 * given (use dsm_malloc), not those of libraries, thread-local ones neither, and no open files. C++ programs
 * have objects of the library among them: there this is not for use. The program is linked with libscash.so,
 * not with the archive, whose own variables would be copied, too.
 *
 * Functions are static, so that the header is all that a program needs besides the library. Each returns 0,
 * or -1 after a line on standard error that says why.
 */
#ifndef SCASH_SPAWN_H
#define SCASH_SPAWN_H

#include "scash.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* What the linker says of the program: where its variables begin, where they end, where all of it begins. */
extern char __data_start[], _end[], __executable_start[];
extern char **environ;

/* Whether functions given to dsm_spawn run, in whichever file of the program that was. */
__attribute__((weak)) int dsm_spawn_runs_ = 0;

/* What rank 0 gives: a function, or none at the end. */
struct dsm_spawn_order_ {
    uint64_t function, argument;
};

__attribute__((unused)) static int dsm_spawn_refuse_(const char *why)
{
    fprintf(stderr, "scash: %s\n", why);
    return -1;
}

/* Gives all ranks the variables of rank 0. Those by which the C library is reached stay each rank's own. */
__attribute__((unused)) static int dsm_spawn_copy_(void)
{
    FILE *const streams[3] = {stdin, stdout, stderr};
    char **const environment = environ;
    const size_t most = 32 * 1024, all = (size_t)((uintptr_t)_end - (uintptr_t)__data_start);
    size_t done, part;
    for (done = 0; done < all; done += part) {
        part = all - done < most ? all - done : most;
        if (dsm_broadcast_value(__data_start + done, part, 0) != 0)
            return -1;
    }
    stdin = streams[0];
    stdout = streams[1];
    stderr = streams[2];
    environ = environment;
    return 0;
}

/* Runs what rank 0 gives, until it gives no more. */
__attribute__((unused)) static int dsm_spawn_serve_(void)
{
    struct dsm_spawn_order_ order;
    void (*function)(void *);
    for (;;) {
        if (dsm_broadcast_value(&order, sizeof order, 0) != 0)
            return -1;
        if (order.function == 0)
            return 0;
        if (dsm_spawn_copy_() != 0 || dsm_barrier() != 0)
            return -1;
        function = (void (*)(void *))(uintptr_t)order.function;
        function((void *)(uintptr_t)order.argument);
        if (dsm_barrier() != 0)
            return -1;
    }
}

/* Whether program and libraries lie at the same addresses in all ranks. Collective. */
__attribute__((unused)) static int dsm_spawn_agrees_(void)
{
    const uint64_t mine[4] = {(uintptr_t)__data_start, (uintptr_t)_end, (uintptr_t)stdout,
                              (uintptr_t)dsm_version()};
    uint64_t least[4], most[4];
    int i, same = 1;
    for (i = 0; i < 4; i++)
        least[i] = most[i] = mine[i];
    if (dsm_all_reduce_u64(least, 4, DSM_REDUCTION_MIN) != 0 ||
        dsm_all_reduce_u64(most, 4, DSM_REDUCTION_MAX) != 0)
        return -1;
    for (i = 0; i < 4; i++)
        same = same && least[i] == most[i];
    return same;
}

/**
 * Joins the job. Returns at rank 0, which goes on alone; the others run what it gives them (dsm_spawn) until
 * it ends, and then exit. In place of dsm_init. Before ranks part, all of them call `prepare`, if it is not
 * NULL: there is the place for calls that all ranks make together, such as dsm_alloc and dsm_locks_create.
 *
 * Returns -1 at all ranks if the program is linked with the archive, or its parts lie at different addresses
 * in different ranks; at rank 0 also as dsm_init does.
 */
__attribute__((unused)) static int dsm_init_spawn_with(void (*prepare)(void))
{
    const char *version = dsm_version();
    int agrees;
    if ((uintptr_t)version >= (uintptr_t)__executable_start && (uintptr_t)version < (uintptr_t)_end)
        return dsm_spawn_refuse_("dsm_init_spawn: link the program with libscash.so: the archive's variables are among those that dsm_spawn copies");
    if (dsm_init() != 0)
        return dsm_spawn_refuse_(dsm_error());
    agrees = dsm_spawn_agrees_();
    if (agrees < 0)
        return dsm_spawn_refuse_(dsm_error());
    if (!agrees) {
        if (dsm_rank() == 0)
            dsm_spawn_refuse_("dsm_init_spawn: ranks have their variables or libraries at different addresses: start them with `scash run --no-aslr`");
        dsm_finalize();
        return -1;
    }
    if (prepare != NULL)
        prepare();
    if (dsm_rank() == 0)
        return 0;
    if (dsm_spawn_serve_() != 0 || dsm_finalize() != 0) {
        dsm_spawn_refuse_(dsm_error());
        exit(1);
    }
    exit(0);
}

/** As dsm_init_spawn_with, without anything to prepare. */
__attribute__((unused)) static int dsm_init_spawn(void)
{
    return dsm_init_spawn_with(NULL);
}

/**
 * Gives all other ranks this rank's static variables, and has them run `function` with `argument`. What this
 * rank has written to shared memory they see. Rank 0 goes on at once: often it calls the function, too. To be
 * called by rank 0 alone.
 *
 * Returns -1 if the ranks run one already, at another rank than 0, and as dsm_barrier does.
 */
__attribute__((unused)) static int dsm_spawn(void (*function)(void *), void *argument)
{
    struct dsm_spawn_order_ order;
    if (dsm_rank() != 0)
        return dsm_spawn_refuse_("dsm_spawn: rank 0 alone gives the others what they run");
    if (dsm_spawn_runs_)
        return dsm_spawn_refuse_("dsm_spawn: the other ranks run a function already: call dsm_spawn_wait first");
    if (function == NULL)
        return dsm_spawn_refuse_("dsm_spawn: no function");
    order.function = (uintptr_t)function;
    order.argument = (uintptr_t)argument;
    dsm_spawn_runs_ = 1;
    if (dsm_broadcast_value(&order, sizeof order, 0) != 0 || dsm_spawn_copy_() != 0 || dsm_barrier() != 0)
        return dsm_spawn_refuse_(dsm_error());
    return 0;
}

/**
 * Waits until the function has returned at all other ranks; what they have written to shared memory is seen
 * then. A memory barrier. Nothing if there is none.
 *
 * Returns -1 as dsm_barrier does.
 */
__attribute__((unused)) static int dsm_spawn_wait(void)
{
    if (!dsm_spawn_runs_)
        return 0;
    if (dsm_rank() != 0)
        return dsm_spawn_refuse_("dsm_spawn_wait: rank 0 alone waits for the others");
    dsm_spawn_runs_ = 0;
    return dsm_barrier() == 0 ? 0 : dsm_spawn_refuse_(dsm_error());
}

/**
 * Waits for the others, lets them exit, and leaves the job. In place of dsm_finalize.
 *
 * Returns -1 as dsm_finalize does.
 */
__attribute__((unused)) static int dsm_finalize_spawn(void)
{
    struct dsm_spawn_order_ end = {0, 0};
    if (dsm_spawn_wait() != 0)
        return -1;
    if (dsm_broadcast_value(&end, sizeof end, 0) != 0 || dsm_finalize() != 0)
        return dsm_spawn_refuse_(dsm_error());
    return 0;
}

#endif /* SCASH_SPAWN_H */
