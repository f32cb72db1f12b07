/* Shared memory and messages in one program. */
#include "comm_check.h"
#include <scash.h>

int main(void)
{
    int rank, size, *shared, mine, theirs, round;
    OK(dsm_init());
    OK(scomm_init(NULL));
    rank = scomm_rank();
    size = scomm_size();
    CHECK(rank == dsm_rank() && size == dsm_size());
    CHECK((shared = (int *)dsm_alloc((size_t)size * DSM_PAGE_SIZE)) != NULL);
    for (round = 1; round <= 20; round++) {
        int to = (rank + round) % size, from = (rank + size * round - round) % size, sum;
        scomm_request_t request;
        OK(scomm_irecv(from, round, &theirs, sizeof theirs, &request));
        shared[rank] = round * (rank + 1);
        OK(dsm_barrier());
        mine = shared[to];
        OK(scomm_send(to, round, &mine, sizeof mine));
        OK(scomm_wait(&request, NULL));
        CHECK(theirs == round * (rank + 1)); /* what another rank read of mine */
        OK(scomm_all_reduce(&mine, &sum, 1, SCOMM_TYPE_I32, SCOMM_OP_SUM));
        CHECK(sum == round * size * (size + 1) / 2);
        OK(dsm_barrier());
    }
    INVALID(scomm_send(rank, 0, shared, 4), "memory of dsm_alloc");
    INVALID(scomm_recv(rank, 0, (char *)shared - 1, 4, NULL), "memory of dsm_alloc");
    INVALID(scomm_all_reduce(&mine, shared, 1, SCOMM_TYPE_I32, SCOMM_OP_SUM), "memory of dsm_alloc");
    CHECK(dsm_finalize() == -1 && strstr(dsm_error(), "before scomm_finalize") != NULL);
    OK(scomm_finalize());
    OK(dsm_barrier());
    OK(dsm_finalize());
    return 0;
}
