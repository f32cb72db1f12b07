/* Data that move between memory barriers, on request: read_home, write_back, broadcast, touch. */
#include "check.h"
#include <time.h>
#include <unistd.h>

enum { PAGES = 3, BYTES = PAGES * DSM_PAGE_SIZE };

static int rank, size;

static void pause_a_little(void)
{
    struct timespec time = {0, 100000};
    nanosleep(&time, NULL);
}

/* Rank 0 is everybody's home. It writes a word, the others look until they see it, and answer. */
static void ask_and_answer(void)
{
    volatile int *board = dsm_alloc(BYTES);
    CHECK(board != NULL);
    if (rank == 0)
        board[0] = 1;
    CHECK(dsm_barrier() == 0);
    CHECK(board[0] == 1);
    CHECK(dsm_barrier() == 0);
    if (rank == 0) {
        board[0] = 2;
        for (int r = 1; r < size; r++)
            while (board[r] != 10 * r)
                pause_a_little();
    } else {
        while (board[0] != 2) {
            pause_a_little();
            CHECK(dsm_read_home((void *)board, sizeof *board) == 0);
        }
        board[rank] = 10 * rank;
        /* What was written here stays, whatever the home has. */
        CHECK(dsm_read_home((void *)board, BYTES) == 0);
        CHECK(board[rank] == 10 * rank);
        CHECK(dsm_write_back((const void *)board, BYTES) == 0);
    }
    CHECK(dsm_barrier() == 0);
    for (int r = 1; r < size; r++)
        CHECK(board[r] == 10 * r);
}

static void brought_to_all(void)
{
    unsigned char *data = dsm_alloc(BYTES);
    CHECK(data != NULL);
    for (int round = 1; round <= 3; round++) {
        if (rank == size - 1)
            memset(data, round, BYTES);
        CHECK(dsm_broadcast(data, BYTES) == 0);
        dsm_stats_t before, after;
        CHECK(dsm_stats(&before) == 0);
        for (int i = 0; i < BYTES; i++)
            CHECK(data[i] == round);
        CHECK(dsm_stats(&after) == 0);
        CHECK(after.faults == before.faults && after.fetched == before.fetched);
        CHECK(dsm_barrier() == 0);
    }
}

/* The system reads and writes shared memory through a pipe. */
static void handed_to_the_system(void)
{
    int ends[2];
    char text[BYTES];
    char *data = dsm_alloc((size_t)size * BYTES);
    CHECK(data != NULL && pipe(ends) == 0);
    memset(text, 'a' + rank, BYTES);
    CHECK(write(ends[1], text, BYTES) == BYTES);
    CHECK(dsm_touch(data + rank * BYTES, BYTES, 1) == 0);
    CHECK(read(ends[0], data + rank * BYTES, BYTES) == BYTES);
    CHECK(dsm_barrier() == 0);
    for (int r = 0; r < size; r++) {
        CHECK(dsm_touch(data + r * BYTES, BYTES, 0) == 0);
        CHECK(write(ends[1], data + r * BYTES, BYTES) == BYTES);
        CHECK(read(ends[0], text, BYTES) == BYTES);
        for (int i = 0; i < BYTES; i++)
            CHECK(text[i] == 'a' + r);
    }
}

int main(void)
{
    CHECK(dsm_init() == 0);
    rank = dsm_rank();
    size = dsm_size();
    ask_and_answer();
    brought_to_all();
    handed_to_the_system();
    CHECK(dsm_finalize() == 0);
    return 0;
}
