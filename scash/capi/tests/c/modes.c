/* Threads that compute in other modes than threads begin with: how they round, whether they take tiny numbers
   for zero, and how long a mantissa is. One comes to barriers, one computes and one sleeps beside it; each finds
   what it has set, whoever was killed meanwhile. */
#include "check.h"
#include <fenv.h>
#include <pthread.h>
#include <time.h>

#define ROUNDS 12

static int is_over;

#if defined __x86_64__
/* Tiny results and tiny operands are zero; x87 computes with 53 bits. */
#define TINY_IS_ZERO 0x8040u
#define SHORT_MANTISSA 0x0200u

static unsigned sse(void)
{
    unsigned control;

    __asm__ volatile("stmxcsr %0" : "=m"(control));
    return control;
}

static unsigned short x87(void)
{
    unsigned short control;

    __asm__ volatile("fnstcw %0" : "=m"(control));
    return control;
}

static void set_others(void)
{
    unsigned control = sse() | TINY_IS_ZERO;
    unsigned short mantissa = (unsigned short)((x87() & ~0x0300u) | SHORT_MANTISSA);

    __asm__ volatile("ldmxcsr %0" : : "m"(control));
    __asm__ volatile("fldcw %0" : : "m"(mantissa));
}

static int are_others_set(void)
{
    volatile double tiny = 1e-300;

    return (sse() & TINY_IS_ZERO) == TINY_IS_ZERO && (x87() & 0x0300u) == SHORT_MANTISSA && tiny * 1e-10 == 0;
}
#else
static void set_others(void)
{
}

static int are_others_set(void)
{
    return 1;
}
#endif

/* 1/3 and -1/3: no two modes have the same two. */
static void thirds(double two[2])
{
    volatile double one = 1, three = 3;

    two[0] = one / three;
    two[1] = -one / three;
}

static void nap(void)
{
    struct timespec millisecond = {0, 1000000};

    nanosleep(&millisecond, NULL);
}

/* What the thread computes and has set is what it was. */
static void check(int mode, const double before[2])
{
    double now[2];

    thirds(now);
    CHECK(fegetround() == mode && are_others_set());
    CHECK(now[0] == before[0] && now[1] == before[1]);
}

static void *compute(void *sleeps)
{
    int mode = sleeps == NULL ? FE_UPWARD : FE_TOWARDZERO;
    double before[2];

    CHECK(fesetround(mode) == 0);
    set_others();
    thirds(before);
    while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST)) {
        if (sleeps != NULL)
            nap();
        check(mode, before);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    double usual[2], before[2];
    int i;

    CHECK(dsm_init() == 0);
    thirds(usual);
    CHECK(pthread_create(&threads[0], NULL, compute, NULL) == 0);
    CHECK(pthread_create(&threads[1], NULL, compute, &is_over) == 0);
    CHECK(fesetround(FE_DOWNWARD) == 0);
    set_others();
    thirds(before);
    CHECK(before[1] < usual[1]);
    for (i = 0; i < ROUNDS; i++) {
        nap();
        CHECK(dsm_barrier() == 0);
        check(FE_DOWNWARD, before);
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_SEQ_CST);
    for (i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    printf("rank %d ends\n", dsm_rank());
    CHECK(dsm_finalize() == 0);
    return 0;
}
