/* What the rank is told that uses compat/Tmk.h as it must not be used: the argument says how. */
#include "check.h"
#include <Tmk.h>

static char last = 1;
static const char constant[] = "one";

static void distribute(const char *how)
{
    int local = 1;
    char *heap = malloc(10), *shared = Tmk_malloc(10);
    if (strcmp(how, "stack") == 0)
        Tmk_distribute((char *)&local, sizeof local);
    else if (strcmp(how, "heap") == 0)
        Tmk_distribute(heap, 10);
    else if (strcmp(how, "shared") == 0)
        Tmk_distribute(shared, 10);
    else if (strcmp(how, "constant") == 0)
        Tmk_distribute(constant, sizeof constant);
    else if (strcmp(how, "length") == 0)
        Tmk_distribute(&last, (size_t)-1);
    else if (strcmp(how, "library") == 0)
        Tmk_distribute(dsm_error(), 1);
    Tmk_free(shared);
    free(heap);
}

static void wrong(const char *how)
{
    if (strcmp(how, "lock") == 0)
        Tmk_lock_acquire(1024);
    else if (strcmp(how, "negative lock") == 0)
        Tmk_lock_release((unsigned)-1);
    else if (strcmp(how, "not held") == 0)
        Tmk_lock_release(1023);
    else if (strcmp(how, "free") == 0)
        Tmk_free(&last);
    else if (strcmp(how, "too much") == 0)
        Tmk_malloc((size_t)1 << 60);
    else if (strcmp(how, "begin twice") == 0)
        Tmk_startup(0, NULL);
    else if (strcmp(how, "error") == 0)
        Tmk_errexit("%d is %s\n", 7, "odd");
    else if (strcmp(how, "status") == 0)
        Tmk_exit(3);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (strcmp(how, "barrier too early") == 0)
        Tmk_barrier(0);
    if (strcmp(how, "lock too early") == 0)
        Tmk_lock_acquire(0);
    if (strcmp(how, "variable too early") == 0)
        Tmk_distribute(&last, 1);
    Tmk_startup(argc, argv);
    distribute(how);
    wrong(how);
    /* All ranks do the same: nobody comes here, but with no argument. */
    Tmk_exit(0);
}
