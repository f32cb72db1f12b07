#define _GNU_SOURCE
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Common options; the program's parameters are FIRST_PARAMETER and following. */
enum { HELP, OPTION_SEQUENTIAL, OPTION_THREADS, PIN, REPEAT, CHECK, JSON, FIRST_PARAMETER };

static const struct option common[] = {
    [HELP] = {"help", no_argument, NULL, HELP},
    [OPTION_SEQUENTIAL] = {"sequential", no_argument, NULL, OPTION_SEQUENTIAL},
    [OPTION_THREADS] = {"threads", required_argument, NULL, OPTION_THREADS},
    [PIN] = {"pin", no_argument, NULL, PIN},
    [REPEAT] = {"repeat", required_argument, NULL, REPEAT},
    [CHECK] = {"check", no_argument, NULL, CHECK},
    [JSON] = {"json", no_argument, NULL, JSON},
};

static void help(const struct program *program)
{
    printf("%s\n\nUsage: %s [OPTIONS]\n\nOptions:\n", program->about, program->name);
    for (size_t i = 0; i < PARAMETERS; i++) {
        const struct parameter *parameter = &program->parameters[i];
        printf("  --%s N%*s %s [default: %zu]\n", parameter->name, (int)(12 - strlen(parameter->name)), "", parameter->help, parameter->value);
    }
    puts("  --sequential     run on one thread, without the DSM\n"
         "  --threads T      run on this many threads of one process, without the DSM\n"
         "  --pin            keep each of the threads on a processor of its own\n"
         "  --repeat R       initialise and compute this many times [default: 1]\n"
         "  --check          compare the whole result with the sequential one, bit for bit\n"
         "  --json           print one JSON object per repetition\n"
         "  --help           print this");
    exit(0);
}

static size_t number(const char *name, size_t least, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || value > SIZE_MAX)
        die("--%s takes a number, not '%s'", name, text);
    if (value < least)
        die("--%s must be at least %zu", name, least);
    return (size_t)value;
}

struct options options_read(struct program *program, int argc, char **argv)
{
    struct options options = {.mode = DSM, .threads = 1, .repeat = 1};
    bool sequential = false, threads = false;
    struct option table[FIRST_PARAMETER + PARAMETERS + 1] = {{0}};
    for (size_t i = 0; i < FIRST_PARAMETER; i++)
        table[i] = common[i];
    for (int i = 0; i < PARAMETERS; i++)
        table[FIRST_PARAMETER + i] =
            (struct option){program->parameters[i].name, required_argument, NULL, FIRST_PARAMETER + i};

    for (int option; (option = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        switch (option) {
        case HELP: help(program); break;
        case OPTION_SEQUENTIAL: sequential = true; break;
        case OPTION_THREADS: threads = true, options.threads = number("threads", 1, optarg); break;
        case PIN: options.pin = true; break;
        case REPEAT: options.repeat = number("repeat", 1, optarg); break;
        case CHECK: options.check = true; break;
        case JSON: options.json = true; break;
        case '?': fprintf(stderr, "Try '%s --help'.\n", program->name); exit(2);
        default: {
            struct parameter *parameter = &program->parameters[option - FIRST_PARAMETER];
            parameter->value = number(parameter->name, parameter->least, optarg);
        }
        }
    }
    if (optind < argc)
        die("unexpected argument '%s'", argv[optind]);
    if (sequential && threads)
        die("--sequential and --threads exclude each other");
    if (options.pin && !threads)
        die("--pin needs --threads");
    options.mode = sequential ? SEQUENTIAL : threads ? THREADS : DSM;
    return options;
}
