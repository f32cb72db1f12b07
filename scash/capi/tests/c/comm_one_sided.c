/* Put and get, also of blocks; what is sent and forgotten; active messages; fences. */
#include "comm_check.h"

enum { ROWS = 6, COLUMNS = 5, LEN = 200000 };

static int rank, size;
static scomm_window_t window;

static int next(void)
{
    return (rank + 1) % size;
}

static int previous(void)
{
    return (rank + size - 1) % size;
}

/* Each rank puts to the next one's part, at an offset, and finds there what the previous one has put to its
 * own. */
static void puts_and_gets(void)
{
    unsigned char *mine = (unsigned char *)room(LEN), *theirs = (unsigned char *)room(LEN);
    unsigned char *part = (unsigned char *)scomm_window_bytes(window);
    scomm_request_t request;
    int way;
    CHECK(part != NULL);
    for (way = 0; way < 3; way++) {
        int seed = 10 * way;
        fill(mine, seed + rank, LEN);
        if (way == 0) {
            OK(scomm_put(window, next(), 64, mine, LEN));
        } else if (way == 1) {
            OK(scomm_iput(window, next(), 64, mine, LEN, &request));
            memset(mine, 0, LEN);
            OK(scomm_wait(&request, NULL));
        } else {
            OK(scomm_put_and_forget(window, next(), 64, mine, LEN));
            memset(mine, 0, LEN);
            OK(scomm_fence(next()));
        }
        OK(scomm_barrier());
        CHECK(is_filled(part + 64, seed + previous(), LEN));
        memset(theirs, 0, LEN);
        OK(scomm_get(window, next(), 64, theirs, LEN));
        CHECK(is_filled(theirs, seed + rank, LEN));
        memset(theirs, 0, LEN);
        OK(scomm_iget(window, next(), 64, theirs, LEN, &request));
        OK(scomm_wait(&request, NULL));
        CHECK(is_filled(theirs, seed + rank, LEN));
        OK(scomm_barrier());
    }
    free(mine);
    free(theirs);
}

static void fill_table(int32_t table[ROWS][COLUMNS], int seed)
{
    int row, column;
    for (row = 0; row < ROWS; row++)
        for (column = 0; column < COLUMNS; column++)
            table[row][column] = 1000 * seed + 10 * row + column;
}

/* A column of a table goes to another column of the next rank's, and comes back. */
static void blocks(void)
{
    int32_t table[ROWS][COLUMNS], column[ROWS], (*part)[COLUMNS], row, way;
    scomm_strided_t to_column = {ROWS, sizeof(int32_t), sizeof table[0], sizeof table[0]};
    scomm_strided_t packed = {ROWS, sizeof(int32_t), sizeof(int32_t), sizeof table[0]};
    scomm_request_t request;
    part = (int32_t(*)[COLUMNS])scomm_window_bytes(window);
    for (way = 0; way < 3; way++) {
        memset(part, 0, sizeof table);
        fill_table(table, rank + 1);
        OK(scomm_barrier());
        if (way == 0) {
            OK(scomm_put_strided(window, next(), 3 * sizeof(int32_t), &table[0][1], &to_column));
        } else if (way == 1) {
            OK(scomm_iput_strided(window, next(), 3 * sizeof(int32_t), &table[0][1], &to_column, &request));
            OK(scomm_wait(&request, NULL));
        } else {
            OK(scomm_put_strided_and_forget(window, next(), 3 * sizeof(int32_t), &table[0][1], &to_column));
            OK(scomm_fence(SCOMM_ALL_RANKS));
        }
        OK(scomm_barrier());
        for (row = 0; row < ROWS; row++)
            CHECK(part[row][3] == 1000 * (previous() + 1) + 10 * row + 1 && part[row][2] == 0);
        if (way == 0) {
            OK(scomm_get_strided(window, next(), 3 * sizeof(int32_t), column, &packed));
        } else {
            OK(scomm_iget_strided(window, next(), 3 * sizeof(int32_t), column, &packed, &request));
            OK(scomm_wait(&request, NULL));
        }
        for (row = 0; row < ROWS; row++)
            CHECK(column[row] == table[row][1]);
        OK(scomm_barrier());
    }
}

static void forgotten(void)
{
    int at, theirs, mine;
    for (at = 0; at < 100; at++) {
        mine = 100 * rank + at;
        OK(scomm_send_and_forget(next(), 5, &mine, sizeof mine));
        mine = -1;
    }
    OK(scomm_fence(next()));
    for (at = 0; at < 100; at++) {
        OK(scomm_recv(previous(), 5, &theirs, sizeof theirs, NULL));
        CHECK(theirs == 100 * previous() + at);
    }
}

/* Handlers run one at a time at a rank, so they need no lock among each other. The program looks when a fence
 * has passed. */
static int asked, answered;

static void ask(int from, const void *bytes, size_t len, void *context)
{
    int number;
    (void)from;
    CHECK(len == sizeof number && context == &asked);
    memcpy(&number, bytes, sizeof number);
    asked += number;
    number *= 2;
    OK(scomm_call(from, 2, &number, sizeof number));
}

static void answer(int from, const void *bytes, size_t len, void *context)
{
    int number;
    CHECK(from == next() && len == sizeof number && context == NULL);
    memcpy(&number, bytes, sizeof number);
    answered += number;
}

static void active_messages(void)
{
    int number;
    OK(scomm_register_handler(1, ask, &asked));
    OK(scomm_register_handler(2, answer, NULL));
    for (number = 1; number <= 100; number++)
        OK(scomm_call(next(), 1, &number, sizeof number));
    OK(scomm_fence(next())); /* mine were handled, */
    OK(scomm_barrier());     /* all ranks' were, so I have answered all that I was asked, */
    OK(scomm_fence(previous())); /* and the answers were handled. */
    OK(scomm_barrier());
    CHECK(asked == 5050 && answered == 2 * 5050);
}

static void wrong(void)
{
    char bytes[16] = {0};
    scomm_request_t request;
    scomm_strided_t overlapping = {2, 8, 4, 8}, huge = {(size_t)-1, 8, 8, 8};
    INVALID(scomm_window_open(8, NULL), "NULL where");
    INVALID(scomm_put(window + 7, rank, 0, bytes, 8), "there is no window");
    INVALID(scomm_put(window, size, 0, bytes, 8), "rank");
    INVALID(scomm_put(window, -1, 0, bytes, 8), "there is no rank -1");
    INVALID(scomm_put(window, rank, (size_t)-4, bytes, 8), "window");
    INVALID(scomm_get(window, rank, 2 * LEN, bytes, 8), "window");
    INVALID(scomm_get(window, rank, 0, NULL, 8), "NULL for memory of 8 bytes");
    INVALID(scomm_iget(window, rank, 0, bytes, 8, NULL), "NULL where");
    INVALID(scomm_iput_strided(window, rank, 0, bytes, NULL, &request), "NULL for a scomm_strided_t");
    INVALID(scomm_put_strided(window, rank, 0, bytes, &overlapping), "must not overlap");
    INVALID(scomm_put_strided(window, rank, 0, bytes, &huge), "more than any memory has");
    INVALID(scomm_fence(size), "counted from 0");
    INVALID(scomm_fence(-2), "there is no rank -2");
    INVALID(scomm_register_handler(7, NULL, NULL), "give it a function");
    INVALID(scomm_register_handler(-1, ask, NULL), "there is no handler -1");
    INVALID(scomm_call(next(), 65536, bytes, 1), "there is no handler 65536");
    INVALID(scomm_call(next(), 9, bytes, 1), "handler");
    INVALID(scomm_call(next(), 1, NULL, 1), "NULL for memory of 1 bytes");
    INVALID(scomm_send_and_forget(size, 0, bytes, 1), "counted from 0");
    CHECK(scomm_window_bytes(window + 7) == NULL && strstr(scomm_error(), "there is no window") != NULL);
}

int main(void)
{
    scomm_window_t closed;
    OK(scomm_init(NULL));
    rank = scomm_rank();
    size = scomm_size();
    OK(scomm_window_open(LEN + 100, &window));
    puts_and_gets();
    blocks();
    forgotten();
    active_messages();
    wrong();
    closed = window;
    OK(scomm_window_close(window));
    INVALID(scomm_window_close(closed), "there is no window");
    OK(scomm_finalize());
    return 0;
}
