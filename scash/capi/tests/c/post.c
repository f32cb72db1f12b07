/* Messages alone: in each round some are sent before the place for a checkpoint and received behind it, some are
 * awaited across it. Each rank prints a sum over all that it got.
 *
 * post DIRECTORY [MODE]: `never` has no place for a checkpoint, and rank 1 dies in its first start; with `reduces`,
 * `leaves` and `meets` rank 1 does something else where the others come to such a place. */
#include <scash_comm.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG (3 << 20)

static uint64_t sum = 1469598103934665603u;

static void mix(const void *bytes, size_t len) {
    const unsigned char *at = bytes;
    for (size_t i = 0; i < len; i++)
        sum = (sum ^ at[i]) * 1099511628211u;
}

static void must(int answer) {
    if (answer < 0) {
        fprintf(stderr, "%s\n", scomm_error());
        exit(1);
    }
}

static int is_first_start(void) {
    const char *incarnation = getenv("SCASH_INCARNATION");
    return incarnation == NULL || strcmp(incarnation, "0") == 0;
}

/* Where others come to a place for a checkpoint; 1: this rank has left. */
static int strays(const char *mode) {
    int64_t mine = 1, sum;
    if (strcmp(mode, "reduces") == 0)
        must(scomm_all_reduce(&mine, &sum, 1, SCOMM_TYPE_I64, SCOMM_OP_SUM));
    else if (strcmp(mode, "meets") == 0)
        must(scomm_barrier());
    else if (strcmp(mode, "leaves") == 0) {
        must(scomm_finalize());
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    const char *mode = argc > 2 ? argv[2] : "";
    must(scomm_init(NULL));
    int rank = scomm_rank(), size = scomm_size();
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    char *out = malloc(LONG), *in = malloc(LONG);
    for (int round = 0; round < 20; round++) {
        uint64_t word = (uint64_t)round * 1000 + (uint64_t)rank, late = 0, early = 0;
        scomm_request_t requests[2];
        if (*mode != 0 && strcmp(mode, "never") != 0 && round == 3) {
            if (rank == 1 && strays(mode))
                return 0;
            if (rank != 1)
                must(scomm_checkpoint());
        }
        memset(out, rank + round, LONG);
        must(scomm_irecv(previous, 3, &late, sizeof late, &requests[0]));
        must(scomm_isend(next, 2, out, LONG, &requests[1]));
        must(scomm_send(next, 1, &word, sizeof word));
        if (strcmp(mode, "never") != 0)
            must(scomm_checkpoint());
        else if (rank == 1 && round == 5 && is_first_start())
            raise(SIGKILL);
        must(scomm_send(next, 3, &word, sizeof word));
        must(scomm_recv(previous, 2, in, LONG, NULL));
        must(scomm_recv(previous, 1, &early, sizeof early, NULL));
        must(scomm_wait(&requests[0], NULL));
        must(scomm_wait(&requests[1], NULL));
        mix(in, LONG);
        mix(&early, sizeof early);
        mix(&late, sizeof late);
        must(scomm_barrier());
    }
    printf("rank %d: %016llx\n", rank, (unsigned long long)sum);
    free(out);
    free(in);
    must(scomm_finalize());
    return 0;
}
