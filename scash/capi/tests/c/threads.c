/* Threads of a rank fault at once, each has its own last error, and statistics add up. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, PAGES = 64, WORDS = PAGES * DSM_PAGE_SIZE / sizeof(long) };

static long *a;
static int rank, size;

static void *fill(void *argument)
{
    int thread = *(int *)argument;
    /* Neighbouring words of all pages: every page is touched by every thread of every rank. */
    for (long i = (long)rank * THREADS + thread; i < (long)WORDS; i += (long)size * THREADS)
        a[i] = i;
    CHECK(strcmp(dsm_error(), "") == 0);
    char words[32];
    sprintf(words, "no rank -%d", thread + 2);
    FAILS(dsm_set_home(a, 1, -thread - 2), words);
    return NULL;
}

static void *add(void *argument)
{
    long sum = 0;
    for (long i = 0; i < (long)WORDS; i++)
        sum += a[i];
    *(long *)argument = sum;
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int number[THREADS];
    long sums[THREADS];
    dsm_stats_t stats;

    CHECK(dsm_init() == 0);
    rank = dsm_rank();
    size = dsm_size();
    CHECK((a = dsm_alloc(WORDS * sizeof *a)) != NULL);
    for (int t = 0; t < THREADS; t++) {
        number[t] = t;
        CHECK(pthread_create(&threads[t], NULL, fill, &number[t]) == 0);
    }
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_join(threads[t], NULL) == 0);
    CHECK(strcmp(dsm_error(), "") == 0);
    CHECK(dsm_barrier() == 0);
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, add, &sums[t]) == 0);
    for (int t = 0; t < THREADS; t++) {
        CHECK(pthread_join(threads[t], NULL) == 0);
        CHECK(sums[t] == (long)WORDS * ((long)WORDS - 1) / 2);
    }

    CHECK(dsm_stats(&stats) == 0);
    CHECK(stats.barriers == 2); /* that of dsm_alloc is one */
    CHECK(dsm_shares_frames() ? stats.faults == 0 : stats.faults > 0 && stats.write_faults > 0 && stats.first_touches > 0);
    CHECK(size == 1 || (stats.messages > 0 && stats.bytes > 0));
    CHECK(stats.sync_seconds >= 0 && stats.diff_seconds >= 0 && stats.update_seconds >= 0);
    CHECK(stats.races == 0); /* nobody looks for them */
    for (size_t i = 0; i < sizeof stats.reserved / sizeof *stats.reserved; i++)
        CHECK(stats.reserved[i] == 0);
    CHECK(dsm_finalize() == 0);
    return 0;
}
