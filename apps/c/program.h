/* What a program is, and how it is run, timed, checked and reported, whatever its mode. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include "crew.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* At most so many arrays, and parameters. */
enum { ARRAYS = 2, PARAMETERS = 2 };

/* A number that an option sets. */
struct parameter {
    const char *name;
    const char *help;
    size_t least;
    size_t value;
};

/* Neighbouring elements of the result, and where the first of them is if a single worker computes it. */
struct run {
    size_t start, length, reference;
};

/* A computation on shared arrays that any number of workers divide between them. */
struct program {
    const char *name;
    const char *about;
    struct parameter parameters[PARAMETERS];

    /* Checks the parameters, and sets how many arrays there are, how many elements each has, and which of
     * them is the result. Dies if the parameters do not fit together. */
    void (*plan)(struct program *program);
    size_t arrays, length, result;

    /* Writes the initial values of all that the worker owns, in all arrays. */
    void (*initialise)(const struct program *program, const struct worker *worker, double *const arrays[]);

    /* Does the worker's part of the computation, after all initialised theirs and met. Ends with
     * crew_wait(). */
    void (*compute)(const struct program *program, const struct worker *worker, double *const arrays[]);

    /* Sets `run` to the n-th run of elements of the result that a worker owns, if there are that many. */
    bool (*owned)(const struct program *program, size_t index, size_t count, size_t n, struct run *run);
};

/* What it cost a rank that there are others. */
struct cost {
    double sync, diff, update; /* seconds in the three parts of the memory barrier */
    uint64_t faults, messages, bytes;
};

/* What a worker, or all workers of a rank, saw of one repetition. */
struct timing {
    double seconds;
    bool equal; /* to the sequential result, as far as was looked */
    struct cost cost;
};

/* A program's main(). */
int program_main(struct program *program, int argc, char **argv);

/* Zeroed memory of this process for `length` elements, aligned to pages, which are taken when they are first
 * touched. */
double *allocate(size_t length);
void release(double *memory, size_t length);

#endif
