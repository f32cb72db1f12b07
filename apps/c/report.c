#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const modes[] = {[DSM] = "dsm", [SEQUENTIAL] = "sequential", [THREADS] = "threads"};

struct timing timing_merge(struct timing a, struct timing b)
{
    struct cost x = a.cost, y = b.cost;
    return (struct timing){
        a.seconds > b.seconds ? a.seconds : b.seconds,
        a.equal && b.equal,
        {x.sync + y.sync, x.diff + y.diff, x.update + y.update, x.faults + y.faults, x.messages + y.messages,
         x.bytes + y.bytes},
    };
}

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

static void print_text(const struct program *program, const struct options *options, const struct setting *setting,
                       const struct timing *timings, size_t r, struct timing all)
{
    printf("%s, %s, ", program->name, modes[options->mode]);
    if (setting->provider)
        printf("%s, %s, %zu rank%s of ", setting->provider, setting->engine, setting->ranks, plural(setting->ranks));
    printf("%zu thread%s: %.3f ms%s\n", setting->threads, plural(setting->threads), all.seconds * 1e3,
           !options->check ? ""
           : all.equal     ? ", equal to the sequential result"
                           : ", DIFFERENT from the sequential result");
    for (size_t rank = 0; setting->provider && rank < setting->ranks; rank++) {
        const struct cost *cost = &timings[rank * options->repeat + r].cost;
        printf("  rank %zu: barrier sync %.3f ms, diff %.3f ms, update %.3f ms; ", rank, cost->sync * 1e3,
               cost->diff * 1e3, cost->update * 1e3);
        printf("%" PRIu64 " faults, %" PRIu64 " messages, %" PRIu64 " bytes\n", cost->faults, cost->messages,
               cost->bytes);
    }
}

/* The parts of the barrier, divided by `count`. */
static void print_barrier(const struct cost *cost, size_t count)
{
    double n = (double)count;
    printf("\"sync\":%.9f,\"diff\":%.9f,\"update\":%.9f", cost->sync / n, cost->diff / n, cost->update / n);
}

static void print_counts(const struct cost *cost)
{
    printf("\"faults\":%" PRIu64 ",\"messages\":%" PRIu64 ",\"bytes\":%" PRIu64, cost->faults, cost->messages,
           cost->bytes);
}

static void print_name(const char *key, const char *value)
{
    if (value)
        printf("\"%s\":\"%s\",", key, value);
    else
        printf("\"%s\":null,", key);
}

static void print_json(const struct program *program, const struct options *options, const struct setting *setting,
                       const struct timing *timings, size_t r, struct timing all)
{
    printf("{");
    print_name("program", program->name);
    print_name("mode", modes[options->mode]);
    print_name("provider", setting->provider);
    print_name("engine", setting->engine);
    print_name("check", !options->check ? NULL : all.equal ? "equal" : "different");
    for (size_t i = 0; i < PARAMETERS; i++)
        printf("\"%s\":%zu,", program->parameters[i].name, program->parameters[i].value);
    printf("\"ranks\":%zu,\"threads\":%zu,\"repetition\":%zu,\"seconds\":%.9f,\"barrier\":{", setting->ranks,
           setting->threads, r, all.seconds);
    print_barrier(&all.cost, setting->ranks);
    printf("},");
    print_counts(&all.cost);
    printf(",\"per_rank\":[");
    for (size_t rank = 0; rank < setting->ranks; rank++) {
        const struct cost *cost = &timings[rank * options->repeat + r].cost;
        printf(rank > 0 ? ",{" : "{");
        print_barrier(cost, 1);
        printf(",");
        print_counts(cost);
        printf("}");
    }
    printf("]}\n");
}

bool report(const struct program *program, const struct options *options, const struct setting *setting,
            const struct timing *timings)
{
    bool right = true;
    for (size_t r = 0; r < options->repeat; r++) {
        struct timing all = timings[r];
        for (size_t rank = 1; rank < setting->ranks; rank++)
            all = timing_merge(all, timings[rank * options->repeat + r]);
        right &= all.equal;
        (options->json ? print_json : print_text)(program, options, setting, timings, r, all);
    }
    if (fflush(stdout) != 0)
        die("cannot write the report: %s", strerror(errno));
    return right;
}
