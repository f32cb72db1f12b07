/* Arguments that no program means: NULL, numbers below 0, more than memory has, addresses where no value
 * begins. Each function says so, and the job goes on: none ends the rank. */
#include "check.h"
#include <limits.h>

/* An address where nothing but a char begins. */
#define AT_ODDS(type) ((type *)((char *)room + 1))
#define HUGE_SIZE ((size_t)1 << 40)

static unsigned long long room[64];
static char *a;

static void reductions(void)
{
    const size_t counts[] = {(size_t)-1, 100000000, HUGE_SIZE, 4097, SIZE_MAX / 8, SIZE_MAX / 8 + 2};
    double *values = (double *)room;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
        FAILS(dsm_all_reduce_f64(values, counts[i], DSM_REDUCTION_SUM), "at most 4096 go at once");
        FAILS(dsm_all_reduce_i64((void *)values, counts[i], DSM_REDUCTION_MAX), "at most 4096");
        FAILS(dsm_all_reduce_u64(NULL, counts[i], DSM_REDUCTION_OR), "at most 4096");
        FAILS(dsm_broadcast_value(values, counts[i] < 32769 ? 32769 : counts[i], 0), "at most 32768 go at once");
    }
    FAILS(dsm_all_reduce_f64(NULL, 1, DSM_REDUCTION_SUM), "NULL");
    FAILS(dsm_all_reduce_f64(values, 1, DSM_REDUCTION_AND), "whole numbers");
    FAILS(dsm_all_reduce_f64(values, 1, (dsm_reduction_t)-1), "dsm_reduction_t");
    FAILS(dsm_all_reduce_i64((void *)values, 1, (dsm_reduction_t)5), "dsm_reduction_t");
    FAILS(dsm_all_reduce_f64(AT_ODDS(double), 1, DSM_REDUCTION_SUM), "multiple of 8");
    FAILS(dsm_all_reduce_u64((void *)AT_ODDS(char), 1, DSM_REDUCTION_SUM), "multiple of 8");
    FAILS(dsm_broadcast_value(values, (size_t)-1, 0), "at most 32768");
    FAILS(dsm_broadcast_value(values, 1, -1), "no rank -1");
    FAILS(dsm_broadcast_value(values, 1, dsm_size()), "there are ranks 0 to");
    FAILS(dsm_broadcast_value(values, 1, INT_MIN), "no rank -2147483648");
    FAILS(dsm_broadcast_value(NULL, 1, 0), "NULL");
    FAILS(dsm_broadcast_value((void *)room, 1, INT_MAX), "there are ranks 0 to");
    /* Nothing at all is no mistake. */
    CHECK(dsm_all_reduce_f64(NULL, 0, DSM_REDUCTION_SUM) == 0);
    CHECK(dsm_broadcast_value(NULL, 0, 0) == 0);
}

/* The same with each function that takes an address and a number of bytes. */
static void ranges(char *p, size_t bytes, const char *words)
{
    FAILS(dsm_set_home(p, bytes, 0), words);
    FAILS(dsm_write_back(p, bytes), words);
    FAILS(dsm_read_home(p, bytes), words);
    FAILS(dsm_broadcast(p, bytes), words);
    FAILS(dsm_touch(p, bytes, 0), words);
    FAILS(dsm_touch(p, bytes, INT_MIN), words);
}

static void memory(void)
{
    const char *outside = "not within one allocation";
    dsm_alloc_options_t options = {0};
    char *wild[] = {NULL, (char *)room, (char *)(size_t)-1, (char *)(size_t)1, a - 1, a + 3 * DSM_PAGE_SIZE, a + HUGE_SIZE};
    for (size_t i = 0; i < sizeof wild / sizeof *wild; ++i) {
        ranges(wild[i], 1, outside);
        ranges(wild[i], 0, outside);
        ranges(wild[i], (size_t)-1, outside);
        FAILS(dsm_home(wild[i]), outside);
        FAILS(dsm_name(wild[i], "name"), outside);
        FAILS(dsm_set_protocol(wild[i], DSM_PROTOCOL_UPDATE), outside);
        CHECK(dsm_free(wild[i]) == (wild[i] == NULL ? 0 : -1));
    }
    ranges(a, (size_t)-1, outside);
    ranges(a, HUGE_SIZE, outside);
    ranges(a + 1, 2 * DSM_PAGE_SIZE, outside);
    FAILS(dsm_name(a, NULL), "NULL");
    FAILS(dsm_set_protocol(a, (dsm_protocol_t)INT_MIN), "dsm_protocol_t");
    FAILS(dsm_set_home(a, 1, INT_MAX), "rank");
    FAILS(dsm_set_home(a, 1, INT_MIN), "rank");
    FAILS(dsm_free(a + 1), "inside an allocation");
    FAILS(dsm_stats(NULL), "NULL");
    FAILS(dsm_stats(AT_ODDS(dsm_stats_t)), "multiple of 8");
    IS_NULL(dsm_alloc_with(1, AT_ODDS(dsm_alloc_options_t)), "multiple of 8");
    IS_NULL(dsm_alloc_with(0, &options), "0 bytes");
    const dsm_block_t blocks[] = {{SIZE_MAX - 7, 0}, {SIZE_MAX - 7, 0}};
    IS_NULL(dsm_alloc_blocks(blocks, 2, NULL), "SCASH_REGION");
    IS_NULL(dsm_alloc_blocks(blocks, SIZE_MAX, NULL), "no array is so long");
    IS_NULL(dsm_alloc_blocks(AT_ODDS(dsm_block_t), 1, NULL), "multiple of 8");
    IS_NULL(dsm_alloc_blocks(NULL, 1, NULL), "at least one");
    IS_NULL(dsm_alloc_with(SIZE_MAX - 4094, &options), "SCASH_REGION");
    options.placement = DSM_PLACEMENT_CYCLIC;
    options.cyclic_bytes = SIZE_MAX;
    IS_NULL(dsm_alloc_with(1, &options), "cyclic_bytes");
    options.placement = DSM_PLACEMENT_RANK;
    options.rank = INT_MIN;
    IS_NULL(dsm_alloc_with(1, &options), "rank");
    options.placement = (dsm_placement_t)INT_MIN;
    IS_NULL(dsm_alloc_with(1, &options), "dsm_placement_t");
}

/* Each function that makes or destroys objects. */
static void making(void)
{
    const int counts[] = {0, -1, INT_MIN};
    dsm_lock_t first = 77;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
        FAILS(dsm_locks_create(counts[i], &first), "at least one");
        FAILS(dsm_rwlocks_create(counts[i], &first), "at least one");
        FAILS(dsm_semaphores_create(counts[i], UINT_MAX, &first), "at least one");
        FAILS(dsm_conditions_create(counts[i], &first), "at least one");
        FAILS(dsm_flags_create(counts[i], &first), "at least one");
        FAILS(dsm_locks_destroy(0, counts[i]), "at least one");
        FAILS(dsm_rwlocks_destroy(0, counts[i]), "at least one");
        FAILS(dsm_semaphores_destroy(0, counts[i]), "at least one");
        FAILS(dsm_conditions_destroy(0, counts[i]), "at least one");
        FAILS(dsm_flags_destroy(0, counts[i]), "at least one");
    }
    CHECK(first == 77);
    FAILS(dsm_locks_create(1, NULL), "NULL");
    FAILS(dsm_rwlocks_create(1, NULL), "NULL");
    FAILS(dsm_semaphores_create(1, 1, NULL), "NULL");
    FAILS(dsm_conditions_create(1, NULL), "NULL");
    FAILS(dsm_flags_create(1, NULL), "NULL");
    FAILS(dsm_locks_create(1, AT_ODDS(dsm_lock_t)), "multiple of 4");
    FAILS(dsm_flags_create(1, AT_ODDS(dsm_flag_t)), "multiple of 4");
    FAILS(dsm_locks_destroy(UINT_MAX, INT_MAX), "no lock");
    FAILS(dsm_flags_destroy(UINT_MAX, 1), "no flag");
}

/* Uses of objects that are not there. */
static void objects(void)
{
    const unsigned numbers[] = {0, 12345, INT_MAX, UINT_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i) {
        FAILS(dsm_lock(numbers[i]), "no lock");
        CHECK(dsm_try_lock(numbers[i]) == -1);
        FAILS(dsm_unlock(numbers[i]), "no lock");
        FAILS(dsm_read_lock(numbers[i]), "no reader-writer lock");
        FAILS(dsm_write_lock(numbers[i]), "no reader-writer lock");
        FAILS(dsm_rw_unlock(numbers[i]), "no reader-writer lock");
        FAILS(dsm_semaphore_wait(numbers[i]), "no semaphore");
        FAILS(dsm_semaphore_post(numbers[i], UINT_MAX), "no semaphore");
        CHECK(dsm_condition_wait(numbers[i], numbers[i]) == -1);
        FAILS(dsm_condition_signal(numbers[i]), "no condition");
        FAILS(dsm_condition_broadcast(numbers[i]), "no condition");
        FAILS(dsm_flag_wait(numbers[i], (uint64_t)-1), "no flag");
        FAILS(dsm_flag_raise(numbers[i], (uint64_t)-1), "no flag");
    }
}

/* Counts at their limits. */
static void limits(void)
{
    dsm_semaphore_t semaphore;
    dsm_flag_t flag;
    CHECK(dsm_semaphores_create(1, UINT_MAX, &semaphore) == 0);
    CHECK(dsm_flags_create(1, &flag) == 0);
    if (dsm_rank() == 0) {
        FAILS(dsm_semaphore_post(semaphore, 0), "0");
        for (int i = 0; i < 3; ++i)
            CHECK(dsm_semaphore_post(semaphore, UINT_MAX) == 0);
        CHECK(dsm_flag_raise(flag, (uint64_t)-1) == 0);
    }
    CHECK(dsm_barrier() == 0);
    CHECK(dsm_semaphore_wait(semaphore) == 0);
    CHECK(dsm_flag_wait(flag, (uint64_t)-1) == 0);
    CHECK(dsm_barrier() == 0);
}

static void words(void)
{
    uint64_t before;
    uint64_t *word = (uint64_t *)(void *)a;
    uint32_t *small = (uint32_t *)(void *)a, before32;
    FAILS(dsm_fetch_add_u64(word, 1, AT_ODDS(uint64_t)), "multiple of 8");
    FAILS(dsm_compare_swap_u64(word, 0, 1, AT_ODDS(uint64_t)), "multiple of 8");
    FAILS(dsm_load_u32(small, AT_ODDS(uint32_t)), "multiple of 4");
    FAILS(dsm_fetch_or_u64(NULL, 1, &before), "not within one allocation");
    FAILS(dsm_store_u64((uint64_t *)(size_t)-8, 1), "not within one allocation");
    FAILS(dsm_swap_u64((uint64_t *)(void *)(a + 4), 1, &before), "multiple of 8");
    FAILS(dsm_fetch_xor_u32((uint32_t *)(void *)(a + 2 * DSM_PAGE_SIZE - 2), 1, &before32), "multiple of 4");
    FAILS(dsm_fetch_and_u32((uint32_t *)room, 1, &before32), "not within one allocation");
    CHECK(dsm_load_u64(word, NULL) == 0);
}

/* A pointer to a text stays good when another call fails, and shows its text. */
static void texts(void)
{
    const char *early;
    FAILS(dsm_free(a + 1), "inside an allocation");
    early = dsm_error();
    for (int i = 0; i < 1000; ++i)
        FAILS(dsm_stats(NULL), "NULL");
    CHECK(dsm_error() == early && strstr(early, "dsm_stats(NULL)") != NULL);
}

int main(void)
{
    CHECK(dsm_init() == 0);
    CHECK((a = dsm_alloc(2 * DSM_PAGE_SIZE)) != NULL);
    reductions();
    memory();
    making();
    objects();
    words();
    texts();
    limits();
    CHECK(dsm_finalize() == 0);
    return 0;
}
