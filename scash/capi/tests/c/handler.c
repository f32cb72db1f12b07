/* A signal handler touches shared memory while its thread is in a function of the library, on which the
 * access has to wait: the rank says so and ends. */
#define _DEFAULT_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

/* More than signals come before one finds the thread where it must not be. */
#define PAGES 32768

static volatile char *a;
static volatile sig_atomic_t next;

static void touch(int signal)
{
    (void)signal;
    if (next == PAGES)
        _exit(1);
    a[(size_t)next++ * DSM_PAGE_SIZE] += 1;
}

static void be_disturbed(void)
{
    struct sigaction action;
    const struct itimerval often = {{0, 200}, {0, 200}};
    memset(&action, 0, sizeof action);
    action.sa_handler = touch;
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
}

int main(int argc, char **argv)
{
    dsm_flag_t flag;
    CHECK(argc == 2 && dsm_init() == 0);
    CHECK((a = (volatile char *)dsm_alloc((size_t)PAGES * DSM_PAGE_SIZE)) != NULL);
    CHECK(dsm_flags_create(1, &flag) == 0);
    /* All pages have their homes at the last rank; where there is one only, each is touched first in the
     * handler. */
    if (dsm_size() > 1 && dsm_rank() == dsm_size() - 1)
        for (size_t i = 0; i < PAGES; ++i)
            a[i * DSM_PAGE_SIZE] = 1;
    CHECK(dsm_barrier() == 0);
    if (dsm_rank() == 0) {
        be_disturbed();
        if (strcmp(argv[1], "wait") == 0)
            dsm_flag_wait(flag, 1);
        for (;;)
            dsm_home((void *)a);
    }
    dsm_flag_wait(flag, 1);
    return 1;
}
