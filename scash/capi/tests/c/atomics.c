/* Atomic operations: every kind on both widths, counters that all ranks hammer beside bytes that others
 * write, first touches, placed pages, threads. */
#include "check.h"
#include <pthread.h>

enum { ROUNDS = 30, WORDS = 24, THREADS = 2 };

static int rank, size;

/* A cell: words that are operated on, and bytes around them that each rank writes for itself. */
struct cell {
    unsigned char before[16];
    uint64_t wide;
    unsigned char between[16];
    uint32_t narrow[2];
    unsigned char after[16];
};

static void every_kind(void)
{
    uint64_t *wide, w = 77;
    uint32_t *narrow, n = 77;
    CHECK((wide = dsm_alloc(sizeof *wide)) != NULL && (narrow = dsm_alloc(sizeof *narrow)) != NULL);
    if (rank == size - 1) {
        CHECK(dsm_fetch_add_u64(wide, 5, &w) == 0 && w == 0);
        CHECK(dsm_fetch_add_u64(wide, (uint64_t)-7, &w) == 0 && w == 5);
        CHECK(dsm_fetch_and_u64(wide, 0xff00ff00ff00ff00u, &w) == 0 && w == (uint64_t)-2);
        CHECK(dsm_fetch_or_u64(wide, 3, &w) == 0 && w == 0xff00ff00ff00ff00u);
        CHECK(dsm_fetch_xor_u64(wide, 1, &w) == 0 && w == 0xff00ff00ff00ff03u);
        CHECK(dsm_swap_u64(wide, 9, &w) == 0 && w == 0xff00ff00ff00ff02u);
        CHECK(dsm_compare_swap_u64(wide, 8, 1, &w) == 0 && w == 9);
        CHECK(dsm_compare_swap_u64(wide, 9, 1, &w) == 0 && w == 9);
        CHECK(dsm_load_u64(wide, &w) == 0 && w == 1);
        CHECK(dsm_store_u64(wide, 1234567890123u) == 0 && dsm_load_u64(wide, NULL) == 0);

        CHECK(dsm_fetch_add_u32(narrow, 5, &n) == 0 && n == 0);
        CHECK(dsm_fetch_add_u32(narrow, (uint32_t)-7, &n) == 0 && n == 5);
        CHECK(dsm_fetch_and_u32(narrow, 0xff00ff00u, &n) == 0 && n == (uint32_t)-2);
        CHECK(dsm_fetch_or_u32(narrow, 3, &n) == 0 && n == 0xff00ff00u);
        CHECK(dsm_fetch_xor_u32(narrow, 1, &n) == 0 && n == 0xff00ff03u);
        CHECK(dsm_swap_u32(narrow, 9, &n) == 0 && n == 0xff00ff02u);
        CHECK(dsm_compare_swap_u32(narrow, 8, 1, &n) == 0 && n == 9);
        CHECK(dsm_compare_swap_u32(narrow, 9, 1, NULL) == 0);
        CHECK(dsm_load_u32(narrow, &n) == 0 && n == 1);
        CHECK(dsm_store_u32(narrow, 123456) == 0);
    }
    CHECK(dsm_barrier() == 0);
    CHECK(*wide == 1234567890123u && *narrow == 123456);
    CHECK(dsm_free(wide) == 0 && dsm_free(narrow) == 0);
}

/* In every round all ranks add to all words, and each writes its own bytes around them; then all read all. */
static void beside_plain_bytes(dsm_placement_t placement, dsm_protocol_t protocol)
{
    struct cell *cell;
    dsm_alloc_options_t options = {0};
    uint64_t added = 0;
    options.placement = placement;
    options.protocol = protocol;
    options.cyclic_bytes = DSM_PAGE_SIZE;
    CHECK((cell = dsm_alloc_with(WORDS * sizeof *cell * 40, &options)) != NULL);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < WORDS; i++) {
            struct cell *c = cell + (size_t)i * 40;
            c->before[rank] = c->between[rank] = c->after[rank] = (unsigned char)(round + rank);
            CHECK(dsm_fetch_add_u64(&c->wide, (uint64_t)round * i, NULL) == 0);
            CHECK(dsm_fetch_xor_u32(&c->narrow[0], 1u << rank, NULL) == 0);
            CHECK(dsm_fetch_add_u32(&c->narrow[1], 1, NULL) == 0);
        }
        added += (uint64_t)round * size;
        CHECK(dsm_barrier() == 0);
        for (int i = 0; i < WORDS; i++) {
            struct cell *c = cell + (size_t)i * 40;
            CHECK(c->wide == added * i);
            CHECK(c->narrow[0] == (round % 2 ? 0 : (1u << size) - 1));
            CHECK(c->narrow[1] == (uint32_t)((round + 1) * size));
            for (int r = 0; r < size; r++)
                CHECK(c->before[r] == (unsigned char)(round + r) && c->between[r] == (unsigned char)(round + r) &&
                      c->after[r] == (unsigned char)(round + r));
        }
        CHECK(dsm_barrier() == 0);
    }
    CHECK(dsm_free(cell) == 0);
}

static uint64_t *next;
static unsigned char *taken;

static void *take(void *unused)
{
    (void)unused;
    for (;;) {
        uint64_t mine;
        CHECK(dsm_fetch_add_u64(next, 1, &mine) == 0);
        if (mine >= DSM_PAGE_SIZE)
            return NULL;
        taken[mine]++;
    }
}

/* Each number is taken once, whoever takes it. */
static void threads(void)
{
    pthread_t thread[THREADS];
    CHECK((next = dsm_alloc(sizeof *next)) != NULL && (taken = dsm_alloc(DSM_PAGE_SIZE)) != NULL);
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_create(&thread[t], NULL, take, NULL) == 0);
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_join(thread[t], NULL) == 0);
    CHECK(dsm_barrier() == 0);
    CHECK(*next == (uint64_t)DSM_PAGE_SIZE + (uint64_t)THREADS * size);
    for (int i = 0; i < DSM_PAGE_SIZE; i++)
        CHECK(taken[i] == 1);
}

static void wrong(void)
{
    uint64_t private = 5, *word;
    CHECK((word = dsm_alloc(DSM_PAGE_SIZE)) != NULL);
    FAILS(dsm_fetch_add_u64(&private, 1, NULL), "allocation");
    FAILS(dsm_fetch_add_u64(NULL, 1, NULL), "allocation");
    FAILS(dsm_fetch_add_u64((uint64_t *)((char *)word + 4), 1, NULL), "multiple of 8");
    FAILS(dsm_load_u32((uint32_t *)((char *)word + 2), NULL), "multiple of 4");
    FAILS(dsm_store_u32((uint32_t *)(word + DSM_PAGE_SIZE), 1), "allocation");
    CHECK(dsm_free(word) == 0);
    FAILS(dsm_fetch_add_u64(word, 1, NULL), "allocation");
    CHECK(private == 5);
}

int main(void)
{
    uint64_t word;
    FAILS(dsm_fetch_add_u64(&word, 1, NULL), "dsm_fetch_add_u64 was called before dsm_init");
    CHECK(dsm_init() == 0);
    rank = dsm_rank();
    size = dsm_size();
    every_kind();
    beside_plain_bytes(DSM_PLACEMENT_FIRST_TOUCH, DSM_PROTOCOL_ADAPTIVE);
    beside_plain_bytes(DSM_PLACEMENT_CYCLIC, DSM_PROTOCOL_UPDATE);
    beside_plain_bytes(DSM_PLACEMENT_BLOCK, DSM_PROTOCOL_INVALIDATE);
    threads();
    wrong();
    /* Once there are locks, first touches are decided in another way. */
    dsm_lock_t lock;
    CHECK(dsm_locks_create(1, &lock) == 0);
    every_kind();
    beside_plain_bytes(DSM_PLACEMENT_FIRST_TOUCH, DSM_PROTOCOL_UPDATE);
    threads();
    CHECK(dsm_finalize() == 0);
    FAILS(dsm_load_u64(&word, NULL), "after dsm_finalize");
    return 0;
}
