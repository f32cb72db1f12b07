/* Messages in every way: round the ring, by wildcards, in order, of unknown length, probed for, taken
 * back. */
#include "comm_check.h"

static int rank, size;

static int next(void)
{
    return (rank + 1) % size;
}

static int previous(void)
{
    return (rank + size - 1) % size;
}

/* Messages that travel by each protocol go to the next rank, which may be this one. */
static void ring_of(void *mine, void *theirs, size_t len)
{
    scomm_request_t send, receive;
    scomm_status_t status;
    fill(mine, rank, len);
    OK(scomm_irecv(previous(), (int64_t)len, theirs, len, &receive));
    OK(scomm_isend(next(), (int64_t)len, mine, len, &send));
    OK(scomm_wait(&receive, &status));
    CHECK(receive == SCOMM_REQUEST_NULL && is_filled(theirs, previous(), len));
    CHECK(status.source == previous() && status.tag == (int64_t)len && status.len == len);
    CHECK(status.error == SCOMM_OK && status.bytes == NULL);
    OK(scomm_wait(&send, NULL));
    CHECK(send == SCOMM_REQUEST_NULL);
}

static void ring(void)
{
    static const size_t lens[] = {0, 1, 8, 4096, 4097, 100000, 300000, 2000000};
    size_t at;
    for (at = 0; at < sizeof lens / sizeof *lens; at++) {
        size_t len = lens[at];
        void *mine = room(len), *theirs = room(len);
        ring_of(mine, theirs, len);
        free(mine);
        free(theirs);
    }
}

static void registered_memory(void)
{
    size_t len = 1000000;
    char *mine = (char *)scomm_alloc(len), *theirs = (char *)scomm_alloc(len);
    CHECK(mine != NULL && theirs != NULL && mine != theirs);
    CHECK(mine[0] == 0 && mine[len - 1] == 0);
    ring_of(mine, theirs, len);
    OK(scomm_free(mine));
    OK(scomm_free(theirs));
    OK(scomm_free(NULL));
    INVALID(scomm_free(mine), "freed before");
}

/* Rank 0 hears of all from whoever comes first; of each rank, what it sent first comes first. */
static void wildcards_and_order(void)
{
    enum { EACH = 50 };
    int at, mine;
    if (rank == 0) {
        int *heard = (int *)calloc((size_t)size, sizeof *heard);
        CHECK(heard != NULL);
        for (at = 0; at < (size - 1) * EACH; at++) {
            scomm_status_t status;
            OK(scomm_recv(SCOMM_ANY_SOURCE, SCOMM_ANY_TAG, &mine, sizeof mine, &status));
            CHECK(status.source > 0 && status.source < size && status.len == sizeof mine);
            CHECK(mine == heard[status.source] && status.tag == 1000 + mine % 3);
            heard[status.source]++;
        }
        free(heard);
    } else {
        for (at = 0; at < EACH; at++)
            OK(scomm_send(0, 1000 + at % 3, &at, sizeof at));
    }
    OK(scomm_barrier());
}

static void unknown_lengths(void)
{
    static const size_t lens[] = {0, 5, 60000, 1500000};
    size_t at;
    for (at = 0; at < sizeof lens / sizeof *lens; at++) {
        size_t len = lens[at];
        void *mine = room(len);
        scomm_request_t send, receive;
        scomm_status_t one, other;
        fill(mine, rank, len);
        OK(scomm_irecv_alloc(previous(), 1, &receive));
        OK(scomm_isend(next(), 1, mine, len, &send));
        OK(scomm_wait(&receive, &one));
        OK(scomm_wait(&send, NULL));
        OK(scomm_isend(next(), 2, mine, len, &send));
        OK(scomm_recv_alloc(SCOMM_ANY_SOURCE, 2, &other));
        OK(scomm_wait(&send, NULL));
        CHECK(one.len == len && is_filled(one.bytes, previous(), len));
        CHECK(other.len == len && is_filled(other.bytes, previous(), len));
        CHECK((one.bytes == NULL) == (len == 0));
        OK(scomm_free(one.bytes));
        OK(scomm_free(other.bytes));
        /* Nobody wants to know what it was. */
        OK(scomm_irecv_alloc(previous(), 3, &receive));
        OK(scomm_isend(next(), 3, mine, len, &send));
        OK(scomm_wait(&receive, NULL));
        OK(scomm_wait(&send, NULL));
        free(mine);
    }
}

static void probes(void)
{
    scomm_status_t status;
    int found = -1, mine = rank, theirs;
    OK(scomm_iprobe(SCOMM_ANY_SOURCE, 40, &found, NULL));
    CHECK(found == 0);
    OK(scomm_barrier());
    OK(scomm_send(next(), 40, &mine, sizeof mine));
    OK(scomm_probe(previous(), SCOMM_ANY_TAG, &status));
    CHECK(status.source == previous() && status.tag == 40 && status.len == sizeof mine);
    OK(scomm_iprobe(SCOMM_ANY_SOURCE, 40, &found, &status));
    CHECK(found == 1 && status.source == previous());
    OK(scomm_recv(status.source, status.tag, &theirs, sizeof theirs, NULL));
    CHECK(theirs == previous());
    OK(scomm_iprobe(SCOMM_ANY_SOURCE, 40, &found, NULL));
    CHECK(found == 0);
}

static void taken_back(void)
{
    int never = 0, mine = 5, theirs = 0, cancelled = -1, over;
    scomm_status_t status;
    scomm_request_t receive, copy;
    OK(scomm_irecv(SCOMM_ANY_SOURCE, 50, &never, sizeof never, &receive));
    copy = receive;
    OK(scomm_cancel(&receive, &cancelled));
    CHECK(cancelled == 1 && receive == SCOMM_REQUEST_NULL);
    INVALID(scomm_cancel(&copy, &cancelled), "there is no such operation");
    OK(scomm_barrier());
    OK(scomm_send(next(), 50, &mine, sizeof mine));
    OK(scomm_irecv(previous(), 50, &theirs, sizeof theirs, &receive));
    do {
        OK(scomm_test(&receive, &over, &status));
        CHECK(over == (receive == SCOMM_REQUEST_NULL));
    } while (!over);
    CHECK(theirs == 5 && status.len == sizeof theirs && status.source == previous());
    OK(scomm_cancel(&receive, &cancelled));
    CHECK(cancelled == 0 && never == 0);
}

int main(void)
{
    OK(scomm_init(NULL));
    rank = scomm_rank();
    size = scomm_size();
    CHECK(strcmp(scomm_error(), "") == 0 && scomm_threads() == 1);
    ring();
    registered_memory();
    wildcards_and_order();
    unknown_lengths();
    probes();
    taken_back();
    OK(scomm_finalize());
    return 0;
}
