/*
 * heap: all ranks insert into one search tree, whose nodes they allocate as they need them.
 *
 * dsm_malloc and dsm_calloc are calls of one rank, at any time. A pointer to what they return means the same on
 * every rank, and any rank may free it: here one that has allocated only some of the nodes. The lock protects
 * the tree.
 *
 * For a prime p that is 1 modulo 4, there are (p + 1) / 2 squares modulo p, and their sum is p (p - 1) / 4.
 */
#include <scash.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(ok) ((ok) ? (void)0 : (fprintf(stderr, "%s\n", dsm_error()), exit(1)))

enum { PRIME = 1009 };

struct node {
    struct node *less, *more;
    int value;
};

/* Inserts a value below a link, unless it is there. */
static void insert(struct node **at, int value)
{
    while (*at != NULL && (*at)->value != value)
        at = value < (*at)->value ? &(*at)->less : &(*at)->more;
    if (*at != NULL)
        return;
    struct node *node = dsm_calloc(1, sizeof *node);
    CHECK(node != NULL);
    node->value = value;
    *at = node;
}

/* Frees all nodes, and adds up how many there were and what they were. */
static void clear(struct node *node, int *count, int *sum)
{
    if (node == NULL)
        return;
    clear(node->less, count, sum);
    clear(node->more, count, sum);
    *count += 1;
    *sum += node->value;
    CHECK(dsm_free(node) == 0);
}

int main(void)
{
    CHECK(dsm_init() == 0);
    struct node **root = dsm_alloc(sizeof *root);
    CHECK(root != NULL);
    dsm_lock_t lock;
    CHECK(dsm_locks_create(1, &lock) == 0);

    for (int i = dsm_rank(); i < PRIME; i += dsm_size()) {
        CHECK(dsm_lock(lock) == 0);
        insert(root, i * i % PRIME);
        CHECK(dsm_unlock(lock) == 0);
    }

    CHECK(dsm_barrier() == 0);
    if (dsm_rank() == 0) {
        int count = 0, sum = 0;
        clear(*root, &count, &sum);
        printf("%d squares modulo %d have the sum %d\n", count, PRIME, sum);
    }
    CHECK(dsm_finalize() == 0);
    return 0;
}
