/* A region of 1 MiB (SCASH_REGION) is full at some time; what is freed can be had again. */
#include "check.h"

enum { MIB = 1 << 20 };

int main(void)
{
    CHECK(dsm_init() == 0);
    IS_NULL(dsm_alloc(MIB + 1), "raise SCASH_REGION (now 1 MiB)");
    char *half = dsm_alloc(MIB / 2);
    CHECK(half != NULL);
    IS_NULL(dsm_alloc(MIB / 2 + 1), "raise SCASH_REGION");
    half[dsm_rank()] = 5;
    CHECK(dsm_barrier() == 0);
    for (int r = 0; r < dsm_size(); r++)
        CHECK(half[r] == 5);
    CHECK(dsm_free(half) == 0);
    char *all = dsm_alloc(MIB);
    CHECK(all != NULL);
    for (int i = 0; i < MIB; i++)
        CHECK(all[i] == 0);
    IS_NULL(dsm_alloc(1), "raise SCASH_REGION");
    CHECK(dsm_finalize() == 0);
    return 0;
}
