/* Atomic operations on words of windows: every kind on both widths, words that all ranks operate on at once,
 * and what a word announces. */
#include "comm_check.h"

enum { ROUNDS = 200, NOTE = 1000 };

static int rank, size;
static scomm_window_t window;

/* At the last rank's part, which is rank 0's own in a job of one. */
static void every_kind(void)
{
    int to = size - 1;
    uint64_t wide = 77, all = (uint64_t)-1, mask = (uint64_t)0xff00ff00 << 32 | 0xff00ff00;
    uint32_t narrow = 77;
    if (rank == 0) {
        OK(scomm_store_u64(window, to, 8, 0));
        OK(scomm_fetch_add_u64(window, to, 8, 5, &wide));
        CHECK(wide == 0);
        OK(scomm_fetch_add_u64(window, to, 8, all - 6, &wide));
        CHECK(wide == 5);
        OK(scomm_fetch_and_u64(window, to, 8, mask, &wide));
        CHECK(wide == all - 1);
        OK(scomm_fetch_or_u64(window, to, 8, 3, &wide));
        CHECK(wide == mask);
        OK(scomm_fetch_xor_u64(window, to, 8, 1, &wide));
        CHECK(wide == (mask | 3));
        OK(scomm_swap_u64(window, to, 8, 9, &wide));
        CHECK(wide == (mask | 2));
        OK(scomm_compare_swap_u64(window, to, 8, 8, 1, &wide));
        CHECK(wide == 9);
        OK(scomm_compare_swap_u64(window, to, 8, 9, 1, &wide));
        CHECK(wide == 9);
        OK(scomm_load_u64(window, to, 8, &wide));
        CHECK(wide == 1);
        OK(scomm_load_u64(window, to, 8, NULL));

        OK(scomm_store_u32(window, to, 20, 0));
        OK(scomm_fetch_add_u32(window, to, 20, 5, &narrow));
        CHECK(narrow == 0);
        OK(scomm_fetch_add_u32(window, to, 20, (uint32_t)-7, &narrow));
        CHECK(narrow == 5);
        OK(scomm_fetch_and_u32(window, to, 20, 0xff00ff00u, &narrow));
        CHECK(narrow == (uint32_t)-2);
        OK(scomm_fetch_or_u32(window, to, 20, 3, &narrow));
        CHECK(narrow == 0xff00ff00u);
        OK(scomm_fetch_xor_u32(window, to, 20, 1, &narrow));
        CHECK(narrow == 0xff00ff03u);
        OK(scomm_swap_u32(window, to, 20, 9, &narrow));
        CHECK(narrow == 0xff00ff02u);
        OK(scomm_compare_swap_u32(window, to, 20, 8, 1, &narrow));
        CHECK(narrow == 9);
        OK(scomm_compare_swap_u32(window, to, 20, 9, 1, NULL));
        OK(scomm_load_u32(window, to, 20, &narrow));
        CHECK(narrow == 1);
        /* What lies around is as it was. */
        OK(scomm_load_u32(window, to, 16, &narrow));
        CHECK(narrow == 0);
        OK(scomm_load_u64(window, to, 24, &wide));
        CHECK(wide == 0);
    }
    OK(scomm_barrier());
}

/* Every operation takes effect once, and no two see the same. */
static void all_at_once(void)
{
    int to, round;
    uint64_t before, last = 0, expected;
    uint32_t narrow;
    for (round = 0; round < ROUNDS; round++) {
        for (to = 0; to < size; to++) {
            OK(scomm_fetch_add_u64(window, to, 32, 2, &before));
            CHECK(before % 2 == 0 && (to > 0 || round == 0 || before > last));
            last = to == 0 ? before : last;
            OK(scomm_fetch_xor_u32(window, to, 40, (uint32_t)1 << rank, NULL));
            OK(scomm_fetch_or_u32(window, to, 44, (uint32_t)1 << rank, NULL));
            /* A word that is only changed by who has read it: it counts, too. */
            OK(scomm_load_u64(window, to, 48, &before));
            do {
                expected = before;
                OK(scomm_compare_swap_u64(window, to, 48, expected, expected + 1, &before));
            } while (before != expected);
        }
    }
    OK(scomm_barrier());
    for (to = 0; to < size; to++) {
        OK(scomm_load_u64(window, to, 32, &before));
        CHECK(before == (uint64_t)2 * ROUNDS * (uint64_t)size);
        OK(scomm_load_u32(window, to, 40, &narrow));
        CHECK(narrow == 0);
        OK(scomm_load_u32(window, to, 44, &narrow));
        CHECK(narrow == ((uint32_t)1 << size) - 1);
        OK(scomm_load_u64(window, to, 48, &before));
        CHECK(before == (uint64_t)ROUNDS * (uint64_t)size);
    }
    OK(scomm_barrier());
}

/* Each rank puts a note to the next one, and sets a word behind it; who sees the word finds the note. */
static void a_word_announces(void)
{
    unsigned char *mine = (unsigned char *)room(NOTE);
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    uint32_t flag = 0;
    fill(mine, rank, NOTE);
    OK(scomm_put(window, next, 64, mine, NOTE));
    OK(scomm_store_u32(window, next, 56, 1));
    while (flag == 0)
        OK(scomm_load_u32(window, rank, 56, &flag));
    CHECK(is_filled((unsigned char *)scomm_window_bytes(window) + 64, previous, NOTE));
    free(mine);
    OK(scomm_barrier());
}

static void wrong(void)
{
    uint64_t wide = 7;
    uint32_t narrow = 7;
    INVALID(scomm_fetch_add_u64(window, rank, 4, 1, &wide), "no word of 8 bytes");
    INVALID(scomm_fetch_add_u32(window, rank, 2, 1, &narrow), "no word of 4 bytes");
    INVALID(scomm_fetch_or_u64(window, rank, 64 + NOTE, 1, &wide), "not inside");
    INVALID(scomm_swap_u64(window, size, 0, 1, &wide), "rank");
    INVALID(scomm_load_u32(window, -1, 0, &narrow), "there is no rank -1");
    INVALID(scomm_store_u64(window + 7, rank, 0, 1), "there is no window");
    INVALID(scomm_compare_swap_u32(window, rank, (size_t)-4, 0, 1, NULL), "window");
    CHECK(wide == 7 && narrow == 7);
}

int main(void)
{
    OK(scomm_init(NULL));
    rank = scomm_rank();
    size = scomm_size();
    OK(scomm_window_open(64 + NOTE, &window));
    memset(scomm_window_bytes(window), 0, 64 + NOTE);
    OK(scomm_barrier());
    every_kind();
    all_at_once();
    a_word_announces();
    wrong();
    OK(scomm_window_close(window));
    INVALID(scomm_store_u32(window, rank, 0, 1), "there is no window");
    OK(scomm_finalize());
    return 0;
}
