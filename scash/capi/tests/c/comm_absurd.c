/* Arguments that no program means: more than memory has, and addresses where no value begins. Each function
 * says so, and the job goes on. */
#include "comm_check.h"
#include <limits.h>

#define AT_ODDS(type) ((type *)((char *)odd + 1))

static unsigned long long odd[64];
static int rank, size;
static char bytes[64], other[64];

static void at_odds(void)
{
    const char *why = "is no multiple of";
    scomm_request_t request = SCOMM_REQUEST_NULL;
    scomm_window_t window;
    int number;
    size_t eager;
    INVALID(scomm_options(AT_ODDS(scomm_options_t)), why);
    INVALID(scomm_isend(rank, 0, bytes, 1, AT_ODDS(scomm_request_t)), why);
    INVALID(scomm_irecv(rank, 0, bytes, 1, AT_ODDS(scomm_request_t)), why);
    INVALID(scomm_irecv_alloc(rank, 0, AT_ODDS(scomm_request_t)), why);
    INVALID(scomm_recv(rank, 0, bytes, 1, AT_ODDS(scomm_status_t)), why);
    INVALID(scomm_recv_alloc(rank, 0, AT_ODDS(scomm_status_t)), why);
    INVALID(scomm_probe(rank, 0, AT_ODDS(scomm_status_t)), why);
    INVALID(scomm_iprobe(rank, 0, AT_ODDS(int), NULL), why);
    INVALID(scomm_iprobe(rank, 0, &number, AT_ODDS(scomm_status_t)), why);
    INVALID(scomm_wait(AT_ODDS(scomm_request_t), NULL), why);
    INVALID(scomm_wait(&request, AT_ODDS(scomm_status_t)), why);
    INVALID(scomm_test(&request, AT_ODDS(int), NULL), why);
    INVALID(scomm_test(&request, &number, AT_ODDS(scomm_status_t)), why);
    INVALID(scomm_wait_any(1, AT_ODDS(scomm_request_t), &number, NULL), why);
    INVALID(scomm_wait_any(1, &request, AT_ODDS(int), NULL), why);
    INVALID(scomm_test_any(1, &request, &number, &number, AT_ODDS(scomm_status_t)), why);
    INVALID(scomm_wait_some(1, &request, &number, AT_ODDS(int), NULL), why);
    INVALID(scomm_test_some(1, &request, &number, &number, AT_ODDS(scomm_status_t)), why);
    INVALID(scomm_wait_all(1, &request, AT_ODDS(scomm_status_t)), why);
    INVALID(scomm_test_all(1, &request, AT_ODDS(int), NULL), why);
    INVALID(scomm_cancel(&request, AT_ODDS(int)), why);
    INVALID(scomm_thresholds(rank, AT_ODDS(size_t), NULL), why);
    INVALID(scomm_thresholds(rank, &eager, AT_ODDS(size_t)), why);
    INVALID(scomm_window_open(64, AT_ODDS(scomm_window_t)), why);
    INVALID(scomm_all_gather_v(bytes, AT_ODDS(size_t), other), why);
    INVALID(scomm_ibarrier(AT_ODDS(scomm_request_t)), why);
    OK(scomm_window_open(64, &window));
    INVALID(scomm_load_u64(window, rank, 0, AT_ODDS(uint64_t)), why);
    INVALID(scomm_fetch_add_u32(window, rank, 0, 1, AT_ODDS(uint32_t)), why);
    INVALID(scomm_put_strided(window, rank, 0, bytes, AT_ODDS(scomm_strided_t)), why);
    INVALID(scomm_iget_strided(window, rank, 0, bytes, AT_ODDS(scomm_strided_t), &request), why);
    OK(scomm_window_close(window));
}

static void windows(void)
{
    const size_t far[] = {65, SIZE_MAX, SIZE_MAX - 7, (size_t)1 << 63, (size_t)1 << 40};
    scomm_request_t request;
    scomm_window_t window, none;
    uint64_t before;
    CHECK(scomm_window_open(SIZE_MAX, &none) < 0);
    CHECK(scomm_window_open((size_t)1 << 50, &none) < 0);
    OK(scomm_window_open(64, &window));
    for (size_t i = 0; i < sizeof far / sizeof *far; ++i) {
        const scomm_strided_t blocks[] = {{2, 1, far[i], 1}, {2, 1, 1, far[i]}, {far[i], 1, 1, 1}, {far[i], far[i], far[i], far[i]}, {2, 8, 8, 0}};
        CHECK(scomm_put(window, rank, far[i], bytes, 1) < 0);
        CHECK(scomm_put(window, rank, 0, bytes, far[i]) < 0);
        CHECK(scomm_iput(window, rank, far[i], bytes, far[i], &request) < 0);
        CHECK(scomm_put_and_forget(window, rank, far[i], bytes, 1) < 0);
        CHECK(scomm_get(window, rank, far[i], bytes, 1) < 0);
        CHECK(scomm_get(window, rank, 0, bytes, far[i]) < 0);
        CHECK(scomm_iget(window, rank, far[i], bytes, 1, &request) < 0);
        CHECK(scomm_fetch_add_u64(window, rank, far[i], 1, &before) < 0);
        CHECK(scomm_load_u64(window, rank, far[i], NULL) < 0);
        for (size_t b = 1; b < sizeof blocks / sizeof *blocks; ++b) {
            CHECK(scomm_put_strided(window, rank, 1, bytes, &blocks[b]) < 0);
            CHECK(scomm_get_strided(window, rank, 1, bytes, &blocks[b]) < 0);
        }
    }
    CHECK(scomm_put(window, INT_MAX, 0, bytes, 1) < 0);
    CHECK(scomm_put(window, INT_MIN, 0, bytes, 1) < 0);
    CHECK(scomm_put(window + 1, rank, 0, bytes, 1) < 0);
    CHECK(scomm_put((scomm_window_t)-1, rank, 0, bytes, 1) < 0);
    CHECK(scomm_window_bytes((scomm_window_t)-1) == NULL);
    CHECK(scomm_window_close((scomm_window_t)-1) < 0);
    CHECK(scomm_fence(INT_MIN) < 0);
    OK(scomm_barrier());
    OK(scomm_window_close(window));
}

static void collectives(void)
{
    const size_t far[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 2 + 1, SIZE_MAX / 8 + 1, (size_t)1 << 62};
    void *last = (void *)(size_t)-1;
    size_t *lens = (size_t *)calloc((size_t)size, sizeof *lens);
    CHECK(lens != NULL);
    for (size_t i = 0; i < sizeof far / sizeof *far; ++i) {
        for (int r = 0; r < size; ++r)
            lens[r] = far[i];
        CHECK(scomm_reduce(0, bytes, other, far[i], SCOMM_TYPE_F64, SCOMM_OP_SUM) < 0);
        CHECK(scomm_all_reduce(bytes, other, far[i], SCOMM_TYPE_I64, SCOMM_OP_SUM) < 0);
        CHECK(scomm_reduce_scatter(bytes, other, lens, SCOMM_TYPE_I64, SCOMM_OP_SUM) < 0);
        CHECK(scomm_all_reduce(last, last, far[i], SCOMM_TYPE_I8, SCOMM_OP_SUM) < 0);
    }
    for (int r = 0; r < size; ++r)
        lens[r] = SIZE_MAX;
    CHECK(scomm_broadcast(0, bytes, SIZE_MAX) < 0);
    CHECK(scomm_gather(0, bytes, SIZE_MAX, other) < 0);
    CHECK(scomm_all_gather(bytes, SIZE_MAX, other) < 0);
    CHECK(scomm_all_gather_v(bytes, lens, other) < 0);
    CHECK(scomm_all_to_all(bytes, SIZE_MAX, other) < 0);
    CHECK(scomm_all_to_all_v(bytes, lens, other, lens) < 0);
    CHECK(scomm_all_gather(last, 2, other) < 0);
    CHECK(scomm_broadcast(INT_MIN, bytes, 1) < 0);
    CHECK(scomm_all_reduce(bytes, other, 1, (scomm_type_t)-1, SCOMM_OP_SUM) < 0);
    CHECK(scomm_all_reduce(bytes, other, 1, SCOMM_TYPE_I8, (scomm_op_t)INT_MIN) < 0);
    free(lens);
    OK(scomm_barrier());
}

static void messages(void)
{
    scomm_request_t request = SCOMM_REQUEST_NULL;
    int number;
    void *last = (void *)(size_t)-1;
    CHECK(scomm_send(INT_MIN, 0, bytes, 1) < 0);
    CHECK(scomm_send(rank, INT64_MIN, bytes, 1) < 0);
    CHECK(scomm_send(rank, 0, bytes, SIZE_MAX) < 0);
    CHECK(scomm_send(rank, 0, last, 2) < 0);
    CHECK(scomm_recv(rank, 0, last, 2, NULL) < 0);
    CHECK(scomm_recv(rank, INT64_MIN, bytes, 1, NULL) < 0);
    CHECK(scomm_irecv(INT_MIN, 0, bytes, SIZE_MAX / 2 + 1, &request) < 0);
    CHECK(scomm_send_and_forget(rank, 0, bytes, SIZE_MAX / 2) < 0);
    CHECK(scomm_wait_all(INT_MIN, &request, NULL) < 0);
    CHECK(scomm_wait_any(-1, &request, &number, NULL) < 0);
    CHECK(scomm_register_handler(-1, NULL, NULL) < 0);
    CHECK(scomm_register_handler(65536, NULL, NULL) < 0);
    CHECK(scomm_call(rank, -1, bytes, 1) < 0);
    CHECK(scomm_call(rank, 65535, bytes, 1) < 0);
    CHECK(scomm_call(rank, INT_MAX, bytes, SIZE_MAX) < 0);
    CHECK(scomm_call(INT_MAX, 0, bytes, 1) < 0);
    CHECK(scomm_free(last) < 0);
    CHECK(scomm_alloc(SIZE_MAX) == NULL && scomm_alloc(SIZE_MAX - 4094) == NULL);
    CHECK(scomm_alloc((size_t)1 << 50) == NULL);
    CHECK(scomm_thresholds(INT_MIN, NULL, NULL) < 0);
    CHECK(scomm_thresholds(INT_MAX, NULL, NULL) < 0);
}

/* Limits that are no limits, or that there is no memory for: what the named member of the options is. */
static int unlimited(const char *member)
{
    scomm_options_t options;
    OK(scomm_options(&options));
    if (strcmp(member, "window") == 0)
        options.window = SIZE_MAX;
    else if (strcmp(member, "registered") == 0)
        options.registered = SIZE_MAX;
    else
        options.held = SIZE_MAX;
    if (scomm_init(&options) != 0) {
        fprintf(stderr, "refused: %s\n", scomm_error());
        return 3;
    }
    rank = scomm_rank();
    size = scomm_size();
    messages();
    OK(scomm_finalize());
    return 0;
}

int main(int argc, char **argv)
{
    scomm_options_t options;
    if (argc > 1)
        return unlimited(argv[1]);
    INVALID(scomm_init(AT_ODDS(scomm_options_t)), "is no multiple of");
    OK(scomm_options(&options));
    options.eager = SIZE_MAX;
    INVALID(scomm_init(&options), "is the most");
    OK(scomm_options(&options));
    options.push = SIZE_MAX;
    INVALID(scomm_init(&options), "twice as large");
    OK(scomm_init(NULL));
    rank = scomm_rank();
    size = scomm_size();
    at_odds();
    windows();
    collectives();
    messages();
    OK(scomm_finalize());
    return 0;
}
