/* Ranks ask for different things: each is told, and nothing goes on after it. Arguments: what they disagree
 * about, and a directory, in which each leaves a file when it has been told. None leaves before all have: its
 * end would be news, too. */
#include "check.h"
#include <time.h>

static FILE *open_note(const char *directory, const char *what, int rank, const char *mode)
{
    char path[4096];
    sprintf(path, "%.4000s/%.10s.%d", directory, what, rank);
    return fopen(path, mode);
}

static void wait_until_all_are(const char *what, const char *directory)
{
    struct timespec time = {0, 1000000};
    FILE *note = open_note(directory, what, dsm_rank(), "w");
    CHECK(note != NULL);
    fclose(note);
    for (int r = 0; r < dsm_size(); r++) {
        while ((note = open_note(directory, what, r, "r")) == NULL)
            nanosleep(&time, NULL);
        fclose(note);
    }
}

int main(int argc, char **argv)
{
    char text[512];
    CHECK(argc == 3);
    CHECK(dsm_init() == 0);
    int last = dsm_rank() == dsm_size() - 1;
    int64_t number = 1;
    if (strcmp(argv[1], "sizes") == 0) {
        CHECK(dsm_alloc(last ? 8192 : 4096) == NULL);
    } else if (strcmp(argv[1], "options") == 0) {
        dsm_alloc_options_t options = {0};
        options.protocol = last ? DSM_PROTOCOL_UPDATE : DSM_PROTOCOL_ADAPTIVE;
        CHECK(dsm_alloc_with(4096, &options) == NULL);
    } else if (strcmp(argv[1], "reductions") == 0) {
        CHECK(dsm_all_reduce_i64(&number, 1, last ? DSM_REDUCTION_MAX : DSM_REDUCTION_SUM) == -1);
    } else if (strcmp(argv[1], "values") == 0) {
        CHECK(dsm_broadcast_value(&number, sizeof number, last ? 1 : 0) == -1);
    } else if (strcmp(argv[1], "a barrier") == 0) {
        CHECK((last ? dsm_barrier() : dsm_all_reduce_i64(&number, 1, DSM_REDUCTION_SUM)) == -1);
    } else if (strcmp(argv[1], "an early barrier") == 0) {
        /* After a reduction that all took part in, and the other way round. */
        CHECK(dsm_all_reduce_i64(&number, 1, DSM_REDUCTION_SUM) == 0);
        CHECK((last ? dsm_all_reduce_i64(&number, 1, DSM_REDUCTION_SUM) : dsm_barrier()) == -1);
    } else if (strcmp(argv[1], "an end") == 0) {
        CHECK((dsm_rank() == 0 ? dsm_finalize() : dsm_all_reduce_i64(&number, 1, DSM_REDUCTION_SUM)) == -1);
    } else if (strcmp(argv[1], "locks") == 0) {
        dsm_lock_t first;
        CHECK(dsm_locks_create(last ? 2 : 1, &first) == -1);
    } else if (strcmp(argv[1], "ends of locks") == 0) {
        dsm_lock_t first;
        CHECK(dsm_locks_create(2, &first) == 0);
        /* Who is still in there is told there. */
        wait_until_all_are("ready", argv[2]);
        CHECK((last ? dsm_barrier() : dsm_locks_destroy(first, 2)) == -1);
    } else if (strcmp(argv[1], "kinds") == 0) {
        uint32_t first;
        CHECK((last ? dsm_rwlocks_create(1, &first) : dsm_conditions_create(1, &first)) == -1);
    } else if (strcmp(argv[1], "numbers") == 0) {
        dsm_semaphore_t first;
        CHECK(dsm_semaphores_create(3, last ? 1 : 0, &first) == -1);
    } else {
        CHECK((last ? dsm_barrier() : dsm_finalize()) == -1);
    }
    strncpy(text, dsm_error(), sizeof text - 1);
    text[sizeof text - 1] = '\0';
    printf("%s\n", text);
    FAILS(dsm_barrier(), text);
    IS_NULL(dsm_alloc(1), text);
    FAILS(dsm_finalize(), text);
    CHECK(fflush(stdout) == 0);
    wait_until_all_are("told", argv[2]);
    return 0;
}
