/* The other file of treadmarks.c: it has its own copies of Tmk.h's functions, but the same ranks and
 * locks. */
#include "treadmarks.h"

/* Nobody else can see it: the compiler may know all that is done with it but for what Tmk_barrier does. */
static int *counts;

void make_counts(void)
{
    if (Tmk_proc_id == 0) {
        counts = Tmk_malloc(TMK_LOCKS * sizeof *counts);
        memset(counts, 0, TMK_LOCKS * sizeof *counts);
        Tmk_distribute((char *)&counts, sizeof counts);
    }
}

void add(int from, int step)
{
    for (int i = from; i < TMK_LOCKS; i += step) {
        Tmk_lock_acquire((unsigned)i);
        counts[i] += i + 1;
        Tmk_lock_release((unsigned)i);
    }
}

void check_counts(int want)
{
    for (int i = 0; i < TMK_LOCKS; i += 50)
        CHECK(counts[i] == want * (i + 1));
    Tmk_barrier(9);
    if (Tmk_proc_id == Tmk_nprocs - 1)
        Tmk_free(counts);
}

void same_rank(unsigned id, unsigned nprocs)
{
    CHECK(Tmk_proc_id == id && Tmk_nprocs == nprocs && Tmk_page_size == DSM_PAGE_SIZE);
}
