/* Waits and tests for any, some and all of several operations. */
#include "comm_check.h"

enum { MANY = 5 };

static int rank, size, theirs[MANY];
static scomm_request_t receives[MANY];

static int next(void)
{
    return (rank + 1) % size;
}

static int previous(void)
{
    return (rank + size - 1) % size;
}

/* Receives of tags 0 to 4; the third request names nothing. */
static void begin(void)
{
    int at;
    for (at = 0; at < MANY; at++) {
        theirs[at] = -1;
        receives[at] = SCOMM_REQUEST_NULL;
        if (at != 2)
            OK(scomm_irecv(previous(), at, &theirs[at], sizeof theirs[at], &receives[at]));
    }
}

static void send(int tag)
{
    int mine = 10 * rank + tag;
    OK(scomm_send(next(), tag, &mine, sizeof mine));
}

/* Messages of one pair keep their order, so what was sent before is here when this is over. */
static void meet(void)
{
    char nothing;
    OK(scomm_send(next(), 99, "", 0));
    OK(scomm_recv(previous(), 99, &nothing, 0, NULL));
}

static void came(const scomm_status_t *status, int tag)
{
    CHECK(status->error == SCOMM_OK && status->source == previous() && status->tag == tag);
    CHECK(theirs[tag] == 10 * previous() + tag && receives[tag] == SCOMM_REQUEST_NULL);
}

static void any(void)
{
    scomm_status_t status;
    int index = -7, over = -7;
    begin();
    OK(scomm_test_any(MANY, receives, &over, &index, &status));
    CHECK(over == 0 && index == SCOMM_NO_INDEX);
    OK(scomm_barrier());
    send(3);
    OK(scomm_wait_any(MANY, receives, &index, &status));
    CHECK(index == 3);
    came(&status, 3);
    OK(scomm_barrier());
    send(0);
    for (over = 0; !over;)
        OK(scomm_test_any(MANY, receives, &over, &index, &status));
    CHECK(index == 0);
    came(&status, 0);
    send(1);
    send(4);
    OK(scomm_wait_any(MANY, receives, &index, NULL));
    OK(scomm_wait_any(MANY, receives, &index, NULL));
    OK(scomm_wait_any(MANY, receives, &index, &status));
    CHECK(index == SCOMM_NO_INDEX && status.len == 0 && theirs[1] >= 0 && theirs[4] >= 0);
    OK(scomm_test_any(MANY, receives, &over, &index, NULL));
    CHECK(over == 1 && index == SCOMM_NO_INDEX);
    OK(scomm_wait_any(0, NULL, &index, NULL));
    CHECK(index == SCOMM_NO_INDEX);
}

static void some(void)
{
    scomm_status_t statuses[MANY];
    int indices[MANY], over = -7;
    begin();
    OK(scomm_test_some(MANY, receives, &over, indices, statuses));
    CHECK(over == 0);
    OK(scomm_barrier());
    send(4);
    send(1);
    meet();
    OK(scomm_wait_some(MANY, receives, &over, indices, statuses));
    CHECK(over == 2 && indices[0] == 1 && indices[1] == 4);
    came(&statuses[0], 1);
    came(&statuses[1], 4);
    OK(scomm_barrier());
    send(0);
    send(3);
    meet();
    OK(scomm_test_some(MANY, receives, &over, indices, NULL));
    CHECK(over == 2 && indices[0] == 0 && indices[1] == 3 && theirs[0] >= 0 && theirs[3] >= 0);
    OK(scomm_wait_some(MANY, receives, &over, indices, statuses));
    CHECK(over == 0);
    OK(scomm_wait_some(0, NULL, &over, NULL, NULL));
    CHECK(over == 0);
}

static void all(void)
{
    scomm_status_t statuses[MANY];
    int at, over = -7, round;
    for (round = 0; round < 2; round++) {
        begin();
        send(0);
        send(1);
        send(3);
        meet();
        OK(scomm_test_all(MANY, receives, &over, statuses));
        CHECK(over == 0 && receives[0] != SCOMM_REQUEST_NULL && receives[4] != SCOMM_REQUEST_NULL);
        OK(scomm_barrier());
        send(4);
        if (round == 0)
            OK(scomm_wait_all(MANY, receives, statuses));
        else
            for (over = 0; !over;)
                OK(scomm_test_all(MANY, receives, &over, statuses));
        for (at = 0; at < MANY; at++)
            if (at != 2)
                came(&statuses[at], at);
        CHECK(statuses[2].error == SCOMM_OK && statuses[2].len == 0 && theirs[2] == -1);
    }
    OK(scomm_wait_all(MANY, receives, NULL));
    OK(scomm_wait_all(0, NULL, NULL));
    OK(scomm_test_all(0, NULL, &over, NULL));
    CHECK(over == 1);
}

/* Sends count like any operation, also those that are over at once; a failure is told with its index. */
static void sends_and_failures(void)
{
    scomm_request_t both[2];
    scomm_status_t statuses[2];
    int index, small[2], mine[2] = {1, 2};
    OK(scomm_isend(next(), 5, mine, sizeof mine, &both[0]));
    CHECK(both[0] != SCOMM_REQUEST_NULL);
    OK(scomm_irecv(previous(), 5, small, sizeof *small, &both[1]));
    FAILS(scomm_wait_all(2, both, statuses), SCOMM_ERROR_TOO_LONG, "a message of 8 bytes");
    CHECK(statuses[0].error == SCOMM_OK && statuses[1].error == SCOMM_ERROR_TOO_LONG && statuses[1].len == 8);
    CHECK(both[0] == SCOMM_REQUEST_NULL && both[1] == SCOMM_REQUEST_NULL);
    OK(scomm_isend(next(), 6, mine, sizeof mine, &both[0]));
    OK(scomm_wait_any(1, both, &index, NULL));
    CHECK(index == 0 && both[0] == SCOMM_REQUEST_NULL);
    OK(scomm_recv(previous(), 6, small, sizeof small, NULL));
    OK(scomm_irecv(previous(), 7, small, sizeof *small, &both[1]));
    OK(scomm_send(next(), 7, mine, sizeof mine));
    FAILS(scomm_wait_any(2, both, &index, &statuses[0]), SCOMM_ERROR_TOO_LONG, "into memory of 4");
    CHECK(index == 1 && statuses[0].error == SCOMM_ERROR_TOO_LONG);
}

int main(void)
{
    OK(scomm_init(NULL));
    rank = scomm_rank();
    size = scomm_size();
    any();
    OK(scomm_barrier());
    some();
    OK(scomm_barrier());
    all();
    OK(scomm_barrier());
    sends_and_failures();
    OK(scomm_finalize());
    return 0;
}
