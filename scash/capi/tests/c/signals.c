/* Who is let go on by a semaphore, a condition or a flag sees what was written before: bounded buffers, a
 * pipeline. */
#include "check.h"

enum { ROUNDS = 60, PLACES = 5, PAGE = DSM_PAGE_SIZE / sizeof(long) };

static int rank, size;

/* A place is a number on each of two pages, so that it shows whether all of it was written. */
static void fill(long *data, long place, long value)
{
    data[place % PLACES] = value;
    data[PAGE + place % PLACES * 7] = value + 1;
}

/* Rank 0 takes the next value: each rank's come in their order. */
static void take(const long *data, long place, long *next)
{
    long value = data[place % PLACES];
    CHECK(data[PAGE + place % PLACES * 7] == value + 1);
    CHECK(value / size == next[value % size]++);
}

static long *next_of_all(void)
{
    long *next = calloc((size_t)size, sizeof *next);
    CHECK(next != NULL);
    return next;
}

static void buffer_with_conditions(void)
{
    struct {
        long put, taken;
    } *now;
    long *data, *next = next_of_all();
    dsm_lock_t lock;
    dsm_condition_t not_full, not_empty;
    CHECK(dsm_locks_create(1, &lock) == 0);
    CHECK(dsm_conditions_create(2, &not_full) == 0);
    not_empty = not_full + 1;
    CHECK((now = dsm_alloc(sizeof *now)) != NULL && (data = dsm_alloc(2 * DSM_PAGE_SIZE)) != NULL);
    for (long i = 0; rank > 0 && i < ROUNDS; i++) {
        CHECK(dsm_lock(lock) == 0);
        while (now->put - now->taken == PLACES)
            CHECK(dsm_condition_wait(not_full, lock) == 0);
        fill(data, now->put++, i * size + rank);
        CHECK(dsm_unlock(lock) == 0);
        CHECK(dsm_condition_signal(not_empty) == 0);
    }
    for (long i = 0; rank == 0 && i < (long)ROUNDS * (size - 1); i++) {
        CHECK(dsm_lock(lock) == 0);
        while (now->put == now->taken)
            CHECK(dsm_condition_wait(not_empty, lock) == 0);
        take(data, now->taken++, next);
        CHECK(dsm_condition_broadcast(not_full) == 0);
        CHECK(dsm_unlock(lock) == 0);
    }
    CHECK(dsm_barrier() == 0);
    free(next);
}

static void buffer_with_semaphores(void)
{
    long *place, *data, *next = next_of_all();
    dsm_lock_t lock;
    dsm_semaphore_t empty, full;
    CHECK(dsm_locks_create(1, &lock) == 0);
    CHECK(dsm_semaphores_create(1, PLACES, &empty) == 0);
    CHECK(dsm_semaphores_create(1, 0, &full) == 0);
    CHECK((place = dsm_alloc(sizeof *place)) != NULL && (data = dsm_alloc(2 * DSM_PAGE_SIZE)) != NULL);
    for (long i = 0; rank > 0 && i < ROUNDS; i++) {
        CHECK(dsm_semaphore_wait(empty) == 0);
        /* In the order of the places, or rank 0 could find one empty. */
        CHECK(dsm_lock(lock) == 0);
        fill(data, (*place)++, i * size + rank);
        CHECK(dsm_semaphore_post(full, 1) == 0);
        CHECK(dsm_unlock(lock) == 0);
    }
    for (long i = 0; rank == 0 && i < (long)ROUNDS * (size - 1); i++) {
        CHECK(dsm_semaphore_wait(full) == 0);
        take(data, i, next);
        CHECK(dsm_semaphore_post(empty, 1) == 0);
    }
    CHECK(dsm_barrier() == 0);
    free(next);
}

/* Each rank adds to what the one before it wrote; the first one waits for the last. */
static void pipeline_with_flags(void)
{
    long *data;
    dsm_flag_t flags;
    CHECK(dsm_flags_create(size, &flags) == 0);
    CHECK((data = dsm_alloc((size_t)size * DSM_PAGE_SIZE)) != NULL);
    for (long round = 0; round < ROUNDS; round++) {
        int before = (rank + size - 1) % size;
        uint64_t least = (uint64_t)(rank == 0 ? round : round + 1);
        CHECK(dsm_flag_wait(flags + (dsm_flag_t)before, least) == 0);
        long value = rank == 0 ? round : data[before * PAGE + round % PAGE];
        CHECK(value == round + rank);
        data[rank * PAGE + round % PAGE] = value + 1;
        CHECK(dsm_flag_raise(flags + (dsm_flag_t)rank, (uint64_t)round + 1) == 0);
        /* It never falls. */
        CHECK(dsm_flag_raise(flags + (dsm_flag_t)rank, 0) == 0);
    }
    CHECK(dsm_barrier() == 0);
}

/* One post lets all others go on. */
static void post_many(void)
{
    long *data;
    dsm_semaphore_t go;
    CHECK(dsm_semaphores_create(1, 0, &go) == 0);
    CHECK((data = dsm_alloc(sizeof *data)) != NULL);
    if (rank == size - 1) {
        *data = 42;
        CHECK(dsm_semaphore_post(go, (unsigned)size) == 0);
    }
    CHECK(dsm_semaphore_wait(go) == 0);
    CHECK(*data == 42);
    CHECK(dsm_barrier() == 0);
}

int main(void)
{
    CHECK(dsm_init() == 0);
    rank = dsm_rank();
    size = dsm_size();
    buffer_with_conditions();
    buffer_with_semaphores();
    pipeline_with_flags();
    post_many();
    CHECK(dsm_finalize() == 0);
    return 0;
}
