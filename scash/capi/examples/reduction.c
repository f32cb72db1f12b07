/*
 * reduction: each rank has a number, and all get the sum.
 *
 * Ranks compute strips of the area below 4 / (1 + x^2), which is pi. dsm_all_reduce_f64 replaces what each
 * rank has by the sum over all ranks, with the same bits everywhere. No shared memory is needed.
 */
#include <scash.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(ok) ((ok) ? (void)0 : (fprintf(stderr, "%s\n", dsm_error()), exit(1)))

enum { STRIPS = 1000000 };

int main(void)
{
    CHECK(dsm_init() == 0);
    double area = 0;
    for (int i = dsm_rank(); i < STRIPS; i += dsm_size()) {
        double x = (i + 0.5) / STRIPS;
        area += 4 / (1 + x * x) / STRIPS;
    }
    CHECK(dsm_all_reduce_f64(&area, 1, DSM_REDUCTION_SUM) == 0);
    if (dsm_rank() == 0)
        printf("pi is %.9f\n", area);
    CHECK(dsm_finalize() == 0);
    return 0;
}
