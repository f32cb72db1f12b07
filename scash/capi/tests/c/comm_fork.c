/* Children that ranks fork are told that they are no ranks, and disturb no message. */
#include "comm_check.h"
#include <sys/wait.h>
#include <unistd.h>

#define REFUSED(call) INVALID(call, "in a child that a rank has forked")

static void be_refused(void *registered)
{
    char byte = 1;
    scomm_request_t request;
    scomm_status_t status;
    alarm(60);
    REFUSED(scomm_rank());
    REFUSED(scomm_send(0, 0, &byte, 1));
    REFUSED(scomm_isend(0, 0, &byte, 1, &request));
    REFUSED(scomm_recv(0, 0, &byte, 1, &status));
    REFUSED(scomm_barrier());
    REFUSED(scomm_call(0, 0, &byte, 1));
    REFUSED(scomm_fence(SCOMM_ALL_RANKS));
    REFUSED(scomm_free(registered));
    REFUSED(scomm_init(NULL));
    REFUSED(scomm_finalize());
    CHECK(scomm_alloc(1) == NULL);
}

int main(void)
{
    OK(scomm_init(NULL));
    int rank = scomm_rank(), size = scomm_size(), status;
    void *registered = scomm_alloc(100);
    CHECK(registered != NULL);
    for (int round = 0; round < 20; ++round) {
        char theirs[64];
        int from = (rank + size - 1) % size;
        OK(scomm_send((rank + 1) % size, round, "from a rank", 12));
        pid_t child = fork();
        if (child == 0) {
            be_refused(registered);
            exit(0);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
        OK(scomm_recv(from, round, theirs, sizeof theirs, NULL));
        CHECK(strcmp(theirs, "from a rank") == 0);
    }
    OK(scomm_free(registered));
    OK(scomm_finalize());
    return 0;
}
