/* A program as JIAJIA has them: compat/jia.h over scash.h. */
#include "jiajia.h"
#include <stdint.h>
#include <time.h>

#define PAGE 4096
#define N 48

static void pause_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* All ways to allocate: zeros, at the same address, with homes as they are asked for. */
static void allocations(void)
{
    const size_t size = 7 * PAGE;
    const int n = jiahosts, last = n - 1;
    char *plain = (char *)jia_alloc(size), *first = (char *)jia_alloc1(size);
    char *round = (char *)jia_alloc2(size, 2 * PAGE), *one = (char *)jia_alloc2p(size, last);
    char *from = (char *)jia_alloc3(size, PAGE + 1, last);
    char *whole = (char *)jia_alloc3(size, (size_t)-1, last);
    char *all[] = {plain, first, round, one, from, whole};
    for (int page = 0; page < 7; page++) {
        CHECK(dsm_home(plain + page * PAGE) == DSM_HOME_NONE);
        CHECK(dsm_home(first + page * PAGE) == 0);
        CHECK(dsm_home(round + page * PAGE) == page / 2 % n);
        CHECK(dsm_home(one + page * PAGE) == last && dsm_home(whole + page * PAGE) == last);
        CHECK(dsm_home(from + page * PAGE) == (last + page / 2) % n);
    }
    jia_barrier();
    for (int i = 0; i < 6; i++)
        for (size_t at = (size_t)jiapid; at < size; at += (size_t)n) {
            CHECK(all[i][at] == 0);
            all[i][at] = (char)(at % 100 + (size_t)i);
        }
    jia_barrier();
    for (int i = 0; i < 6; i++)
        for (size_t at = 0; at < size; at++)
            CHECK(all[i][at] == (char)(at % 100 + (size_t)i));
}

/* A product of matrices, by rows, and the same by this rank alone. */
static void product(void)
{
    double(*a)[N] = (double(*)[N])jia_alloc(N * N * sizeof(double));
    double(*b)[N] = (double(*)[N])jia_alloc2(N * N * sizeof(double), PAGE);
    double(*c)[N] = (double(*)[N])jia_alloc3(N * N * sizeof(double), PAGE, jiahosts - 1);
    int from = N * jiapid / jiahosts, to = N * (jiapid + 1) / jiahosts;
    for (int i = 0; jiapid == 0 && i < N; i++)
        for (int j = 0; j < N; j++) {
            a[i][j] = i + 2 * j;
            b[i][j] = i - j;
        }
    jia_barrier();
    for (int i = from; i < to; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++)
                c[i][j] += a[i][k] * b[k][j];
    jia_wait();
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < N; k++)
                sum += (double)(i + 2 * k) * (k - j);
            CHECK(c[i][j] == sum);
        }
}

/* Both files add to the same counts, so a lock must be the same in both. */
static void locks(void)
{
    int *counts = (int *)jia_alloc(JIA_LOCKS * sizeof *counts);
    for (int round = 0; round < ROUNDS; round++) {
        if (round % 2 == jiapid % 2)
            add(counts, JIA_LOCKS);
        else
            for (int i = JIA_LOCKS - 1; i >= 0; i--) {
                jia_lock(i);
                counts[i] += i + 1;
                jia_unlock(i);
            }
    }
    jia_barrier();
    for (int i = 0; i < JIA_LOCKS; i++)
        CHECK(counts[i] == jiahosts * ROUNDS * (i + 1));
}

/*
 * A number goes round: rank r waits for variable r, adds to the number, and sets variable r + 1 (the last
 * rank that of rank 0). A rank that goes on resets its variable, and must wait in the next round.
 */
static void relay(void)
{
    int *number = (int *)jia_alloc(sizeof *number), want = 0;
    const int cv = jiapid % JIA_CVS, next = (jiapid + 1) % jiahosts % JIA_CVS;
    for (int round = 0; round < ROUNDS; round++) {
        if (jiapid == 0 && round == 0)
            jia_setcv(cv);
        jia_waitcv(cv);
        jia_resetcv(cv);
        want = round * jiahosts + jiapid;
        CHECK(*number == want);
        /* A rank that did not have to wait would see an old number. */
        if (round < 3)
            pause_ms(20);
        *number = want + 1;
        jia_setcv(next);
    }
    jia_barrier();
    CHECK(*number == ROUNDS * jiahosts);
}

/* Rank 0 gives a number to the others, which wait for it. */
static void hand_over(int cv, int *word, int number)
{
    if (jiapid == 0) {
        pause_ms(10);
        *word = number;
        jia_setcv(cv);
        /* A second one changes nothing. */
        jia_setcv(cv);
    }
    jia_waitcv(cv);
    CHECK(*word == number);
    jia_waitcv(cv);
    jia_barrier();
    /* One rank or all: a second reset changes nothing, either. */
    if (jiapid == 0 || number % 2 == 0) {
        jia_resetcv(cv);
        jia_resetcv(cv);
    }
    jia_barrier();
}

static void set_and_reset(void)
{
    int *word = (int *)jia_alloc(sizeof *word);
    for (int number = 1; number <= 10; number++)
        hand_over(JIA_CVS - 1, word, number);
}

/* Adds to a count, and says what it was. */
static int count(int *number, int more)
{
    int was;
    jia_lock(0);
    was = *number;
    *number += more;
    jia_unlock(0);
    return was;
}

/* Whether the count comes to this number, within some seconds. */
static int comes_to(int *number, int want)
{
    for (int i = 0; i < 2000; i++) {
        if (count(number, 0) == want)
            return 1;
        pause_ms(1);
    }
    return 0;
}

/* Ranks that wait go on by a set that is reset at once. */
static void set_for_a_moment(void)
{
    int *counts = (int *)jia_alloc(3 * sizeof *counts), done = 0;
    if (jiapid > 0) {
        count(&counts[0], 1);
        jia_waitcv(0);
        CHECK(counts[2] == 7);
        count(&counts[1], 1);
    } else {
        while (!comes_to(&counts[0], jiahosts - 1))
            continue;
        counts[2] = 7;
        /* Once is enough, unless the machine is so busy that a rank does not come to wait for long. */
        for (int attempts = 0; !done && attempts < 3; attempts++) {
            pause_ms(100);
            jia_setcv(0);
            jia_resetcv(0);
            done = comes_to(&counts[1], jiahosts - 1);
        }
        CHECK(done);
    }
    jia_barrier();
}

static void clock_runs(void)
{
    double begin = jia_clock(), end;
    CHECK(begin >= 0 && begin < 100);
    pause_ms(30);
    end = jia_clock();
    CHECK(end - begin > 0.02 && end - begin < 50);
}

int main(int argc, char **argv)
{
    jia_init(argc, argv);
    CHECK(jiapid == dsm_rank() && jiahosts == dsm_size());
    same_rank(jiapid, jiahosts);
    jia_config(HMIG, ON);
    jia_startstat();
    clock_runs();
    allocations();
    product();
    locks();
    relay();
    jia_barrier();
    jia_resetcv(0);
    set_and_reset();
    set_for_a_moment();
    jia_stopstat();
    jia_exit();
    printf("rank %d of %d is through\n", jiapid, jiahosts);
    return 0;
}
