/* Started without `scash run`: nothing works, and every call says why. */
#include "check.h"

int main(void)
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
    FAILS(dsm_init(), "scash run");
    FAILS(dsm_barrier(), "or dsm_init failed");
    return 0;
}
