/* A rank leaves the job without scomm_finalize, while the others wait for a message of its. */
#include "comm_check.h"

int main(void)
{
    int never;
    OK(scomm_init(NULL));
    if (scomm_rank() == scomm_size() - 1)
        return 0;
    FAILS(scomm_recv(scomm_size() - 1, 0, &never, sizeof never, NULL), SCOMM_ERROR_DOWN, "is gone");
    puts("told");
    return 0;
}
