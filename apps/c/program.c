/* How a program is run, timed and checked, whatever its mode. */
#define _GNU_SOURCE
#include "program.h"
#include "dsm.h"
#include "options.h"
#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static size_t bytes_of(size_t length)
{
    size_t bytes;
    if (__builtin_mul_overflow(length, sizeof(double), &bytes))
        die("the arrays do not fit in the address space; choose a smaller --size");
    return bytes;
}

double *allocate(size_t length)
{
    size_t bytes = bytes_of(length);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        die("no memory for %zu bytes (%s); choose a smaller --size", bytes, strerror(errno));
    return memory;
}

void release(double *memory, size_t length)
{
    munmap(memory, length * sizeof(double));
}

/* A run of a program, as all workers of this process see it. */
struct job {
    const struct program *program;
    size_t threads, repeat;
    double *arrays[ARRAYS];
    const double *reference;   /* the sequential result, or NULL */
    struct cost (*cost)(void); /* NULL without a DSM */
    struct timing *timings;    /* those of the first worker, of the second, … */
};

static struct job make_job(const struct program *program, size_t threads, size_t repeat, const double *reference)
{
    struct job job = {.program = program, .threads = threads, .repeat = repeat, .reference = reference};
    size_t timings;
    if (!__builtin_mul_overflow(threads, repeat, &timings))
        job.timings = calloc(timings, sizeof *job.timings);
    if (!job.timings)
        die("no memory for %zu repetitions; choose a smaller --repeat", repeat);
    return job;
}

/* Whether what a worker owns of the result has the same bits as in the sequential one. */
static bool equal(const struct job *job, size_t index, size_t count)
{
    const struct program *program = job->program;
    const double *result = job->arrays[program->result];
    struct run run;
    for (size_t n = 0; program->owned(program, index, count, n, &run); n++)
        if (memcmp(result + run.start, job->reference + run.reference, run.length * sizeof(double)) != 0)
            return false;
    return true;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The first worker of a process tells the costs for all. */
static struct cost cost_of(const struct job *job, const struct worker *worker)
{
    return job->cost && worker->first ? job->cost() : (struct cost){0};
}

static struct cost since(struct cost now, struct cost before)
{
    return (struct cost){now.sync - before.sync,     now.diff - before.diff,         now.update - before.update,
                         now.faults - before.faults, now.messages - before.messages, now.bytes - before.bytes};
}

/* A worker's share of all repetitions: only the computation is timed, and each result is checked by its
 * owners. */
static void work(const struct worker *worker, void *data)
{
    const struct job *job = data;
    struct timing *timing = &job->timings[worker->index % job->threads * job->repeat];
    for (size_t r = 0; r < job->repeat; r++, timing++) {
        job->program->initialise(job->program, worker, job->arrays);
        crew_wait(worker);
        struct cost before = cost_of(job, worker);
        double start = now();
        job->program->compute(job->program, worker, job->arrays);
        timing->seconds = now() - start;
        timing->cost = since(cost_of(job, worker), before);
        timing->equal = !job->reference || equal(job, worker->index, worker->count);
    }
}

/* Runs the job on threads of this process, and merges what they saw into the timings of the first. */
static void run(struct job *job, struct ranks ranks, bool pin)
{
    crew_run(ranks, job->threads, pin, work, job);
    for (size_t i = job->repeat; i < job->threads * job->repeat; i++)
        job->timings[i % job->repeat] = timing_merge(job->timings[i % job->repeat], job->timings[i]);
}

static const struct ranks alone = {0, 1, NULL};

/* What a single worker computes. */
static const double *compute_reference(const struct program *program)
{
    struct job job = make_job(program, 1, 1, NULL);
    for (size_t i = 0; i < program->arrays; i++)
        job.arrays[i] = allocate(program->length);
    run(&job, alone, false);
    for (size_t i = 0; i < program->arrays; i++)
        if (i != program->result)
            release(job.arrays[i], program->length);
    free(job.timings);
    return job.arrays[program->result];
}

static bool run_threads(const struct program *program, const struct options *options)
{
    const double *reference = options->check ? compute_reference(program) : NULL;
    struct job job = make_job(program, options->threads, options->repeat, reference);
    for (size_t i = 0; i < program->arrays; i++)
        job.arrays[i] = allocate(program->length);
    run(&job, alone, options->pin);
    struct setting setting = {1, job.threads, NULL, NULL};
    return report(program, options, &setting, job.timings);
}

static bool run_ranks(const struct program *program, const struct options *options)
{
    size_t threads, repeat = options->repeat;
    struct ranks ranks = job_join(&threads);
    const double *reference = options->check ? compute_reference(program) : NULL;
    struct job job = make_job(program, threads, repeat, reference);
    for (size_t i = 0; i < program->arrays; i++)
        job.arrays[i] = job_allocate(bytes_of(program->length));
    job.cost = job_cost;
    run(&job, ranks, false);

    /* Each worker has compared what it owns. The last result is also compared as a whole by every rank, which
     * would disturb the next repetition if there were one. */
    for (size_t i = 0; reference && i < ranks.count * threads; i++)
        job.timings[repeat - 1].equal &= equal(&job, i, ranks.count * threads);

    struct timing *all = job_allocate(ranks.count * repeat * sizeof *all);
    memcpy(all + ranks.index * repeat, job.timings, repeat * sizeof *all);
    job_wait();
    struct setting setting = {ranks.count, threads, job_provider(), job_engine()};
    bool right = ranks.index != 0 || report(program, options, &setting, all);
    job_leave();
    return right;
}

int program_main(struct program *program, int argc, char **argv)
{
    struct options options = options_read(program, argc, argv);
    program->plan(program);
    bool right = options.mode == DSM ? run_ranks(program, &options) : run_threads(program, &options);
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
