/*
 * Tmk.h - the calls of TreadMarks over scash.h, so that programs that were written for TreadMarks compile
 * unchanged.
 *
 *     cc prog.c -I$(pkg-config --variable=includedir scash)/scash/compat $(pkg-config --cflags --libs scash)
 *     scash run -n 4 ./a.out
 *
 * What differs:
 *
 * - Ranks are started by `scash run` or another launcher; Tmk_startup reads no arguments.
 * - Tmk_distribute acts at the next Tmk_barrier, not before. What it is given lies in the program's own data:
 *   a global or static variable, not one of a thread or of a shared library.
 * - All barriers are one: Tmk_barrier does not look at its number.
 * - Tmk_malloc allocates in this rank's part of the heap (SCASH_HEAP), and never returns NULL.
 * - What fails ends the rank with a line on stderr and status 1, and so the job. A rank that ends without
 *   Tmk_exit counts as failed.
 *
 * There are 1024 locks, numbered from 0. For others, define TMK_LOCKS before the #include in the file that
 * calls Tmk_startup, or with -D for all files. All files of a program may include this header: what they have
 * in common are weak symbols, of which the linker keeps one.
 */

#ifndef SCASH_COMPAT_TMK_H
#define SCASH_COMPAT_TMK_H

#include <scash.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef TMK_LOCKS
#define TMK_LOCKS 1024
#endif

/* A file need not use all calls. */
#define TMK_CALL_ static __attribute__((unused))
#define TMK_COMMON_ __attribute__((weak))

/* What a rank has distributed: the bytes follow. It lies in the heap of shared memory. */
struct tmk_piece_ {
    struct tmk_piece_ *next;
    /* Where the variable is in the program's data. */
    size_t at;
    size_t size;
};

/* What Tmk_startup has made. */
struct tmk_made_ {
    dsm_lock_t lock;
    unsigned locks;
    /* Of each rank, two lists of pieces: for even and for odd turns. Shared memory. */
    struct tmk_piece_ **lists;
    /* The last piece in the list of this rank and turn. */
    struct tmk_piece_ *last;
    /* How many barriers this rank has passed: the same at all ranks between two barriers. */
    unsigned turn;
};

#ifdef __cplusplus
extern "C" {
#endif

/* The number of this rank, how many there are, and the bytes of a page. */
TMK_COMMON_ unsigned Tmk_proc_id = 0;
TMK_COMMON_ unsigned Tmk_nprocs = 1;
TMK_COMMON_ unsigned Tmk_page_size = DSM_PAGE_SIZE;

TMK_COMMON_ struct tmk_made_ tmk_made_ = {0, 0, NULL, NULL, 0};

/* The program's data, from the first variable that has a value to the end of those that have none. */
extern char __data_start[];
extern char _end[];

#ifdef __cplusplus
}
#endif

/* Ends this rank: with status 0 together with all others, with another one at once, and so the job. */
TMK_CALL_ __attribute__((noreturn)) void Tmk_exit(int status)
{
    if (status == 0 && tmk_made_.locks != 0 && dsm_finalize() != 0) {
        fprintf(stderr, "rank %u: Tmk_exit: %s\n", Tmk_proc_id, dsm_error());
        status = 1;
    }
    exit(status);
}

/* Says what is wrong, and ends the rank, and so the job. */
TMK_CALL_ __attribute__((noreturn, format(printf, 1, 2))) void Tmk_errexit(const char *format, ...)
{
    va_list values;
    fflush(stdout);
    if (tmk_made_.locks > 0)
        fprintf(stderr, "rank %u: ", Tmk_proc_id);
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    /* Whether the program's text ends a line or not. */
    if (*format == '\0' || format[strlen(format) - 1] != '\n')
        fputc('\n', stderr);
    Tmk_exit(1);
}

/* Ends the rank if a call of scash.h has failed. */
TMK_CALL_ void tmk_done_(const char *call, int status)
{
    if (status != 0)
        Tmk_errexit("%s: %s", call, dsm_error());
}

/* Ends the rank if Tmk_startup has made nothing yet. */
TMK_CALL_ void tmk_started_(const char *call)
{
    if (tmk_made_.locks == 0)
        Tmk_errexit("%s: Tmk_startup has not been called", call);
}

/* Joins the job. The arguments are the program's own. */
TMK_CALL_ void Tmk_startup(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    tmk_done_("Tmk_startup", dsm_init());
    Tmk_proc_id = (unsigned)dsm_rank();
    Tmk_nprocs = (unsigned)dsm_size();
    tmk_done_("Tmk_startup", dsm_locks_create((TMK_LOCKS), &tmk_made_.lock));
    tmk_made_.lists = (struct tmk_piece_ **)dsm_alloc(2 * Tmk_nprocs * sizeof(struct tmk_piece_ *));
    tmk_done_("Tmk_startup", tmk_made_.lists == NULL);
    tmk_made_.locks = (TMK_LOCKS);
}

/* Allocates shared memory: one rank calls it. The bytes have no particular values. */
TMK_CALL_ void *Tmk_malloc(size_t size)
{
    /* What has a page or more begins at one, as programs divide such arrays by pages. */
    void *p = size < DSM_PAGE_SIZE ? dsm_malloc(size) : dsm_memalign(DSM_PAGE_SIZE, size);
    tmk_done_("Tmk_malloc", p == NULL);
    return p;
}

/* Frees what any rank has allocated: one rank calls it. */
TMK_CALL_ void Tmk_free(void *p)
{
    tmk_done_("Tmk_free", dsm_free(p));
}

/*
 * Distributing. One rank calls Tmk_distribute, and the others learn of it in the next barrier, without a
 * message of their own. The rank copies the bytes to shared memory, and puts them into a list that it alone
 * writes and the others read. The lists of even and of odd turns are two, so that no barrier more is needed:
 *
 *     turn t       the rank puts pieces into its list t % 2
 *     barrier      all ranks see the list; they apply it before they come to the next barrier
 *     turn t + 1   the rank puts pieces into its other list
 *     barrier      nobody reads the list of turn t any more: the rank empties it, for turn t + 2
 *
 * Ranks have the program at different addresses, but its data in the same order: what is told is the distance
 * from the beginning of the data.
 */

/* The beginning of the program's data, as an address of which the compiler does not know what lies there. It
 * must not take __data_start for an array of its own: it would keep variables in registers while tmk_apply_
 * sets them. */
TMK_CALL_ char *tmk_data_(void)
{
    char *data = __data_start;
    __asm__ volatile("" : "+r"(data) : : "memory");
    return data;
}

/* Gives the value that a private variable has now to the others: they have it after the next Tmk_barrier. */
TMK_CALL_ void Tmk_distribute(const void *p, size_t size)
{
    size_t begin = (size_t)tmk_data_(), length = (size_t)_end - begin, at = (size_t)p - begin;
    struct tmk_piece_ **list, *piece;
    tmk_started_("Tmk_distribute");
    if ((size_t)p < begin || at > length || size > length - at)
        Tmk_errexit("Tmk_distribute: the %lu bytes at %p are not in the program's own data: "
                    "give it a global or static variable",
                    (unsigned long)size, p);
    piece = (struct tmk_piece_ *)Tmk_malloc(sizeof *piece + size);
    piece->next = NULL;
    piece->at = at;
    piece->size = size;
    memcpy(piece + 1, p, size);
    list = &tmk_made_.lists[2 * Tmk_proc_id + tmk_made_.turn % 2];
    if (*list == NULL)
        *list = piece;
    else
        tmk_made_.last->next = piece;
    tmk_made_.last = piece;
}

/* Sets this rank's variables to what the others have distributed in the turn that has ended. */
TMK_CALL_ void tmk_apply_(void)
{
    const struct tmk_piece_ *piece;
    char *data = tmk_data_();
    unsigned rank;
    for (rank = 0; rank < Tmk_nprocs; rank++)
        /* This rank may have changed its own since. */
        if (rank != Tmk_proc_id)
            for (piece = tmk_made_.lists[2 * rank + tmk_made_.turn % 2]; piece != NULL; piece = piece->next)
                memcpy(data + piece->at, piece + 1, piece->size);
}

/* Empties the list of this rank that nobody reads any more. */
TMK_CALL_ void tmk_empty_(void)
{
    struct tmk_piece_ **list = &tmk_made_.lists[2 * Tmk_proc_id + (tmk_made_.turn + 1) % 2];
    struct tmk_piece_ *piece = *list, *next;
    /* Not written where it is empty already: most barriers are to change nothing. */
    if (piece != NULL)
        *list = NULL;
    for (; piece != NULL; piece = next) {
        next = piece->next;
        Tmk_free(piece);
    }
}

/* The memory barrier. All ranks call it; `id` makes no difference. */
TMK_CALL_ void Tmk_barrier(unsigned id)
{
    (void)id;
    tmk_started_("Tmk_barrier");
    tmk_done_("Tmk_barrier", dsm_barrier());
    tmk_apply_();
    tmk_empty_();
    tmk_made_.turn++;
}

/* The number of a lock of scash.h. */
TMK_CALL_ dsm_lock_t tmk_lock_(const char *call, unsigned id)
{
    tmk_started_(call);
    if (id >= tmk_made_.locks)
        Tmk_errexit("%s(%u): there are 0 to %u; define TMK_LOCKS for more", call, id, tmk_made_.locks - 1);
    return tmk_made_.lock + id;
}

TMK_CALL_ void Tmk_lock_acquire(unsigned id)
{
    tmk_done_("Tmk_lock_acquire", dsm_lock(tmk_lock_("Tmk_lock_acquire", id)));
}

TMK_CALL_ void Tmk_lock_release(unsigned id)
{
    tmk_done_("Tmk_lock_release", dsm_unlock(tmk_lock_("Tmk_lock_release", id)));
}

#endif
