/* What makes no sense: each call says so and does nothing, and the job goes on. */
#include "comm_check.h"
#include <pthread.h>
#include <time.h>

static int rank, size;
static char bytes[64], other[64];

static void ranks_and_tags(void)
{
    scomm_request_t request = 7;
    int found;
    INVALID(scomm_send(size, 0, bytes, 1), "counted from 0");
    INVALID(scomm_send(-1, 0, bytes, 1), "there is no rank -1");
    INVALID(scomm_send(rank, -1, bytes, 1), "tags count from 0");
    INVALID(scomm_isend(size, 0, bytes, 1, &request), "counted from 0");
    CHECK(request == 7);
    INVALID(scomm_recv(-2, 0, bytes, 1, NULL), "there is no rank -2");
    INVALID(scomm_recv(size, 0, bytes, 1, NULL), "counted from 0");
    INVALID(scomm_irecv(rank, -2, bytes, 1, &request), "tags count from 0");
    INVALID(scomm_irecv_alloc(size, 0, &request), "counted from 0");
    INVALID(scomm_probe(size, 0, NULL), "counted from 0");
    INVALID(scomm_iprobe(0, -5, &found, NULL), "tags count from 0");
    INVALID(scomm_broadcast(size, bytes, 1), "counted from 0");
    INVALID(scomm_gather(-1, bytes, 1, other), "there is no rank -1");
    INVALID(scomm_reduce(size, bytes, other, 1, SCOMM_TYPE_I8, SCOMM_OP_SUM), "counted from 0");
}

static void pointers(void)
{
    scomm_request_t request;
    int number;
    INVALID(scomm_send(rank, 0, NULL, 1), "NULL for memory of 1 bytes");
    INVALID(scomm_recv(rank, 0, NULL, 1, NULL), "NULL for memory of 1 bytes");
    INVALID(scomm_send(rank, 0, bytes, (size_t)-1), "more than any memory has");
    INVALID(scomm_isend(rank, 0, bytes, 1, NULL), "NULL where");
    INVALID(scomm_irecv(rank, 0, bytes, 1, NULL), "NULL where");
    INVALID(scomm_recv_alloc(rank, 0, NULL), "NULL where");
    INVALID(scomm_iprobe(rank, 0, NULL, NULL), "NULL where");
    INVALID(scomm_wait(NULL, NULL), "scomm_wait: NULL");
    INVALID(scomm_test(NULL, &number, NULL), "scomm_test: NULL");
    INVALID(scomm_wait_all(2, NULL, NULL), "scomm_wait_all: NULL");
    INVALID(scomm_wait_all(-2, &request, NULL), "-2 requests");
    INVALID(scomm_ibarrier(NULL), "NULL where");
    INVALID(scomm_broadcast(0, NULL, 1), "scomm_broadcast: NULL for memory of 1 bytes");
    INVALID(scomm_all_gather(NULL, 2, other), "NULL for memory of 2 bytes");
    INVALID(scomm_all_gather_v(bytes, NULL, other), "NULL for numbers");
    INVALID(scomm_all_to_all_v(bytes, NULL, other, NULL), "NULL for numbers");
    INVALID(scomm_all_gather(bytes, (size_t)-1, other), "more than any memory has");
    INVALID(scomm_all_reduce(bytes, bytes, 8, SCOMM_TYPE_I8, SCOMM_OP_SUM), "overlap");
    INVALID(scomm_all_reduce(bytes + 7, bytes, 8, SCOMM_TYPE_I8, SCOMM_OP_SUM), "overlap");
    INVALID(scomm_options(NULL), "scomm_options(NULL)");
    INVALID(scomm_free(bytes), "neither memory of scomm_alloc");
    CHECK(scomm_alloc(0) == NULL && strstr(scomm_error(), "0 bytes") != NULL);
    CHECK(scomm_alloc((size_t)-1) == NULL && strstr(scomm_error(), "registered memory") != NULL);
    OK(scomm_all_gather(NULL, 0, NULL));
}

static void enums(void)
{
    INVALID(scomm_all_reduce(bytes, other, 1, (scomm_type_t)10, SCOMM_OP_SUM), "10 is no scomm_type_t");
    INVALID(scomm_all_reduce(bytes, other, 1, SCOMM_TYPE_I8, (scomm_op_t)7), "7 is no scomm_op_t");
    INVALID(scomm_all_reduce(bytes, other, 1, SCOMM_TYPE_F64, SCOMM_OP_XOR), "no bits to be combined");
}

/* Each function that takes a request refuses one that names nothing. */
static void names_nothing(scomm_request_t wrong)
{
    scomm_request_t request = wrong;
    scomm_status_t status;
    int number, index;
    const char *why = "there is no such operation";
    INVALID(scomm_wait(&request, &status), why);
    CHECK(request == SCOMM_REQUEST_NULL && status.error == SCOMM_ERROR_INVALID);
    request = wrong;
    INVALID(scomm_test(&request, &number, NULL), why);
    request = wrong;
    INVALID(scomm_cancel(&request, &number), why);
    INVALID(scomm_wait_any(1, &request, &index, NULL), why);
    CHECK(index == 0);
    request = wrong;
    INVALID(scomm_test_any(1, &request, &number, &index, NULL), why);
    request = wrong;
    INVALID(scomm_wait_some(1, &request, &number, &index, &status), why);
    CHECK(number == 1 && index == 0 && status.error == SCOMM_ERROR_INVALID);
    request = wrong;
    INVALID(scomm_test_some(1, &request, &number, &index, NULL), why);
    request = wrong;
    INVALID(scomm_wait_all(1, &request, NULL), why);
    request = wrong;
    INVALID(scomm_test_all(1, &request, &number, NULL), why);
}

static void requests(void)
{
    scomm_request_t request, copy;
    OK(scomm_irecv(rank, 1, bytes, sizeof bytes, &request));
    copy = request;
    names_nothing(request ^ (scomm_request_t)1 << 40);
    OK(scomm_send(rank, 1, "one", 4));
    OK(scomm_wait(&request, NULL));
    CHECK(strcmp(bytes, "one") == 0);
    names_nothing(copy);
    names_nothing(12345);
    names_nothing((scomm_request_t)-1);
    OK(scomm_wait(&request, NULL)); /* null: nothing to wait for */
}

static void lengths(void)
{
    scomm_status_t status;
    OK(scomm_send(rank, 2, "longer", 7));
    FAILS(scomm_recv(rank, 2, bytes, 3, &status), SCOMM_ERROR_TOO_LONG, "a message of 7 bytes");
    CHECK(status.error == SCOMM_ERROR_TOO_LONG && status.len == 7);
}

/* Lengths that memory can be asked for, and is not there: none of these addresses is read or written. */
static void memory(void)
{
    const size_t len = (size_t)1 << 60;
    void *high = (void *)(2 * len);
    FAILS(scomm_send_and_forget(rank, 3, bytes, len), SCOMM_ERROR_SYSTEM, "copying");
    if (size > 1)
        FAILS(scomm_all_reduce(bytes, high, len / 8, SCOMM_TYPE_I64, SCOMM_OP_SUM), SCOMM_ERROR_SYSTEM,
              "for a collective operation");
    OK(scomm_barrier());
}

/* However many blocks of nothing there are, they are moved at once. */
static void nothing(void)
{
    const scomm_strided_t blocks = {(size_t)1 << 60, 0, 0, 8};
    scomm_window_t window;
    OK(scomm_window_open(64, &window));
    OK(scomm_put_strided(window, size - 1, 0, bytes, &blocks));
    OK(scomm_get_strided(window, size - 1, 0, bytes, &blocks));
    OK(scomm_window_close(window));
}

/* Waits for what this rank sends later. */
static void *waits(void *nothing)
{
    char got = 0;
    OK(scomm_recv(rank, 77, &got, 1, NULL));
    CHECK(got == 'x');
    return nothing;
}

/* Another thread is in a call, and nobody waits for it. */
static void joins_again(void)
{
    struct timespec pause = {0, 1000000};
    pthread_t thread;
    int turn;
    CHECK(pthread_create(&thread, NULL, waits, NULL) == 0);
    for (turn = 0; turn < 20; turn++) {
        INVALID(scomm_init(NULL), "called before");
        nanosleep(&pause, NULL);
    }
    OK(scomm_send(rank, 77, "x", 1));
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(void)
{
    scomm_options_t options;
    memset(&options, 0xff, sizeof options);
    INVALID(scomm_init(&options), "reserved words");
    OK(scomm_options(&options));
    options.large = (scomm_large_t)4;
    INVALID(scomm_init(&options), "4 is no scomm_large_t");
    OK(scomm_options(&options));
    CHECK(options.eager > 0 && options.reserved[0] == 0);
    options.eager = 100;
    options.large = SCOMM_LARGE_RENDEZVOUS;
    OK(scomm_init(&options));
    INVALID(scomm_init(NULL), "called before");
    rank = scomm_rank();
    size = scomm_size();
    ranks_and_tags();
    pointers();
    enums();
    requests();
    lengths();
    memory();
    nothing();
    joins_again();
    OK(scomm_barrier());
    OK(scomm_finalize());
    INVALID(scomm_finalize(), "after scomm_finalize");
    INVALID(scomm_barrier(), "scomm_barrier was called after scomm_finalize");
    INVALID(scomm_rank(), "after scomm_finalize");
    INVALID(scomm_send(0, 0, bytes, 1), "after scomm_finalize");
    CHECK(scomm_alloc(1) == NULL && strstr(scomm_error(), "after scomm_finalize") != NULL);
    INVALID(scomm_init(NULL), "after scomm_finalize");
    return 0;
}
