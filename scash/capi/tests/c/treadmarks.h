/* What treadmarks.c and treadmarks_more.c tell each other. */
#ifndef TREADMARKS_H
#define TREADMARKS_H

/* More locks than there are by default. Both files say so, as -DTMK_LOCKS would. */
#define TMK_LOCKS 1100
#include "check.h"
#include <Tmk.h>

#define ROUNDS 12

/* Rank 0 makes what only the other file has a pointer to. */
void make_counts(void);

/* Adds to the counts, each under the lock of its number, and says how many there are. */
void add(int from, int step);

/* Checks that all have what all ranks have added, and has one rank free them. */
void check_counts(int want);

/* What a rank sees of itself in the other file. */
void same_rank(unsigned id, unsigned nprocs);

#endif
