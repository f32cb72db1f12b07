/*
 * messages: a number goes from rank to rank, beside an array in shared memory.
 *
 * Each rank makes running sums of its part of the array. What the parts before it add up to, it gets in a
 * message from the rank before it. A message concerns two ranks only, and makes no other memory visible:
 * shared memory still takes a barrier. Messages are sent from memory of one's own, not from dsm_alloc.
 */
#include <scash.h>
#include <scash_comm.h>
#include <stdio.h>
#include <stdlib.h>

/* dsm_error tells of errors in message passing, too. */
#define CHECK(ok) ((ok) ? (void)0 : (fprintf(stderr, "%s\n", dsm_error()), exit(1)))

enum { COUNT = 1000000, CARRY = 1 /* a tag */ };

int main(void)
{
    CHECK(dsm_init() == 0);
    CHECK(scomm_init(NULL) == 0);
    long long rank = dsm_rank(), size = dsm_size(); /* the same numbers for messages */
    long long *sums = dsm_alloc(COUNT * sizeof *sums);
    CHECK(sums != NULL);

    long long begin = COUNT * rank / size, end = COUNT * (rank + 1) / size, total = 0, before = 0;
    for (long long i = begin; i < end; i++)
        sums[i] = total += i + 1;
    if (rank > 0)
        CHECK(scomm_recv(rank - 1, CARRY, &before, sizeof before, NULL) == 0);
    total += before;
    if (rank < size - 1)
        CHECK(scomm_send(rank + 1, CARRY, &total, sizeof total) == 0);
    for (long long i = begin; i < end; i++)
        sums[i] += before;

    CHECK(dsm_barrier() == 0);
    long long right = 0;
    for (long long i = 0; i < COUNT; i++)
        right += sums[i] == (i + 1) * (i + 2) / 2;
    if (rank == 0)
        printf("%lld running sums are right, and the last is %lld\n", right, sums[COUNT - 1]);
    CHECK(scomm_finalize() == 0);
    CHECK(dsm_finalize() == 0);
    return 0;
}
