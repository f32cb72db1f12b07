/* The workers of a program and how they meet. */
#ifndef CREW_H
#define CREW_H

#include <stdbool.h>
#include <stddef.h>

struct barrier;

/* What a worker knows about itself. */
struct worker {
    size_t index;
    size_t count;
    struct barrier *barrier; /* NULL for a worker without others */
};

/* Waits for all workers. What each wrote before, all see afterwards. */
void crew_wait(const struct worker *worker);

/* Runs `work` on `count` threads, the calling one among them; with `pin`, each on a processor of its own while there
 * are enough. */
void crew_run(size_t count, bool pin, void (*work)(const struct worker *worker, void *data), void *data);

/* Prints the message, in the manner of printf, and ends the process. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
