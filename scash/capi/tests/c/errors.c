/* Arguments that make no sense: each call says so and does nothing, and the job goes on. */
#include "check.h"

static char *a;
static int size;

static void bad_allocations(void)
{
    dsm_alloc_options_t options = {0};
    IS_NULL(dsm_alloc(0), "0 bytes");
    IS_NULL(dsm_alloc((size_t)-1), "SCASH_REGION");
    IS_NULL(dsm_alloc((size_t)1 << 60), "SCASH_REGION");
    options.placement = (dsm_placement_t)9;
    IS_NULL(dsm_alloc_with(1, &options), "dsm_placement_t");
    options.placement = DSM_PLACEMENT_RANK;
    options.rank = size;
    IS_NULL(dsm_alloc_with(1, &options), "rank");
    options.rank = -1;
    IS_NULL(dsm_alloc_with(1, &options), "no rank -1");
    memset(&options, 0, sizeof options);
    options.protocol = (dsm_protocol_t)3;
    IS_NULL(dsm_alloc_with(1, &options), "dsm_protocol_t");
    memset(&options, 0, sizeof options);
    options.block_bytes = (size_t)-1;
    IS_NULL(dsm_alloc_with(1, &options), "block");
    memset(&options, 0xff, sizeof options);
    IS_NULL(dsm_alloc_with(1, &options), "reserved");
}

static void bad_pointers(void)
{
    int private;
    CHECK(dsm_free(NULL) == 0);
    FAILS(dsm_free(&private), "not shared memory");
    FAILS(dsm_free(a + 1), "inside an allocation");
    FAILS(dsm_free(a + DSM_PAGE_SIZE), "inside an allocation");
    FAILS(dsm_free(a + 1000 * DSM_PAGE_SIZE), "not allocated");
    FAILS(dsm_home(&private), "allocation");
    FAILS(dsm_home(NULL), "allocation");
    FAILS(dsm_set_protocol(&private, DSM_PROTOCOL_UPDATE), "allocation");
    FAILS(dsm_touch(&private, 1, 0), "allocation");
    FAILS(dsm_touch(a, 2 * DSM_PAGE_SIZE + 1, 1), "allocation");
    FAILS(dsm_touch(a, (size_t)-1, 1), "allocation");
    FAILS(dsm_read_home(a - 1, 1), "allocation");
    FAILS(dsm_write_back(a, (size_t)-1), "allocation");
    FAILS(dsm_broadcast(&private, 1), "allocation");
    FAILS(dsm_stats(NULL), "NULL");
}

static void bad_numbers(void)
{
    FAILS(dsm_set_home(a, 1, size), "rank");
    FAILS(dsm_set_home(a, 1, -1), "no rank -1");
    FAILS(dsm_set_home(a, 3 * DSM_PAGE_SIZE, 0), "allocation");
    FAILS(dsm_set_protocol(a, (dsm_protocol_t)-1), "dsm_protocol_t");
}

int main(void)
{
    CHECK(dsm_init() == 0);
    size = dsm_size();
    CHECK((a = dsm_alloc(2 * DSM_PAGE_SIZE)) != NULL);
    FAILS(dsm_init(), "joined");
    bad_allocations();
    bad_pointers();
    bad_numbers();

    /* A call that succeeds leaves the text. */
    CHECK(dsm_barrier() == 0 && strstr(dsm_error(), "dsm_protocol_t") != NULL);

    CHECK(dsm_free(a) == 0);
    FAILS(dsm_free(a), "not allocated");
    FAILS(dsm_home(a), "allocation");
    CHECK(dsm_finalize() == 0);
    FAILS(dsm_finalize(), "after dsm_finalize");
    FAILS(dsm_barrier(), "after dsm_finalize");
    FAILS(dsm_rank(), "after dsm_finalize");
    IS_NULL(dsm_alloc(1), "after dsm_finalize");
    return 0;
}
