/* Objects of synchronisation that one rank makes and one destroys, at any time: in a list whose nodes have a
 * lock each, of each kind, again and again; and what is wrong is told. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <time.h>

#define NUMBERS 60
#define ROUNDS 400

struct node {
    dsm_lock_t lock;
    int number, maker;
    struct node *next;
};

/* What all ranks share. */
struct all {
    struct node *first;
    dsm_rwlock_t rwlock;
    dsm_semaphore_t semaphore;
    dsm_condition_t condition;
    dsm_flag_t flag;
    int ready, count;
    unsigned added;
};

static struct node *new_node(int number, struct node *next)
{
    struct node *node = dsm_malloc(sizeof *node);
    CHECK(node != NULL && dsm_lock_new(&node->lock) == 0);
    node->number = number;
    node->maker = dsm_rank();
    node->next = next;
    return node;
}

/* The last node before `number`, and the one behind it: the locks of both are taken. */
static struct node *find(struct node *first, int number)
{
    struct node *before = first;
    CHECK(dsm_lock(before->lock) == 0 && dsm_lock(before->next->lock) == 0);
    while (before->next->number < number) {
        struct node *next = before->next;
        CHECK(dsm_lock(next->next->lock) == 0 && dsm_unlock(before->lock) == 0);
        before = next;
    }
    return before;
}

/* Each rank puts numbers into a sorted list, and takes numbers out, whoever put them there. */
static void list(struct all *all)
{
    unsigned random = 1 + dsm_rank();
    int added = 0;
    if (dsm_rank() == 0)
        all->first = new_node(-1, new_node(NUMBERS, NULL));
    CHECK(dsm_barrier() == 0);
    for (int round = 0; round < ROUNDS; round++) {
        random = random * 1103515245 + 12345;
        int number = (random >> 16) % NUMBERS;
        struct node *before = find(all->first, number), *at = before->next;
        int is_there = at->number == number;
        before->next = is_there ? at->next : new_node(number, at);
        added += is_there ? -1 : 1;
        CHECK(dsm_unlock(at->lock) == 0 && dsm_unlock(before->lock) == 0);
        if (is_there)
            CHECK(dsm_lock_delete(at->lock) == 0 && dsm_free(at) == 0);
    }
    CHECK(dsm_barrier() == 0);
    CHECK(dsm_fetch_add_u32(&all->added, (unsigned)added, NULL) == 0);
    CHECK(dsm_barrier() == 0);
    if (dsm_rank() == dsm_size() - 1) {
        int count = 0;
        struct node *node = all->first;
        for (int number = -2; node != NULL; count++) {
            struct node *next = node->next;
            CHECK(node->number > number);
            number = node->number;
            CHECK(dsm_lock_delete(node->lock) == 0 && dsm_free(node) == 0);
            node = next;
        }
        CHECK(count == (int)all->added + 2);
    }
    CHECK(dsm_barrier() == 0);
}

static void gone(struct all *all, dsm_lock_t lock)
{
    FAILS(dsm_lock(lock), "there is no lock");
    FAILS(dsm_try_lock(lock), "there is no lock");
    FAILS(dsm_lock_delete(lock), "there is no lock");
    FAILS(dsm_read_lock(all->rwlock), "there is no reader-writer lock");
    FAILS(dsm_write_lock(all->rwlock), "there is no reader-writer lock");
    FAILS(dsm_rwlock_delete(all->rwlock), "there is no reader-writer lock");
    FAILS(dsm_semaphore_wait(all->semaphore), "there is no semaphore");
    FAILS(dsm_semaphore_delete(all->semaphore), "there is no semaphore");
    FAILS(dsm_condition_delete(all->condition), "there is no condition");
    FAILS(dsm_flag_wait(all->flag, 0), "there is no flag");
    FAILS(dsm_flag_delete(all->flag), "there is no flag");
}

/* Rank 0 makes one of each kind, all use them, and the last rank destroys them. */
static void each_kind(struct all *all, dsm_lock_t common)
{
    int rank = dsm_rank(), last = dsm_size() - 1;
    dsm_lock_t lock = 0;
    all->ready = 0;
    CHECK(dsm_barrier() == 0);
    if (rank == 0) {
        CHECK(dsm_lock(common) == 0);
        CHECK(dsm_rwlock_new(&all->rwlock) == 0 && dsm_semaphore_new(3, &all->semaphore) == 0);
        CHECK(dsm_condition_new(&all->condition) == 0 && dsm_flag_new(&all->flag) == 0);
        all->count = 0;
        CHECK(dsm_unlock(common) == 0);
    }
    CHECK(dsm_barrier() == 0);
    CHECK(dsm_write_lock(all->rwlock) == 0);
    all->count++;
    CHECK(dsm_rw_unlock(all->rwlock) == 0);
    CHECK(dsm_read_lock(all->rwlock) == 0 && all->count > 0 && dsm_rw_unlock(all->rwlock) == 0);
    FAILS(dsm_semaphore_wait(all->rwlock), "is a reader-writer lock");
    FAILS(dsm_rwlocks_destroy(all->rwlock, 1), "was made by one rank");
    CHECK(dsm_semaphore_wait(all->semaphore) == 0 && dsm_semaphore_post(all->semaphore, 1) == 0);
    if (rank == 0) {
        CHECK(dsm_lock(common) == 0);
        all->ready = 1;
        CHECK(dsm_condition_broadcast(all->condition) == 0 && dsm_unlock(common) == 0);
        CHECK(dsm_flag_raise(all->flag, 7) == 0);
    }
    CHECK(dsm_lock(common) == 0);
    while (!all->ready)
        CHECK(dsm_condition_wait(all->condition, common) == 0);
    CHECK(dsm_unlock(common) == 0 && dsm_flag_wait(all->flag, 7) == 0);
    CHECK(dsm_barrier() == 0);
    CHECK(all->count == dsm_size());
    if (rank == last) {
        CHECK(dsm_lock_new(&lock) == 0 && dsm_lock(lock) == 0);
        FAILS(dsm_lock_delete(lock), "by the thread that has it");
        CHECK(dsm_unlock(lock) == 0 && dsm_lock_delete(lock) == 0);
        CHECK(dsm_rwlock_delete(all->rwlock) == 0 && dsm_semaphore_delete(all->semaphore) == 0);
        CHECK(dsm_condition_delete(all->condition) == 0 && dsm_flag_delete(all->flag) == 0);
        gone(all, lock);
    }
    CHECK(dsm_barrier() == 0);
}

/* Rank 0 waits for a condition, and the last rank is told so when it destroys that. Who gets the lock after
 * rank 0 knows that it waits. */
static void in_use(struct all *all, dsm_lock_t lock)
{
    if (dsm_size() == 1)
        return;
    all->ready = 0;
    if (dsm_rank() == 0)
        CHECK(dsm_condition_new(&all->condition) == 0);
    CHECK(dsm_barrier() == 0);
    CHECK(dsm_lock(lock) == 0);
    if (dsm_rank() == 0) {
        all->ready = 1;
        while (all->ready == 1)
            CHECK(dsm_condition_wait(all->condition, lock) == 0);
    } else if (dsm_rank() == dsm_size() - 1) {
        while (all->ready == 0)
            CHECK(dsm_unlock(lock) == 0 && dsm_lock(lock) == 0);
        FAILS(dsm_condition_delete(all->condition), "because a thread of rank 0 waits for it");
        all->ready = 2;
        CHECK(dsm_condition_signal(all->condition) == 0);
    }
    CHECK(dsm_unlock(lock) == 0 && dsm_barrier() == 0);
    if (dsm_rank() == dsm_size() - 1)
        CHECK(dsm_condition_delete(all->condition) == 0);
}

/* One rank makes and destroys more than there are numbers without a memory barrier. */
static void again_and_again(void)
{
    dsm_lock_t lock, before = 0;
    for (int round = 0; round < 5000; round++) {
        CHECK(dsm_lock_new(&lock) == 0 && lock != before);
        CHECK(dsm_lock(lock) == 0 && dsm_unlock(lock) == 0 && dsm_lock_delete(lock) == 0);
        before = lock;
    }
    FAILS(dsm_lock(before), "there is no lock");
    FAILS(dsm_unlock(before), "there is no lock");
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

/* What making and destroying locks costs: rank 0 makes them, and rank 0 or the last rank destroys them. */
static void cost(void)
{
    enum { LOCKS = 1000, TIMES = 20 };
    double made = 0, here = 0, there = 0, start;
    dsm_lock_t first, *locks;
    int last = dsm_rank() == dsm_size() - 1;
    CHECK(dsm_locks_create(1, &first) == 0);
    CHECK((locks = dsm_alloc(LOCKS * sizeof *locks)) != NULL);
    for (int time = 0; time < 2 * TIMES; time++) {
        start = now();
        for (int i = 0; dsm_rank() == 0 && i < LOCKS; i++)
            CHECK(dsm_lock_new(&locks[i]) == 0);
        made += now() - start;
        CHECK(dsm_barrier() == 0);
        start = now();
        for (int i = 0; (time < TIMES ? dsm_rank() == 0 : last) && i < LOCKS; i++)
            CHECK(dsm_lock_delete(locks[i]) == 0);
        *(time < TIMES ? &here : &there) += now() - start;
        CHECK(dsm_barrier() == 0);
    }
    if (dsm_rank() == 0)
        printf("made in %.0f ns, destroyed by the maker in %.0f ns\n", made / LOCKS / TIMES / 2, here / LOCKS / TIMES);
    if (last)
        printf("destroyed by rank %d in %.0f ns\n", dsm_rank(), there / LOCKS / TIMES);
}

int main(int argc, char **argv)
{
    dsm_lock_t common, lock;
    struct all *all;
    CHECK(dsm_init() == 0);
    if (argc > 1 && strcmp(argv[1], "cost") == 0) {
        cost();
        CHECK(dsm_finalize() == 0);
        return 0;
    }
    FAILS(dsm_lock_new(&lock), "before all ranks have made any together");
    CHECK(dsm_locks_create(1, &common) == 0);
    CHECK((all = dsm_alloc(sizeof *all)) != NULL);
    FAILS(dsm_lock_new(NULL), "NULL");
    FAILS(dsm_lock_delete(common), "made by all ranks together");
    list(all);
    for (int round = 0; round < 20; round++)
        each_kind(all, common);
    in_use(all, common);
    again_and_again();
    CHECK(dsm_barrier() == 0);
    again_and_again();
    CHECK(dsm_finalize() == 0);
    return 0;
}
