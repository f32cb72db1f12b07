/*
 * hello: ranks write parts of one array, and read all of it.
 *
 * dsm_alloc gives all ranks the same memory, at the same address, filled with zeros. Loads and stores reach
 * it like any other memory. After dsm_barrier each rank sees what all ranks wrote before it.
 */
#include <scash.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(ok) ((ok) ? (void)0 : (fprintf(stderr, "%s\n", dsm_error()), exit(1)))

enum { COUNT = 1000000 };

int main(void)
{
    CHECK(dsm_init() == 0);
    long long rank = dsm_rank(), size = dsm_size();
    long long *squares = dsm_alloc(COUNT * sizeof *squares);
    CHECK(squares != NULL);

    for (long long i = COUNT * rank / size; i < COUNT * (rank + 1) / size; i++)
        squares[i] = i * i;
    CHECK(dsm_barrier() == 0);

    long long sum = 0;
    for (int i = 0; i < COUNT; i++)
        sum += squares[i];
    printf("rank %lld of %lld: the sum of all squares is %lld\n", rank, size, sum);
    CHECK(dsm_finalize() == 0);
    return 0;
}
