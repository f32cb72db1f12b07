/* scomm_finalize with operations under way: it says how many, ends nothing, and no message is lost. */
#include "comm_check.h"

enum { LONG = 3000000 };

int main(void)
{
    scomm_request_t send, receive, never, barrier;
    scomm_status_t status;
    unsigned char *mine, *theirs;
    int rank, size, next, previous, done, number = 0;
    OK(scomm_init(NULL));
    rank = scomm_rank();
    size = scomm_size();
    next = (rank + 1) % size;
    previous = (rank + size - 1) % size;
    mine = (unsigned char *)room(LONG);
    theirs = (unsigned char *)room(LONG);
    fill(mine, rank, LONG);

    OK(scomm_irecv(previous, 7, &number, sizeof number, &never));
    INVALID(scomm_finalize(), "1 operation ");
    INVALID(scomm_finalize(), "not waited for it");
    OK(scomm_isend(next, 1, mine, LONG, &send));
    OK(scomm_irecv(previous, 1, theirs, LONG, &receive));
    OK(scomm_ibarrier(&barrier));
    INVALID(scomm_finalize(), "4 operations ");
    INVALID(scomm_finalize(), "scomm_wait");

    /* Nothing was ended or lost. */
    OK(scomm_wait(&receive, &status));
    CHECK(status.len == LONG && is_filled(theirs, previous, LONG));
    OK(scomm_wait(&send, NULL));
    INVALID(scomm_finalize(), "2 operations ");
    OK(scomm_wait(&barrier, NULL));
    OK(scomm_cancel(&never, &done));
    CHECK(done == 1);

    /* What is over, and was not waited for, is under way as far as anybody knows. */
    OK(scomm_irecv(rank, 8, &number, sizeof number, &receive));
    OK(scomm_send(rank, 8, &size, sizeof size));
    OK(scomm_barrier());
    INVALID(scomm_finalize(), "1 operation ");
    OK(scomm_wait(&receive, NULL));
    CHECK(number == size);
    OK(scomm_finalize());
    INVALID(scomm_finalize(), "after scomm_finalize");
    free(mine);
    free(theirs);
    return 0;
}
