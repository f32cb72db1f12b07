/* Started without `scash run`: nothing works, and every call says why. */
#include "comm_check.h"

int main(void)
{
    char byte = 0, other;
    int number;
    scomm_request_t request = SCOMM_REQUEST_NULL;
    CHECK(strcmp(scomm_error(), "") == 0);
    INVALID(scomm_rank(), "scomm_rank was called before scomm_init");
    INVALID(scomm_size(), "before scomm_init");
    INVALID(scomm_send(0, 0, &byte, 1), "before scomm_init");
    INVALID(scomm_irecv(0, 0, &byte, 1, &request), "before scomm_init");
    INVALID(scomm_wait(&request, NULL), "before scomm_init");
    INVALID(scomm_test_any(1, &request, &number, &number, NULL), "before scomm_init");
    INVALID(scomm_iprobe(0, 0, &number, NULL), "before scomm_init");
    INVALID(scomm_cancel(&request, &number), "before scomm_init");
    INVALID(scomm_barrier(), "before scomm_init");
    INVALID(scomm_iall_reduce(&byte, &other, 1, SCOMM_TYPE_I8, SCOMM_OP_SUM, &request), "before scomm_init");
    CHECK(scomm_alloc(1) == NULL && strstr(scomm_error(), "before scomm_init") != NULL);
    INVALID(scomm_finalize(), "before scomm_init");
    INVALID(scomm_init(NULL), "scash run");
    INVALID(scomm_barrier(), "or scomm_init failed");
    return 0;
}
