/* A thread is there before `main`, as some libraries make them as they are loaded. */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

static void *sleeper(void *unused)
{
    while (pause() < 0)
        ;
    return unused;
}

/* Before what the archive of scash has the system call there. */
__attribute__((constructor(101))) static void begin(void)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, sleeper, NULL) == 0);
}

int main(void)
{
    int round;

    CHECK(dsm_init() == 0);
    for (round = 0; round < 12; round++)
        CHECK(dsm_barrier() == 0);
    printf("rank %d ends\n", dsm_rank());
    CHECK(dsm_finalize() == 0);
    return 0;
}
