/*
 * flags: ranks work one behind the other, as in a pipeline.
 *
 * Each rank owns some columns of a table, and needs of each row what the rank to its left has in it. A flag
 * has a number that only grows: here, how many rows its rank has done. A rank that waits
 * for a number sees all that was written before the flag was raised to it. There is no barrier.
 *
 * An entry is the sum of those above and to the left: the number of shortest ways to it.
 */
#include <scash.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(ok) ((ok) ? (void)0 : (fprintf(stderr, "%s\n", dsm_error()), exit(1)))

enum { SIDE = 30 };

typedef long long column_t[SIDE + 1];

int main(void)
{
    CHECK(dsm_init() == 0);
    int rank = dsm_rank(), size = dsm_size();
    column_t *ways = dsm_alloc((SIDE + 1) * sizeof *ways);
    CHECK(ways != NULL);
    dsm_flag_t done; /* the first of `size` flags: done + 1 is the next */
    CHECK(dsm_flags_create(size, &done) == 0);

    int begin = (SIDE + 1) * rank / size, end = (SIDE + 1) * (rank + 1) / size;
    for (int row = 0; row <= SIDE; row++) {
        if (rank > 0)
            CHECK(dsm_flag_wait(done + rank - 1, row + 1) == 0);
        for (int column = begin; column < end; column++)
            ways[column][row] = row == 0 || column == 0 ? 1 : ways[column][row - 1] + ways[column - 1][row];
        CHECK(dsm_flag_raise(done + rank, row + 1) == 0);
    }

    if (rank == size - 1)
        printf("a grid of %d by %d has %lld shortest ways\n", SIDE, SIDE, ways[SIDE][SIDE]);
    CHECK(dsm_finalize() == 0);
    return 0;
}
