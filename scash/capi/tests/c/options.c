/* Every placement with every protocol and several block sizes: homes are where they were asked for, data are
 * right over several memory barriers, and protocols can be switched. */
#include "check.h"

enum { PAGES = 13, WORDS = PAGES * DSM_PAGE_SIZE / sizeof(int), ROUNDS = 4, RUN = 2 };

static int rank, size;

static int wanted_home(const dsm_alloc_options_t *options, int page)
{
    switch (options->placement) {
    case DSM_PLACEMENT_BLOCK: {
        int home = 0;
        while ((home + 1) * PAGES / size <= page)
            home++;
        return home;
    }
    case DSM_PLACEMENT_CYCLIC:
        return (options->rank + page / RUN) % size;
    case DSM_PLACEMENT_RANK:
        return options->rank;
    default:
        return DSM_HOME_NONE;
    }
}

static void check_homes(const int *a, const dsm_alloc_options_t *options)
{
    for (int page = 0; page < PAGES; page++) {
        const char *p = (const char *)a + (size_t)page * DSM_PAGE_SIZE;
        CHECK(dsm_home(p) == wanted_home(options, page));
        CHECK(dsm_home(p + DSM_PAGE_SIZE - 1) == dsm_home(p));
    }
}

static void use(volatile int *a)
{
    for (int round = 1; round <= ROUNDS; round++) {
        for (int i = rank; i < (int)WORDS; i += size)
            a[i] = round * i;
        CHECK(dsm_barrier() == 0);
        for (int i = 0; i < (int)WORDS; i++)
            CHECK(a[i] == round * i);
        CHECK(dsm_barrier() == 0);
    }
}

static void try_options(const dsm_alloc_options_t *options)
{
    int *a = dsm_alloc_with(WORDS * sizeof *a, options);
    CHECK(a != NULL);
    check_homes(a, options);
    use(a);
    for (int page = 0; page < PAGES; page++)
        CHECK(dsm_shares_frames() || dsm_home((char *)a + (size_t)page * DSM_PAGE_SIZE) >= 0);
    for (int protocol = DSM_PROTOCOL_ADAPTIVE; protocol <= DSM_PROTOCOL_INVALIDATE; protocol++) {
        CHECK(dsm_set_protocol(a + WORDS / 2, (dsm_protocol_t)protocol) == 0);
        use(a);
    }
    CHECK(dsm_free(a) == 0);
}

int main(void)
{
    static const size_t blocks[] = {0, 1, 3 * DSM_PAGE_SIZE, 100 * DSM_PAGE_SIZE};
    CHECK(dsm_init() == 0);
    rank = dsm_rank();
    size = dsm_size();
    for (int placement = DSM_PLACEMENT_FIRST_TOUCH; placement <= DSM_PLACEMENT_RANK; placement++)
        for (int protocol = DSM_PROTOCOL_ADAPTIVE; protocol <= DSM_PROTOCOL_INVALIDATE; protocol++) {
            dsm_alloc_options_t options = {0};
            options.placement = (dsm_placement_t)placement;
            options.protocol = (dsm_protocol_t)protocol;
            options.rank = size - 1;
            options.cyclic_bytes = RUN * DSM_PAGE_SIZE - 5;
            options.block_bytes = blocks[(placement + protocol) % 4];
            try_options(&options);
        }
    int *plain = dsm_alloc_with(WORDS * sizeof *plain, NULL);
    CHECK(plain != NULL);
    use(plain);
    CHECK(dsm_finalize() == 0);
    return 0;
}
