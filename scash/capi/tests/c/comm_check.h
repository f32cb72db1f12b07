/* Checks that end the rank, and so the job, with a line that says what was wrong. */
#ifndef COMM_CHECK_H
#define COMM_CHECK_H

#include <scash_comm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                              \
    do {                                                                                              \
        if (!(condition)) {                                                                           \
            fprintf(stderr, "%s:%d: rank %d: not so: %s (%s)\n", __FILE__, __LINE__, scomm_rank(),    \
                    #condition, scomm_error());                                                       \
            exit(1);                                                                                  \
        }                                                                                             \
    } while (0)

#define OK(call) CHECK((call) == SCOMM_OK)

/* The call fails with this error, and its text holds the words. */
#define FAILS(call, why, words)                                                                       \
    do {                                                                                              \
        CHECK((call) == (why));                                                                       \
        CHECK(strstr(scomm_error(), words) != NULL);                                                  \
    } while (0)

#define INVALID(call, words) FAILS(call, SCOMM_ERROR_INVALID, words)

/* The byte at `at` of a message that `seed` tells from others. */
static inline unsigned char byte_of(int seed, size_t at)
{
    return (unsigned char)(at * 31 ^ (size_t)seed * 97 ^ at >> 8);
}

static inline void fill(void *bytes, int seed, size_t len)
{
    size_t at;
    for (at = 0; at < len; at++)
        ((unsigned char *)bytes)[at] = byte_of(seed, at);
}

static inline int is_filled(const void *bytes, int seed, size_t len)
{
    size_t at;
    for (at = 0; at < len; at++)
        if (((const unsigned char *)bytes)[at] != byte_of(seed, at))
            return 0;
    return 1;
}

static inline void *room(size_t len)
{
    void *bytes = malloc(len + 1);
    CHECK(bytes != NULL);
    return bytes;
}

#endif
