/* Barriers of some ranks, whichever come, and events that happen, are reset, and happen again. */
#include "check.h"
#include <scash_groups.h>

enum { ROUNDS = 40, PAGE = DSM_PAGE_SIZE / sizeof(long) };

static int rank, size;

/* In each round two ranks that follow one another meet, and only they: each sees what the other has written. A
 * pair has two groups of its own, for other pairs may come meanwhile. */
static void pairs(void)
{
    long *a = dsm_alloc((size_t)size * DSM_PAGE_SIZE);
    dsm_group_t *groups = calloc((size_t)size * 2, sizeof *groups);
    CHECK(a != NULL && groups != NULL && dsm_groups_create(2 * size, 2, groups) == 0);
    for (int round = 0; size > 1 && round < ROUNDS; round++) {
        int one = round % size, other = (round + 1) % size;
        const dsm_group_t *group = groups + 2 * one;
        if (rank != one && rank != other)
            continue;
        a[rank * PAGE + 1] = round * 10 + rank;
        CHECK(dsm_group_barrier(&group[0]) == 0);
        CHECK(a[one * PAGE + 1] == round * 10 + one && a[other * PAGE + 1] == round * 10 + other);
        CHECK(dsm_group_barrier(&group[1]) == 0);
    }
    CHECK(dsm_barrier() == 0);
    CHECK(dsm_groups_destroy(groups, 2 * size) == 0 && dsm_free(a) == 0);
    free(groups);
}

/* A barrier of all of them, made of the same parts, is as good as dsm_barrier. */
static void all(void)
{
    long *a = dsm_alloc((size_t)size * sizeof *a);
    dsm_group_t group;
    CHECK(a != NULL && dsm_groups_create(1, size, &group) == 0);
    for (int round = 1; round <= ROUNDS; round++) {
        a[rank] += rank + round;
        CHECK(dsm_group_barrier(&group) == 0);
        long sum = 0;
        for (int r = 0; r < size; r++)
            sum += a[r];
        CHECK(sum == (long)round * size * (size - 1) / 2 + (long)size * round * (round + 1) / 2);
        CHECK(dsm_group_barrier(&group) == 0);
    }
    CHECK(dsm_groups_destroy(&group, 1) == 0 && dsm_free(a) == 0);
}

static int has_happened(const dsm_event_t *event)
{
    CHECK(dsm_lock(event->lock) == 0);
    int is = (int)(*event->state & 1);
    CHECK(dsm_unlock(event->lock) == 0);
    return is;
}

/* Rank 0 lets all others go on, round after round. */
static void events(void)
{
    long *a = dsm_alloc(2 * DSM_PAGE_SIZE);
    dsm_event_t event[2];
    dsm_group_t group;
    CHECK(a != NULL && dsm_events_create(2, event) == 0 && dsm_groups_create(1, size, &group) == 0);
    for (long round = 1; round <= ROUNDS; round++) {
        if (rank == 0) {
            a[3] = round;
            a[PAGE + 7] = 2 * round;
            CHECK(dsm_event_set(&event[0]) == 0);
        }
        CHECK(dsm_event_wait(&event[0]) == 0);
        CHECK(a[3] == round && a[PAGE + 7] == 2 * round);
        CHECK(dsm_group_barrier(&group) == 0);
        if (rank == size - 1)
            CHECK(dsm_event_reset(&event[0]) == 0);
        CHECK(dsm_group_barrier(&group) == 0);
    }
    /* Whoever waits goes on, though the event is over when it looks. */
    for (int round = 0; size > 1 && round < ROUNDS; round++) {
        if (rank == 1) {
            CHECK(dsm_event_wait(&event[1]) == 0);
            a[0] = round + 1;
            CHECK(dsm_event_set(&event[0]) == 0);
        } else if (rank == 0) {
            /* Until rank 1 has said that it went on: it may not have waited yet. */
            do
                CHECK(dsm_event_set(&event[1]) == 0 && dsm_event_reset(&event[1]) == 0);
            while (!has_happened(&event[0]));
            CHECK(dsm_event_wait(&event[0]) == 0 && a[0] == round + 1);
            CHECK(dsm_event_reset(&event[0]) == 0);
        }
        CHECK(dsm_group_barrier(&group) == 0);
    }
    CHECK(dsm_events_destroy(event, 2) == 0 && dsm_groups_destroy(&group, 1) == 0);
}

static void wrong(void)
{
    dsm_group_t group;
    dsm_event_t event;
    FAILS(dsm_groups_create(1, 0, &group), "at least one");
    FAILS(dsm_groups_create(0, 2, &group), "at least one");
    FAILS(dsm_events_create(0, &event), "at least one");
    CHECK(dsm_groups_create(1, 2, &group) == 0 && dsm_groups_destroy(&group, 1) == 0);
    FAILS(dsm_group_barrier(&group), "destroyed");
}

int main(void)
{
    CHECK(dsm_init() == 0);
    rank = dsm_rank();
    size = dsm_size();
    pairs();
    all();
    events();
    wrong();
    CHECK(dsm_finalize() == 0);
    return 0;
}
