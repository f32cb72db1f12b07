/*
 * jia.h - the calls of JIAJIA over scash.h, so that programs that were written for JIAJIA compile unchanged.
 *
 *     cc prog.c -I$(pkg-config --variable=includedir scash)/scash/compat $(pkg-config --cflags --libs scash)
 *     scash run -n 4 ./a.out
 *
 * What differs:
 *
 * - Ranks are started by `scash run` or another launcher; jia_init reads no file of hosts, and no arguments.
 * - Memory is release consistent: a rank that gets a lock, or passes jia_waitcv, sees all that was written
 *   before, not only what was written under that lock.
 * - Blocks stay where they are placed. jia_alloc leaves each page to the rank that touches it first, and it
 *   moves to the rank that turns out to be the only one to write it.
 * - jia_wait is a memory barrier, too. jia_config, jia_startstat and jia_stopstat have no effect.
 * - What fails ends the rank with a line on stderr and status 1, and so the job. A rank that ends without
 *   jia_exit counts as failed.
 * - Message passing (jia_send, jia_recv, ...) is not here: scash_comm.h has such calls.
 *
 * There are 64 locks and 16 condition variables, numbered from 0. For others, define JIA_LOCKS or JIA_CVS
 * before the #include in the file that calls jia_init, or with -D for all files. All files of a program may
 * include this header: what they have in common are weak symbols, of which the linker keeps one.
 */

#ifndef SCASH_COMPAT_JIA_H
#define SCASH_COMPAT_JIA_H

#include <scash.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* For gettimeofday, as it is declared whatever standard the program asks for. */
#include <sys/time.h>

#ifndef JIA_LOCKS
#define JIA_LOCKS 64
#endif
#ifndef JIA_CVS
#define JIA_CVS 16
#endif

/* What jia_config is given. A program may have such names already. */
#ifndef OFF
#define OFF 0
#endif
#ifndef ON
#define ON 1
#endif
#ifndef HMIG
#define HMIG 0
#endif
#ifndef ADWD
#define ADWD 1
#endif
#ifndef BCAST
#define BCAST 2
#endif
#ifndef WVEC
#define WVEC 4
#endif

/* A file need not use all calls. */
#define JIA_CALL_ static __attribute__((unused))
#define JIA_COMMON_ __attribute__((weak))

/* What jia_init has made. */
struct jia_made_ {
    dsm_lock_t lock;
    int locks;
    /* A condition variable is a lock, a flag, and a turn in shared memory. */
    dsm_lock_t cv_lock;
    dsm_flag_t cv_flag;
    uint64_t *cv_turn;
    int cvs;
    struct timeval start;
};

#ifdef __cplusplus
extern "C" {
#endif

/* The number of this rank, and how many there are. */
JIA_COMMON_ int jiapid = 0;
JIA_COMMON_ int jiahosts = 1;

JIA_COMMON_ struct jia_made_ jia_made_ = {0, 0, 0, 0, NULL, 0, {0, 0}};

#ifdef __cplusplus
}
#endif

/* Says what is wrong, and ends the rank, and so the job. */
JIA_CALL_ __attribute__((noreturn, format(printf, 1, 2))) void jia_error(const char *format, ...)
{
    va_list values;
    fflush(stdout);
    if (jia_made_.locks > 0)
        fprintf(stderr, "rank %d: ", jiapid);
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
    exit(1);
}

/* Ends the rank if a call of scash.h has failed. */
JIA_CALL_ void jia_done_(const char *call, int status)
{
    if (status != 0)
        jia_error("%s: %s", call, dsm_error());
}

/* Ends the rank if there is no such lock or condition variable. */
JIA_CALL_ void jia_known_(const char *call, int number, int count, const char *macro)
{
    if (count == 0)
        jia_error("%s(%d): jia_init has not been called", call, number);
    if (number < 0 || number >= count)
        jia_error("%s(%d): there are 0 to %d; define %s for more", call, number, count - 1, macro);
}

/* Joins the job. The arguments are the program's own. */
JIA_CALL_ void jia_init(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    jia_done_("jia_init", dsm_init());
    jiapid = dsm_rank();
    jiahosts = dsm_size();
    jia_done_("jia_init", dsm_locks_create((JIA_LOCKS), &jia_made_.lock));
    jia_done_("jia_init", dsm_locks_create((JIA_CVS), &jia_made_.cv_lock));
    jia_done_("jia_init", dsm_flags_create((JIA_CVS), &jia_made_.cv_flag));
    jia_made_.cv_turn = (uint64_t *)dsm_alloc((JIA_CVS) * sizeof(uint64_t));
    jia_done_("jia_init", jia_made_.cv_turn == NULL);
    jia_made_.locks = (JIA_LOCKS);
    jia_made_.cvs = (JIA_CVS);
    gettimeofday(&jia_made_.start, NULL);
}

/* Ends this rank's part in the job, together with all others. Then returns. */
JIA_CALL_ void jia_exit(void)
{
    jia_done_("jia_exit", dsm_finalize());
}

/* Allocates with options: all ranks, with the same ones. */
JIA_CALL_ unsigned long jia_place_(const char *call, size_t size, const dsm_alloc_options_t *options)
{
    void *p = dsm_alloc_with(size, options);
    jia_done_(call, p == NULL);
    return (unsigned long)p;
}

/* Allocates zeros. All ranks call it, and get the same address; so with the calls below. */
JIA_CALL_ unsigned long jia_alloc(size_t size)
{
    return jia_place_("jia_alloc", size, NULL);
}

/* Allocates with all pages at the rank `proc`. */
JIA_CALL_ unsigned long jia_alloc2p(size_t size, int proc)
{
    dsm_alloc_options_t options;
    memset(&options, 0, sizeof options);
    options.placement = DSM_PLACEMENT_RANK;
    options.rank = proc;
    return jia_place_("jia_alloc2p", size, &options);
}

/* Allocates with all pages at rank 0. */
JIA_CALL_ unsigned long jia_alloc1(size_t size)
{
    return jia_alloc2p(size, 0);
}

/* Allocates with blocks of `block` bytes, in whole pages, that go round the ranks, beginning with `start`. */
JIA_CALL_ unsigned long jia_round_(const char *call, size_t size, size_t block, int start)
{
    dsm_alloc_options_t options;
    memset(&options, 0, sizeof options);
    options.placement = DSM_PLACEMENT_CYCLIC;
    options.rank = start;
    /* One block is one block, however large: no sum of sizes can overflow. */
    options.cyclic_bytes = block < size ? block : size;
    return jia_place_(call, size, &options);
}

/* The blocks go round the ranks, beginning with rank 0. */
JIA_CALL_ unsigned long jia_alloc2(size_t size, size_t block)
{
    return jia_round_("jia_alloc2", size, block, 0);
}

/* The same, beginning with the rank `start`. */
JIA_CALL_ unsigned long jia_alloc3(size_t size, size_t block, int start)
{
    return jia_round_("jia_alloc3", size, block, start);
}

JIA_CALL_ void jia_lock(int lock)
{
    jia_known_("jia_lock", lock, jia_made_.locks, "JIA_LOCKS");
    jia_done_("jia_lock", dsm_lock(jia_made_.lock + (dsm_lock_t)lock));
}

JIA_CALL_ void jia_unlock(int lock)
{
    jia_known_("jia_unlock", lock, jia_made_.locks, "JIA_LOCKS");
    jia_done_("jia_unlock", dsm_unlock(jia_made_.lock + (dsm_lock_t)lock));
}

JIA_CALL_ void jia_barrier(void)
{
    jia_done_("jia_barrier", dsm_barrier());
}

JIA_CALL_ void jia_wait(void)
{
    jia_done_("jia_wait", dsm_barrier());
}

/*
 * Condition variables. A flag's value only grows, so a variable that can be reset is made of turns: its turn
 * is even while it is reset, odd while it is set, and grows by one with each change. Turns are read and
 * written under the variable's lock alone, and a set raises the flag to the turn that it begins.
 *
 * A rank that finds it set goes on: the lock brings what was written before the set. A rank that finds it
 * reset in turn t waits for t + 1. That is the next set, even one that comes before the rank waits, as a
 * raised flag stays raised. A reset that follows at once makes it t + 2, and takes nothing back from those
 * that wait. And no earlier set lets the rank go on, as it had raised the flag to t - 1 at most.
 */

/* Takes the variable's lock, and gives its turn. */
JIA_CALL_ uint64_t *jia_open_(const char *call, int cv)
{
    jia_known_(call, cv, jia_made_.cvs, "JIA_CVS");
    jia_done_(call, dsm_lock(jia_made_.cv_lock + (dsm_lock_t)cv));
    return jia_made_.cv_turn + cv;
}

JIA_CALL_ void jia_close_(const char *call, int cv)
{
    jia_done_(call, dsm_unlock(jia_made_.cv_lock + (dsm_lock_t)cv));
}

/* Sets a condition variable: lets all go on that wait for it, and those that come until it is reset. */
JIA_CALL_ void jia_setcv(int cv)
{
    uint64_t *turn = jia_open_("jia_setcv", cv);
    if (*turn % 2 == 0) {
        *turn += 1;
        jia_done_("jia_setcv", dsm_flag_raise(jia_made_.cv_flag + (dsm_flag_t)cv, *turn));
    }
    jia_close_("jia_setcv", cv);
}

/* Resets a condition variable: who comes from now on waits. */
JIA_CALL_ void jia_resetcv(int cv)
{
    uint64_t *turn = jia_open_("jia_resetcv", cv);
    if (*turn % 2 == 1)
        *turn += 1;
    jia_close_("jia_resetcv", cv);
}

/* Waits until a condition variable is set, if it is not. */
JIA_CALL_ void jia_waitcv(int cv)
{
    uint64_t turn = *jia_open_("jia_waitcv", cv);
    jia_close_("jia_waitcv", cv);
    if (turn % 2 == 0)
        jia_done_("jia_waitcv", dsm_flag_wait(jia_made_.cv_flag + (dsm_flag_t)cv, turn + 1));
}

/* Seconds since this rank's jia_init. */
JIA_CALL_ double jia_clock(void)
{
    struct timeval now;
    gettimeofday(&now, NULL);
    return (double)(now.tv_sec - jia_made_.start.tv_sec) +
           (double)(now.tv_usec - jia_made_.start.tv_usec) * 1e-6;
}

/* No effect: scash adapts by itself, and counts always (SCASH_STATS). */
JIA_CALL_ void jia_config(int option, int value)
{
    (void)option;
    (void)value;
}

JIA_CALL_ void jia_startstat(void)
{
}

JIA_CALL_ void jia_stopstat(void)
{
}

#endif
