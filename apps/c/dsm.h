/* This process as a rank of a DSM job. What fails here ends the process with the library's explanation. */
#ifndef DSM_H
#define DSM_H

#include "crew.h"
#include "program.h"

/* Joins the job, and sets how many threads each rank is to have. */
struct ranks job_join(size_t *threads);

/* Shared memory, zeroed, placed as the DSM does it when it is not asked for anything. */
void *job_allocate(size_t bytes);

void job_wait(void);

struct cost job_cost(void);

/* The names of what carries data between the ranks, and of what notices accesses to shared memory. */
const char *job_provider(void);
const char *job_engine(void);

void job_leave(void);

#endif
