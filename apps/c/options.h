/* The command line of a program. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "program.h"

enum mode { DSM, SEQUENTIAL, THREADS };

/* How to run a program, and what to print. */
struct options {
    enum mode mode;
    size_t threads;
    size_t repeat;
    bool pin, check, json;
};

/* Reads the options, and the program's parameters. Explains itself and ends the process if asked to, or if
 * something is wrong with them. */
struct options options_read(struct program *program, int argc, char **argv);

#endif
