/* The other file of jiajia.c: it has its own copies of jia.h's functions, but the same ranks and locks. */
#include "jiajia.h"

void add(int *counts, int how_many)
{
    for (int i = 0; i < how_many; i++) {
        jia_lock(i);
        counts[i] += i + 1;
        jia_unlock(i);
    }
}

void same_rank(int pid, int hosts)
{
    CHECK(jiapid == pid && jiahosts == hosts);
}
