/* Homes are asked and set: by first touch, page by page before it, and for pages in use. */
#include "check.h"

enum { PAGES = 12 };

static int rank, size;
static char *a;

static char *page(int number)
{
    return a + (size_t)number * DSM_PAGE_SIZE;
}

static void first_touch(void)
{
    CHECK((a = dsm_alloc(PAGES * DSM_PAGE_SIZE)) != NULL);
    CHECK(dsm_home(a) == DSM_HOME_NONE);
    /* A block of pages a rank, so that nobody's neighbour is touched with them. */
    for (int i = 0; i < PAGES; i++)
        if (i * size / PAGES == rank)
            *page(i) = 1;
    CHECK(dsm_barrier() == 0);
    for (int i = 0; i < PAGES; i++)
        /* Nobody sees who touches a frame first that all share. */
        CHECK(dsm_home(page(i)) == (dsm_shares_frames() ? DSM_HOME_NONE : i * size / PAGES));
}

static void placed_page_by_page(void)
{
    CHECK((a = dsm_alloc(PAGES * DSM_PAGE_SIZE)) != NULL);
    if (rank == 0)
        for (int i = 0; i < PAGES; i++)
            CHECK(dsm_set_home(page(i), DSM_PAGE_SIZE, i * 5 % size) == 0);
    CHECK(dsm_barrier() == 0);
    for (int i = 0; i < PAGES; i++)
        CHECK(dsm_home(page(i)) == i * 5 % size);
    *(page(3) + rank) = (char)(rank + 1);
    CHECK(dsm_barrier() == 0);
    CHECK(dsm_home(page(3)) == 15 % size);
    for (int r = 0; r < size; r++)
        CHECK(page(3)[r] == r + 1);
}

static void placed_in_blocks(void)
{
    /* Three pages of the last rank, one byte of rank 0, and the rest of that page and one more of the last. */
    const dsm_block_t blocks[] = {
        {3 * DSM_PAGE_SIZE, size - 1}, {1, 0}, {2 * DSM_PAGE_SIZE - 1, size - 1}, {0, 0}, {DSM_PAGE_SIZE, 0}};
    const int homes[] = {size - 1, size - 1, size - 1, 0, size - 1, 0};
    const dsm_block_t nowhere = {1, size}, before = {1, -1};
    dsm_alloc_options_t options = {0};
    CHECK((a = dsm_alloc_blocks(blocks, sizeof blocks / sizeof *blocks, &options)) != NULL);
    for (int i = 0; i < 6; i++)
        CHECK(dsm_home(page(i)) == homes[i] && page(i)[rank] == 0);
    CHECK(dsm_barrier() == 0);
    for (int i = 0; i < 6; i++)
        page(i)[rank] = (char)(rank + i);
    CHECK(dsm_barrier() == 0);
    for (int i = 0; i < 6; i++)
        for (int r = 0; r < size; r++)
            CHECK(page(i)[r] == (char)(r + i));
    CHECK(dsm_free(a) == 0);

    IS_NULL(dsm_alloc_blocks(NULL, 0, NULL), "at least one");
    IS_NULL(dsm_alloc_blocks(blocks + 3, 1, NULL), "0 bytes");
    IS_NULL(dsm_alloc_blocks(&nowhere, 1, NULL), "there is no rank");
    IS_NULL(dsm_alloc_blocks(&before, 1, NULL), "there is no rank -1");
    options.placement = DSM_PLACEMENT_BLOCK;
    IS_NULL(dsm_alloc_blocks(blocks, 2, &options), "placement");
}

static void moved_in_use(void)
{
    CHECK((a = dsm_alloc(PAGES * DSM_PAGE_SIZE)) != NULL);
    if (rank == 0)
        memset(a, 7, PAGES * DSM_PAGE_SIZE);
    CHECK(dsm_barrier() == 0);
    for (int turn = 0; turn < 2 * size; turn++) {
        int to = (turn + 1) % size;
        CHECK(page(turn)[1] == 7);
        /* The range touches pages 2 and 3 only. */
        CHECK(rank != to || dsm_set_home(page(3) - 1, 2, to) == 0);
        page(2)[10 + rank] = (char)(turn + rank);
        CHECK(dsm_barrier() == 0);
        CHECK(dsm_home(page(2)) == to && dsm_home(page(3)) == to);
        CHECK(dsm_home(page(1)) == (dsm_shares_frames() ? DSM_HOME_NONE : 0) && dsm_home(page(4)) == dsm_home(page(1)));
        for (int r = 0; r < size; r++)
            CHECK(page(2)[10 + r] == (char)(turn + r));
        CHECK(page(2)[0] == 7 && page(3)[DSM_PAGE_SIZE - 1] == 7);
        CHECK(dsm_barrier() == 0);
    }
}

int main(void)
{
    CHECK(dsm_init() == 0);
    rank = dsm_rank();
    size = dsm_size();
    first_touch();
    placed_page_by_page();
    placed_in_blocks();
    moved_in_use();
    CHECK(dsm_finalize() == 0);
    return 0;
}
