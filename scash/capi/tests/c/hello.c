/* Joins, says who it is, leaves. */
#include "check.h"

int main(int argc, char **argv)
{
    const char *engine = getenv("SCASH_FAULT");

    CHECK(dsm_init() == 0);
    CHECK(argc == 2 && strcmp(argv[1], dsm_provider()) == 0);
    CHECK(dsm_shares_frames() >= 0);
    CHECK(engine == NULL || engine[0] == '\0' || (dsm_shares_frames() == 0 && strcmp(engine, dsm_engine()) == 0));
    CHECK(strcmp(dsm_version(), "") != 0);
    CHECK(strcmp(dsm_error(), "") == 0);
    printf("rank %d of %d, %d threads\n", dsm_rank(), dsm_size(), dsm_threads());
    CHECK(dsm_finalize() == 0);
    return 0;
}
