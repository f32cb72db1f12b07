/* Each collective operation, as a call and begun, against what a program can compute by itself. */
#include "comm_check.h"

static int rank, size;

/* Plays a call, or what begins the same and is waited for; the expression names `request` in the second. */
#define BOTH(call, begins, check)                                                                     \
    do {                                                                                              \
        scomm_request_t request;                                                                      \
        OK(call);                                                                                     \
        check();                                                                                      \
        OK(begins);                                                                                   \
        OK(scomm_wait(&request, NULL));                                                               \
        CHECK(request == SCOMM_REQUEST_NULL);                                                         \
        check();                                                                                      \
    } while (0)

static unsigned char *mine, *theirs;
static size_t len;
static int root;

static void nothing(void)
{
}

/* What is in `theirs` is expected, and gone afterwards. */
static void is(int condition)
{
    CHECK(condition);
    memset(theirs, 0xee, (size_t)size * len + 1);
}

static void is_gathered(void)
{
    int from, good = 1;
    for (from = 0; from < size; from++)
        good &= is_filled(theirs + (size_t)from * len, from, len);
    is(good);
}

static void is_gathered_at_root(void)
{
    if (rank == root)
        is_gathered();
}

static void is_of_root(void)
{
    is(is_filled(theirs, root, len));
    if (rank == root)
        fill(theirs, root, len);
}

static void bytes_of(size_t length)
{
    len = length;
    mine = (unsigned char *)room((size_t)size * len);
    theirs = (unsigned char *)room((size_t)size * len);
    fill(mine, rank, len);
    BOTH(scomm_all_gather(mine, len, theirs), scomm_iall_gather(mine, len, theirs, &request), is_gathered);
    for (root = 0; root < size; root++) {
        void *all = rank == root ? theirs : NULL;
        BOTH(scomm_gather(root, mine, len, all), scomm_igather(root, mine, len, all, &request),
             is_gathered_at_root);
        if (rank == root)
            fill(theirs, root, len);
        BOTH(scomm_broadcast(root, theirs, len), scomm_ibroadcast(root, theirs, len, &request), is_of_root);
    }
    free(mine);
    free(theirs);
}

/* Rank r gives r + 1 bytes to all, and (r + to) % 3 + 1 bytes to rank `to`. */
static size_t *lens, *to, *from;

static void is_gathered_v(void)
{
    int r;
    unsigned char *at = theirs;
    for (r = 0; r < size; r++, at += r)
        CHECK(is_filled(at, r, (size_t)r + 1));
    is(1);
}

static void is_exchanged(void)
{
    int r;
    for (r = 0; r < size; r++)
        CHECK(is_filled(theirs + (size_t)r * len, 100 * r + rank, len));
    is(1);
}

static void is_exchanged_v(void)
{
    int r;
    unsigned char *at = theirs;
    for (r = 0; r < size; at += from[r], r++)
        CHECK(is_filled(at, 100 * r + rank, from[r]));
    is(1);
}

static void parts(void)
{
    int r;
    unsigned char *at;
    len = (size_t)size + 3;
    mine = (unsigned char *)room((size_t)size * len);
    theirs = (unsigned char *)room((size_t)size * len);
    lens = (size_t *)room((size_t)size * sizeof *lens);
    to = (size_t *)room((size_t)size * sizeof *to);
    from = (size_t *)room((size_t)size * sizeof *from);
    fill(mine, rank, len);
    for (r = 0; r < size; r++) {
        lens[r] = (size_t)r + 1;
        to[r] = (size_t)((rank + r) % 3) + 1;
        from[r] = (size_t)((r + rank) % 3) + 1;
    }
    BOTH(scomm_all_gather_v(mine, lens, theirs), scomm_iall_gather_v(mine, lens, theirs, &request),
         is_gathered_v);
    for (r = 0; r < size; r++)
        fill(mine + (size_t)r * len, 100 * rank + r, len);
    BOTH(scomm_all_to_all(mine, len, theirs), scomm_iall_to_all(mine, len, theirs, &request), is_exchanged);
    for (r = 0, at = mine; r < size; at += to[r], r++)
        fill(at, 100 * rank + r, to[r]);
    BOTH(scomm_all_to_all_v(mine, to, theirs, from), scomm_iall_to_all_v(mine, to, theirs, from, &request),
         is_exchanged_v);
    free(mine);
    free(theirs);
    free(lens);
    free(to);
    free(from);
}

/* Rank r has the numbers r + i + 1; sums of as many are exact. */
static double *numbers, *results;
static size_t count, first;

static void is_sum(void)
{
    size_t i;
    for (i = 0; i < count; i++) {
        double want = (double)size * (double)(first + i + 1) + (double)size * (size - 1) / 2;
        CHECK(results[i] == want);
        results[i] = -1;
    }
}

static void is_sum_at_root(void)
{
    if (rank == root)
        is_sum();
}

static void reductions_of(size_t elements)
{
    size_t i, *counts = (size_t *)room((size_t)size * sizeof *counts);
    int r;
    scomm_type_t f64 = SCOMM_TYPE_F64;
    scomm_op_t sum = SCOMM_OP_SUM;
    count = elements;
    first = 0;
    numbers = (double *)room(count * sizeof *numbers);
    results = (double *)room(count * sizeof *results);
    for (i = 0; i < count; i++)
        numbers[i] = (double)((size_t)rank + i + 1);
    BOTH(scomm_all_reduce(numbers, results, count, f64, sum),
         scomm_iall_reduce(numbers, results, count, f64, sum, &request), is_sum);
    for (root = 0; root < size; root++) {
        void *result = rank == root ? results : NULL;
        BOTH(scomm_reduce(root, numbers, result, count, f64, sum),
             scomm_ireduce(root, numbers, result, count, f64, sum, &request), is_sum_at_root);
    }
    /* Parts of different lengths; the last has what is left. */
    for (r = 0, i = 0; r < size; i += counts[r], r++) {
        counts[r] = r < size - 1 ? count / (size_t)(size + r) : count - i;
        if (r == rank)
            first = i;
    }
    count = counts[rank];
    BOTH(scomm_reduce_scatter(numbers, results, counts, f64, sum),
         scomm_ireduce_scatter(numbers, results, counts, f64, sum, &request), is_sum);
    free(numbers);
    free(results);
    free(counts);
}

/* Each operation, on one number of rank r: r + 2. */
static void operations(void)
{
    int32_t number = rank + 2, result, r, want[7] = {0, 1, 2, size + 1, ~0, 0, 0};
    int op;
    int8_t small = (int8_t)(rank + 2), least;
    float real = 0.5f * (float)rank, most;
    for (r = 0; r < size; r++) {
        want[SCOMM_OP_SUM] += r + 2;
        want[SCOMM_OP_PRODUCT] *= r + 2;
        want[SCOMM_OP_AND] &= r + 2;
        want[SCOMM_OP_OR] |= r + 2;
        want[SCOMM_OP_XOR] ^= r + 2;
    }
    for (op = SCOMM_OP_SUM; op <= SCOMM_OP_XOR; op++) {
        OK(scomm_all_reduce(&number, &result, 1, SCOMM_TYPE_I32, (scomm_op_t)op));
        CHECK(result == want[op]);
    }
    OK(scomm_all_reduce(&small, &least, 1, SCOMM_TYPE_I8, SCOMM_OP_MIN));
    CHECK(least == 2);
    OK(scomm_all_reduce(&real, &most, 1, SCOMM_TYPE_F32, SCOMM_OP_MAX));
    CHECK(most == 0.5f * (float)(size - 1));
}

/* Several are under way, and end in any order. */
static void at_once(void)
{
    enum { AT_ONCE = 6 };
    uint64_t given[AT_ONCE], sums[AT_ONCE];
    scomm_request_t requests[AT_ONCE + 1];
    int at, index;
    for (at = 0; at < AT_ONCE; at++) {
        given[at] = (uint64_t)(rank + at);
        OK(scomm_iall_reduce(&given[at], &sums[at], 1, SCOMM_TYPE_U64, SCOMM_OP_SUM, &requests[at]));
    }
    OK(scomm_ibarrier(&requests[AT_ONCE]));
    for (at = 0; at <= AT_ONCE; at++) {
        OK(scomm_wait_any(AT_ONCE + 1, requests, &index, NULL));
        CHECK(index >= 0);
    }
    for (at = 0; at < AT_ONCE; at++)
        CHECK(sums[at] == (uint64_t)(size * at + size * (size - 1) / 2));
}

int main(void)
{
    OK(scomm_init(NULL));
    rank = scomm_rank();
    size = scomm_size();
    BOTH(scomm_barrier(), scomm_ibarrier(&request), nothing);
    bytes_of(0);
    bytes_of(13);
    bytes_of(200000);
    parts();
    reductions_of(0);
    reductions_of(7);
    reductions_of(60000);
    operations();
    at_once();
    OK(scomm_finalize());
    return 0;
}
