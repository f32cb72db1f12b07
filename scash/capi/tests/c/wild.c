/* Rank 0 touches memory that it does not have: shared memory after dsm_free, or beyond all allocations, or
 * memory of no kind. */
#include "check.h"
#include <sys/resource.h>
#include <unistd.h>

/* The others do nothing more: what ends the job is rank 0's end. */
static void stay_out_of_it(void)
{
    while (dsm_rank() != 0)
        pause();
}

int main(int argc, char **argv)
{
    const struct rlimit no_core = {0, 0};
    CHECK(argc == 2);
    CHECK(setrlimit(RLIMIT_CORE, &no_core) == 0);
    CHECK(dsm_init() == 0);
    volatile char *a = dsm_alloc(DSM_PAGE_SIZE);
    CHECK(a != NULL);
    a[dsm_rank()] = 1;
    dsm_barrier();
    if (strcmp(argv[1], "freed") == 0) {
        dsm_free((void *)a);
        stay_out_of_it();
        printf("%d\n", a[0]);
    } else if (strcmp(argv[1], "beyond") == 0) {
        stay_out_of_it();
        a[DSM_PAGE_SIZE] = 1;
    } else {
        stay_out_of_it();
        *(volatile char *)(size_t)16 = 1;
    }
    dsm_finalize();
    return 0;
}
