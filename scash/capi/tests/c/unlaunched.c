/* Started without a launcher: before dsm_init nothing works, and every call says why; then it is a job of one
 * rank. Arguments: the provider and the engine that it is to have, or the word `refused`. */
#include "check.h"

enum { PAGES = 200, WORDS = PAGES * DSM_PAGE_SIZE / sizeof(int), ROUNDS = 3 };

static void before_init(void)
{
    dsm_stats_t stats;
    char byte;
    CHECK(strcmp(dsm_error(), "") == 0);
    FAILS(dsm_rank(), "dsm_rank was called before dsm_init");
    FAILS(dsm_size(), "before dsm_init");
    FAILS(dsm_threads(), "before dsm_init");
    IS_NULL(dsm_alloc(1), "before dsm_init");
    IS_NULL(dsm_alloc_with(1, NULL), "before dsm_init");
    FAILS(dsm_free(&byte), "before dsm_init");
    FAILS(dsm_barrier(), "before dsm_init");
    FAILS(dsm_home(&byte), "before dsm_init");
    FAILS(dsm_set_home(&byte, 1, 0), "before dsm_init");
    FAILS(dsm_set_protocol(&byte, DSM_PROTOCOL_UPDATE), "before dsm_init");
    FAILS(dsm_write_back(&byte, 1), "before dsm_init");
    FAILS(dsm_read_home(&byte, 1), "before dsm_init");
    FAILS(dsm_broadcast(&byte, 1), "before dsm_init");
    FAILS(dsm_touch(&byte, 1, 0), "before dsm_init");
    FAILS(dsm_stats(&stats), "before dsm_init");
    IS_NULL(dsm_engine(), "before dsm_init");
    IS_NULL(dsm_provider(), "before dsm_init");
    FAILS(dsm_finalize(), "before dsm_init");
}

static void a_job_of_one_rank(void)
{
    dsm_lock_t lock;
    int *words;
    double sum = 2.5;
    CHECK(dsm_rank() == 0 && dsm_size() == 1 && dsm_threads() == 1);
    CHECK((words = dsm_alloc(WORDS * sizeof *words)) != NULL);
    CHECK(dsm_locks_create(1, &lock) == 0);
    for (int round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < (int)WORDS; i++)
            words[i] = round * i;
        CHECK(dsm_lock(lock) == 0);
        words[0]++;
        CHECK(dsm_unlock(lock) == 0);
        CHECK(dsm_barrier() == 0);
        CHECK(words[0] == 1);
        for (int i = 1; i < (int)WORDS; i++)
            CHECK(words[i] == round * i);
    }
    CHECK(dsm_all_reduce_f64(&sum, 1, DSM_REDUCTION_SUM) == 0 && sum == 2.5);
    CHECK(dsm_free(words) == 0);
    CHECK(dsm_finalize() == 0);
    FAILS(dsm_barrier(), "after dsm_finalize");
}

int main(int argc, char **argv)
{
    before_init();
    if (argc == 2) {
        CHECK(strcmp(argv[1], "refused") == 0 && dsm_init() == -1);
        fprintf(stderr, "%s\n", dsm_error());
        FAILS(dsm_barrier(), "or dsm_init failed");
        return 0;
    }
    CHECK(dsm_init() == 0);
    if (argc == 3)
        CHECK(strcmp(argv[1], dsm_provider()) == 0 && strcmp(argv[2], dsm_engine()) == 0);
    a_job_of_one_rank();
    return 0;
}
