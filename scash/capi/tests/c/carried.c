/* Programs whose ranks are killed, each with one thing that an image must carry: `carried WHAT DIRECTORY`. A rank
   prints what it would print if nobody was killed, and so do its files say. */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define ROUNDS 12
#define PAGE 4096

static char path[4096];
static int is_over, is_ready;
static long records;

static int is(int *flag)
{
    return __atomic_load_n(flag, __ATOMIC_SEQ_CST);
}

static void set(int *flag)
{
    __atomic_store_n(flag, 1, __ATOMIC_SEQ_CST);
}

static void nap(void)
{
    struct timespec millisecond = {0, 1000000};

    nanosleep(&millisecond, NULL);
}

static void rounds(void)
{
    int i;

    for (i = 0; i < ROUNDS; i++)
        CHECK(dsm_barrier() == 0);
}

static void start(pthread_t *thread, void *(*body)(void *), void *with)
{
    CHECK(pthread_create(thread, NULL, body, with) == 0);
}

/* A thread that is in no barrier, and writes all the time. Nothing of it is lost, and nothing is there twice. */
static void *note(void *descriptor)
{
    char line[32];

    while (!is(&is_over)) {
        int length = snprintf(line, sizeof line, "%010ld\n", records++);
        CHECK(write(*(int *)descriptor, line, (size_t)length) == length);
        if (*(int *)descriptor == 1)
            nap();
    }
    return NULL;
}

static void records_of_a_thread(void)
{
    char line[32];
    long number = 0;
    pthread_t thread;
    FILE *file;
    int i, descriptor = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);

    CHECK(descriptor >= 0);
    start(&thread, note, &descriptor);
    for (i = 0; i < ROUNDS; i++) {
        nap();
        CHECK(dsm_barrier() == 0);
    }
    set(&is_over);
    CHECK(pthread_join(thread, NULL) == 0);
    file = fopen(path, "r");
    CHECK(file != NULL);
    for (; fgets(line, sizeof line, file) != NULL; number++)
        CHECK(atol(line) == number);
    CHECK(number == records);
    fclose(file);
    CHECK(unlink(path) == 0);
}

static void lines_of_a_thread(void)
{
    pthread_t thread;
    int i, descriptor = 1;

    start(&thread, note, &descriptor);
    for (i = 0; i < ROUNDS; i++) {
        nap();
        CHECK(dsm_barrier() == 0);
    }
    set(&is_over);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void redirected(void)
{
    int i;

    CHECK(freopen(path, "w", stdout) != NULL);
    for (i = 0; i < ROUNDS; i++) {
        printf("line %d\n", i);
        CHECK(fflush(stdout) == 0);
        CHECK(dsm_barrier() == 0);
    }
}

static void two_for_one_file(void)
{
    int i, one = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600), other = dup(one), out = dup(1);

    CHECK(one >= 0 && other >= 0 && out >= 0);
    for (i = 0; i < ROUNDS; i++) {
        CHECK(dprintf(i % 2 ? one : other, "line %d\n", i) > 0);
        CHECK(dsm_barrier() == 0);
    }
    CHECK(dprintf(out, "rank %d\n", dsm_rank()) > 0);
}

/* As high as the library's own, and as many as those that the launcher gives. */
static void high_and_many(void)
{
    struct rlimit most;
    int i, high, descriptor = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);

    CHECK(descriptor >= 0 && getrlimit(RLIMIT_NOFILE, &most) == 0);
    high = dup2(descriptor, most.rlim_cur > 5000 ? 4999 : (int)most.rlim_cur - 7);
    CHECK(high > 0 && close(descriptor) == 0);
    for (i = 0; i < 100; i++)
        CHECK(open("/dev/null", O_RDONLY) >= 0);
    for (i = 0; i < ROUNDS; i++) {
        CHECK(dprintf(high, "line %d\n", i) > 0);
        CHECK(dsm_barrier() == 0);
    }
}

/* A thread that cannot be stopped at one checkpoint goes on after it. */
static void *hear_later(void *unused)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    set(&is_ready);
    while (!is(&is_over))
        nap();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return unused;
}

static void deaf_for_a_time(void)
{
    pthread_t thread;

    start(&thread, hear_later, NULL);
    while (!is(&is_ready))
        nap();
    CHECK(dsm_barrier() == 0);
    set(&is_over);
    CHECK(pthread_join(thread, NULL) == 0);
    rounds();
}

static void *count(void *counted)
{
    while (!is(&is_over))
        __atomic_add_fetch((long *)counted, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* What the file `scash-anything` would have as the name of its threads. */
static void named_like_the_library(void)
{
    long counted = 0, before;
    pthread_t thread;

    CHECK(prctl(PR_SET_NAME, "scash-anything") == 0);
    start(&thread, count, &counted);
    rounds();
    before = __atomic_load_n(&counted, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&counted, __ATOMIC_SEQ_CST) == before)
        nap();
    set(&is_over);
    CHECK(pthread_join(thread, NULL) == 0);
}

static sigjmp_buf back;
static volatile sig_atomic_t caught;

static void jump(int signal)
{
    (void)signal;
    siglongjmp(back, 1);
}

static void tick(int signal)
{
    (void)signal;
    caught++;
}

static void protected_heap(void)
{
    struct sigaction before, action;
    char *parts[3];
    int i;

    for (i = 0; i < 3; i++) {
        CHECK(posix_memalign((void **)&parts[i], PAGE, 3 * PAGE) == 0);
        CHECK(parts[i] < (char *)sbrk(0));
    }
    memset(parts[1], 7, 3 * PAGE);
    for (i = 0; i < 3; i++)
        CHECK(mprotect(parts[i] + PAGE, PAGE, i == 1 ? PROT_READ : PROT_NONE) == 0);
    rounds();
    CHECK(parts[1][PAGE + 5] == 7);
    memset(&action, 0, sizeof action);
    action.sa_handler = jump;
    CHECK(sigaction(SIGSEGV, &action, &before) == 0);
    for (i = 0; i < 3; i++)
        if (sigsetjmp(back, 1) == 0) {
            parts[i][PAGE] = 1;
            CHECK(!"protected");
        }
    CHECK(sigaction(SIGSEGV, &before, NULL) == 0);
}

static void files_of_the_system(void)
{
    char text[64];
    int i, descriptor = open("/proc/self/statm", O_RDONLY);

    CHECK(descriptor >= 0);
    for (i = 0; i < ROUNDS; i++) {
        CHECK(pread(descriptor, text, sizeof text, 0) > 0);
        CHECK(dsm_barrier() == 0);
    }
}

static void pending_signals(void)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGUSR2);
    CHECK(signal(SIGUSR1, tick) != SIG_ERR && signal(SIGUSR2, tick) != SIG_ERR);
    CHECK(sigprocmask(SIG_BLOCK, &signals, NULL) == 0);
    CHECK(raise(SIGUSR1) == 0 && kill(getpid(), SIGUSR2) == 0);
    rounds();
    CHECK(caught == 0);
    CHECK(sigprocmask(SIG_UNBLOCK, &signals, NULL) == 0);
    CHECK(caught == 2);
}

static void a_limit_of_files(void)
{
    struct rlimit limit = {1 << 20, 1 << 20};
    char *memory = malloc(8 << 20);

    CHECK(memory != NULL && setrlimit(RLIMIT_FSIZE, &limit) == 0);
    memset(memory, 1, 8 << 20);
    rounds();
    free(memory);
}

/* More than a process has that the launcher starts. */
static void rounds_on_a_deep_stack(void)
{
    volatile char deep[16 << 20];
    size_t i;

    for (i = 0; i < sizeof deep; i += PAGE)
        deep[i] = (char)(i / PAGE);
    rounds();
    for (i = 0; i < sizeof deep; i += PAGE)
        CHECK(deep[i] == (char)(i / PAGE));
}

static void raised_limits(void)
{
    struct rlimit files, stack, now;
    int high, descriptor = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);

    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0 && getrlimit(RLIMIT_STACK, &stack) == 0);
    files.rlim_cur = 2000;
    stack.rlim_cur = 32 << 20;
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0 && setrlimit(RLIMIT_STACK, &stack) == 0);
    high = dup2(descriptor, 1999);
    CHECK(high == 1999 && close(descriptor) == 0);
    rounds_on_a_deep_stack();
    CHECK(dprintf(high, "the end\n") > 0);
    CHECK(getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur == files.rlim_cur);
    CHECK(getrlimit(RLIMIT_STACK, &now) == 0 && now.rlim_cur == stack.rlim_cur);
}

/* Bytes of its own in a file that is mapped to be read, as in code that is patched; some go away again. */
static void a_patched_file(void)
{
    enum { PAGES = 256 };
    int i, descriptor = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
    long sum = 0;
    char *mapped;

    CHECK(descriptor >= 0 && ftruncate(descriptor, PAGES * PAGE) == 0);
    mapped = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_PRIVATE, descriptor, 0);
    CHECK(mapped != MAP_FAILED && close(descriptor) == 0);
    for (i = 0; i < PAGES / 2; i++)
        sum += mapped[i * PAGE];
    for (i = 0; i < 3; i++)
        CHECK(dsm_barrier() == 0);
    for (i = 0; i < ROUNDS; i++) {
        char *page = mapped + (i * 37 + 11) % PAGES * PAGE;
        CHECK(mprotect(mapped, PAGES * PAGE, PROT_READ | PROT_WRITE) == 0);
        page[i] = (char)(i + 1);
        CHECK(mprotect(mapped, PAGES * PAGE, PROT_READ) == 0);
        CHECK(dsm_barrier() == 0);
        if (i % 3 == 2)
            CHECK(madvise(page, PAGE, MADV_DONTNEED) == 0);
        sum += mapped[(i * 5 + 130) * PAGE];
        CHECK(dsm_barrier() == 0);
    }
    CHECK(sum == 0);
    for (i = 0; i < PAGES * PAGE; i++)
        sum += mapped[i];
    CHECK(sum == 1 + 2 + 4 + 5 + 7 + 8 + 10 + 11);
}

/* Static data right below the heap, both long, and the heap grows. */
static void static_data_and_heap(void)
{
    static long data[1 << 18];
    char *parts[8 * ROUNDS];
    long i, sum = 0;

    for (i = 0; i < 8 * ROUNDS; i++) {
        size_t length = 50000;
        parts[i] = malloc(length);
        CHECK(parts[i] != NULL && parts[i] < (char *)sbrk(0));
        memset(parts[i], (int)i, length);
        data[i * 2000] = i;
        if (i >= 7 * ROUNDS)
            CHECK(dsm_barrier() == 0);
    }
    for (i = 0; i < 8 * ROUNDS; i++)
        sum += parts[i][i] - data[i * 2000];
    CHECK(sum == 0);
    rounds();
    for (i = 0; i < 8 * ROUNDS; i++)
        free(parts[i]);
}

/* A coroutine comes to the barriers. Below its stack, in the same small mapping, lie other data. */
static struct room {
    long below[4096];
    char stack[64 << 10];
} *room;

static void rounds_of_a_coroutine(void)
{
    int i, k;

    for (i = 0; i < ROUNDS; i++) {
        for (k = 0; k < 4096; k++)
            room->below[k] = k + i;
        CHECK(dsm_barrier() == 0);
        for (k = 0; k < 4096; k++)
            CHECK(room->below[k] == k + i);
    }
}

static void run_the_coroutine(void)
{
    static ucontext_t here, there;

    CHECK(getcontext(&there) == 0);
    there.uc_stack.ss_sp = room->stack;
    there.uc_stack.ss_size = sizeof room->stack;
    there.uc_link = &here;
    makecontext(&there, rounds_of_a_coroutine, 0);
    CHECK(swapcontext(&here, &there) == 0);
}

static void a_coroutine(void)
{
    /* Between pages that nobody may touch: it is a mapping of its own. */
    size_t size = (sizeof *room + 4095) / 4096 * 4096;
    char *all = mmap(NULL, size + 2 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(all != MAP_FAILED && mprotect(all + 4096, size, PROT_READ | PROT_WRITE) == 0);
    room = (void *)(all + 4096);
    run_the_coroutine();
}

/* All of it is an array on the stack that the system gave to the process. */
static void a_coroutine_on_the_first_stack(void)
{
    struct room own;

    room = &own;
    run_the_coroutine();
    room = NULL;
}

/* Code that is not there yet when the first checkpoints are taken. */
static void a_late_library(void)
{
    char name[sizeof path + 16];
    int (*answer)(void);
    void *library;

    rounds();
    snprintf(name, sizeof name, "%.*s/late.so", (int)(strrchr(path, '/') - path), path);
    library = dlopen(name, RTLD_NOW);
    CHECK(library != NULL);
    *(void **)&answer = dlsym(library, "answer");
    rounds();
    CHECK(answer() == 42);
}

static const struct {
    const char *name;
    void (*body)(void);
} bodies[] = {
    {"records", records_of_a_thread}, {"lines", lines_of_a_thread},   {"redirected", redirected},
    {"two", two_for_one_file},        {"high", high_and_many},        {"deaf", deaf_for_a_time},
    {"named", named_like_the_library}, {"heap", protected_heap},      {"system", files_of_the_system},
    {"pending", pending_signals},     {"limit", a_limit_of_files},    {"late", a_late_library},
    {"static", static_data_and_heap}, {"patched", a_patched_file},    {"coroutine", a_coroutine},
    {"inner", a_coroutine_on_the_first_stack}, {"raised", raised_limits},
};

int main(int argc, char **argv)
{
    size_t i;

    CHECK(argc == 3 && dsm_init() == 0);
    snprintf(path, sizeof path, "%s/of-%d", argv[2], dsm_rank());
    for (i = 0; i < sizeof bodies / sizeof *bodies; i++)
        if (strcmp(argv[1], bodies[i].name) == 0)
            bodies[i].body();
    printf("rank %d ends\n", dsm_rank());
    CHECK(dsm_finalize() == 0);
    return 0;
}
