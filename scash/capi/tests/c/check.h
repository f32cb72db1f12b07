/* Checks that end the rank, and so the job, with a line that says what was wrong. */
#ifndef CHECK_H
#define CHECK_H

#include <scash.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                              \
    do {                                                                                              \
        if (!(condition)) {                                                                           \
            fprintf(stderr, "%s:%d: rank %d: not so: %s (%s)\n", __FILE__, __LINE__, dsm_rank(),      \
                    #condition, dsm_error());                                                         \
            exit(1);                                                                                  \
        }                                                                                             \
    } while (0)

/* The call fails with -1, and the error's text holds the words. */
#define FAILS(call, words)                                                                            \
    do {                                                                                              \
        CHECK((call) == -1);                                                                          \
        CHECK(strstr(dsm_error(), words) != NULL);                                                    \
    } while (0)

/* The same for calls that return a pointer. */
#define IS_NULL(call, words)                                                                          \
    do {                                                                                              \
        CHECK((call) == NULL);                                                                        \
        CHECK(strstr(dsm_error(), words) != NULL);                                                    \
    } while (0)

#endif
