/* Loaded before all other libraries (LD_PRELOAD), in a job whose checkpoints are files: keeps what a disk
 * would have if the power failed. Of each file below DISK_WATCHED that is synced, a copy is put into DISK_KEPT
 * as it is then; there is a line in DISK_KEPT/log for that and for what must come behind or before it:
 *
 *   start INCARNATION         a rank begins
 *   write PATH LENGTH         a file that is so long is written to by a system call
 *   sync PATH COPY            a file is synced; its copy has this number
 *   directory PATH            a directory is synced
 *   rename FROM TO            before that is done
 *
 * Nothing is allocated, and no file stays open: it runs in ranks while they are saved. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATHS 4096

static int open_raw(const char *path, int flags) {
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600);
}

/* Adds a line to the log, at once. */
static void tell(const char *format, ...) {
    const char *kept = getenv("DISK_KEPT");
    if (kept == NULL)
        return;
    char path[PATHS], line[2 * PATHS + 64];
    va_list words;
    va_start(words, format);
    int len = vsnprintf(line, sizeof line - 1, format, words);
    va_end(words);
    line[len++] = '\n';
    snprintf(path, sizeof path, "%s/log", kept);
    int log = open_raw(path, O_WRONLY | O_CREAT | O_APPEND);
    if (log < 0 || syscall(SYS_write, log, line, (size_t)len) != len)
        abort();
    syscall(SYS_close, log);
}

/* Whether a path is one of those that are watched. */
static int is_watched(const char *path) {
    const char *watched = getenv("DISK_WATCHED");
    return watched != NULL && strncmp(path, watched, strlen(watched)) == 0;
}

/* The path of a descriptor, if it is watched. */
static int path_of(int fd, char path[PATHS]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, PATHS - 1);
    path[len < 0 ? 0 : len] = 0;
    return is_watched(path);
}

/* Copies what a file has, with its holes. Returns the number of the copy. */
static int keep(const char *path) {
    static int number;
    char copy[PATHS];
    struct stat is;
    int to = -1, from = open_raw(path, O_RDONLY);
    while (to < 0) {
        snprintf(copy, sizeof copy, "%s/%d", getenv("DISK_KEPT"), ++number);
        to = open_raw(copy, O_RDWR | O_CREAT | O_EXCL);
        if (to < 0 && errno != EEXIST)
            abort();
    }
    if (from < 0 || fstat(from, &is) != 0 || syscall(SYS_ftruncate, to, is.st_size) != 0)
        abort();
    for (off_t at = 0, end; (at = lseek(from, at, SEEK_DATA)) >= 0; at = end) {
        static char bytes[1 << 16];
        end = lseek(from, at, SEEK_HOLE);
        for (off_t next = at; next < end;) {
            size_t most = end - next < (off_t)sizeof bytes ? (size_t)(end - next) : sizeof bytes;
            ssize_t len = syscall(SYS_pread64, from, bytes, most, next);
            if (len <= 0 || syscall(SYS_pwrite64, to, bytes, (size_t)len, next) != len)
                abort();
            next += len;
        }
    }
    syscall(SYS_close, from);
    syscall(SYS_close, to);
    return number;
}

static int sync_by(long call, int fd) {
    char path[PATHS];
    struct stat is;
    int is_ours = path_of(fd, path), is_directory = fstat(fd, &is) == 0 && S_ISDIR(is.st_mode);
    int copy = is_ours && !is_directory ? keep(path) : 0;
    int done = (int)syscall(call, fd);
    if (is_ours && done == 0 && is_directory)
        tell("directory %s", path);
    else if (is_ours && done == 0)
        tell("sync %s %d", path, copy);
    return done;
}

int fdatasync(int fd) {
    return sync_by(SYS_fdatasync, fd);
}

int fsync(int fd) {
    return sync_by(SYS_fsync, fd);
}

int rename(const char *from, const char *to) {
    if (is_watched(to))
        tell("rename %s %s", from, to);
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

static void writes(int fd) {
    char path[PATHS];
    struct stat is;
    int error = errno;
    if (path_of(fd, path) && fstat(fd, &is) == 0)
        tell("write %s %lld", path, (long long)is.st_size);
    errno = error;
}

ssize_t write(int fd, const void *bytes, size_t len) {
    writes(fd);
    return syscall(SYS_write, fd, bytes, len);
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at) {
    writes(fd);
    return syscall(SYS_pwrite64, fd, bytes, len, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off_t at) {
    return pwrite(fd, bytes, len, at);
}

__attribute__((constructor)) static void begin(void) {
    const char *incarnation = getenv("SCASH_INCARNATION");
    if (incarnation != NULL)
        tell("start %s", incarnation);
}
