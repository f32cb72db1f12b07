/* Values of all ranks become one, in order with barriers and locks; each type and reduction; a value of one
 * rank comes to all. */
#include "check.h"

static int rank, size;

static void whole_numbers(void)
{
    int64_t i[3] = {rank - 1, -rank, (int64_t)1 << (40 + rank)};
    uint64_t u[2] = {(uint64_t)-1 - rank, 1u << rank};
    CHECK(dsm_all_reduce_i64(i, 3, DSM_REDUCTION_SUM) == 0);
    CHECK(i[0] == size * (size - 1) / 2 - size && i[1] == -size * (size - 1) / 2);
    CHECK(i[2] == ((int64_t)1 << (40 + size)) - ((int64_t)1 << 40));
    i[0] = i[1] = i[2] = rank - 1;
    CHECK(dsm_all_reduce_i64(&i[0], 1, DSM_REDUCTION_MIN) == 0 && i[0] == -1);
    CHECK(dsm_all_reduce_i64(&i[1], 1, DSM_REDUCTION_MAX) == 0 && i[1] == size - 2);
    CHECK(dsm_all_reduce_i64(&i[2], 1, DSM_REDUCTION_AND) == 0 && i[2] == (size == 1 ? -1 : 0));
    CHECK(dsm_all_reduce_u64(u, 1, DSM_REDUCTION_MAX) == 0 && u[0] == (uint64_t)-1);
    CHECK(dsm_all_reduce_u64(u, 0, DSM_REDUCTION_MAX) == 0 && dsm_all_reduce_u64(NULL, 0, DSM_REDUCTION_SUM) == 0);
    CHECK(dsm_all_reduce_u64(u + 1, 1, DSM_REDUCTION_OR) == 0 && u[1] == (1u << size) - 1);
}

/* Bits of sums that depend on the order of additions are the same at all ranks, again and again. */
static void floating_point(void)
{
    double first = 0, sum, largest = rank == size - 1 ? 1e300 : -1.0 / (rank + 1);
    uint64_t bits[2];
    for (int turn = 0; turn < 20; turn++) {
        sum = rank % 2 ? 1e16 / (rank + 3) : 1.0 / (rank + 7);
        CHECK(dsm_all_reduce_f64(&sum, 1, DSM_REDUCTION_SUM) == 0);
        if (turn == 0)
            first = sum;
        CHECK(memcmp(&sum, &first, sizeof sum) == 0);
    }
    memcpy(&bits[0], &first, sizeof first);
    bits[1] = ~bits[0];
    CHECK(dsm_all_reduce_u64(bits, 2, DSM_REDUCTION_MAX) == 0 && bits[0] == ~bits[1]);
    CHECK(dsm_all_reduce_f64(&largest, 1, DSM_REDUCTION_MAX) == 0 && largest == 1e300);
}

static void values_of_one(void)
{
    for (int from = 0; from < size; from++) {
        char text[40] = "nothing";
        int32_t number = rank * 3;
        if (rank == from)
            sprintf(text, "the word of rank %d", rank);
        CHECK(dsm_broadcast_value(text, sizeof text, from) == 0);
        CHECK(dsm_broadcast_value(&number, sizeof number, from) == 0);
        CHECK(number == from * 3 && strstr(text, "the word of rank") == text && text[17] == '0' + from);
    }
}

/* Among accesses, locks and barriers; results are stored where the next reduction takes its values: in shared
 * memory. */
static void among_others(void)
{
    int64_t *mine;
    dsm_lock_t lock;
    long *count;
    CHECK((mine = dsm_alloc(size * sizeof *mine)) != NULL && (count = dsm_alloc(sizeof *count)) != NULL);
    CHECK(dsm_locks_create(1, &lock) == 0);
    for (int turn = 1; turn <= 20; turn++) {
        mine[rank] = turn + rank;
        CHECK(dsm_lock(lock) == 0);
        ++*count;
        CHECK(dsm_unlock(lock) == 0);
        CHECK(dsm_all_reduce_i64(&mine[rank], 1, DSM_REDUCTION_SUM) == 0);
        CHECK(mine[rank] == (int64_t)size * turn + size * (size - 1) / 2);
        if (turn % 3 == 0) {
            CHECK(dsm_barrier() == 0);
            for (int r = 0; r < size; r++)
                CHECK(mine[r] == mine[rank]);
            CHECK(*count == (long)turn * size);
            CHECK(dsm_barrier() == 0);
        }
    }
}

/* Who goes on knows that all have come, though nobody's memory has come with them. */
static void met(void)
{
    uint64_t *come, count;
    CHECK((come = dsm_alloc(sizeof *come)) != NULL);
    for (int turn = 1; turn <= 50; turn++) {
        CHECK(dsm_fetch_add_u64(come, 1, &count) == 0);
        CHECK(dsm_meet() == 0);
        CHECK(dsm_load_u64(come, &count) == 0 && count >= (uint64_t)turn * size);
        CHECK(count < (uint64_t)(turn + 1) * size || size == 1);
    }
}

static void wrong(void)
{
    static int64_t many[5000];
    double number = 1;
    FAILS(dsm_all_reduce_i64(many, 5000, DSM_REDUCTION_SUM), "at most 4096");
    FAILS(dsm_all_reduce_i64(many, 1, (dsm_reduction_t)9), "dsm_reduction_t");
    FAILS(dsm_all_reduce_u64(NULL, 1, DSM_REDUCTION_SUM), "NULL");
    FAILS(dsm_all_reduce_f64(&number, 1, DSM_REDUCTION_OR), "whole numbers");
    FAILS(dsm_broadcast_value(many, 1, size), "rank");
    FAILS(dsm_broadcast_value(many, 1, -1), "no rank -1");
    FAILS(dsm_broadcast_value(many, sizeof many, 0), "at most 32768");
    CHECK(dsm_all_reduce_i64(many, 4096, DSM_REDUCTION_SUM) == 0);
}

int main(void)
{
    int64_t number = 1;
    FAILS(dsm_all_reduce_i64(&number, 1, DSM_REDUCTION_SUM), "before dsm_init");
    FAILS(dsm_meet(), "before dsm_init");
    CHECK(dsm_init() == 0);
    rank = dsm_rank();
    size = dsm_size();
    whole_numbers();
    floating_point();
    values_of_one();
    among_others();
    met();
    wrong();
    CHECK(dsm_finalize() == 0);
    FAILS(dsm_all_reduce_i64(&number, 1, DSM_REDUCTION_SUM), "after dsm_finalize");
    return 0;
}
