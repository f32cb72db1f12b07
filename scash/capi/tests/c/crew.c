/* The memory barrier of all threads: in each round every thread sees what all threads of all ranks wrote in
 * the one before. */
#include "check.h"
#include <pthread.h>

enum { MOST = 64, ROUNDS = 200 };

static long *slots[2];
static int rank, size, threads;

static void *work(void *argument)
{
    int me = rank * threads + *(int *)argument;
    for (long round = 1; round <= ROUNDS; round++) {
        slots[round % 2][me] = round * (me + 1);
        CHECK(dsm_barrier_threads() == 0);
        for (int i = 0; i < size * threads; i++)
            CHECK(slots[round % 2][i] == round * (i + 1));
    }
    return NULL;
}

int main(void)
{
    pthread_t others[MOST];
    int number[MOST];

    CHECK(dsm_init() == 0);
    rank = dsm_rank();
    size = dsm_size();
    threads = dsm_threads();
    CHECK(threads <= MOST);
    for (int i = 0; i < 2; i++)
        CHECK((slots[i] = dsm_alloc((size_t)(size * threads) * sizeof(long))) != NULL);
    for (int t = 1; t < threads; t++) {
        number[t] = t;
        CHECK(pthread_create(&others[t], NULL, work, &number[t]) == 0);
    }
    number[0] = 0;
    work(&number[0]);
    for (int t = 1; t < threads; t++)
        CHECK(pthread_join(others[t], NULL) == 0);
    CHECK(dsm_finalize() == 0);
    return 0;
}
