/* Started without a launcher: before scomm_init nothing works, and every call says why; then it is a job of
 * one rank. */
#include "comm_check.h"

enum { LONG = 3 << 20 };

static void before_init(void)
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
}

/* A message to this rank itself, and one more, and what ranks do together. */
static void a_job_of_one_rank(size_t len)
{
    scomm_request_t request;
    unsigned char *from = (unsigned char *)room(len), *into = (unsigned char *)room(len);
    int mine = 7, sum = 0;
    fill(from, 1, len);
    OK(scomm_irecv(0, 5, into, len, &request));
    OK(scomm_send(0, 5, from, len));
    OK(scomm_wait(&request, NULL));
    CHECK(is_filled(into, 1, len));
    OK(scomm_barrier());
    OK(scomm_all_reduce(&mine, &sum, 1, SCOMM_TYPE_I32, SCOMM_OP_SUM));
    CHECK(sum == mine);
    free(from);
    free(into);
}

int main(void)
{
    before_init();
    OK(scomm_init(NULL));
    CHECK(scomm_rank() == 0 && scomm_size() == 1 && scomm_threads() == 1);
    a_job_of_one_rank(8);
    a_job_of_one_rank(LONG);
    OK(scomm_finalize());
    INVALID(scomm_barrier(), "after scomm_finalize");
    return 0;
}
