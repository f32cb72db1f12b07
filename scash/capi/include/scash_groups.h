/*
 * scash_groups.h - barriers of some threads, and events that can be reset.
 *
 *     #include <scash_groups.h>
 *
 *     dsm_group_t group;
 *     dsm_event_t ready;
 *     dsm_groups_create(1, 2, &group);      // of two threads, on whichever ranks
 *     dsm_events_create(1, &ready);
 *     if (dsm_rank() < 2)
 *         dsm_group_barrier(&group);        // each sees what both wrote before
 *     ...
 *     dsm_event_set(&ready);                // whoever waits goes on, and sees what was written before
 *
 * Both are made of the locks, flags and conditions of scash.h, of which messages about waits speak. While a
 * thread waits here, its rank does not come to a collective function.
 *
 * A group or an event is a structure of the program's, with the same contents at every rank; it may be copied.
 * Functions are static, so that the header is all that a program needs besides the library. Each returns 0, or
 * -1; dsm_error() has the text then.
 */
#ifndef SCASH_GROUPS_H
#define SCASH_GROUPS_H

#include "scash.h"
#include <stddef.h>
#include <stdint.h>

#define DSM_GROUPS_CALL_ __attribute__((unused)) static

/* What lies in shared memory for each: on a processor's cache line of its own. */
enum { DSM_GROUPS_LINE_ = 64 };

/* So many threads that meet again and again. */
typedef struct dsm_group_t {
    dsm_lock_t lock;
    dsm_flag_t met;
    /* How many threads have come, in all meetings; under the lock. */
    uint64_t *come;
    uint64_t threads;
} dsm_group_t;

/* Something that has happened or not, and can happen again. */
typedef struct dsm_event_t {
    dsm_lock_t lock;
    dsm_condition_t changed;
    /* Twice the times that it was set, and 1 more while it is; under the lock. */
    uint64_t *state;
} dsm_event_t;

/*
 * Makes `count` groups of as many threads each. Collective: all ranks ask for the same. Returns -1 if `count` or
 * `threads` is less than 1, too.
 */
DSM_GROUPS_CALL_ int dsm_groups_create(int count, int threads, dsm_group_t *groups)
{
    dsm_lock_t lock;
    dsm_flag_t met;
    char *words;
    int i;
    /* A group of nobody is refused as no flags are: with a text. */
    if (dsm_flags_create(threads > 0 ? count : 0, &met) != 0 || dsm_locks_create(count, &lock) != 0)
        return -1;
    words = (char *)dsm_alloc((size_t)count * DSM_GROUPS_LINE_);
    if (words == NULL)
        return -1;
    for (i = 0; i < count; i++) {
        groups[i].lock = lock + (dsm_lock_t)i;
        groups[i].met = met + (dsm_flag_t)i;
        groups[i].come = (uint64_t *)(void *)(words + (size_t)i * DSM_GROUPS_LINE_);
        groups[i].threads = (uint64_t)threads;
    }
    return 0;
}

/*
 * Waits until as many threads have come as the group is of, this one among them. From then on each of their
 * ranks sees what all of them had written before. Any threads may come; those of one meeting are the next that
 * do. Not collective, and no place for a checkpoint.
 */
DSM_GROUPS_CALL_ int dsm_group_barrier(const dsm_group_t *group)
{
    uint64_t before;
    if (dsm_lock(group->lock) != 0)
        return -1;
    before = (*group->come)++;
    if (dsm_unlock(group->lock) != 0)
        return -1;
    /* Whoever comes last has had the lock after all others, and so has seen what they wrote. */
    if ((before + 1) % group->threads == 0)
        return dsm_flag_raise(group->met, before / group->threads + 1);
    return dsm_flag_wait(group->met, before / group->threads + 1);
}

/*
 * Destroys groups that were made together. Collective. Returns -1, and nothing of them is destroyed, if a thread
 * is at one.
 */
DSM_GROUPS_CALL_ int dsm_groups_destroy(const dsm_group_t *groups, int count)
{
    if (dsm_flags_destroy(groups->met, count) != 0 || dsm_locks_destroy(groups->lock, count) != 0)
        return -1;
    return dsm_free(groups->come);
}

/* Makes `count` events that have not happened. Collective. Returns -1 if `count` is less than 1, too. */
DSM_GROUPS_CALL_ int dsm_events_create(int count, dsm_event_t *events)
{
    dsm_lock_t lock;
    dsm_condition_t changed;
    char *words;
    int i;
    if (dsm_conditions_create(count, &changed) != 0 || dsm_locks_create(count, &lock) != 0)
        return -1;
    words = (char *)dsm_alloc((size_t)count * DSM_GROUPS_LINE_);
    if (words == NULL)
        return -1;
    for (i = 0; i < count; i++) {
        events[i].lock = lock + (dsm_lock_t)i;
        events[i].changed = changed + (dsm_condition_t)i;
        events[i].state = (uint64_t *)(void *)(words + (size_t)i * DSM_GROUPS_LINE_);
    }
    return 0;
}

/* The event happens: whoever waits goes on, and sees what this rank had written before. */
DSM_GROUPS_CALL_ int dsm_event_set(const dsm_event_t *event)
{
    if (dsm_lock(event->lock) != 0)
        return -1;
    *event->state = ((*event->state >> 1) + 1) << 1 | 1;
    if (dsm_condition_broadcast(event->changed) != 0)
        return -1;
    return dsm_unlock(event->lock);
}

/* The event has not happened: whoever comes to wait from now on waits until it is set again. */
DSM_GROUPS_CALL_ int dsm_event_reset(const dsm_event_t *event)
{
    if (dsm_lock(event->lock) != 0)
        return -1;
    *event->state &= ~(uint64_t)1;
    return dsm_unlock(event->lock);
}

/*
 * Waits until the event has happened. From then on this rank sees what was written before it was set. A thread
 * that waits goes on even if the event is reset right behind.
 */
DSM_GROUPS_CALL_ int dsm_event_wait(const dsm_event_t *event)
{
    uint64_t before;
    if (dsm_lock(event->lock) != 0)
        return -1;
    before = *event->state >> 1;
    while ((*event->state & 1) == 0 && *event->state >> 1 == before)
        if (dsm_condition_wait(event->changed, event->lock) != 0)
            return -1;
    return dsm_unlock(event->lock);
}

/* Destroys events that were made together, for which no thread waits. Collective. */
DSM_GROUPS_CALL_ int dsm_events_destroy(const dsm_event_t *events, int count)
{
    if (dsm_conditions_destroy(events->changed, count) != 0 || dsm_locks_destroy(events->lock, count) != 0)
        return -1;
    return dsm_free(events->state);
}

#endif
