/*
 * stencil: heat spreads on a plate, of which each rank owns some rows.
 *
 * In each step a point becomes the mean of its four neighbours. Ranks read the plate as it is, edge rows of
 * other ranks included, and write their rows of the next one. Then the two change roles: one barrier a step.
 *
 * All numbers are exact: of 4^20 in the middle C(20,10)^2 are there again after 20 steps.
 */
#include <scash.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(ok) ((ok) ? (void)0 : (fprintf(stderr, "%s\n", dsm_error()), exit(1)))

enum { ROWS = 64, COLUMNS = 512, STEPS = 20 };

typedef double row_t[COLUMNS]; /* as long as a page, so each page has one writer */

int main(void)
{
    CHECK(dsm_init() == 0);
    int rank = dsm_rank(), size = dsm_size();
    row_t *now = dsm_alloc(ROWS * sizeof *now);
    row_t *next = dsm_alloc(ROWS * sizeof *next);
    CHECK(now != NULL && next != NULL);

    int begin = ROWS * rank / size, end = ROWS * (rank + 1) / size;
    if (begin <= ROWS / 2 && ROWS / 2 < end)
        now[ROWS / 2][COLUMNS / 2] = 1LL << 2 * STEPS;
    CHECK(dsm_barrier() == 0);

    for (int step = 0; step < STEPS; step++) {
        for (int r = begin; r < end; r++)
            for (int c = 1; c < COLUMNS - 1 && r > 0 && r < ROWS - 1; c++) /* the border stays cold */
                next[r][c] = (now[r - 1][c] + now[r + 1][c] + now[r][c - 1] + now[r][c + 1]) / 4;
        CHECK(dsm_barrier() == 0);
        row_t *old = now;
        now = next;
        next = old;
    }

    if (rank == 0) {
        double heat = 0;
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLUMNS; c++)
                heat += now[r][c];
        printf("after %d steps the middle has %.0f of %.0f\n", STEPS, now[ROWS / 2][COLUMNS / 2], heat);
    }
    CHECK(dsm_finalize() == 0);
    return 0;
}
