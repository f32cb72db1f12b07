/* Neighbouring bytes written by different ranks, in one array of many pages, added up by all; and a list
 * whose links are plain pointers. */
#include "check.h"

enum { BYTES = 10 * DSM_PAGE_SIZE + 123, ROUNDS = 6 };

struct node {
    struct node *next;
    int owner;
};

static unsigned char value(int round, int i)
{
    return (unsigned char)(round * 31 + i % 251);
}

static void interleaved_bytes(int rank, int size)
{
    unsigned char *bytes = dsm_alloc(BYTES);
    CHECK(bytes != NULL);
    for (int i = 0; i < BYTES; i++)
        CHECK(bytes[i] == 0);
    CHECK(dsm_barrier() == 0);
    for (int round = 0; round < ROUNDS; round++) {
        /* In each round a byte has another writer. */
        for (int i = 0; i < BYTES; i++)
            if ((i + round) % size == rank)
                bytes[i] = value(round, i);
        CHECK(dsm_barrier() == 0);
        long sum = 0, want = 0;
        for (int i = 0; i < BYTES; i++) {
            sum += bytes[i];
            want += value(round, i);
        }
        CHECK(sum == want);
        CHECK(dsm_barrier() == 0);
    }
    CHECK(dsm_free(bytes) == 0);
}

static void pointers(int rank, int size)
{
    struct node *nodes = dsm_alloc((size_t)size * sizeof *nodes);
    CHECK(nodes != NULL);
    nodes[rank].owner = rank;
    nodes[rank].next = rank + 1 < size ? &nodes[rank + 1] : NULL;
    CHECK(dsm_barrier() == 0);
    int seen = 0;
    for (struct node *node = nodes; node != NULL; node = node->next)
        CHECK(node->owner == seen++);
    CHECK(seen == size);
}

int main(void)
{
    CHECK(dsm_init() == 0);
    interleaved_bytes(dsm_rank(), dsm_size());
    pointers(dsm_rank(), dsm_size());
    CHECK(dsm_finalize() == 0);
    return 0;
}
