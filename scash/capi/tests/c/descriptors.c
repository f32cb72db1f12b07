/* A program that closes descriptors that it has not opened, as daemons do, and opens files of its own in
 * their place: `descriptors LAST DIRECTORY` closes those from 3 to LAST. Its files stay as they are. What the
 * library can do no more is an error: data are right, or the program is told. */
#define _DEFAULT_SOURCE
#include "check.h"
#include <fcntl.h>
#include <unistd.h>

#define FILES 40
#define ROUNDS 300
#define PAGES 64

static const char text[] = "a file of the program";
static int files[FILES], opened;

static void take_their_places(int last, const char *directory)
{
    char path[4096];
    for (int fd = 3; fd <= last; ++fd)
        close(fd);
    for (int i = 0; i < FILES; ++i, ++opened) {
        snprintf(path, sizeof path, "%s/%ld.%d", directory, (long)getpid(), i);
        files[i] = open(path, O_RDWR | O_CREAT | O_APPEND, 0600);
        CHECK(files[i] >= 0 && write(files[i], text, sizeof text) == sizeof text);
    }
}

static void files_are_as_they_were(void)
{
    char found[2 * sizeof text];
    /* A rank may be told that another one has closed all before it has come so far itself. */
    for (int i = 0; i < opened; ++i)
        CHECK(pread(files[i], found, sizeof found, 0) == sizeof text && memcmp(found, text, sizeof text) == 0);
}

static int be_told(void)
{
    fprintf(stderr, "told: %s\n", dsm_error());
    files_are_as_they_were();
    return 3;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3 && dsm_init() == 0);
    int rank = dsm_rank(), size = dsm_size();
    volatile int *a = (volatile int *)dsm_alloc((size_t)PAGES * DSM_PAGE_SIZE);
    CHECK(a != NULL);
    const int step = DSM_PAGE_SIZE / (int)sizeof *a;
    if (dsm_barrier() != 0)
        return be_told();
    take_their_places(atoi(argv[1]), argv[2]);
    for (int round = 1; round <= ROUNDS; ++round) {
        int wrong = 0;
        for (int page = rank; page < PAGES; page += size)
            a[page * step] = round * 1000 + page;
        if (dsm_barrier() != 0)
            return be_told();
        for (int page = 0; page < PAGES; ++page)
            wrong += a[page * step] != round * 1000 + page;
        if (round % 10 == 0) {
            printf("rank %d, round %d\n", rank, round);
            fflush(stdout);
        }
        if (dsm_barrier() != 0)
            return be_told();
        if (wrong > 0)
            fprintf(stderr, "wrong: %d values in round %d\n", wrong, round);
    }
    if (dsm_finalize() != 0)
        return be_told();
    files_are_as_they_were();
    return 0;
}
