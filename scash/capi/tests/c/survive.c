/* A program that survives its accesses to memory that is not allocated, and goes on with new allocations in
 * the same place. */
#include "check.h"
#include <setjmp.h>
#include <signal.h>

static sigjmp_buf back;
static volatile char *volatile seen;

static void on_segv(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    seen = info->si_addr;
    siglongjmp(back, 1);
}

/* A write there raises SIGSEGV with the address. */
static void is_refused(volatile char *at)
{
    seen = NULL;
    if (sigsetjmp(back, 1) == 0) {
        *at = 1;
        CHECK(!"the write went through");
    }
    CHECK(seen == at);
}

int main(void)
{
    /* The region has room for two of these, and a little behind them: the third is where the first was. */
    enum { ROUNDS = 4, PAGES = 8 };
    const long bytes = (long)PAGES * DSM_PAGE_SIZE;
    volatile char *places[ROUNDS];
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_segv;
    action.sa_flags = SA_SIGINFO;
    /* Before dsm_init: a fault engine that needs the signal itself passes on what is not its own. */
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    CHECK(dsm_init() == 0);
    for (int round = 0; round < ROUNDS; round++) {
        volatile char *a = dsm_alloc(bytes);
        CHECK(a != NULL);
        CHECK(round < 2 || a == places[round - 2]);
        places[round] = a;
        for (int page = 0; page < PAGES; page++) {
            CHECK(a[(long)page * DSM_PAGE_SIZE + dsm_rank()] == 0);
            a[(long)page * DSM_PAGE_SIZE + dsm_rank()] = (char)(round + 1);
        }
        CHECK(dsm_barrier() == 0);
        for (int page = 0; page < PAGES; page++)
            for (int rank = 0; rank < dsm_size(); rank++)
                CHECK(a[(long)page * DSM_PAGE_SIZE + rank] == round + 1);
        is_refused(a + bytes);
        is_refused(a + bytes);
        CHECK(dsm_free((void *)a) == 0);
        is_refused(a);
        is_refused(a + 3 * DSM_PAGE_SIZE + 5);
        is_refused(a + bytes - 1);
    }
    CHECK(dsm_alloc(bytes) == (void *)places[0]);
    CHECK(dsm_finalize() == 0);
    is_refused(places[0]);
    return 0;
}
