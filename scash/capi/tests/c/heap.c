/* The heap: one rank allocates, and another one reads, writes and frees; what is wrong is told. */
#include "check.h"
#include <limits.h>
#include <stdint.h>

#define ROUNDS 300

struct node {
    struct node *next;
    int rank, number;
};

/* What all ranks share. */
struct all {
    struct node *first;
    int left;
};

/* Each rank pushes to one stack, and pops what the others have pushed. */
static void pass_round(struct all *all, dsm_lock_t lock)
{
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(dsm_lock(lock) == 0);
        struct node *node = dsm_malloc(sizeof *node);
        CHECK(node != NULL && (uintptr_t)node % 16 == 0);
        node->next = all->first;
        node->rank = dsm_rank();
        node->number = i;
        all->first = node;
        all->left++;
        if (i % 3 != 0) {
            node = all->first->next != NULL ? all->first->next : all->first;
            CHECK(node->number >= 0 && node->number < ROUNDS && node->rank < dsm_size());
            *(all->first == node ? &all->first : &all->first->next) = node->next;
            all->left--;
            node->number = -1;
            CHECK(dsm_free(node) == 0);
        }
        CHECK(dsm_unlock(lock) == 0);
    }
    CHECK(dsm_barrier() == 0);
    if (dsm_rank() == 0) {
        int count = 0;
        for (struct node *node = all->first; node != NULL; count++) {
            struct node *next = node->next;
            CHECK(node->number >= 0);
            CHECK(dsm_free(node) == 0);
            node = next;
        }
        CHECK(count == all->left && count == dsm_size() * ROUNDS / 3);
    }
    CHECK(dsm_barrier() == 0);
}

/* Sizes, alignments, and what becomes of bytes. */
static void sizes(void)
{
    unsigned char *p = dsm_malloc(100), *q;
    CHECK(p != NULL);
    memset(p, 7, 100);
    CHECK(dsm_free(p) == 0);
    p = dsm_calloc(25, 4);
    CHECK(p != NULL);
    for (int i = 0; i < 100; i++)
        CHECK(p[i] == 0);
    for (size_t n = 1; n < 100000; n = 3 * n + 1) {
        memset(p, (int)(n % 100), n < 100 ? n : 100);
        q = dsm_realloc(p, n + 100);
        CHECK(q != NULL && q[0] == n % 100);
        p = q;
    }
    p = dsm_realloc(p, 1);
    CHECK(p != NULL);
    CHECK(dsm_realloc(p, 0) == p && dsm_free(p) == 0);
    p = dsm_realloc(NULL, 10);
    q = dsm_malloc(0);
    CHECK(p != NULL && q != NULL && p != q);
    CHECK(dsm_free(p) == 0 && dsm_free(q) == 0);
    for (size_t align = 1; align <= 65536; align *= 2) {
        p = dsm_memalign(align, 3);
        CHECK(p != NULL && (uintptr_t)p % align == 0);
        CHECK(dsm_free(p) == 0);
    }
}

static void wrong(char *all)
{
    char private = 0, *p = dsm_malloc(200);
    IS_NULL(dsm_malloc(SIZE_MAX), "raise SCASH_HEAP");
    IS_NULL(dsm_malloc((size_t)1 << 60), "raise SCASH_HEAP");
    IS_NULL(dsm_calloc(SIZE_MAX / 2, 3), "no address space");
    IS_NULL(dsm_memalign(0, 1), "power of two");
    IS_NULL(dsm_memalign(48, 1), "power of two");
    IS_NULL(dsm_memalign((size_t)1 << 63, 1), "raise SCASH_HEAP");
    IS_NULL(dsm_realloc(&private, 1), "is not in the heap");
    IS_NULL(dsm_realloc(all, 1), "is not in the heap");
    IS_NULL(dsm_realloc(p, SIZE_MAX), "raise SCASH_HEAP");
    FAILS(dsm_free(p + 16), "lies inside the object");
    FAILS(dsm_free(p + 1), "lies inside the object");
    FAILS(dsm_set_protocol(p, DSM_PROTOCOL_UPDATE), "have no protocol of their own");
    CHECK(dsm_free(p) == 0);
    FAILS(dsm_free(p), "was it freed before?");
    IS_NULL(dsm_realloc(p, 10), "was it freed before?");
}

int main(void)
{
    CHECK(dsm_init() == 0);
    struct all *all = dsm_alloc(sizeof *all);
    CHECK(all != NULL);
    sizes();
    wrong((char *)all);
    dsm_lock_t lock;
    CHECK(dsm_locks_create(1, &lock) == 0);
    pass_round(all, lock);
    sizes();
    CHECK(dsm_free(all) == 0);
    CHECK(dsm_finalize() == 0);
    return 0;
}
