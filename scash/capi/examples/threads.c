/*
 * threads: several threads in each rank share the work.
 *
 * `scash run --threads T` says how many; the program starts them. All threads of all ranks are workers alike:
 * they touch shared memory at any time, and meet in dsm_barrier_threads. Other calls of all ranks together,
 * such as dsm_alloc, are made by one thread while the others do not run.
 *
 * In Conway's game of life, a glider on a torus of 32 by 32 cells is back after 4 * 32 generations.
 */
#include <pthread.h>
#include <scash.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(ok) ((ok) ? (void)0 : (fprintf(stderr, "%s\n", dsm_error()), exit(1)))

enum { SIDE = 32, GENERATIONS = 4 * SIDE };

typedef unsigned char world_t[SIDE][SIDE];

static const unsigned char glider[3][3] = {{0, 1, 0}, {0, 0, 1}, {1, 1, 1}};
static world_t *worlds; /* two: the present one and the next one, in turns */

static unsigned char lives(world_t world, int row, int column)
{
    int count = 0;
    for (int r = SIDE - 1; r <= SIDE + 1; r++)
        for (int c = SIDE - 1; c <= SIDE + 1; c++)
            count += world[(row + r) % SIDE][(column + c) % SIDE];
    return count == 3 || (count == 4 && world[row][column]); /* the cell itself was counted, too */
}

static void *work(void *number)
{
    int me = dsm_rank() * dsm_threads() + *(int *)number, all = dsm_size() * dsm_threads();
    for (int generation = 0; generation < GENERATIONS; generation++) {
        for (int row = SIDE * me / all; row < SIDE * (me + 1) / all; row++)
            for (int column = 0; column < SIDE; column++)
                worlds[1 - generation % 2][row][column] = lives(worlds[generation % 2], row, column);
        CHECK(dsm_barrier_threads() == 0);
    }
    return NULL;
}

int main(void)
{
    CHECK(dsm_init() == 0);
    CHECK((worlds = dsm_alloc(2 * sizeof *worlds)) != NULL);
    for (int i = 0; i < 9 && dsm_rank() == 0; i++)
        worlds[0][i / 3][i % 3] = glider[i / 3][i % 3];
    CHECK(dsm_barrier() == 0);

    int threads = dsm_threads(), numbers[threads];
    pthread_t others[threads];
    for (int t = threads - 1; t >= 0; t--) {
        numbers[t] = t;
        if (t == 0)
            work(&numbers[t]);
        else if (pthread_create(&others[t], NULL, work, &numbers[t]) != 0)
            return fprintf(stderr, "the system starts no thread\n"), 1;
    }
    for (int t = 1; t < threads; t++)
        pthread_join(others[t], NULL);

    int alive = 0, back = 0;
    for (int i = 0; i < SIDE * SIDE; i++)
        alive += worlds[0][i / SIDE][i % SIDE];
    for (int i = 0; i < 9; i++)
        back += worlds[0][i / 3][i % 3] && glider[i / 3][i % 3];
    if (dsm_rank() == 0)
        printf("after %d generations %d cells live, %d of them where they began\n", GENERATIONS, alive, back);
    CHECK(dsm_finalize() == 0);
    return 0;
}
