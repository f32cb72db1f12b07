/* Rank 0 runs main; the others find its variables where they lie, and run what it gives them. Arguments: a kind of
 * wrong use, or none. */
#include <scash_spawn.h>
#include "check.h"

/* More than one message takes. */
#define MANY 50000

struct list {
    struct list *next;
    long value;
};

static long plain = 1, unset;
static long many[MANY];
static const char *name = "nobody";
static long *within = NULL;
static struct list *shared = NULL;
static long (*weigh)(long) = NULL;
static long *sums = NULL;

static long twice(long n)
{
    return 2 * n;
}

static long thrice(long n)
{
    return 3 * n;
}

/* Everything that main has set up for this round. */
static void work(void *argument)
{
    struct list *at;
    long sum = 0, round = (long)(intptr_t)argument;
    int i;
    CHECK(plain == 10 * round && unset == 20 * round && strcmp(name, round == 1 ? "one" : "more") == 0);
    CHECK((getenv("ONLY_OTHERS") != NULL) == (dsm_rank() != 0));
    CHECK(within == &many[round]);
    for (i = 0; i < MANY; i++)
        CHECK(many[i] == round * i);
    for (at = shared; at != NULL; at = at->next)
        sum += weigh(at->value);
    sums[dsm_rank()] = sum;
    CHECK(dsm_barrier() == 0);
    for (i = 0; i < dsm_size(); i++)
        CHECK(sums[i] == (round == 1 ? 2 : 3) * 5050);
    /* Of no use to anybody: it is this rank's own. */
    plain = -1;
    if (dsm_rank() != 0) {
        name = "lost";
        printf("rank %d, round %ld\n", dsm_rank(), round);
    }
}

static void spawn_too(void *unused)
{
    (void)unused;
    CHECK(dsm_rank() == 0 || (dsm_spawn(work, NULL) == -1 && dsm_spawn_wait() == -1));
}

/* Each rank's environment is its own. */
static void prepare(void)
{
    CHECK(dsm_rank() == 0 || setenv("ONLY_OTHERS", "yes", 1) == 0);
}

int main(int argc, char **argv)
{
    long round;
    int i;
    if (dsm_init_spawn_with(prepare) != 0)
        return 3;
    CHECK(dsm_rank() == 0);
    puts("main");
    if (argc > 1) {
        CHECK(strcmp(argv[1], "wrong") == 0);
        CHECK(dsm_spawn(NULL, NULL) == -1);
        CHECK(dsm_spawn(spawn_too, NULL) == 0);
        CHECK(dsm_spawn(spawn_too, NULL) == -1);
        return dsm_finalize_spawn() == 0 ? 0 : 4;
    }
    for (i = 1; i <= 100; i++) {
        struct list *node = (struct list *)dsm_malloc(sizeof *node);
        CHECK(node != NULL);
        node->value = i;
        node->next = shared;
        shared = node;
    }
    sums = (long *)dsm_calloc((size_t)dsm_size(), sizeof *sums);
    CHECK(sums != NULL);
    for (round = 1; round <= 3; round++) {
        plain = 10 * round;
        unset = 20 * round;
        name = round == 1 ? "one" : "more";
        within = &many[round];
        weigh = round == 1 ? twice : thrice;
        for (i = 0; i < MANY; i++)
            many[i] = round * i;
        CHECK(dsm_spawn(work, (void *)(intptr_t)round) == 0);
        work((void *)(intptr_t)round);
        CHECK(dsm_spawn_wait() == 0 && dsm_spawn_wait() == 0);
        CHECK(plain == -1 && strcmp(name, "lost") != 0);
    }
    return dsm_finalize_spawn() == 0 ? 0 : 4;
}
