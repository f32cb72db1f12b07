#define _GNU_SOURCE
#include "program.h"
#include "options.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

double *allocate(size_t length)
{
    size_t bytes;
    if (__builtin_mul_overflow(length, sizeof(double), &bytes))
        die("the arrays do not fit in the address space; choose a smaller --size");
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        die("no memory for %zu bytes (%s); choose a smaller --size", bytes, strerror(errno));
    return memory;
}

void release(double *memory, size_t length)
{
    munmap(memory, length * sizeof(double));
}

/* What one worker saw of one repetition. */
struct timing {
    double seconds;
    bool equal;
};

/* A run of a program, as all its workers see it. */
struct job {
    const struct program *program;
    double *arrays[ARRAYS];
    size_t repeat;
    const double *reference; /* the sequential result, or NULL */
    struct timing *timings;  /* of each worker, one after the other */
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Whether what the worker owns of the result has the same bits as in the sequential one. */
static bool equal(const struct job *job, const struct worker *worker)
{
    const struct program *program = job->program;
    const double *result = job->arrays[program->result];
    struct run run;
    for (size_t n = 0; program->owned(program, worker->index, worker->count, n, &run); n++)
        if (memcmp(result + run.start, job->reference + run.reference, run.length * sizeof(double)) != 0)
            return false;
    return true;
}

/* A worker's share of all repetitions: only the computation is timed, and each result is checked by its owners. */
static void work(const struct worker *worker, void *data)
{
    const struct job *job = data;
    for (size_t r = 0; r < job->repeat; r++) {
        job->program->initialise(job->program, worker, job->arrays);
        crew_wait(worker);
        double start = now();
        job->program->compute(job->program, worker, job->arrays);
        struct timing *timing = &job->timings[worker->index * job->repeat + r];
        timing->seconds = now() - start;
        timing->equal = job->reference && equal(job, worker);
    }
}

/* Makes a job of so many workers, with private memory for the program's arrays. */
static struct job job_start(const struct program *program, size_t workers, size_t repeat, const double *reference)
{
    struct job job = {program, {0}, repeat, reference, NULL};
    for (size_t i = 0; i < program->arrays; i++)
        job.arrays[i] = allocate(program->length);
    job.timings = calloc(workers, repeat * sizeof *job.timings);
    if (!job.timings)
        die("no memory for the timings; choose a smaller --repeat");
    return job;
}

/* What the program's one worker computes when it is alone. */
static double *compute_reference(const struct program *program)
{
    struct job job = job_start(program, 1, 1, NULL);
    struct worker alone = {0, 1, NULL};
    work(&alone, &job);
    for (size_t i = 0; i < program->arrays; i++)
        if (i != program->result)
            release(job.arrays[i], program->length);
    free(job.timings);
    return job.arrays[program->result];
}

static void print(const struct job *job, const struct options *options, size_t r, struct timing timing)
{
    static const char *const modes[] = {[DSM] = "dsm", [SEQUENTIAL] = "sequential", [THREADS] = "threads"};
    const struct program *program = job->program;
    const char *check = !options->check ? "null" : timing.equal ? "\"equal\"" : "\"different\"";
    if (!options->json) {
        printf("%s, %s, %zu thread%s: %.3f ms%s\n", program->name, modes[options->mode], options->threads,
               options->threads == 1 ? "" : "s", timing.seconds * 1e3,
               !options->check ? ""
               : timing.equal  ? ", equal to the sequential result"
                               : ", DIFFERENT from the sequential result");
        return;
    }
    printf("{\"program\":\"%s\",\"mode\":\"%s\",\"ranks\":1,\"threads\":%zu,\"provider\":null,\"engine\":null,",
           program->name, modes[options->mode], options->threads);
    for (size_t i = 0; i < PARAMETERS; i++)
        printf("\"%s\":%zu,", program->parameters[i].name, program->parameters[i].value);
    printf("\"repetition\":%zu,\"seconds\":%.9f,\"check\":%s,\"barrier\":{\"sync\":0,\"diff\":0,\"update\":0},"
           "\"faults\":0,\"messages\":0,\"bytes\":0}\n",
           r, timing.seconds, check);
}

/* Prints all repetitions, and returns whether one of the results is wrong. */
static bool report(const struct job *job, const struct options *options)
{
    bool wrong = false;
    for (size_t r = 0; r < job->repeat; r++) {
        struct timing all = {0, true};
        for (size_t worker = 0; worker < options->threads; worker++) {
            const struct timing *timing = &job->timings[worker * job->repeat + r];
            if (timing->seconds > all.seconds)
                all.seconds = timing->seconds;
            all.equal &= timing->equal;
        }
        wrong |= options->check && !all.equal;
        print(job, options, r, all);
    }
    if (fflush(stdout) != 0)
        die("cannot write the report: %s", strerror(errno));
    return wrong;
}

int program_main(struct program *program, int argc, char **argv)
{
    struct options options = options_read(program, argc, argv);
    program->plan(program);
    if (options.mode == DSM)
        die("no ranks to run on: start it with `scash run -n 2 %s`, or give --sequential or --threads 2",
            program->name);
    const double *reference = options.check ? compute_reference(program) : NULL;
    struct job job = job_start(program, options.threads, options.repeat, reference);
    if (options.mode == SEQUENTIAL)
        work(&(struct worker){0, 1, NULL}, &job);
    else
        crew_run(options.threads, options.pin, work, &job);
    return report(&job, &options) ? 1 : 0;
}
