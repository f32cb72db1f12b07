/* What is touched under a lock only is right without a memory barrier: counters, a ring of records, pages
 * that nobody had touched, threads. */
#include "check.h"
#include <pthread.h>

enum { ROUNDS = 200, COUNTERS = 50, SLOTS = 16, RECORD = 300, THREADS = 3 };

struct ring {
    dsm_lock_t lock;
    long put, taken;
    struct {
        long number;
        unsigned char bytes[RECORD];
    } slot[SLOTS];
};

static int rank, size;

static void counters(void)
{
    dsm_lock_t first;
    long *count, sum = 0;
    CHECK(dsm_locks_create(COUNTERS, &first) == 0);
    CHECK((count = dsm_alloc(COUNTERS * sizeof *count)) != NULL);
    for (int i = 0; i < ROUNDS; i++) {
        int mine = i * (2 * rank + 1) % COUNTERS;
        CHECK(dsm_lock(first + mine) == 0);
        count[mine]++;
        CHECK(dsm_unlock(first + mine) == 0);
    }
    CHECK(dsm_barrier() == 0);
    for (int i = 0; i < COUNTERS; i++)
        sum += count[i];
    CHECK(sum == (long)ROUNDS * size);
}

/* Every rank puts records into the ring, and takes out whatever comes next. */
static void ring(void)
{
    struct ring *ring;
    dsm_lock_t lock;
    CHECK((ring = dsm_alloc(sizeof *ring)) != NULL);
    CHECK(dsm_locks_create(1, &lock) == 0);
    if (rank == 0)
        ring->lock = lock;
    CHECK(dsm_barrier() == 0);
    for (int mine = 0, done = 0; !done;) {
        CHECK(dsm_lock(ring->lock) == 0);
        if (mine < ROUNDS && ring->put - ring->taken < SLOTS) {
            ring->slot[ring->put % SLOTS].number = ring->put;
            memset(ring->slot[ring->put % SLOTS].bytes, (int)(ring->put % 251), RECORD);
            ring->put++;
            mine++;
        } else if (ring->taken < ring->put) {
            long next = ring->taken++;
            CHECK(ring->slot[next % SLOTS].number == next);
            for (int i = 0; i < RECORD; i++)
                CHECK(ring->slot[next % SLOTS].bytes[i] == next % 251);
        } else {
            done = mine == ROUNDS;
        }
        CHECK(dsm_unlock(ring->lock) == 0);
    }
    CHECK(dsm_barrier() == 0);
    CHECK(ring->put == (long)ROUNDS * size && ring->taken == ring->put);
}

static long *shared;
static dsm_lock_t shared_lock;

static void *add(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(dsm_lock(shared_lock) == 0);
        long before = shared[0];
        shared[0] = before + 1;
        /* Far away, in a page that nobody has touched before. */
        CHECK(shared[before + 1] == 0);
        shared[before + 1] = before + 1;
        CHECK(dsm_unlock(shared_lock) == 0);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t thread[THREADS];
    long all = (long)THREADS * ROUNDS * size;
    CHECK((shared = dsm_alloc((all + 1) * sizeof *shared)) != NULL);
    CHECK(dsm_locks_create(1, &shared_lock) == 0);
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_create(&thread[t], NULL, add, NULL) == 0);
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_join(thread[t], NULL) == 0);
    CHECK(dsm_barrier() == 0);
    CHECK(shared[0] == all);
    for (long i = 1; i <= all; i++)
        CHECK(shared[i] == i);
}

int main(void)
{
    CHECK(dsm_init() == 0);
    rank = dsm_rank();
    size = dsm_size();
    counters();
    ring();
    threads();
    CHECK(dsm_finalize() == 0);
    return 0;
}
