/*
 * list: all ranks insert into one sorted list, whose nodes point to each other.
 *
 * Pointers into shared memory mean the same on every rank, so lists and trees are built as in any program.
 * Nodes come from an array that was allocated before, because dsm_alloc is a call of all ranks together
 * (dsm_malloc is not: see heap.c). The lock protects the pointers.
 *
 * For a prime p that is 1 modulo 4, there are (p + 1) / 2 squares modulo p, and their sum is p (p - 1) / 4.
 */
#include <scash.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(ok) ((ok) ? (void)0 : (fprintf(stderr, "%s\n", dsm_error()), exit(1)))

enum { PRIME = 101 };

struct node {
    struct node *next;
    int value;
};

struct list {
    struct node *first;
    int used; /* of the nodes */
    struct node nodes[PRIME];
};

/* Inserts a value in its place, unless it is there. */
static void insert(struct list *list, int value)
{
    struct node **at = &list->first;
    while (*at != NULL && (*at)->value < value)
        at = &(*at)->next;
    if (*at != NULL && (*at)->value == value)
        return;
    struct node *node = &list->nodes[list->used++];
    node->value = value;
    node->next = *at;
    *at = node;
}

int main(void)
{
    CHECK(dsm_init() == 0);
    struct list *list = dsm_alloc(sizeof *list);
    CHECK(list != NULL);
    dsm_lock_t lock;
    CHECK(dsm_locks_create(1, &lock) == 0);

    for (int i = dsm_rank(); i < PRIME; i += dsm_size()) {
        CHECK(dsm_lock(lock) == 0);
        insert(list, i * i % PRIME);
        CHECK(dsm_unlock(lock) == 0);
    }

    CHECK(dsm_barrier() == 0);
    if (dsm_rank() == 0) {
        int count = 0, sum = 0, sorted = 1;
        for (const struct node *node = list->first; node != NULL; node = node->next) {
            count++;
            sum += node->value;
            sorted &= node->next == NULL || node->value < node->next->value;
        }
        const char *order = sorted ? "in order" : "not in order";
        printf("%d squares modulo %d, %s, with the sum %d\n", count, PRIME, order, sum);
    }
    CHECK(dsm_finalize() == 0);
    return 0;
}
