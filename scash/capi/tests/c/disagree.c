/* Ranks ask for different things: each is told, and nothing goes on after it. */
#include "check.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    CHECK(dsm_init() == 0);
    int rank = dsm_rank(), last = rank == dsm_size() - 1;
    if (strcmp(argv[1], "sizes") == 0) {
        CHECK(dsm_alloc(last ? 8192 : 4096) == NULL);
    } else if (strcmp(argv[1], "options") == 0) {
        dsm_alloc_options_t options = {0};
        options.protocol = last ? DSM_PROTOCOL_UPDATE : DSM_PROTOCOL_ADAPTIVE;
        CHECK(dsm_alloc_with(4096, &options) == NULL);
    } else {
        CHECK((last ? dsm_barrier() : dsm_finalize()) == -1);
    }
    char text[512];
    strncpy(text, dsm_error(), sizeof text - 1);
    text[sizeof text - 1] = '\0';
    printf("%s\n", text);
    fflush(stdout);
    FAILS(dsm_barrier(), text);
    IS_NULL(dsm_alloc(1), text);
    FAILS(dsm_finalize(), text);
    return 0;
}
