/* What a run took, as text and as JSON. */
#ifndef REPORT_H
#define REPORT_H

#include "options.h"

/* On what a program ran. */
struct setting {
    size_t ranks, threads;
    const char *provider, *engine; /* NULL without a DSM */
};

/* What several saw of one repetition, as one: the longest time, no difference anywhere, and all costs. */
struct timing timing_merge(struct timing a, struct timing b);

/* Prints all repetitions, and returns whether all results are right. `timings` has those of rank 0, of rank
 * 1, … */
bool report(const struct program *program, const struct options *options, const struct setting *setting,
            const struct timing *timings);

#endif
