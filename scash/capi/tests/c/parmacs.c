/* A program of the PARMACS macros: numbers are dealt by a counter, sorted by buckets under locks, and summed in an
 * order that a pause decides. Arguments: processes; `twice` creates them by one call each. */
#include <parmacs.h>

#include <string.h>

MAIN_ENV

#define NUMBERS 3000
#define BUCKETS 16

struct global {
    BARDEC(start)
    LOCKDEC(total)
    ALOCKDEC(bucket, BUCKETS)
    GSDEC(next)
    PAUSEDEC(turn[2])
    int count[BUCKETS];
    unsigned bucketed[BUCKETS][NUMBERS];
    unsigned long sum;
    int order;
};

static struct global *all;
static int processes;
static unsigned *numbers;
static unsigned long expected;

static void fail(const char *what)
{
    fprintf(stderr, "rank %d: %s\n", dsm_rank(), what);
    exit(1);
}

static void deal(void)
{
    int i;
    for (;;) {
        GETSUB(all->next, i, NUMBERS - 1, processes)
        if (i < 0)
            break;
        int bucket = (int)(numbers[i] % BUCKETS);
        ALOCK(all->bucket, bucket)
        all->bucketed[bucket][all->count[bucket]++] = numbers[i];
        AULOCK(all->bucket, bucket)
    }
}

static void slave(void)
{
    unsigned long sum = 0;
    int me = dsm_rank(), bucket, i;
    BARRIER(all->start, processes)
    deal();
    for (bucket = me; bucket < BUCKETS; bucket += processes)
        for (i = 0; i < all->count[bucket]; i++) {
            if (all->bucketed[bucket][i] % BUCKETS != (unsigned)bucket)
                fail("a number is in a wrong bucket");
            sum += all->bucketed[bucket][i];
        }
    LOCK(all->total)
    all->sum += sum;
    UNLOCK(all->total)
    if (me == processes - 1) {
        all->order = 1;
        SETPAUSE(all->turn[1])
    }
    WAITPAUSE(all->turn[1])
    if (all->order != 1)
        fail("who waits for a pause does not see what was written before it was set");
    BARRIER(all->start, processes)
    if (all->sum != expected)
        fail("the sum is wrong");
    CLEARPAUSE(all->turn[1])
}

int main(int argc, char **argv)
{
    unsigned long began, ended;
    int i, twice = argc > 2 && strcmp(argv[2], "twice") == 0;
    MAIN_INITENV(, 80000000)
    CLOCK(began)
    processes = argc > 1 ? atoi(argv[1]) : 1;
    all = (struct global *)G_MALLOC(sizeof *all);
    numbers = (unsigned *)G_MALLOC(NUMBERS * sizeof *numbers);
    if (all == NULL || numbers == NULL)
        return 1;
    memset(all, 0, sizeof *all);
    BARINIT(all->start, processes)
    LOCKINIT(all->total)
    ALOCKINIT(all->bucket, BUCKETS)
    GSINIT(all->next)
    PAUSEINIT(all->turn[0])
    PAUSEINIT(all->turn[1])
    for (i = 0; i < NUMBERS; i++) {
        numbers[i] = (unsigned)i * 2654435761u >> 7;
        expected += numbers[i];
    }
    if (twice) {
        for (i = 1; i < processes; i++)
            CREATE(slave)
        slave();
    } else {
        CREATE(slave, processes)
    }
    WAIT_FOR_END(processes - 1)
    if (all->sum != expected)
        fail("main sees another sum");
    if (twice) {
        /* Once more, from the beginning. */
        memset(all->count, 0, sizeof all->count);
        all->sum = 0;
        all->order = 0;
        CREATE(slave, processes)
        WAIT_FOR_END(processes - 1)
    }
    CLOCK(ended)
    if (ended < began)
        fail("the clock goes back");
    G_FREE(numbers)
    printf("%lu\n", all->sum);
    MAIN_END
}
