/* Objects that are newer than the checkpoint that ranks come back to: the heap does not know them any more.
 * newer FILES: where ranks note, for later incarnations, what they had. */
#include "check.h"

int main(int argc, char **argv)
{
    const size_t sizes[] = {24, 3000, 5 * DSM_PAGE_SIZE};
    enum { OBJECTS = sizeof sizes / sizeof sizes[0] };
    char name[500];
    void *objects[OBJECTS];
    FILE *file;
    int i, rank;

    CHECK(argc == 2 && dsm_init() == 0);
    CHECK(dsm_checkpoint_now() == 1);
    for (rank = 0; rank < dsm_size() && dsm_incarnation() > 0; rank++) {
        snprintf(name, sizeof name, "%s/%d", argv[1], rank);
        file = fopen(name, "r");
        CHECK(file != NULL);
        for (i = 0; i < OBJECTS; i++) {
            CHECK(fscanf(file, "%p", &objects[i]) == 1);
            CHECK(dsm_free(objects[i]) == -1);
        }
        fclose(file);
    }
    CHECK(dsm_barrier() == 0);
    snprintf(name, sizeof name, "%s/%d", argv[1], dsm_rank());
    file = fopen(name, "w");
    CHECK(file != NULL);
    for (i = 0; i < OBJECTS; i++) {
        objects[i] = dsm_malloc(sizes[i]);
        CHECK(objects[i] != NULL);
        memset(objects[i], 1 + dsm_rank(), sizes[i]);
        fprintf(file, "%p\n", objects[i]);
    }
    fclose(file);
    /* In the second of these, ranks die. */
    CHECK(dsm_barrier() == 0);
    CHECK(dsm_barrier() == 0);
    for (i = 0; i < OBJECTS; i++)
        CHECK(dsm_free(objects[i]) == 0);
    printf("rank %d ends\n", dsm_rank());
    CHECK(dsm_finalize() == 0);
    return 0;
}
