/* Files are read into shared memory and written from it. */
#include "check.h"
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

/* More than is moved at once, and no multiple of anything. */
enum { NUMBERS = 50001, BYTES = NUMBERS * (int)sizeof(int) };

static int *numbers, *there;

static void are_there(const int *found, int count)
{
    int i;
    for (i = 0; i < count; i++)
        CHECK(found[i] == 7 * i);
}

static void by_descriptor(FILE *file)
{
    int fd = fileno(file);
    CHECK(dsm_write(fd, numbers, BYTES) == BYTES);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    CHECK(dsm_read(fd, there, BYTES) == BYTES);
    are_there(there, NUMBERS);
    /* Not all is left, and then nothing. */
    CHECK(lseek(fd, 4, SEEK_SET) == 4);
    CHECK(dsm_read(fd, there, 2 * (size_t)BYTES) == BYTES - 4);
    are_there(numbers, NUMBERS);
    CHECK(there[0] == 7 && there[NUMBERS - 2] == 7 * (NUMBERS - 1) && there[NUMBERS - 1] == 7 * (NUMBERS - 1));
    CHECK(dsm_read(fd, there, 8) == 0);
    CHECK(dsm_read(fd, NULL, 0) == 0 && dsm_write(fd, NULL, 0) == 0);
}

static void by_stream(FILE *file)
{
    rewind(file);
    CHECK(dsm_fwrite(numbers, sizeof *numbers, NUMBERS, file) == NUMBERS);
    CHECK(fputc('x', file) == 'x');
    rewind(file);
    memset(there, 0, BYTES);
    CHECK(dsm_fread(there, sizeof *there, NUMBERS, file) == NUMBERS);
    are_there(there, NUMBERS);
    /* One byte is no element. */
    CHECK(dsm_fread(there, sizeof *there, 1, file) == 0 && feof(file));
    CHECK(dsm_fread(there, 0, 5, file) == 0 && dsm_fread(there, 5, 0, file) == 0);
}

static void by_pipe(void)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(dsm_write(ends[1], numbers, 12) == 12);
    CHECK(dsm_read(ends[0], there, 4096) == 12);
    are_there(there, 3);
    close(ends[0]);
    close(ends[1]);
    FAILS((int)dsm_read(ends[0], there, 4), "dsm_read of descriptor");
    FAILS((int)dsm_write(ends[1], there, 4), "Bad file descriptor");
    FAILS((int)dsm_read(0, NULL, 4), "dsm_read(NULL): give it a buffer of 4 bytes");
    CHECK(dsm_fread(there, 4, 4, NULL) == 0 && strstr(dsm_error(), "an open stream") != NULL);
    CHECK(dsm_fwrite(there, (size_t)-1, 4, stdout) == 0 && strstr(dsm_error(), "too many") != NULL);
}

/* Calls of the system by which this thread has written. */
static int writes(void)
{
    char line[64];
    int count = -1;
    FILE *io = fopen("/proc/thread-self/io", "r");
    CHECK(io != NULL);
    while (fgets(line, sizeof line, io) != NULL)
        sscanf(line, "syscw: %d", &count);
    fclose(io);
    CHECK(count >= 0);
    return count;
}

/* What one call of the system moves stays together: messages of a socket, what a pipe has, records at the end
 * of a file. */
static void whole(FILE *file)
{
    enum { LONG = 100000 };
    int ends[2], fd = fileno(file), before;
    char *bytes = (char *)numbers, *got = (char *)there;
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    CHECK(dsm_write(ends[1], bytes, LONG) == LONG && dsm_write(ends[1], bytes, 10) == 10);
    CHECK(dsm_read(ends[0], got, 2 * LONG) == LONG && memcmp(got, bytes, LONG) == 0);
    CHECK(dsm_read(ends[0], got, 2 * LONG) == 10);
    close(ends[0]);
    close(ends[1]);
    CHECK(pipe(ends) == 0);
    CHECK(dsm_write(ends[1], bytes, 65536) == 65536);
    CHECK(dsm_read(ends[0], got, LONG) == 65536 && memcmp(got, bytes, 65536) == 0);
    close(ends[0]);
    close(ends[1]);
    CHECK(fcntl(fd, F_SETFL, O_APPEND) == 0);
    before = writes();
    CHECK(dsm_write(fd, bytes, LONG) == LONG);
    CHECK(writes() == before + 1);
}

int main(void)
{
    int round, i;
    FILE *file;
    CHECK(dsm_init() == 0);
    numbers = dsm_alloc(BYTES);
    there = dsm_alloc(2 * (size_t)BYTES);
    CHECK(numbers != NULL && there != NULL);
    /* Each rank in turn has to do with pages that others have written. */
    for (round = 0; round < dsm_size(); round++) {
        if (dsm_rank() == (round + 1) % dsm_size())
            for (i = 0; i < NUMBERS; i++) {
                numbers[i] = 7 * i;
                there[i] = -1;
            }
        CHECK(dsm_barrier() == 0);
        if (dsm_rank() == round) {
            file = tmpfile();
            CHECK(file != NULL);
            by_descriptor(file);
            by_stream(file);
            by_pipe();
            whole(file);
            fclose(file);
        }
        CHECK(dsm_barrier() == 0);
        are_there(there, 3);
        CHECK(dsm_meet() == 0);
        if (dsm_rank() == round)
            memset(numbers, round, BYTES);
        CHECK(dsm_barrier() == 0);
    }
    return dsm_finalize() == 0 ? 0 : 1;
}
