/* A shared variable that begins with zeros, and no other: each rank writes an element, rank 0 counts them. */
#include <scash_shared.h>
#include <stdio.h>

DSM_SHARED_ZERO int written[10000];

int main(void)
{
    int rank, all = 0;
    if (dsm_init() != 0) {
        fprintf(stderr, "dsm_init: %s\n", dsm_error());
        return 1;
    }
    written[1000 * dsm_rank()] = 1;
    dsm_barrier();
    for (rank = 0; rank < dsm_size(); rank++)
        all += written[1000 * rank];
    if (dsm_rank() == 0)
        printf("%d ranks have written\n", all);
    return dsm_finalize() == 0 ? 0 : 1;
}
