/* What the rank is told that uses compat/jia.h as it must not be used: the argument says how. */
#define JIA_CVS 3
#include "check.h"
#include <jia.h>

static void wrong(const char *how)
{
    if (strcmp(how, "lock") == 0)
        jia_lock(64);
    else if (strcmp(how, "negative lock") == 0)
        jia_unlock(-1);
    else if (strcmp(how, "not held") == 0)
        jia_unlock(63);
    else if (strcmp(how, "variable") == 0)
        jia_setcv(3);
    else if (strcmp(how, "rank") == 0)
        jia_alloc2p(100, jiahosts);
    else if (strcmp(how, "first rank") == 0)
        jia_alloc3(100, 10, jiahosts);
    else if (strcmp(how, "nothing") == 0)
        jia_alloc(0);
    else if (strcmp(how, "too much") == 0)
        jia_alloc2((size_t)-1, (size_t)-1);
    else if (strcmp(how, "begin twice") == 0)
        jia_init(0, NULL);
    else if (strcmp(how, "error") == 0)
        jia_error("%d is %s", 7, "odd");
    else if (strcmp(how, "end twice") == 0) {
        jia_exit();
        jia_exit();
    }
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (strcmp(how, "too early") == 0)
        jia_lock(0);
    jia_init(argc, argv);
    wrong(how);
    /* All ranks do the same: nobody comes here. */
    jia_exit();
    return 0;
}
