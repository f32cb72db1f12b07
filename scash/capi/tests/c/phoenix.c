/* A program with state of many kinds across memory barriers: it does nothing for its survival, and prints,
 * and writes into a file, the same whether its ranks were killed meanwhile or not. phoenix DIRECTORY */
#define _DEFAULT_SOURCE
#include "check.h"
#include <fcntl.h>
#include <locale.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROUNDS 12
#define CELLS 5000
#define FRAMES 10000

static long counted = 3;                 /* static data */
static __thread long mine = 5;           /* thread-local data */
static long *shared;
static jmp_buf back;
static volatile sig_atomic_t caught;
static char alternate[64 << 10];

struct node {
    struct node *next;
    long value;
    char text[24];
};

static void on_signal(int signal)
{
    (void)signal;
    caught++;
}

/* A barrier at each depth, with locals below it. */
static long descend(int depth, long seed)
{
    long locals[16];
    long sum = 0;
    int i;

    for (i = 0; i < 16; i++)
        locals[i] = seed * (i + 1) + depth;
    if (depth > 0)
        sum = descend(depth - 1, locals[depth % 16] % 1009);
    shared[dsm_rank() * 512 + depth] += locals[3];
    CHECK(dsm_barrier() == 0);
    for (i = 0; i < 16; i++)
        sum += locals[i] * (i % 3 - 1);
    return sum + shared[(dsm_rank() + 1) % dsm_size() * 512 + depth];
}

/* Small frames, so many of them, and what they call at the bottom. */
static long dive(int frames, long seed)
{
    volatile long local = seed * 3 + frames;
    long sum = frames > 1 ? dive(frames - 1, seed) : descend(6, seed);

    CHECK(local == seed * 3 + frames);
    return sum + local % 5;
}

static struct node *push(struct node *list, long value)
{
    struct node *node = malloc(sizeof *node);

    CHECK(node != NULL);
    node->next = list;
    node->value = value;
    snprintf(node->text, sizeof node->text, "node %ld", value);
    return node;
}

static int ascending(const void *one, const void *other)
{
    long a = *(const long *)one, b = *(const long *)other;

    return (a > b) - (a < b);
}

static long jump(int times)
{
    volatile int left = times;
    volatile long sum = 0;

    setjmp(back);
    sum += left;
    CHECK(dsm_barrier() == 0);
    if (--left > 0)
        longjmp(back, 1);
    return sum;
}

/* SIGUSR2 is handled on a stack of its own. */
static void set_handler(void)
{
    struct sigaction action;
    stack_t stack;

    memset(&stack, 0, sizeof stack);
    stack.ss_sp = alternate;
    stack.ss_size = sizeof alternate;
    CHECK(sigaltstack(&stack, NULL) == 0);
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK;
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
}

/* The sum of what lists, arrays and pages have, which is as it was written. */
static long sum_up(const struct node *list, long *grown, const long *pages)
{
    long sum = 0;
    int i;

    qsort(grown, ROUNDS * 4096, sizeof *grown, ascending);
    for (i = 0; i < ROUNDS * 4096; i += 997)
        sum += grown[i] * (i % 7);
    for (; list != NULL; list = list->next) {
        CHECK(atol(list->text + 5) == list->value);
        sum += list->value;
    }
    for (i = 0; i < ROUNDS; i++)
        if (i != 8)
            sum += pages[i * 512];
    return sum;
}

int main(int argc, char **argv)
{
    stack_t stack;
    struct node *list = NULL;
    long *grown = NULL, *pages, check = 0;
    char name[256], line[64], place[4096], later[4096];
    FILE *written, *read;
    int round, i, appended;

    CHECK(argc == 2);
    CHECK(dsm_init() == 0);
    shared = dsm_alloc(CELLS * sizeof *shared);
    CHECK(shared != NULL && chdir(argv[1]) == 0 && getcwd(place, sizeof place) != NULL);
    umask(027);
    CHECK(setlocale(LC_ALL, "C") != NULL);
    setenv("PHOENIX", "from the ashes", 1);
    set_handler();

    pages = mmap(NULL, 64 << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages + 512 * 8, 4096, PROT_NONE) == 0);

    snprintf(name, sizeof name, "written.%d", dsm_rank());
    written = fopen(name, "w");
    snprintf(name, sizeof name, "appended.%d", dsm_rank());
    appended = open(name, O_WRONLY | O_CREAT | O_APPEND | O_TRUNC, 0666);
    read = fopen("input", "r");
    CHECK(written != NULL && appended >= 0 && read != NULL);
    printf("rank %d begins", dsm_rank()); /* in mid-line */

    for (round = 0; round < ROUNDS; round++) {
        list = push(list, round * 7 + dsm_rank());
        grown = realloc(grown, (size_t)(round + 1) * 4096 * sizeof *grown);
        CHECK(grown != NULL);
        for (i = 0; i < 4096; i++)
            grown[round * 4096 + i] = (long)i * 31 % 977 - round;
        if (round != 8)
            pages[round * 512] = round + 1;
        counted = counted * 5 % 1000003;
        mine += counted % 17;
        fprintf(written, "line %d of rank %d\n", round, dsm_rank());
        snprintf(line, sizeof line, "%d,", round);
        CHECK(write(appended, line, strlen(line)) == (ssize_t)strlen(line));
        CHECK(fgets(line, sizeof line, read) != NULL);
        check += atol(line);
        raise(SIGUSR2);
        check += dive(FRAMES, counted % 101);
        printf(" %d", round);
    }
    check += jump(5);
    check += sum_up(list, grown, pages);
    CHECK(strcmp(getenv("PHOENIX"), "from the ashes") == 0);
    CHECK(umask(022) == 027 && caught == ROUNDS);
    CHECK(getcwd(later, sizeof later) != NULL && strcmp(later, place) == 0);
    CHECK(sigaltstack(NULL, &stack) == 0 && stack.ss_sp == (void *)alternate);
    CHECK(fclose(written) == 0 && close(appended) == 0 && fclose(read) == 0);
    printf("; counted %ld, mine %ld, check %ld\n", counted, mine, check);
    CHECK(dsm_finalize() == 0);
    return 0;
}
