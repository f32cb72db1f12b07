/* Where protocols change: as is measured at the start, or as the program sets it (the argument says what);
 * all ranks have the same, and messages go by it. */
#include "comm_check.h"

enum { LONGEST = 1200000 };

static void around(size_t end)
{
    int rank = scomm_rank(), size = scomm_size(), previous = (rank + size - 1) % size, more;
    unsigned char *mine = (unsigned char *)room(LONGEST), *theirs = (unsigned char *)room(LONGEST);
    for (more = 0; more < 2; more++) {
        scomm_request_t request;
        scomm_status_t status;
        size_t len = end + (size_t)more;
        fill(mine, rank, len);
        OK(scomm_isend((rank + 1) % size, 1, mine, len, &request));
        OK(scomm_recv(previous, 1, theirs, LONGEST, &status));
        OK(scomm_wait(&request, NULL));
        CHECK(status.len == len && is_filled(theirs, previous, len));
    }
    free(mine);
    free(theirs);
}

int main(int argc, char **argv)
{
    scomm_options_t options;
    uint64_t ends[2], all[2 * 64];
    size_t eager, push;
    int size, to;
    const char *set = argc > 1 ? argv[1] : "nothing";
    OK(scomm_options(&options));
    CHECK(options.calibrate == 1);
    options.calibrate = 8;
    INVALID(scomm_init(&options), "0 or 1 is expected");
    OK(scomm_options(&options));
    if (strcmp(set, "eager") == 0)
        options.eager = 1000;
    if (strcmp(set, "push") == 0)
        options.push = 100000;
    if (strcmp(set, "calibrate") == 0)
        options.calibrate = 0;
    OK(scomm_init(&options));
    size = scomm_size();
    CHECK(size <= 64);
    OK(scomm_thresholds(size - 1, &eager, &push));
    CHECK(eager == options.eager && (push == options.push || push == options.eager));
    CHECK((strcmp(set, "push") != 0 && strcmp(set, "calibrate") != 0) || push == options.push);
    ends[0] = eager;
    ends[1] = push;
    OK(scomm_all_gather(ends, sizeof ends, all));
    for (to = 0; to < size; to++)
        CHECK(all[2 * to] == eager && all[2 * to + 1] == push);
    around(eager);
    around(push);
    OK(scomm_thresholds(0, NULL, NULL));
    INVALID(scomm_thresholds(size, &eager, &push), "counted from 0");
    OK(scomm_finalize());
    return 0;
}
