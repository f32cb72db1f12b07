/*
 * queue: tasks make tasks, and each rank takes the next one when it is free.
 *
 * A task is a range of numbers, whose primes are counted. A worker that takes a long range gives half of it
 * away. The queue lies in shared memory and belongs to the rank that has its lock. Ranks that find it empty
 * wait for a condition, until there is a task or no rank works any more.
 */
#include <scash.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(ok) ((ok) ? (void)0 : (fprintf(stderr, "%s\n", dsm_error()), exit(1)))

enum { LIMIT = 100000, SHORT = 1000, MOST = 128 /* so many ranges are SHORT after halving LIMIT */ };

struct range { int from, to; };

static struct queue {
    int count, working; /* tasks that wait; ranks that may still make some */
    struct range tasks[MOST];
} *queue;
static dsm_lock_t lock;
static dsm_condition_t changed;

static void give(struct range task)
{
    CHECK(dsm_lock(lock) == 0);
    queue->tasks[queue->count++] = task;
    CHECK(dsm_condition_signal(changed) == 0);
    CHECK(dsm_unlock(lock) == 0);
}

/* This rank has done what it had. Takes a task, or returns 0 if there will be none any more. */
static int take(struct range *task)
{
    CHECK(dsm_lock(lock) == 0);
    queue->working--;
    while (queue->count == 0 && queue->working > 0)
        CHECK(dsm_condition_wait(changed, lock) == 0);
    int found = queue->count > 0;
    if (found)
        *task = queue->tasks[--queue->count];
    else
        CHECK(dsm_condition_broadcast(changed) == 0);
    queue->working += found;
    CHECK(dsm_unlock(lock) == 0);
    return found;
}

static int is_prime(int number)
{
    for (int i = 2; i * i <= number; i++)
        if (number % i == 0)
            return 0;
    return number > 1;
}

int main(void)
{
    CHECK(dsm_init() == 0);
    CHECK((queue = dsm_alloc(sizeof *queue)) != NULL);
    CHECK(dsm_locks_create(1, &lock) == 0 && dsm_conditions_create(1, &changed) == 0);
    if (dsm_rank() == 0)
        *queue = (struct queue){.count = 1, .working = dsm_size(), .tasks = {{0, LIMIT}}};
    CHECK(dsm_barrier() == 0);

    int64_t primes = 0;
    for (struct range task; take(&task);) {
        for (; task.to - task.from > SHORT; task.to = (task.from + task.to) / 2)
            give((struct range){(task.from + task.to) / 2, task.to});
        for (int number = task.from; number < task.to; number++)
            primes += is_prime(number);
    }

    CHECK(dsm_all_reduce_i64(&primes, 1, DSM_REDUCTION_SUM) == 0);
    if (dsm_rank() == 0)
        printf("there are %d primes below %d\n", (int)primes, LIMIT);
    CHECK(dsm_finalize() == 0);
    return 0;
}
