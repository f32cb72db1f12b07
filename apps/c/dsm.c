/* The DSM, for the rest of the program. */
#include "dsm.h"

#include <scash.h>

struct ranks job_join(size_t *threads)
{
    if (dsm_init() != 0)
        die("%s\n(--sequential and --threads T run the program without ranks)", dsm_error());
    *threads = (size_t)dsm_threads();
    return (struct ranks){(size_t)dsm_rank(), (size_t)dsm_size(), job_wait};
}

void *job_allocate(size_t bytes)
{
    void *memory = dsm_alloc(bytes);
    if (!memory)
        die("%s", dsm_error());
    return memory;
}

void job_wait(void)
{
    if (dsm_barrier() != 0)
        die("%s", dsm_error());
}

struct cost job_cost(void)
{
    dsm_stats_t stats;
    if (dsm_stats(&stats) != 0)
        die("%s", dsm_error());
    return (struct cost){stats.sync_seconds, stats.diff_seconds, stats.update_seconds,
                         stats.faults,       stats.messages,     stats.bytes};
}

const char *job_provider(void)
{
    return dsm_provider();
}

const char *job_engine(void)
{
    return dsm_shares_frames() == 1 ? "shared frames" : dsm_engine();
}

void job_leave(void)
{
    if (dsm_finalize() != 0)
        die("%s", dsm_error());
}
