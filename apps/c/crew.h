/* The workers of a program and how they meet. */
#ifndef CREW_H
#define CREW_H

#include <stdbool.h>
#include <stddef.h>

/* The processes that a program runs in, seen from one of them. */
struct ranks {
    size_t index;
    size_t count;
    void (*wait)(void); /* for all of them; NULL for a process without others */
};

struct barrier;

/* What a worker knows about itself. */
struct worker {
    size_t index;
    size_t count;
    bool first; /* of its process */
    struct barrier *barrier;
};

/* Waits for all workers. What each wrote before, all see afterwards. */
void crew_wait(const struct worker *worker);

/* Runs `work` on `threads` threads of this process, the calling one among them; with `pin`, each on a
 * processor of its own while there are enough. */
void crew_run(struct ranks ranks, size_t threads, bool pin, void (*work)(const struct worker *worker, void *data),
              void *data);

/* Prints the message, in the manner of printf, and ends the process. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
