/*
 * atomics: ranks draw numbers from one counter, and raise one maximum, without a lock.
 *
 * dsm_fetch_add_u64 deals out chunks of work: no two ranks get the same one, and a rank that is faster gets
 * more. dsm_compare_swap_u64 replaces the best result if it is still what this rank has seen. Until the next
 * barrier such words are touched by atomic operations only; then they are plain memory again.
 */
#include <scash.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(ok) ((ok) ? (void)0 : (fprintf(stderr, "%s\n", dsm_error()), exit(1)))

enum { LIMIT = 100000, CHUNK = 1000 };

static uint64_t collatz(uint64_t number)
{
    uint64_t steps = 0;
    for (; number != 1; steps++)
        number = number % 2 == 0 ? number / 2 : 3 * number + 1;
    return steps;
}

int main(void)
{
    CHECK(dsm_init() == 0);
    struct { uint64_t next, best; } *shared = dsm_alloc(sizeof *shared);
    CHECK(shared != NULL);

    uint64_t mine = 0, chunk, seen;
    CHECK(dsm_fetch_add_u64(&shared->next, 1, &chunk) == 0);
    while (chunk < LIMIT / CHUNK) {
        for (uint64_t number = chunk * CHUNK + 1; number <= (chunk + 1) * CHUNK; number++) {
            uint64_t result = collatz(number) << 32 | number; /* the larger, the more steps */
            mine = result > mine ? result : mine;
        }
        CHECK(dsm_fetch_add_u64(&shared->next, 1, &chunk) == 0);
    }

    CHECK(dsm_load_u64(&shared->best, &seen) == 0);
    while (seen < mine) {
        uint64_t expected = seen;
        CHECK(dsm_compare_swap_u64(&shared->best, expected, mine, &seen) == 0);
        if (seen == expected)
            break;
    }

    CHECK(dsm_barrier() == 0);
    if (dsm_rank() == 0)
        printf("of the numbers up to %d, %d takes most Collatz steps: %d\n", LIMIT,
               (int)(shared->best & 0xffffffff), (int)(shared->best >> 32));
    CHECK(dsm_finalize() == 0);
    return 0;
}
