/* The last rank leaves the job without dsm_finalize, while the others wait for it. */
#include "check.h"

int main(void)
{
    CHECK(dsm_init() == 0);
    if (dsm_rank() == dsm_size() - 1)
        return 0;
    dsm_barrier();
    return 0;
}
