/* What jiajia.c and jiajia_more.c tell each other. */
#ifndef JIAJIA_H
#define JIAJIA_H

/* More locks than there are by default. Both files say so, as -DJIA_LOCKS would. */
#define JIA_LOCKS 80
#include "check.h"
#include <jia.h>

#define ROUNDS 20

/* Adds to counts, each under the lock of its number. */
void add(int *counts, int how_many);

/* What a rank that joins this job in the other file sees of it. */
void same_rank(int pid, int hosts);

#endif
