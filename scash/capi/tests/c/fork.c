/* Children that ranks fork: they are told that they are no ranks, die of touching shared memory, and disturb
 * nobody, however they end. */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 200

static volatile char *a;
static void *object;
static dsm_lock_t lock;
static volatile int done;

#define REFUSED(call) FAILS(call, "in a child that a rank has forked")

/* Each function says that the child is no rank: at once, whatever the rank was doing when it forked. */
static void be_refused(void)
{
    uint64_t word;
    dsm_stats_t stats;
    double value = 1;
    void *p = (void *)a;
    alarm(60);
    REFUSED(dsm_rank());
    REFUSED(dsm_barrier());
    REFUSED(dsm_barrier_threads());
    REFUSED(dsm_free(p));
    REFUSED(dsm_home(p));
    REFUSED(dsm_set_home(p, 1, 0));
    REFUSED(dsm_name(p, "name"));
    REFUSED(dsm_set_protocol(p, DSM_PROTOCOL_UPDATE));
    REFUSED(dsm_write_back(p, 1));
    REFUSED(dsm_read_home(p, 1));
    REFUSED(dsm_broadcast(p, 1));
    REFUSED(dsm_touch(p, 1, 1));
    REFUSED(dsm_stats(&stats));
    REFUSED(dsm_lock(lock));
    REFUSED(dsm_try_lock(lock));
    REFUSED(dsm_unlock(lock));
    REFUSED(dsm_all_reduce_f64(&value, 1, DSM_REDUCTION_SUM));
    REFUSED(dsm_fetch_add_u64((uint64_t *)p, 1, &word));
    REFUSED(dsm_free(object));
    REFUSED(dsm_init());
    REFUSED(dsm_finalize());
    IS_NULL(dsm_malloc(1), "in a child that a rank has forked");
    IS_NULL(dsm_realloc(object, 100), "in a child that a rank has forked");
    IS_NULL(dsm_alloc(1), "in a child that a rank has forked");
    IS_NULL(dsm_engine(), "in a child that a rank has forked");
}

/* How a child ended. */
static int end_of(pid_t child)
{
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

static void touch(int write)
{
    const struct rlimit no_core = {0, 0};
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &no_core);
        if (write)
            a[1] = 9;
        else
            exit(a[0]);
        exit(0);
    }
    int status = end_of(child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static void at_exit(void)
{
    /* Ranks and children come here. */
    dsm_barrier();
}

static void *use_a_lock(void *unused)
{
    while (!done) {
        CHECK(dsm_lock(lock) == 0);
        CHECK(dsm_unlock(lock) == 0);
    }
    return unused;
}

/* Another thread of the rank is in the library, with its locks, when children are made. */
static void fork_meanwhile(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, use_a_lock, NULL) == 0);
    for (int i = 0; i < ROUNDS; ++i) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            FAILS(dsm_home((void *)a), "forked");
            FAILS(dsm_lock(lock), "forked");
            FAILS(dsm_barrier(), "forked");
            _exit(0);
        }
        CHECK(end_of(child) == 0);
    }
    done = 1;
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(void)
{
    pid_t child;
    CHECK(dsm_init() == 0);
    int rank = dsm_rank(), size = dsm_size();
    CHECK((a = (volatile char *)dsm_alloc(DSM_PAGE_SIZE)) != NULL);
    CHECK(dsm_locks_create(1, &lock) == 0 && (object = dsm_malloc(10)) != NULL);
    CHECK(atexit(at_exit) == 0);
    a[rank] = (char)(rank + 1);
    CHECK(dsm_barrier() == 0);

    child = fork();
    if (child == 0) {
        be_refused();
        exit(0);
    }
    CHECK(end_of(child) == 0);
    touch(0);
    touch(1);
    child = fork();
    if (child == 0) {
        execlp("true", "true", (char *)NULL);
        _exit(1);
    }
    CHECK(end_of(child) == 0);
    fork_meanwhile();

    CHECK(dsm_barrier() == 0);
    for (int r = 0; r < size; ++r)
        CHECK(a[r] == r + 1);
    CHECK(dsm_barrier() == 0);
    a[rank] = 0;
    CHECK(dsm_finalize() == 0);
    return 0;
}
