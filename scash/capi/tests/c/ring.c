/* The example at the head of scash_comm.h: each rank sends its number to the next one. */
#include <scash_comm.h>
#include <stdio.h>

int main(void)
{
    scomm_status_t status;
    int mine, theirs;
    if (scomm_init(NULL) != 0) {
        fprintf(stderr, "%s\n", scomm_error());
        return 1;
    }
    mine = scomm_rank();
    scomm_send((mine + 1) % scomm_size(), 7, &mine, sizeof mine);
    scomm_recv(SCOMM_ANY_SOURCE, 7, &theirs, sizeof theirs, &status);
    printf("rank %d: %d bytes from rank %d\n", mine, (int)status.len, status.source);
    return scomm_finalize() != 0;
}
