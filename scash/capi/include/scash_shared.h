/*
 * scash_shared.h - static variables that are shared memory.
 *
 *     #include <scash_shared.h>
 *
 *     DSM_SHARED int rounds = 10;                     // one variable for all ranks
 *     DSM_SHARED struct node *root;                   // may point into shared memory, and to such variables
 *     static DSM_SHARED_ZERO double field[1000][1000];
 *
 * A program for threads is ported so: its global variables are annotated, as they are what threads share. It
 * is compiled as always, and linked as a program with a fixed address by a script that is installed:
 *
 *     cc program.c $(pkg-config --cflags --libs scash-shared)
 *     cc program.c -lscash -no-pie -Wl,-T,scash_shared.ld
 *
 * Shared memory begins with these variables, at the same addresses in each rank. dsm_init gives them their
 * values: nobody touches them before that (it is a segmentation fault), and where it returns, all ranks see
 * what they begin with. From then on they are as what dsm_alloc returns: each page has its home at the rank
 * that touches it first, rank 0 if it begins with something else than zeros. SCASH_REGION counts them.
 *
 * - An initial value is a constant, as in C. In C++, objects with constructors are not for this.
 * - DSM_SHARED_ZERO is for large arrays that begin with zeros: the compiler refuses other values. In the
 *   program's file they are a hole, which takes no room on the disk.
 * - Variables of shared libraries cannot be shared so. dsm_init fails if a library has some; it does not look
 *   into those that are loaded later (dlopen).
 * - Small variables of different ranks share pages. To give each rank one of its own, align their type:
 *
 *       struct part { int mine; } __attribute__((aligned(DSM_PAGE_SIZE)));
 *       DSM_SHARED_ZERO struct part parts[64];
 *
 * - All variables of a file that nobody wants to annotate: its object file is called NAME.shared.o, also in
 *   an archive. The script knows it by that. (Not with -flto: the linker sees no such name then.)
 *
 *       cc -c theirs.c -o theirs.shared.o
 *
 * Linked in another way, dsm_init fails and says what is missing. GNU ld takes the script; gold does not.
 */
#ifndef SCASH_SHARED_H
#define SCASH_SHARED_H

#include "scash.h"

/* A variable of all ranks. */
#define DSM_SHARED __attribute__((section(".dsm_shared")))
/* One that begins with zeros, and takes no room in the object file. (Compilers write no zeros for sections
 * that are called so; linkers mix those called .bss with all others.) */
#define DSM_SHARED_ZERO __attribute__((section(".sbss.dsm_shared")))

#endif
