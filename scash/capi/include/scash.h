/*
 * scash.h - shared memory for the ranks of a job, from C.
 *
 * A program is started on several ranks (`scash run -n 4 ./program`), which are processes that run the same
 * code; started by itself (`./program`), it is a job of one rank. What ranks allocate with dsm_alloc lies at
 * the same address in each of them and is shared: pointers into it mean the same everywhere, and plain loads
 * and stores reach it. What one rank writes the others see after the next memory barrier, or when they get a
 * lock that it has given back since, or it lets them go on by a semaphore, a condition or a flag.
 *
 * Ranks of a job of one host share frames, unless SCASH_SHARE=off: there they may see it before that, too, so
 * a program that races may seem right (SCASH_RACES=report finds it); accesses to what is allocated do not
 * fault; and protocol and block size of an allocation change nothing.
 *
 *     #include <scash.h>
 *     #include <stdio.h>
 *
 *     int main(void)
 *     {
 *         int *count, r, sum = 0;
 *         if (dsm_init() != 0 || (count = dsm_alloc(dsm_size() * sizeof *count)) == NULL) {
 *             fprintf(stderr, "%s\n", dsm_error());
 *             return 1;
 *         }
 *         count[dsm_rank()] = 1;
 *         dsm_barrier();
 *         for (r = 0; r < dsm_size(); r++)
 *             sum += count[r];
 *         printf("rank %d: there are %d of us\n", dsm_rank(), sum);
 *         return dsm_finalize() != 0;
 *     }
 *
 *     cc hello.c $(pkg-config --cflags --libs scash) -o hello && scash run -n 4 ./hello
 *
 * Errors: functions that return an int give -1, those that return a pointer give NULL, and dsm_error() then
 * has the text. Before dsm_init and after dsm_finalize all functions fail but dsm_error and dsm_version.
 *
 * Collective functions (dsm_alloc, dsm_alloc_with, dsm_alloc_blocks, dsm_free of what these returned, dsm_barrier,
 * dsm_broadcast, dsm_finalize, and those that make and destroy objects: dsm_locks_create, dsm_rwlocks_create,
 * dsm_semaphores_create, dsm_conditions_create, dsm_flags_create, dsm_locks_destroy, dsm_rwlocks_destroy,
 * dsm_semaphores_destroy, dsm_conditions_destroy, dsm_flags_destroy) are called by all ranks, in the same order
 * and with the same arguments; each includes a memory barrier. One thread of a rank calls them, while its other
 * threads touch no shared memory, by atomic operations neither, and use no such object and not the heap.
 * dsm_all_reduce_i64, dsm_all_reduce_u64, dsm_all_reduce_f64 and dsm_broadcast_value are collective, too, but no
 * memory barriers: other threads may do what they like, but for collective functions. dsm_set_protocol,
 * dsm_write_back and dsm_read_home count as touching shared memory. All other functions may be called by any
 * thread at any time: dsm_malloc, dsm_calloc, dsm_realloc and dsm_memalign, too, and dsm_free of
 * what these returned.
 *
 * Locks, reader-writer locks, semaphores, conditions and flags have numbers from one series: a function that
 * is given the number of an object of another kind fails.
 *
 * fork: a child of a rank is no rank. All functions fail there but dsm_error and dsm_version, and touching
 * shared memory ends it by SIGSEGV, with a line on stderr that says why. It may compute on copies that were
 * made before, exit, or exec another program: the rank and the job do not notice.
 *
 * Descriptors: a program closes only those that it has opened, or others before dsm_init. Those of the
 * library have high numbers (from 4096 on, or from half of what `ulimit -n` permits); where they are gone,
 * calls fail, and no job ends well.
 *
 * Signal handlers: they call none of these functions. They may touch shared memory, but not while their
 * thread is in one of these functions: where the two would wait for each other, the rank says so on stderr
 * and exits with status 70. (One that cannot complete an access to shared memory for another reason, say
 * because the home of the page is gone, exits with 74.)
 *
 * Sizes are in bytes, times in seconds.
 */

#ifndef SCASH_H
#define SCASH_H

/* Made by cbindgen of scash/capi/src: do not edit. */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/**
 * Bytes of a page: the unit in which shared memory is allocated, has homes, and travels between
 * ranks.
 */
#define DSM_PAGE_SIZE 4096

/**
 * What `dsm_home` returns for a page that no rank has touched yet; where ranks share frames, for one whose
 * home nobody has named.
 */
#define DSM_HOME_NONE -2

/**
 * Where the pages of an allocation have their homes. A page's home is the rank whose memory holds
 * it; this rank reads and writes it without communication. Where ranks share frames, all do so, and homes
 * are only told (`dsm_home`).
 */
typedef enum dsm_placement_t {
  /**
   * At the rank that touches the page first; nowhere, where ranks share frames. The default.
   */
  DSM_PLACEMENT_FIRST_TOUCH = 0,
  /**
   * In contiguous parts, one a rank, in the order of ranks: the part of rank r of n begins at
   * page r * pages / n, rounded down.
   */
  DSM_PLACEMENT_BLOCK = 1,
  /**
   * In runs of `cyclic_bytes` that go round the ranks, beginning with the rank `rank`.
   */
  DSM_PLACEMENT_CYCLIC = 2,
  /**
   * All at the rank `rank`.
   */
  DSM_PLACEMENT_RANK = 3
} dsm_placement_t;

/**
 * How the copies that ranks have of other ranks' pages are kept coherent at memory barriers.
 */
typedef enum dsm_protocol_t {
  /**
   * Each page as it is used: copies that are read again and again are updated, others are
   * dropped. The default.
   */
  DSM_PROTOCOL_ADAPTIVE = 0,
  /**
   * What was written is sent to all ranks that have a copy.
   */
  DSM_PROTOCOL_UPDATE = 1,
  /**
   * Copies of what was written are dropped, and fetched again when they are touched.
   */
  DSM_PROTOCOL_INVALIDATE = 2
} dsm_protocol_t;

/**
 * What becomes of the values of all ranks.
 */
typedef enum dsm_reduction_t {
  /**
   * Their sum. That of whole numbers wraps around.
   */
  DSM_REDUCTION_SUM = 0,
  /**
   * The least of them. NaN is none of them, unless all are.
   */
  DSM_REDUCTION_MIN = 1,
  /**
   * The greatest of them, likewise.
   */
  DSM_REDUCTION_MAX = 2,
  /**
   * The bits that all have. Of whole numbers only.
   */
  DSM_REDUCTION_AND = 3,
  /**
   * The bits that any of them has. Of whole numbers only.
   */
  DSM_REDUCTION_OR = 4
} dsm_reduction_t;

/**
 * What can be asked of an allocation. A structure of zeros asks for the defaults:
 *
 * ```c
 * dsm_alloc_options_t options = {0};
 * options.placement = DSM_PLACEMENT_BLOCK;
 * double *a = dsm_alloc_with(n * sizeof *a, &options);
 * ```
 */
typedef struct dsm_alloc_options_t {
  /**
   * Where pages have their homes.
   */
  enum dsm_placement_t placement;
  /**
   * How copies are kept coherent.
   */
  enum dsm_protocol_t protocol;
  /**
   * The home of all pages with DSM_PLACEMENT_RANK, that of the first run with DSM_PLACEMENT_CYCLIC.
   * Looked at with these only.
   */
  int rank;
  /**
   * Bytes of a run, rounded up to whole pages; 0 is one page. Looked at with
   * DSM_PLACEMENT_CYCLIC only.
   */
  size_t cyclic_bytes;
  /**
   * Bytes that are fetched, and touched first, together, rounded up to whole pages; 0 is one
   * page. Larger blocks suit data that are always used together.
   */
  size_t block_bytes;
  /**
   * For later versions: zeros.
   */
  size_t reserved[4];
} dsm_alloc_options_t;

/**
 * One of the blocks that `dsm_alloc_blocks` allocates.
 */
typedef struct dsm_block_t {
  /**
   * How long it is.
   */
  size_t bytes;
  /**
   * The home of its pages.
   */
  int rank;
} dsm_block_t;

/**
 * What a rank has counted and timed since `dsm_init`. Where ranks share frames, no access to what is
 * allocated faults and no page moves: these counts are 0.
 */
typedef struct dsm_stats_t {
  /**
   * Signals taken because an access to shared memory needed work.
   */
  uint64_t faults;
  /**
   * Reads that needed work.
   */
  uint64_t read_faults;
  /**
   * Writes that needed work.
   */
  uint64_t write_faults;
  /**
   * Pages that this rank was the first to touch; one write may open several, in order.
   */
  uint64_t first_touches;
  /**
   * Pages fetched from their homes.
   */
  uint64_t fetched;
  /**
   * Faults that did not happen because a page was fetched or mapped together with its neighbour.
   */
  uint64_t prefetched;
  /**
   * Writes that took no fault because the page was expected to be written.
   */
  uint64_t predicted;
  /**
   * Pages that stayed writable over a memory barrier because no other rank has a copy, added up
   * over barriers.
   */
  uint64_t avoided;
  /**
   * Copies made of pages before their first write in an interval, to find later what was
   * written.
   */
  uint64_t twins;
  /**
   * Pages whose changes were sent to their homes.
   */
  uint64_t diffs;
  /**
   * Pages brought up to date at other ranks, counted once for each of them.
   */
  uint64_t updates;
  /**
   * Copies of other ranks' pages given up at memory barriers.
   */
  uint64_t invalidated;
  /**
   * Memory barriers passed.
   */
  uint64_t barriers;
  /**
   * Of these, those in which ranks had to meet twice because some rank wrote pages of other
   * homes.
   */
  uint64_t second_meetings;
  /**
   * Messages sent.
   */
  uint64_t messages;
  /**
   * Pieces of memory written into other ranks.
   */
  uint64_t puts;
  /**
   * Pieces of memory read from other ranks.
   */
  uint64_t gets;
  /**
   * Bytes moved by messages, puts and gets of this rank.
   */
  uint64_t bytes;
  /**
   * Seconds in memory barriers: waiting until all ranks had come.
   */
  double sync_seconds;
  /**
   * Seconds in memory barriers: finding what was written, and sending it home.
   */
  double diff_seconds;
  /**
   * Seconds in memory barriers: bringing pages up to date at other ranks, and dropping stale
   * ones.
   */
  double update_seconds;
  /**
   * Data races that this rank has found (SCASH_RACES).
   */
  uint64_t races;
  /**
   * Checkpoints that were committed (scash run --replicas).
   */
  uint64_t checkpoints;
  /**
   * For later versions: zeros today.
   */
  uint64_t reserved[6];
} dsm_stats_t;

/**
 * A lock: a number that means the same lock on every rank. It can be kept in shared memory.
 */
typedef uint32_t dsm_lock_t;

/**
 * A reader-writer lock: a number that means the same one on every rank. Any number of threads have
 * it to read at a time, or one has it to write.
 */
typedef uint32_t dsm_rwlock_t;

/**
 * A counting semaphore: a number that means the same one on every rank.
 */
typedef uint32_t dsm_semaphore_t;

/**
 * A condition variable: a number that means the same one on every rank.
 */
typedef uint32_t dsm_condition_t;

/**
 * A flag: a number that means the same one on every rank. A flag has a value that only grows, 0 in
 * the beginning.
 */
typedef uint32_t dsm_flag_t;

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Joins the job for which `scash run` or another launcher started this process; a process that none
 * has started is a job of one rank. To be called once, before all other functions, by one thread.
 *
 * Returns 0, or -1 if ranks run different programs, a setting (environment variable SCASH_...) makes
 * no sense, or the system lacks what is needed; `dsm_error` tells. Then no other call can succeed.
 */
int dsm_init(void);

/**
 * Ends this rank's part in the job, together with all other ranks. Collective. A rank that
 * touches shared memory afterwards says so on stderr and dies of SIGSEGV, and all functions but
 * `dsm_error` and `dsm_version` fail. A rank that exits without this call counts as failed, and
 * the job is ended.
 *
 * Returns 0, or -1 on error.
 */
int dsm_finalize(void);

/**
 * The number of this rank, from 0; -1 on error.
 */
int dsm_rank(void);

/**
 * The number of ranks of the job; -1 on error.
 */
int dsm_size(void);

/**
 * The number of threads that the user wants in each rank (`scash run --threads`); -1 on error. The
 * program is to start them: scash does not.
 */
int dsm_threads(void);

/**
 * Allocates `bytes` bytes of shared memory, filled with zeros. Collective: all ranks ask for the
 * same, and get the same address.
 *
 * The address is that of a page; whatever is left of the last page belongs to no other allocation.
 * Where ranks do not share frames, each page has its home at the rank that touches it first.
 *
 * Returns NULL, at all ranks, if `bytes` is 0, there is no room (SCASH_REGION sets how much there
 * is), or ranks asked for different things (after which no collective call can succeed).
 */
void *dsm_alloc(size_t bytes);

/**
 * Allocates as `dsm_alloc` does, with a say in placement, protocol and block size. Collective:
 * with the same options at all ranks. `options` may be NULL, for the defaults.
 *
 * To place pages by a rule of your own, use `dsm_alloc_blocks`.
 *
 * Returns NULL on error, as `dsm_alloc` does, or if an option has a value that does not exist.
 */
void *dsm_alloc_with(size_t bytes, const struct dsm_alloc_options_t *options);

/**
 * Allocates `count` blocks, one right behind the other, each at home at a rank of its own. Collective: all
 * ranks come with the same blocks. `options` may be NULL, for the defaults; the blocks take the place of
 * its placement.
 *
 * A page that several blocks share is at home at the rank of the first of these: give blocks that are to
 * lie on pages of their own multiples of DSM_PAGE_SIZE.
 *
 * Returns NULL on error, as `dsm_alloc` does, or if there is no such rank.
 */
void *dsm_alloc_blocks(const struct dsm_block_t *blocks, size_t count, const struct dsm_alloc_options_t *options);

/**
 * Frees shared memory. The address tells which of two things it does.
 *
 * What `dsm_alloc`, `dsm_alloc_with` or `dsm_alloc_blocks` returned is freed by all ranks together: then the
 * call is collective. A rank that touches the memory afterwards says so on stderr and dies of SIGSEGV.
 *
 * What `dsm_malloc` and the like returned is freed by one thread of any rank, at any time but while
 * another thread of the rank is in a collective function. All use of the object comes before, in the
 * order that locks and the like or memory barriers make. (Atomic operations order nothing.) Its place
 * can be allocated again at once; in a job that has made no locks or the like, and with SCASH_RACES,
 * after the next memory barrier if another rank than the one that allocated it frees it. What touches
 * it afterwards is not noticed.
 *
 * `dsm_free(NULL)` does nothing, whoever calls it.
 *
 * Returns 0, or -1 if `p` is not the beginning of an allocation or an object: memory of another kind, or
 * freed before. Nothing is done then.
 */
int dsm_free(void *p);

/**
 * The memory barrier. Collective: returns when all ranks have called it; from then on each rank
 * sees what any rank had written before its call. Between two memory barriers, no rank may touch
 * bytes that another one writes.
 *
 * To be called by one thread of each rank, while no other thread of the rank touches shared
 * memory.
 *
 * Returns 0, or -1 if a rank is gone or made another collective call; then no collective call can
 * succeed any more. Also -1, and nothing happens, if another thread of this rank is in a collective
 * call.
 */
int dsm_barrier(void);

/**
 * The memory barrier, and at it a checkpoint, whatever `scash run --checkpoint` says. Collective, as
 * dsm_barrier.
 *
 * Returns 1 if it was committed: if ranks die after that, all go on from here. 0 if it was not:
 * where ranks do not come back (`scash run --replicas`), or if one of them cannot be saved, which is
 * said once. -1 for what makes dsm_barrier return -1.
 */
int dsm_checkpoint_now(void);

/**
 * How often the ranks of this job have come back (`scash run --replicas`); -1 on error. For what a
 * program says of itself: its results do not depend on it.
 */
int64_t dsm_incarnation(void);

/**
 * The memory barrier of all application threads: returns when dsm_threads() threads of each rank
 * have called it, and then each of them sees what any had written before its call.
 *
 * Returns 0, or -1 to all threads of the rank for what makes dsm_barrier return -1. Also -1, and
 * nothing happens, to a thread more than dsm_threads(). While some threads wait here for others of
 * their rank, other collective calls of the rank fail.
 */
int dsm_barrier_threads(void);

/**
 * The home of the page that holds the byte at `p`, as of the last memory barrier: a rank, or
 * DSM_HOME_NONE while no rank has touched the page; -1 if `p` is not in allocated shared memory.
 * Where ranks share frames (SCASH_SHARE) nobody knows who touched a page first: there it is the rank
 * that the allocation or dsm_set_home has named, or DSM_HOME_NONE if neither has.
 */
int dsm_home(const void *p);

/**
 * Moves the home of every page that the `bytes` bytes at `p` touch to `rank`, at the next memory
 * barrier. It is enough that one rank asks for it. A page that was touched for the first time since
 * the last memory barrier, and whose home nobody named before, moves at the next one but one: ranks
 * that do not share frames settle first who touched it.
 *
 * Returns 0, or -1 if there is no such rank, or the bytes are not within one allocation.
 */
int dsm_set_home(const void *p, size_t bytes, int rank);

/**
 * Gives the allocation that holds `p` a name, by which this rank calls it where it tells a data
 * race (SCASH_RACES). To be called by all ranks.
 *
 * Returns 0, or -1 if `p` is not in allocated shared memory, or `name` is NULL.
 */
int dsm_name(const void *p, const char *name);

/**
 * From now on, the copies that this rank has of the allocation that holds `p` are kept coherent by
 * `protocol`. All ranks should ask for the same.
 *
 * Returns 0, or -1 if there is no such protocol, `p` is not in allocated shared memory, or another
 * thread is in a collective function.
 */
int dsm_set_protocol(const void *p, enum dsm_protocol_t protocol);

/**
 * Brings what this rank has written in the `bytes` bytes at `p` to the homes of their pages now,
 * before the next memory barrier.
 *
 * Returns 0, or -1 if the bytes are not within one allocation, another thread is in a collective
 * function, or a home is gone.
 */
int dsm_write_back(const void *p, size_t bytes);

/**
 * Brings this rank's copies of the `bytes` bytes at `p` up to what the homes of their pages hold
 * now. What this rank wrote since the last memory barrier stays.
 *
 * Returns 0, or -1 if the bytes are not within one allocation, another thread is in a collective
 * function, or a home is gone.
 */
int dsm_read_home(void *p, size_t bytes);

/**
 * Brings the pages of the `bytes` bytes at `p` from their homes to all ranks, which then read them
 * without a fault until the next memory barrier. Collective, and a memory barrier: what any rank had
 * written before its call is in it. For data that one rank makes and all need.
 *
 * Returns 0, or -1 if the bytes are not within one allocation, or as `dsm_barrier` does.
 */
int dsm_broadcast(void *p, size_t bytes);

/**
 * Makes the pages of the `bytes` bytes at `p` ready for this rank: to be read, or, if `write` is
 * not 0, to be read and written. For memory that is handed to the system: `read(fd, p, bytes)`
 * fails with EFAULT where a plain access would have fetched the page.
 *
 * Returns 0, or -1 if the bytes are not within one allocation, or a home is gone.
 */
int dsm_touch(void *p, size_t bytes, int write);

/**
 * Fills `*stats` with what this rank has counted and timed so far.
 *
 * Returns 0, or -1 if `stats` is NULL.
 */
int dsm_stats(struct dsm_stats_t *stats);

/**
 * The text of the calling thread's last error: one line that says what to do about it. Never NULL;
 * "" if there was none. A later call of the same thread that fails replaces the text; the pointer stays
 * the same, and good for as long as the thread lives.
 */
const char *dsm_error(void);

/**
 * The version of the library, such as "0.1.0".
 */
const char *dsm_version(void);

/**
 * Whether the ranks of this job share frames: 1 if they do, as those of one host do by default
 * (SCASH_SHARE), and the processor keeps their memory coherent; 0 if each has its own; -1 on error.
 */
int dsm_shares_frames(void);

/**
 * How this rank notices accesses to shared memory that need work ("uffd" or "mprotect"); NULL on
 * error. Where ranks share frames, only accesses to what is not allocated are noticed.
 */
const char *dsm_engine(void);

/**
 * What ranks communicate through ("shm", "tcp", or "composite" for both); NULL on error.
 */
const char *dsm_provider(void);

/**
 * Allocates `bytes` bytes of the heap of shared memory. Not collective: any thread of any rank calls it
 * at any time, also while it has locks, but not while another thread of its rank is in a collective
 * function.
 *
 * The address is a multiple of 16 and means the same on every rank: it may be kept in other shared
 * memory, and any rank reads, writes and frees the object. What one rank writes there others see as
 * they see all shared memory: after a memory barrier, or when they get a lock, a semaphore, a
 * condition or a flag after it. The bytes have no particular values (dsm_calloc sets them to zero).
 * For 0 bytes there is an address, too, that no other object has.
 *
 * Objects of different ranks lie on different pages; small ones of one rank share pages. Where ranks
 * do not share frames, a page's home is the rank that touches it first.
 *
 * Each rank has an equal part of the heap (SCASH_HEAP), and allocates there. What is freed can be
 * allocated again; its memory is not given back to the system.
 *
 * Returns NULL if there is no room in this rank's part.
 */
void *dsm_malloc(size_t bytes);

/**
 * Allocates `count` objects of `bytes` bytes side by side, as dsm_malloc, and sets all bytes to zero.
 *
 * Returns NULL as dsm_malloc does, or if there are no so large numbers.
 */
void *dsm_calloc(size_t count, size_t bytes);

/**
 * Allocates as dsm_malloc does, at a multiple of `alignment`, which is a power of two.
 *
 * Returns NULL as dsm_malloc does, or if `alignment` is no power of two.
 */
void *dsm_memalign(size_t alignment, size_t bytes);

/**
 * Makes the object at `p`, which any rank has allocated by dsm_malloc or the like, `bytes` bytes long.
 * If it does not fit where it is, it is moved to this rank's part of the heap, and the old one is
 * freed. As many bytes as fit are as they were. With NULL this is dsm_malloc. An object that is made
 * 0 bytes long is not freed. Alignments that dsm_memalign gave are lost if it is moved.
 *
 * Returns NULL as dsm_malloc does, or if no object begins at `p`. The object is as it was then.
 */
void *dsm_realloc(void *p, size_t bytes);

/**
 * Reads up to `bytes` bytes from a descriptor into memory that may be shared: `read` of the system
 * fails with EFAULT where a page is not here. Goes on after signals, and, from a file, until it has all
 * that the file has. From anything else, as a socket, it returns what one `read` does, and from pipes
 * and streams at most 64 KiB.
 *
 * Returns how many bytes were read, 0 at the end of a file, or -1 if none could be read (dsm_error has the
 * system's reason).
 */
ssize_t dsm_read(int fd, void *into, size_t bytes);

/**
 * Writes up to `bytes` bytes of memory that may be shared to a descriptor, as `dsm_read` reads. To
 * sockets that keep messages apart, and to the end of a file that is open with O_APPEND, that is one
 * `write`, for which as much private memory is needed.
 *
 * Returns how many bytes were written, or -1 if none could be (dsm_error has the system's reason).
 */
ssize_t dsm_write(int fd, const void *from, size_t bytes);

/**
 * `fread` of the C library into memory that may be shared.
 *
 * Returns how many whole elements were read: fewer than `count` at the end of the file and after an error
 * (feof and ferror tell which), and 0 if `into` or `stream` is NULL, which dsm_error tells.
 */
size_t dsm_fread(void *into, size_t size, size_t count, FILE *stream);

/**
 * `fwrite` of the C library from memory that may be shared.
 *
 * Returns how many whole elements were written: fewer than `count` after an error (ferror), and 0 if
 * `from` or `stream` is NULL, which dsm_error tells.
 */
size_t dsm_fwrite(const void *from, size_t size, size_t count, FILE *stream);

/**
 * Makes `count` locks, which nobody has, and sets `*first` to the first one; the others are the
 * numbers that follow: `*first + 1`, and so on. Collective: all ranks ask for as many, and get the
 * same numbers. (For a lock that one rank makes see `dsm_lock_new`.) There are locks until
 * `dsm_locks_destroy` or `dsm_finalize`; those that are never used cost nothing.
 *
 * ```c
 * dsm_lock_t locks;
 * dsm_locks_create(100, &locks);
 * dsm_lock(locks + 7);
 * a[7] += 1;
 * dsm_unlock(locks + 7);
 * ```
 *
 * Returns 0, or -1 if `count` is less than 1, `first` is NULL, there would be more than 2^26 objects of all
 * kinds (2^31 where ranks do not share frames), or as `dsm_barrier` does.
 */
int dsm_locks_create(int count, dsm_lock_t *first);

/**
 * Destroys `count` locks, from `first` on. Collective, and a memory barrier: all ranks name the same
 * locks. Their numbers never mean other locks: a rank that uses one later is told so.
 *
 * If a thread of any rank has one of the locks, or waits for it (or for a condition, with the lock),
 * all ranks get -1, and the text names it: none of the locks is destroyed then at any rank, and the
 * call was no memory barrier.
 *
 * Returns 0, or -1 if one is in use, `count` is less than 1, there are no such locks, or as
 * `dsm_barrier` does.
 */
int dsm_locks_destroy(dsm_lock_t first, int count);

/**
 * Takes a lock: returns when no other thread of any rank has it. From then on this rank sees all
 * that any rank wrote before it last gave this lock back, and all that such a rank had seen. So
 * data that are only touched by who has the lock are touched by one thread at a time, and each sees
 * what the one before it wrote. Ranks get the lock in the order in which they asked for it.
 *
 * Locks are not recursive. A rank does not come to a collective function while one of its threads
 * waits for a lock.
 *
 * Returns 0, or -1 if there is no such lock, the calling thread has it already, or a rank is gone.
 */
int dsm_lock(dsm_lock_t lock);

/**
 * Takes a lock if nobody has it, and waits for nobody who has: only for the answers of other ranks
 * if the lock is not here.
 *
 * Returns 1 if the calling thread has the lock now, 0 if another one has it or waits for it, or -1
 * as `dsm_lock` does.
 */
int dsm_try_lock(dsm_lock_t lock);

/**
 * Gives a lock back that the calling thread took.
 *
 * Returns 0, or -1 if there is no such lock, the calling thread does not have it, or a rank is gone.
 */
int dsm_unlock(dsm_lock_t lock);

/**
 * Makes `count` reader-writer locks, which nobody has; see `dsm_locks_create`. Collective.
 *
 * Returns 0, or -1 if `count` is less than 1, `first` is NULL, or as `dsm_barrier` does.
 */
int dsm_rwlocks_create(int count, dsm_rwlock_t *first);

/**
 * Destroys `count` reader-writer locks, from `first` on, if no thread of any rank has one or waits for
 * it; see `dsm_locks_destroy`. Collective.
 *
 * Returns 0, or -1 as `dsm_locks_destroy` does.
 */
int dsm_rwlocks_destroy(dsm_rwlock_t first, int count);

/**
 * Takes a reader-writer lock to read: returns when nobody has it to write, and nobody waits for it
 * who came before. From then on this rank sees what was written by those who had it to write.
 *
 * A thread that has the lock already, to read or to write, does not get it again.
 *
 * Returns 0, or -1 if there is no such lock, the calling thread has it already, or a rank is gone.
 */
int dsm_read_lock(dsm_rwlock_t lock);

/**
 * Takes a reader-writer lock to write: returns when nobody else has it. From then on this rank sees
 * what was written by those who had it before.
 *
 * Returns 0, or -1 as `dsm_read_lock` does.
 */
int dsm_write_lock(dsm_rwlock_t lock);

/**
 * Gives a reader-writer lock back that the calling thread took, to read or to write.
 *
 * Returns 0, or -1 if there is no such lock, the calling thread does not have it, or a rank is gone.
 */
int dsm_rw_unlock(dsm_rwlock_t lock);

/**
 * Makes `count` semaphores, each with this number in the beginning; see `dsm_locks_create`.
 * Collective.
 *
 * Returns 0, or -1 if `count` is less than 1, `first` is NULL, or as `dsm_barrier` does.
 */
int dsm_semaphores_create(int count, unsigned int initial, dsm_semaphore_t *first);

/**
 * Destroys `count` semaphores, from `first` on, if no thread of any rank waits for one, whatever their
 * numbers are; see `dsm_locks_destroy`. Collective.
 *
 * Returns 0, or -1 as `dsm_locks_destroy` does.
 */
int dsm_semaphores_destroy(dsm_semaphore_t first, int count);

/**
 * Takes one from a semaphore's number: waits until it is not 0. From then on this rank sees all that
 * was written, by any rank, before the `dsm_semaphore_post` that let it go on. Those who wait go on
 * in the order in which they came.
 *
 * A rank does not come to a collective function while one of its threads waits.
 *
 * Returns 0, or -1 if there is no such semaphore, or a rank is gone.
 */
int dsm_semaphore_wait(dsm_semaphore_t semaphore);

/**
 * Adds `count` to a semaphore's number: as many who wait go on. Any thread may do so. Waits for
 * nobody.
 *
 * Returns 0, or -1 if there is no such semaphore, `count` is 0, or a rank is gone.
 */
int dsm_semaphore_post(dsm_semaphore_t semaphore, unsigned int count);

/**
 * Makes `count` conditions, for which nobody waits; see `dsm_locks_create`. Collective.
 *
 * Returns 0, or -1 if `count` is less than 1, `first` is NULL, or as `dsm_barrier` does.
 */
int dsm_conditions_create(int count, dsm_condition_t *first);

/**
 * Destroys `count` conditions, from `first` on, if no thread of any rank waits for one; see
 * `dsm_locks_destroy`. Collective.
 *
 * Returns 0, or -1 as `dsm_locks_destroy` does.
 */
int dsm_conditions_destroy(dsm_condition_t first, int count);

/**
 * Gives `lock` back, which the calling thread has, waits for a signal, and takes the lock again. No
 * signal is missed that is given by somebody who has had the lock since. May also return without a
 * signal, so it stands in a loop:
 *
 * ```c
 * dsm_lock(lock);
 * while (!*ready)
 *     dsm_condition_wait(condition, lock);
 * dsm_unlock(lock);
 * ```
 *
 * A rank does not come to a collective function while one of its threads waits.
 *
 * Returns 0, or -1 if there is no such condition or lock, the calling thread does not have the lock,
 * or a rank is gone.
 */
int dsm_condition_wait(dsm_condition_t condition, dsm_lock_t lock);

/**
 * Lets one thread go on that waits for a condition: the one that came first. If nobody waits,
 * nothing happens. Waits for nobody.
 *
 * Returns 0, or -1 if there is no such condition, or a rank is gone.
 */
int dsm_condition_signal(dsm_condition_t condition);

/**
 * Lets all threads go on that wait for a condition.
 *
 * Returns 0, or -1 as `dsm_condition_signal` does.
 */
int dsm_condition_broadcast(dsm_condition_t condition);

/**
 * Makes `count` flags; see `dsm_locks_create`. Collective.
 *
 * Returns 0, or -1 if `count` is less than 1, `first` is NULL, or as `dsm_barrier` does.
 */
int dsm_flags_create(int count, dsm_flag_t *first);

/**
 * Destroys `count` flags, from `first` on, if no thread of any rank waits for one; see
 * `dsm_locks_destroy`. Collective.
 *
 * Returns 0, or -1 as `dsm_locks_destroy` does.
 */
int dsm_flags_destroy(dsm_flag_t first, int count);

/**
 * Waits until a flag's value is at least this one. From then on this rank sees all that was written,
 * by any rank, before the flag was raised so far.
 *
 * A rank does not come to a collective function while one of its threads waits.
 *
 * Returns 0, or -1 if there is no such flag, or a rank is gone.
 */
int dsm_flag_wait(dsm_flag_t flag, uint64_t least);

/**
 * Raises a flag's value. If it is larger already, it stays so. Any thread may do so. Waits for
 * nobody.
 *
 * Returns 0, or -1 if there is no such flag, or a rank is gone.
 */
int dsm_flag_raise(dsm_flag_t flag, uint64_t to);

/**
 * Makes a lock, which nobody has, by this rank alone, and sets `*lock` to its number, which means the same
 * lock on every rank. Not collective: any thread of any rank calls it at any time, also while it has
 * locks, but not while another thread of its rank is in a collective function. Other ranks get the
 * number as they get all that is written: it is kept in shared memory, beside what the lock is for. All
 * functions on locks take it, but for `dsm_locks_destroy`.
 *
 * ```c
 * struct node { dsm_lock_t lock; int value; struct node *next; };
 * struct node *node = dsm_malloc(sizeof *node);
 * dsm_lock_new(&node->lock);
 * ```
 *
 * All ranks must have made an object together before, once, by `dsm_locks_create` or the like. Of all
 * kinds there can be 2^24 such objects at a time, and each rank can have made an even part of them.
 *
 * Returns 0, or -1 if `lock` is NULL, all ranks have made none before, or this rank can make no more.
 */
int dsm_lock_new(dsm_lock_t *lock);

/**
 * Destroys a lock that `dsm_lock_new` made, whichever rank called that. Waits until nobody has it. Not
 * collective.
 *
 * Whoever uses the lock afterwards is told that there is none of that number. But numbers come again: after
 * the next memory barrier this one may mean another object.
 *
 * Returns 0, or -1 if there is no such lock, the calling thread has it, or a rank is gone; or if a thread
 * waits for it that came after this call: that one gets the lock then, which is as it was.
 */
int dsm_lock_delete(dsm_lock_t lock);

/**
 * Makes a reader-writer lock, which nobody has, by this rank alone; see `dsm_lock_new`.
 *
 * Returns 0, or -1 as `dsm_lock_new` does.
 */
int dsm_rwlock_new(dsm_rwlock_t *lock);

/**
 * Destroys a reader-writer lock that `dsm_rwlock_new` made; see `dsm_lock_delete`.
 *
 * Returns 0, or -1 as `dsm_lock_delete` does.
 */
int dsm_rwlock_delete(dsm_rwlock_t lock);

/**
 * Makes a semaphore, with this number in the beginning, by this rank alone; see `dsm_lock_new`.
 *
 * Returns 0, or -1 as `dsm_lock_new` does.
 */
int dsm_semaphore_new(unsigned int initial, dsm_semaphore_t *semaphore);

/**
 * Destroys a semaphore that `dsm_semaphore_new` made, whatever its number is. Not collective. A post that
 * nobody has waited for is lost, also if it arrives later.
 *
 * Returns 0, or -1 if a thread waits for it, there is no such semaphore, or a rank is gone.
 */
int dsm_semaphore_delete(dsm_semaphore_t semaphore);

/**
 * Makes a condition, for which nobody waits, by this rank alone; see `dsm_lock_new`.
 *
 * Returns 0, or -1 as `dsm_lock_new` does.
 */
int dsm_condition_new(dsm_condition_t *condition);

/**
 * Destroys a condition that `dsm_condition_new` made; see `dsm_semaphore_delete`.
 *
 * Returns 0, or -1 as `dsm_semaphore_delete` does.
 */
int dsm_condition_delete(dsm_condition_t condition);

/**
 * Makes a flag, whose value is 0, by this rank alone; see `dsm_lock_new`.
 *
 * Returns 0, or -1 as `dsm_lock_new` does.
 */
int dsm_flag_new(dsm_flag_t *flag);

/**
 * Destroys a flag that `dsm_flag_new` made; see `dsm_semaphore_delete`.
 *
 * Returns 0, or -1 as `dsm_semaphore_delete` does.
 */
int dsm_flag_delete(dsm_flag_t flag);

/**
 * An atomic operation on a word of shared memory: adds `number` to `*word`, wrapping around, and
 * sets `*before` to what it was before. `before` may be NULL, if nobody wants to know.
 *
 * The operation is executed at the home of the word's page, or on the memory that ranks share, without
 * another rank's help: within a host by one instruction, over TCP by a message there and back. The
 * operations of all ranks and threads have one order. `word` is a multiple of its size, anywhere in memory
 * from `dsm_alloc`; whether it is taken for signed or not makes no difference.
 *
 * Between two memory barriers a word is either operated on, by all who use it, or read and written
 * as plain memory. After a memory barrier, all read what the operations before it have left. An
 * operation orders nothing but itself: who sees its result does not for that reason see what else
 * the rank had written before. That is what `dsm_lock` and `dsm_barrier` are for.
 *
 * Returns 0, or -1 if `word` is not such an address, or a rank is gone.
 */
int dsm_fetch_add_u64(uint64_t *word, uint64_t number, uint64_t *before);

/**
 * Keeps those bits of `*word` that are set in `mask`. An atomic operation: see `dsm_fetch_add_u64`.
 */
int dsm_fetch_and_u64(uint64_t *word, uint64_t mask, uint64_t *before);

/**
 * Sets those bits of `*word` that are set in `mask`. An atomic operation: see `dsm_fetch_add_u64`.
 */
int dsm_fetch_or_u64(uint64_t *word, uint64_t mask, uint64_t *before);

/**
 * Turns those bits of `*word` that are set in `mask`. An atomic operation: see `dsm_fetch_add_u64`.
 */
int dsm_fetch_xor_u64(uint64_t *word, uint64_t mask, uint64_t *before);

/**
 * Replaces `*word` by `value`. An atomic operation: see `dsm_fetch_add_u64`.
 */
int dsm_swap_u64(uint64_t *word, uint64_t value, uint64_t *before);

/**
 * Replaces `*word` by `value` if it is `expected`. If, and only if, `*before` is `expected` after
 * the call, it was replaced. An atomic operation: see `dsm_fetch_add_u64`.
 */
int dsm_compare_swap_u64(uint64_t *word, uint64_t expected, uint64_t value, uint64_t *before);

/**
 * Sets `*value` to what `*word` is. An atomic operation: see `dsm_fetch_add_u64`.
 */
int dsm_load_u64(const uint64_t *word, uint64_t *value);

/**
 * Sets `*word` to `value`. An atomic operation: see `dsm_fetch_add_u64`.
 */
int dsm_store_u64(uint64_t *word, uint64_t value);

/**
 * Adds `number` to `*word`, wrapping around. An atomic operation: see `dsm_fetch_add_u64`.
 */
int dsm_fetch_add_u32(uint32_t *word, uint32_t number, uint32_t *before);

/**
 * Keeps those bits of `*word` that are set in `mask`. An atomic operation: see `dsm_fetch_add_u64`.
 */
int dsm_fetch_and_u32(uint32_t *word, uint32_t mask, uint32_t *before);

/**
 * Sets those bits of `*word` that are set in `mask`. An atomic operation: see `dsm_fetch_add_u64`.
 */
int dsm_fetch_or_u32(uint32_t *word, uint32_t mask, uint32_t *before);

/**
 * Turns those bits of `*word` that are set in `mask`. An atomic operation: see `dsm_fetch_add_u64`.
 */
int dsm_fetch_xor_u32(uint32_t *word, uint32_t mask, uint32_t *before);

/**
 * Replaces `*word` by `value`. An atomic operation: see `dsm_fetch_add_u64`.
 */
int dsm_swap_u32(uint32_t *word, uint32_t value, uint32_t *before);

/**
 * Replaces `*word` by `value` if it is `expected`. If, and only if, `*before` is `expected` after
 * the call, it was replaced. An atomic operation: see `dsm_fetch_add_u64`.
 */
int dsm_compare_swap_u32(uint32_t *word, uint32_t expected, uint32_t value, uint32_t *before);

/**
 * Sets `*value` to what `*word` is. An atomic operation: see `dsm_fetch_add_u64`.
 */
int dsm_load_u32(const uint32_t *word, uint32_t *value);

/**
 * Sets `*word` to `value`. An atomic operation: see `dsm_fetch_add_u64`.
 */
int dsm_store_u32(uint32_t *word, uint32_t value);

/**
 * Replaces the `count` values at `values` by those of all ranks together, element by element: their
 * sum, their least, and so on, the same at every rank. Collective: all ranks come with as many
 * values, at most 4096, and for the same reduction; but no memory barrier. Messages go up a tree of
 * ranks, and down again.
 *
 * ```c
 * double sums[2] = {x, x * x};
 * dsm_all_reduce_f64(sums, 2, DSM_REDUCTION_SUM);
 * ```
 *
 * Returns 0, or -1 if there are too many values, `values` is NULL, there is no such reduction, or as
 * `dsm_barrier` does.
 */
int dsm_all_reduce_i64(int64_t *values, size_t count, enum dsm_reduction_t reduction);

/**
 * As `dsm_all_reduce_i64`, for values of this type.
 */
int dsm_all_reduce_u64(uint64_t *values, size_t count, enum dsm_reduction_t reduction);

/**
 * As `dsm_all_reduce_i64`, for values of this type.
 * Sums have the same bits at every rank, and in every run on as many ranks.
 *
 * Returns 0, or -1 as there, or if the reduction is one of bits.
 */
int dsm_all_reduce_f64(double *values, size_t count, enum dsm_reduction_t reduction);

/**
 * Waits until all ranks have come here. No memory barrier: nothing is brought to anybody, and what others
 * wrote is not seen behind it. For what needs an order, and no memory. Collective.
 *
 * Returns 0, or -1 as `dsm_barrier` does.
 */
int dsm_meet(void);

/**
 * Replaces the `bytes` bytes at `value`, at most 32 KiB, by those of the rank `from`. Collective: all
 * ranks come with as many bytes, and name the same rank; but no memory barrier. For small values that
 * one rank knows; `dsm_broadcast` brings shared memory to all.
 *
 * Returns 0, or -1 if there are too many bytes, `value` is NULL, there is no such rank, or as
 * `dsm_barrier` does.
 */
int dsm_broadcast_value(void *value, size_t bytes, int from);

#ifdef __cplusplus
}
#endif

#endif  /* SCASH_H */
