/* Asks for checkpoints, of which it is told whether they are committed, and how often ranks have come back.
 * asks COMMITTED INCARNATION: what the call returns, and the incarnation at the end. */
#include "check.h"

enum { ROUNDS = 6 };

int main(int argc, char **argv)
{
    int64_t incarnation = 0, now;
    long *sums;
    int round, i, committed;

    CHECK(argc == 3);
    committed = atoi(argv[1]);
    CHECK(dsm_init() == 0);
    sums = dsm_alloc(DSM_PAGE_SIZE);
    CHECK(sums != NULL && dsm_incarnation() == 0);
    for (round = 0; round < ROUNDS; round++) {
        sums[dsm_rank()] += dsm_rank() + round;
        CHECK(dsm_barrier() == 0);
        CHECK(dsm_checkpoint_now() == committed);
        now = dsm_incarnation();
        CHECK(now >= incarnation && now <= atoi(argv[2]));
        incarnation = now;
    }
    CHECK(incarnation == atoi(argv[2]));
    for (i = 0; i < dsm_size(); i++)
        CHECK(sums[i] == ROUNDS * i + ROUNDS * (ROUNDS - 1) / 2);
    printf("rank %d ends\n", dsm_rank());
    CHECK(dsm_finalize() == 0);
    return 0;
}
