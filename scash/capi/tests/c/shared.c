/* Variables that are shared: in two files, with values and without, and pointers from one to another. The
 * ranks check what they begin with, then change them in turns. Prints a line for each rank. */
#include "check.h"
#include <scash_shared.h>

enum { PAGES = 64, EACH = 1000 };

struct node {
    struct node *next;
    int value;
};

extern int theirs[4], theirs_zeroed[3000], theirs_count, *theirs_pointer;
const char **theirs_name(void);

DSM_SHARED int rounds = 3;
DSM_SHARED struct node last = {NULL, 7}, first = {&last, 5};
static DSM_SHARED struct node *list = &first;
static DSM_SHARED const char *where = "in each rank";
DSM_SHARED_ZERO char field[PAGES][DSM_PAGE_SIZE];
DSM_SHARED_ZERO long sums[64];
static int own = 1;

int main(void)
{
    int rank, size, i, round;
    dsm_lock_t lock;
    char *more;
    size_t align;
    if (dsm_init() != 0) {
        fprintf(stderr, "dsm_init: %s\n", dsm_error());
        return 1;
    }
    rank = dsm_rank();
    size = dsm_size();
    CHECK(rounds == 3 && list == &first && list->next == &last && last.value == 7 && own == 1);
    CHECK(strcmp(where, "in each rank") == 0);
    CHECK(theirs[0] == 1 && theirs[3] == 4 && theirs_zeroed[2999] == 0 && theirs_count == 0);
    CHECK(theirs_pointer == theirs && strcmp(*theirs_name(), "nobody") == 0);
    for (i = 0; i < PAGES; i++)
        CHECK(field[i][i] == 0);
    /* What is allocated lies behind them. */
    more = dsm_alloc(100);
    CHECK(more >= (char *)field + sizeof field && more >= (char *)sums + sizeof sums);
    /* Shared memory begins at no multiple of a GiB here. */
    for (align = 1 << 12; align <= (size_t)1 << 30; align <<= 6) {
        more = dsm_memalign(align, 100);
        CHECK(more != NULL && (uintptr_t)more % align == 0);
    }
    CHECK(dsm_locks_create(1, &lock) == 0);
    for (round = 0; round < rounds; round++) {
        for (i = rank; i < PAGES; i += size)
            memset(field[i], 1 + round + i, DSM_PAGE_SIZE);
        for (i = 0; i < EACH; i++) {
            CHECK(dsm_lock(lock) == 0);
            theirs[1]++;
            list->value += 1;
            CHECK(dsm_unlock(lock) == 0);
        }
        sums[rank] += rank + 1;
        own++;
        CHECK(dsm_barrier() == 0);
        for (i = 0; i < PAGES; i++)
            CHECK(field[i][0] == (char)(1 + round + i) && field[i][DSM_PAGE_SIZE - 1] == field[i][0]);
        CHECK(dsm_barrier() == 0);
    }
    CHECK(theirs[1] == 2 + 3 * EACH * size && first.value == 5 + 3 * EACH * size && own == 4);
    for (i = 0; i < size; i++)
        CHECK(sums[i] == 3 * (i + 1));
    /* Rank 0's new list is everybody's. */
    if (rank == 0) {
        list = &last;
        theirs_pointer = &theirs_count;
        *theirs_pointer = 5;
        *theirs_name() = where;
    }
    CHECK(dsm_barrier() == 0);
    CHECK(list->value == 7);
    CHECK(theirs_count == 5 && theirs_pointer == &theirs_count && *theirs_name() == where);
    printf("rank %d: %p\n", rank, (void *)&rounds);
    CHECK(dsm_finalize() == 0);
    return 0;
}
