/*
 * scash_comm.h - messages between the ranks of a job, from C.
 *
 * A program is started on several ranks (`scash run -n 4 ./program`), which are processes that run the same
 * code and have numbers from 0; started by itself (`./program`), it is a job of one rank. Ranks send each
 * other messages, which have tags, and call collective operations together. It is used as MPI is: what is
 * said here is where it differs.
 *
 *     #include <scash_comm.h>
 *     #include <stdio.h>
 *
 *     int main(void)
 *     {
 *         scomm_status_t status;
 *         int mine, theirs;
 *         if (scomm_init(NULL) != 0) {
 *             fprintf(stderr, "%s\n", scomm_error());
 *             return 1;
 *         }
 *         mine = scomm_rank();
 *         scomm_send((mine + 1) % scomm_size(), 7, &mine, sizeof mine);
 *         scomm_recv(SCOMM_ANY_SOURCE, 7, &theirs, sizeof theirs, &status);
 *         printf("rank %d: %d bytes from rank %d\n", mine, (int)status.len, status.source);
 *         return scomm_finalize() != 0;
 *     }
 *
 *     cc ring.c $(pkg-config --cflags --libs scash) -o ring && scash run -n 4 ./ring
 *
 * Errors: functions that return an int give a number less than 0 (SCOMM_ERROR_...), those that return a
 * pointer give NULL, and scomm_error() then has the text. Before scomm_init and after scomm_finalize all
 * functions fail but scomm_options, scomm_error and scomm_free. Where a status may be written, it tells of
 * its operation's error, too.
 *
 * Operations: functions with an i in their names (scomm_isend) only begin an operation and set a request; it
 * goes on while the program computes, and a wait or a test tells that it is over. Until then its memory must
 * stay, and be left alone; of a send, it may be read. A request is a number: one that names no operation, or
 * none any more, is an error wherever it is given.
 *
 * Messages: bytes, sent by one rank to one rank (which may be the same) under a tag. A receive names a source
 * and a tag, or leaves either open. Messages of one rank to another keep their order: of two that fit a
 * receive, it gets the one that was sent first. Lengths are those of messages; a receive needs room for as
 * much or more. No order in which ranks send leads to a deadlock for want of memory: a message for which
 * there is no room waits at its sender, which then waits for its receiver.
 *
 * Collective operations are begun by all ranks, in the same order and with the same numbers; only the lengths
 * of scomm_all_to_all_v differ from rank to rank. Any number of them may be under way. Their memory does not
 * overlap.
 *
 * One-sided: a window is memory of all ranks that all can put to and get from, whatever its owner does
 * meanwhile; its words can be operated on atomically (scomm_fetch_add_u64). Active messages are functions
 * that run where a message arrives. A fence tells that what was put, called, and sent and forgotten has
 * arrived.
 *
 * Threads: all functions may be called by any thread at any time, but for scomm_init and scomm_finalize,
 * during which no other thread is in a function of this header. An operation may be waited for by another
 * thread than the one that has begun it, but by one alone.
 *
 * Memory: any, but not that of dsm_alloc (scash.h). With SCOMM_LARGE_GET, ranks of the same host read a long
 * message where it is; that of scomm_alloc without a system call.
 *
 * Programs may use scash.h, too: they call dsm_init before scomm_init, and scomm_finalize before
 * dsm_finalize. Ranks have the same numbers in both.
 *
 * The environment sets which protocol serves which messages, unless scomm_init is given options:
 * SCASH_MP_EAGER, SCASH_MP_PUSH, SCASH_MP_LARGE, SCASH_MP_WINDOW, SCASH_MP_REGISTERED, SCASH_MP_HELD; see
 * scomm_options_t.
 *
 * A rank that ends before scomm_finalize hangs nobody: operations that need it, collective ones among them,
 * fail with an error that names it, and others go on. Of one that is stopped, or whose link is cut, that is
 * so after SCASH_MP_SILENCE seconds (10; 0: never).
 *
 * fork: a child of a rank is no rank. All functions fail there but scomm_error and scomm_options. It may
 * compute, exit, or exec another program: the rank and the job do not notice.
 *
 * Sizes are in bytes.
 */

#ifndef SCASH_COMM_H
#define SCASH_COMM_H

/* Made by cbindgen of scash/capi/src/comm: do not edit. */

#include <stddef.h>
#include <stdint.h>

/**
 * Any rank, as the source of a receive.
 */
#define SCOMM_ANY_SOURCE -1

/**
 * Any tag, for a receive.
 */
#define SCOMM_ANY_TAG -1

/**
 * The index of no operation.
 */
#define SCOMM_NO_INDEX -1

/**
 * All ranks, for `scomm_fence`.
 */
#define SCOMM_ALL_RANKS -1

/**
 * How messages travel that are longer than `eager`.
 */
typedef enum scomm_large_t {
  /**
   * As SCOMM_LARGE_GET within a host; as SCOMM_LARGE_PUSH elsewhere. The default.
   */
  SCOMM_LARGE_AUTO = 0,
  /**
   * The receiver reads the sender's memory where it can; else as SCOMM_LARGE_RENDEZVOUS.
   */
  SCOMM_LARGE_GET = 1,
  /**
   * Up to `push` bytes unasked, into memory that is made for them if no receive awaits them; else as
   * SCOMM_LARGE_RENDEZVOUS.
   */
  SCOMM_LARGE_PUSH = 2,
  /**
   * When the receiver asks for it.
   */
  SCOMM_LARGE_RENDEZVOUS = 3
} scomm_large_t;

/**
 * What the elements of a reduction are.
 */
typedef enum scomm_type_t {
  SCOMM_TYPE_I8 = 0,
  SCOMM_TYPE_U8 = 1,
  SCOMM_TYPE_I16 = 2,
  SCOMM_TYPE_U16 = 3,
  SCOMM_TYPE_I32 = 4,
  SCOMM_TYPE_U32 = 5,
  SCOMM_TYPE_I64 = 6,
  SCOMM_TYPE_U64 = 7,
  SCOMM_TYPE_F32 = 8,
  SCOMM_TYPE_F64 = 9
} scomm_type_t;

/**
 * What becomes of two elements in a reduction.
 */
typedef enum scomm_op_t {
  /**
   * Their sum; that of whole numbers wraps around.
   */
  SCOMM_OP_SUM = 0,
  /**
   * Their product, likewise.
   */
  SCOMM_OP_PRODUCT = 1,
  /**
   * The lesser one; of a number and a NaN, the number.
   */
  SCOMM_OP_MIN = 2,
  /**
   * The greater one, likewise.
   */
  SCOMM_OP_MAX = 3,
  /**
   * The bits that both have. Of whole numbers only, as the next two.
   */
  SCOMM_OP_AND = 4,
  /**
   * The bits that either has.
   */
  SCOMM_OP_OR = 5,
  /**
   * The bits that one of them has.
   */
  SCOMM_OP_XOR = 6
} scomm_op_t;

/**
 * What functions return, and what became of an operation. Errors are less than 0.
 */
typedef enum scomm_result_t {
  /**
   * No error.
   */
  SCOMM_OK = 0,
  /**
   * An argument or a setting makes no sense, or the call comes at the wrong time.
   */
  SCOMM_ERROR_INVALID = -1,
  /**
   * A rank is gone.
   */
  SCOMM_ERROR_DOWN = -2,
  /**
   * A message is longer than the memory that it was to be received into. What is in that memory is
   * not said.
   */
  SCOMM_ERROR_TOO_LONG = -3,
  /**
   * A rank did what no correct rank does: one that calls a collective operation with other numbers
   * than the others, for example.
   */
  SCOMM_ERROR_PROTOCOL = -4,
  /**
   * The system refused something.
   */
  SCOMM_ERROR_SYSTEM = -5,
  /**
   * So much that handlers of active messages have sent to a rank waits to leave that no more is kept:
   * this message was not sent.
   */
  SCOMM_ERROR_FULL = -6
} scomm_result_t;

/**
 * Which protocol serves which messages. `scomm_options` fills it with what the environment says:
 *
 * ```c
 * scomm_options_t options;
 * scomm_options(&options);
 * options.eager = 1024;
 * scomm_init(&options);
 * ```
 */
typedef struct scomm_options_t {
  /**
   * Bytes of the longest message that travels at once (SCASH_MP_EAGER).
   */
  size_t eager;
  /**
   * Bytes of the longest message that is pushed (SCASH_MP_PUSH).
   */
  size_t push;
  /**
   * Bytes that may be on their way or unexpected from one rank to another (SCASH_MP_WINDOW): at
   * least twice `eager` and `push`, and the same at all ranks.
   */
  size_t window;
  /**
   * Bytes that `scomm_alloc` can give, the same at all ranks (SCASH_MP_REGISTERED). They cost address
   * space only until they are used.
   */
  size_t registered;
  /**
   * How messages travel that are longer than `eager` (SCASH_MP_LARGE).
   */
  enum scomm_large_t large;
  /**
   * 1: ranks of a host measure in `scomm_init`, in a fraction of a millisecond, whether long messages
   * there are better read by their receiver than pushed; `scomm_thresholds` tells what was found. 0, or a
   * `push` that the program has set to something else than `scomm_options` has said: what is here stands.
   */
  size_t calibrate;
  /**
   * Bytes of active messages that handlers have sent to a rank, and that may wait here until it has
   * handled others (SCASH_MP_HELD). Past that `scomm_call` fails in handlers.
   */
  size_t held;
  /**
   * For later versions: zeros.
   */
  size_t reserved[5];
} scomm_options_t;

/**
 * An operation that was begun: a number, which may be copied. A function that finds the operation
 * over sets the request that it was given to SCOMM_REQUEST_NULL; copies of it name nothing then,
 * and each function that is given one fails.
 */
typedef uint64_t scomm_request_t;

/**
 * What is known of a message.
 */
typedef struct scomm_status_t {
  /**
   * The rank that sent it; of a send, the one that it went to.
   */
  int source;
  /**
   * What became of the operation: 0, or an error (SCOMM_ERROR_...).
   */
  int error;
  /**
   * Its tag.
   */
  int64_t tag;
  /**
   * Its length in bytes; also with SCOMM_ERROR_TOO_LONG.
   */
  size_t len;
  /**
   * The message, if it was received by `scomm_recv_alloc` or `scomm_irecv_alloc` and has bytes: to
   * be given to `scomm_free`. Else NULL.
   */
  void *bytes;
  /**
   * For later versions: 0 today.
   */
  size_t reserved;
} scomm_status_t;

/**
 * A window: memory of all ranks that all can put to and get from. A number, from 1 on, the same at all
 * ranks; one that names no window is an error wherever it is given.
 */
typedef uint64_t scomm_window_t;

/**
 * Blocks of one length on both sides of a put or get, at a distance of its own on each.
 */
typedef struct scomm_strided_t {
  /**
   * How many blocks.
   */
  size_t count;
  /**
   * Bytes of a block.
   */
  size_t len;
  /**
   * Bytes from the start of a block to that of the next one in this rank's memory: `len` or more.
   */
  size_t here;
  /**
   * The same in the window.
   */
  size_t there;
} scomm_strided_t;

/**
 * What is called with an active message: the rank that has sent it, its bytes, which are there until
 * this returns, and what was given with the function.
 */
typedef void (*scomm_handler_t)(int from, const void *bytes, size_t len, void *context);

/**
 * No operation. Waits and tests return at once, with a status of zeros.
 */
#define SCOMM_REQUEST_NULL 0

/**
 * A send that was over when `scomm_isend` returned. Waits and tests return at once, with a status of zeros.
 */
#define SCOMM_REQUEST_OVER 1

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Fills `*options` with what the environment says (SCASH_MP_EAGER and so on), and with the defaults
 * where it says nothing. May be called before `scomm_init`.
 *
 * Returns 0, or an error: NULL, or a setting that makes no sense.
 */
int scomm_options(struct scomm_options_t *options);

/**
 * Joins the job for which `scash run` or another launcher started this process; a process that none
 * has started is a job of one rank. In a program that uses the shared memory of scash.h, too, after
 * `dsm_init`. Collective. To be called once. `options` may be NULL, for what the environment says;
 * all ranks choose the same `window` and `registered`.
 *
 * Returns 0, or an error: ranks run different programs, options or settings (environment variables
 * SCASH_...) make no sense, or ranks do not reach each other.
 */
int scomm_init(const struct scomm_options_t *options);

/**
 * Ends message passing, together with all other ranks. Collective; all operations were waited for
 * before, tested to their end, or cancelled, and no other thread is in a function of this header.
 * Then all functions fail but `scomm_error` and `scomm_free`. In a program that called `dsm_init`,
 * `dsm_finalize` comes afterwards; in others, a rank that exits without this call counts as failed,
 * and the job is ended.
 *
 * Returns 0, or an error: a rank is gone; or operations are under way, of which it says how many, or
 * another thread is in a function of this header (then nothing happens, and it may be called again).
 */
int scomm_finalize(void);

/**
 * The number of this rank, from 0, or an error.
 */
int scomm_rank(void);

/**
 * The number of ranks of the job, or an error.
 */
int scomm_size(void);

/**
 * The number of threads that the user wants in each rank (`scash run --threads`), or an error. The
 * program is to start them: scash does not.
 */
int scomm_threads(void);

/**
 * Sets where protocols change in messages to the rank `to`: `*eager` to the length of the longest that
 * travels at once, `*push` to that of the longest that is pushed (where long ones are). They are those of
 * the options, or, for ranks of the own host, what was measured (`calibrate` of `scomm_options_t`). Either
 * may be NULL.
 *
 * Returns 0, or an error: there is no such rank.
 */
int scomm_thresholds(int to, size_t *eager, size_t *push);

/**
 * The text of the calling thread's last error: one line that says what to do about it. Never NULL;
 * "" if there was none. A later call of the same thread that fails replaces the text; the pointer stays
 * the same, and good for as long as the thread lives. `dsm_error` gives the same.
 */
const char *scomm_error(void);

/**
 * Sends the `len` bytes at `bytes` to the rank `to`, with a tag from 0 on. Returns when they may be
 * changed again: at once if the message is short or pushed, else when it was received. Messages of
 * one rank to another keep their order.
 *
 * Returns 0, or an error: there is no such rank, or it is gone.
 */
int scomm_send(int to, int64_t tag, const void *bytes, size_t len);

/**
 * Begins to send, and sets `*request`. The bytes stay as they are until the operation is over.
 *
 * Returns 0, or an error: there is no such rank, or it is gone.
 */
int scomm_isend(int to, int64_t tag, const void *bytes, size_t len, scomm_request_t *request);

/**
 * Sends a message and forgets about it: the bytes are copied, and may be changed when this returns. The
 * copy is kept until the message has left or, where it cannot leave unasked, until it is received;
 * `scomm_fence` waits for that.
 *
 * Returns 0, or an error: there is no such rank, or it is gone.
 */
int scomm_send_and_forget(int to, int64_t tag, const void *bytes, size_t len);

/**
 * Receives a message of at most `len` bytes from the rank `source` or SCOMM_ANY_SOURCE, with the tag
 * `tag` or SCOMM_ANY_TAG, into the memory at `into`; of several that fit, the one that came first.
 * `status` may be NULL.
 *
 * Returns 0, or an error: there is no such rank, it is gone, or the message is longer.
 */
int scomm_recv(int source, int64_t tag, void *into, size_t len, struct scomm_status_t *status);

/**
 * Begins to receive as `scomm_recv` does, and sets `*request`. The memory is the operation's until it
 * is over or was cancelled. Of several receives that a message fits, the one that was begun first
 * gets it.
 *
 * Returns 0, or an error: there is no such rank, or it is gone.
 */
int scomm_irecv(int source, int64_t tag, void *into, size_t len, scomm_request_t *request);

/**
 * Receives a message of any length: into memory that is made for it, or was when it came. It is
 * `status->bytes`, to be given to `scomm_free`.
 *
 * Returns 0, or an error: there is no such rank, it is gone, or `status` is NULL.
 */
int scomm_recv_alloc(int source, int64_t tag, struct scomm_status_t *status);

/**
 * Begins to receive a message of any length, and sets `*request`. The status that tells of the
 * operation's end has the message in its member `bytes`, to be given to `scomm_free`; if its end is
 * waited for without a status, the message is lost.
 *
 * Returns 0, or an error: there is no such rank, or it is gone.
 */
int scomm_irecv_alloc(int source, int64_t tag, scomm_request_t *request);

/**
 * Waits until there is a message that a receive of this kind would get now, and tells of it.
 *
 * Returns 0, or an error: there is no such rank, it is gone, or, with SCOMM_ANY_SOURCE, a rank goes
 * meanwhile.
 */
int scomm_probe(int source, int64_t tag, struct scomm_status_t *status);

/**
 * Makes progress, and sets `*found` to 1, and `*status`, if there is a message that a receive of this
 * kind would get now; else to 0.
 *
 * Returns 0, or an error: there is no such rank, it is gone and has left no such message, or `found` is
 * NULL.
 */
int scomm_iprobe(int source, int64_t tag, int *found, struct scomm_status_t *status);

/**
 * Waits until the operation is over. `*request` is SCOMM_REQUEST_NULL then. `status` may be NULL.
 *
 * Returns 0, or why the operation failed.
 */
int scomm_wait(scomm_request_t *request, struct scomm_status_t *status);

/**
 * Makes progress, and sets `*over` to 1 if the operation is over then, and to 0 if not. If it is, all
 * is as after `scomm_wait`.
 *
 * Returns 0, or why the operation failed.
 */
int scomm_test(scomm_request_t *request, int *over, struct scomm_status_t *status);

/**
 * Waits until one of the `count` operations is over, and sets `*index` to which one, and its request
 * to SCOMM_REQUEST_NULL. Requests that are null are passed over; if all are, `*index` is
 * SCOMM_NO_INDEX. `status` may be NULL.
 *
 * Returns 0, or why that operation failed.
 */
int scomm_wait_any(int count, scomm_request_t *requests, int *index, struct scomm_status_t *status);

/**
 * Makes progress, and sets `*over` to 1 if one of the `count` operations is over then, or all requests
 * are null, and to 0 otherwise. If it is 1, all is as after `scomm_wait_any`; else `*index` is
 * SCOMM_NO_INDEX.
 *
 * Returns 0, or why that operation failed.
 */
int scomm_test_any(int count, scomm_request_t *requests, int *over, int *index, struct scomm_status_t *status);

/**
 * Waits until at least one of the `count` operations is over, and tells of all that are: `*over` is
 * their number, `indices` has which they are, in their order, and `statuses`, which may be NULL, what
 * became of each. Both have room for `count`. Their requests are SCOMM_REQUEST_NULL then. If all
 * requests are null, `*over` is 0.
 *
 * Returns 0, or why the first of those that failed did so.
 */
int scomm_wait_some(int count, scomm_request_t *requests, int *over, int *indices, struct scomm_status_t *statuses);

/**
 * Makes progress, and tells of those of the `count` operations that are over then, as
 * `scomm_wait_some` does; `*over` may be 0.
 *
 * Returns 0, or why the first of those that failed did so.
 */
int scomm_test_some(int count, scomm_request_t *requests, int *over, int *indices, struct scomm_status_t *statuses);

/**
 * Waits until all of the `count` operations are over. All requests are SCOMM_REQUEST_NULL then, and
 * `statuses`, which has room for `count` or is NULL, tells what became of each.
 *
 * Returns 0, or why the first of those that failed did so.
 */
int scomm_wait_all(int count, scomm_request_t *requests, struct scomm_status_t *statuses);

/**
 * Makes progress, and sets `*over` to 1 if all of the `count` operations are over then; all is as
 * after `scomm_wait_all` then. Otherwise `*over` is 0, and nothing else has changed.
 *
 * Returns 0, or why the first of those that failed did so.
 */
int scomm_test_all(int count, scomm_request_t *requests, int *over, struct scomm_status_t *statuses);

/**
 * Takes back a receive that has no message yet, or a send that no receive has got, and sets `*cancelled`
 * to 1 and `*request` to SCOMM_REQUEST_NULL. If it is too late for that, or the operation is another one,
 * `*cancelled` is 0, and the operation is to be waited for as before. Of a send, the other rank's library
 * is asked, but not its program.
 *
 * Returns 0, or an error: there is no such operation.
 */
int scomm_cancel(scomm_request_t *request, int *cancelled);

/**
 * Returns when all ranks have called it.
 *
 * Returns 0, or an error: a rank is gone, or calls another collective operation.
 */
int scomm_barrier(void);

/**
 * Returns when all ranks have called it, and is a place for a checkpoint, as `dsm_barrier` is: in a job
 * of `scash run --replicas` ranks that are killed go on from the newest one. A program that never calls
 * it begins anew then. Messages that were sent and not yet received, and operations that were begun by
 * `scomm_isend` and `scomm_irecv`, are saved with the rest, and so are threads that wait in a function of
 * this header. Where one rank cannot be saved, all run on without, which that rank says once: it has
 * windows or other registered memory, or a collective operation that was only begun. In a program that
 * called `dsm_init` it is `dsm_barrier`, which does as well; in a job whose ranks do not come back it is
 * `scomm_barrier`.
 *
 * Returns 0, or an error: a rank is gone, or calls another collective operation.
 */
int scomm_checkpoint(void);

/**
 * As `scomm_barrier`, but only begins the operation, and sets `*request`: it is over when all ranks
 * have begun it.
 */
int scomm_ibarrier(scomm_request_t *request);

/**
 * Gives the `len` bytes at `data` of the rank `root` to all.
 *
 * Returns 0, or an error: there is no such root, or as `scomm_barrier`.
 */
int scomm_broadcast(int root, void *data, size_t len);

/**
 * As `scomm_broadcast`, but only begins the operation, and sets `*request`.
 */
int scomm_ibroadcast(int root, void *data, size_t len, scomm_request_t *request);

/**
 * Combines the `count` elements of all ranks at `mine`, one by one, into `result` at the rank `root`;
 * elsewhere `result` is not used and may be NULL. Sums of floating-point numbers have the same bits in
 * every run on as many ranks.
 *
 * Returns 0, or an error: there is no such root, type or operation, or as `scomm_barrier`.
 */
int scomm_reduce(int root, const void *mine, void *result, size_t count, enum scomm_type_t element, enum scomm_op_t op);

/**
 * As `scomm_reduce`, but only begins the operation, and sets `*request`.
 */
int scomm_ireduce(int root, const void *mine, void *result, size_t count, enum scomm_type_t element, enum scomm_op_t op, scomm_request_t *request);

/**
 * Combines the `count` elements of all ranks at `mine`, one by one, into `result` at every rank. Sums
 * of floating-point numbers have the same bits at every rank, and in every run on as many ranks.
 *
 * Returns 0, or an error: there is no such type or operation, or as `scomm_barrier`.
 */
int scomm_all_reduce(const void *mine, void *result, size_t count, enum scomm_type_t element, enum scomm_op_t op);

/**
 * As `scomm_all_reduce`, but only begins the operation, and sets `*request`.
 */
int scomm_iall_reduce(const void *mine, void *result, size_t count, enum scomm_type_t element, enum scomm_op_t op, scomm_request_t *request);

/**
 * Gathers the `len` bytes of each rank at `mine`, in the order of ranks, in `all` at the rank `root`;
 * elsewhere `all` is not used and may be NULL.
 *
 * Returns 0, or an error: there is no such root, or as `scomm_barrier`.
 */
int scomm_gather(int root, const void *mine, size_t len, void *all);

/**
 * As `scomm_gather`, but only begins the operation, and sets `*request`.
 */
int scomm_igather(int root, const void *mine, size_t len, void *all, scomm_request_t *request);

/**
 * Gathers the `len` bytes of each rank at `mine`, in the order of ranks, in `all` at every rank.
 *
 * Returns 0, or an error as `scomm_barrier`.
 */
int scomm_all_gather(const void *mine, size_t len, void *all);

/**
 * As `scomm_all_gather`, but only begins the operation, and sets `*request`.
 */
int scomm_iall_gather(const void *mine, size_t len, void *all, scomm_request_t *request);

/**
 * Gathers `lens[r]` bytes of each rank r at its `mine`, in the order of ranks, in `all` at every rank.
 * All ranks give the same lengths, one for each rank.
 *
 * Returns 0, or an error: `lens` is NULL, or as `scomm_barrier`.
 */
int scomm_all_gather_v(const void *mine, const size_t *lens, void *all);

/**
 * As `scomm_all_gather_v`, but only begins the operation, and sets `*request`. The lengths are not
 * looked at any more when it returns.
 */
int scomm_iall_gather_v(const void *mine, const size_t *lens, void *all, scomm_request_t *request);

/**
 * Gives `len` bytes of `mine` to each rank, in the order of ranks, and gathers the `len` bytes that
 * each has for this one, likewise, in `theirs`.
 *
 * Returns 0, or an error as `scomm_barrier`.
 */
int scomm_all_to_all(const void *mine, size_t len, void *theirs);

/**
 * As `scomm_all_to_all`, but only begins the operation, and sets `*request`.
 */
int scomm_iall_to_all(const void *mine, size_t len, void *theirs, scomm_request_t *request);

/**
 * Gives the next `to[r]` bytes of `mine` to each rank r, and gathers the `from[r]` bytes that it has
 * for this one, in the order of ranks, in `theirs`.
 *
 * Returns 0, or an error: `to` or `from` is NULL, or as `scomm_barrier`.
 */
int scomm_all_to_all_v(const void *mine, const size_t *to, void *theirs, const size_t *from);

/**
 * As `scomm_all_to_all_v`, but only begins the operation, and sets `*request`. The lengths are not
 * looked at any more when it returns.
 */
int scomm_iall_to_all_v(const void *mine, const size_t *to, void *theirs, const size_t *from, scomm_request_t *request);

/**
 * Combines the elements of all ranks at `mine`, one by one, and gives the next `counts[r]` of the
 * result to each rank r, in its `result`. All ranks give the same counts, one for each rank.
 *
 * Returns 0, or an error: `counts` is NULL, there is no such type or operation, or as `scomm_barrier`.
 */
int scomm_reduce_scatter(const void *mine, void *result, const size_t *counts, enum scomm_type_t element, enum scomm_op_t op);

/**
 * As `scomm_reduce_scatter`, but only begins the operation, and sets `*request`. The counts are not
 * looked at any more when it returns.
 */
int scomm_ireduce_scatter(const void *mine, void *result, const size_t *counts, enum scomm_type_t element, enum scomm_op_t op, scomm_request_t *request);

/**
 * Allocates `bytes` bytes of registered memory, filled with zeros: long messages from there travel
 * within a host in one copy that needs no system call. It is private to this rank, which alone has to
 * ask for it, and otherwise like any other. The address is that of a page.
 *
 * Returns NULL if `bytes` is 0, or there is no room (SCASH_MP_REGISTERED sets how much there is).
 */
void *scomm_alloc(size_t bytes);

/**
 * Frees what `scomm_alloc` returned, or a message that came with its memory (the member `bytes` of a
 * status). No operation uses it any more. `scomm_free(NULL)` does nothing. May be called after
 * `scomm_finalize`.
 *
 * Returns 0, or an error if `p` is neither, or was freed before; nothing is done then.
 */
int scomm_free(void *p);

/**
 * Makes `len` bytes of this rank, of registered memory (SCASH_MP_REGISTERED), reachable for all, and
 * sets `*window`. Collective; each rank may choose another length. What is in them at first is not
 * said.
 *
 * Returns 0, or an error: a rank has no room for its part, which all are told, or a rank is gone.
 */
int scomm_window_open(size_t len, scomm_window_t *window);

/**
 * Closes a window: when this returns, what any rank has put to it was in place, and its memory is
 * free. Collective. Gets from it are over before at the rank that has begun them.
 *
 * Returns 0, or an error: there is no such window, or a rank is gone.
 */
int scomm_window_close(scomm_window_t window);

/**
 * This rank's part of a window, which begins a page. Others may write it at any time: what they have
 * put is seen when it is known to be in place.
 *
 * Returns NULL if there is no such window.
 */
void *scomm_window_bytes(scomm_window_t window);

/**
 * Puts the `len` bytes at `bytes` into the part of a window of the rank `to`, at `offset`, and returns
 * when they are in place.
 *
 * Returns 0, or an error: there is no such window, rank or place in its part, or the rank is gone.
 */
int scomm_put(scomm_window_t window, int to, size_t offset, const void *bytes, size_t len);

/**
 * Begins to put, and sets `*request`. The bytes may be changed when this returns; when the operation is
 * over, they are in place.
 *
 * Returns 0, or an error: there is no such window, rank or place in its part, or the rank is gone.
 */
int scomm_iput(scomm_window_t window, int to, size_t offset, const void *bytes, size_t len, scomm_request_t *request);

/**
 * Puts bytes, which may be changed when this returns; `scomm_fence` tells that they are in place.
 *
 * Returns 0, or an error: there is no such window, rank or place in its part, or the rank is gone.
 */
int scomm_put_and_forget(scomm_window_t window, int to, size_t offset, const void *bytes, size_t len);

/**
 * Puts blocks, of which the first one begins at `bytes`, and at `offset` of the rank's part of the
 * window, and returns when they are in place.
 *
 * Returns 0, or an error as `scomm_put`, or if blocks overlap or `blocks` is NULL.
 */
int scomm_put_strided(scomm_window_t window, int to, size_t offset, const void *bytes, const struct scomm_strided_t *blocks);

/**
 * Begins to put blocks, and sets `*request`, as `scomm_iput` does.
 *
 * Returns 0, or an error as `scomm_put`, or if blocks overlap or `blocks` is NULL.
 */
int scomm_iput_strided(scomm_window_t window, int to, size_t offset, const void *bytes, const struct scomm_strided_t *blocks, scomm_request_t *request);

/**
 * Puts blocks, as `scomm_put_and_forget` does.
 *
 * Returns 0, or an error as `scomm_put`, or if blocks overlap or `blocks` is NULL.
 */
int scomm_put_strided_and_forget(scomm_window_t window, int to, size_t offset, const void *bytes, const struct scomm_strided_t *blocks);

/**
 * Gets `len` bytes at `offset` of the part of a window of the rank `from`, as they are after what this
 * rank has put there.
 *
 * Returns 0, or an error: there is no such window, rank or place in its part, or the rank is gone.
 */
int scomm_get(scomm_window_t window, int from, size_t offset, void *into, size_t len);

/**
 * Begins to get, and sets `*request`. The memory is the operation's until it is over.
 *
 * Returns 0, or an error: there is no such window, rank or place in its part, or the rank is gone.
 */
int scomm_iget(scomm_window_t window, int from, size_t offset, void *into, size_t len, scomm_request_t *request);

/**
 * Gets blocks, of which the first one begins at `offset` of the rank's part of the window, and is to
 * begin at `into`.
 *
 * Returns 0, or an error as `scomm_get`, or if blocks overlap or `blocks` is NULL.
 */
int scomm_get_strided(scomm_window_t window, int from, size_t offset, void *into, const struct scomm_strided_t *blocks);

/**
 * Begins to get blocks, and sets `*request`, as `scomm_iget` does.
 *
 * Returns 0, or an error as `scomm_get`, or if blocks overlap or `blocks` is NULL.
 */
int scomm_iget_strided(scomm_window_t window, int from, size_t offset, void *into, const struct scomm_strided_t *blocks, scomm_request_t *request);

/**
 * Returns when all that this rank has put to the rank `rank`, or to SCOMM_ALL_RANKS, is in place, the
 * active messages that it has sent there were handled, and the messages that it has sent and forgotten
 * have arrived (or were received, if they could not be kept there).
 *
 * Returns 0, or an error: there is no such rank; or one is gone, and it is not known whether that was
 * so.
 */
int scomm_fence(int rank);

/**
 * An atomic operation on a word of a window: adds `number` to the word at `offset` of the part of the
 * rank `to`, wrapping around, and sets `*before` to what it was before. `before` may be NULL, if nobody
 * wants to know. `to` may be this rank, and `offset` is a multiple of the word's size; whether the word
 * is taken for signed or not makes no difference.
 *
 * It is executed where the word is, and waits for nobody's program: within a host it is one
 * instruction, over TCP a message there and back. The operations of all ranks and threads have one
 * order. One comes after what this rank has put to `to` by calls that are over, so a word can announce
 * what was put beside it. Words that are operated on are operated on in one width, and by all: read by
 * `scomm_load_u64`, also at the rank that they are of.
 *
 * Returns 0, or an error: there is no such window, rank or place in its part, no word begins there, or
 * the rank is gone.
 */
int scomm_fetch_add_u64(scomm_window_t window, int to, size_t offset, uint64_t number, uint64_t *before);

/**
 * Keeps those bits of a word that are set in `mask`. An atomic operation: see `scomm_fetch_add_u64`.
 */
int scomm_fetch_and_u64(scomm_window_t window, int to, size_t offset, uint64_t mask, uint64_t *before);

/**
 * Sets those bits of a word that are set in `mask`. An atomic operation: see `scomm_fetch_add_u64`.
 */
int scomm_fetch_or_u64(scomm_window_t window, int to, size_t offset, uint64_t mask, uint64_t *before);

/**
 * Turns those bits of a word that are set in `mask`. An atomic operation: see `scomm_fetch_add_u64`.
 */
int scomm_fetch_xor_u64(scomm_window_t window, int to, size_t offset, uint64_t mask, uint64_t *before);

/**
 * Replaces a word by `value`. An atomic operation: see `scomm_fetch_add_u64`.
 */
int scomm_swap_u64(scomm_window_t window, int to, size_t offset, uint64_t value, uint64_t *before);

/**
 * Replaces a word by `value` if it is `expected`. If, and only if, `*before` is `expected` after the
 * call, it was replaced. An atomic operation: see `scomm_fetch_add_u64`.
 */
int scomm_compare_swap_u64(scomm_window_t window, int to, size_t offset, uint64_t expected, uint64_t value, uint64_t *before);

/**
 * Sets `*value` to what a word is. An atomic operation: see `scomm_fetch_add_u64`.
 */
int scomm_load_u64(scomm_window_t window, int to, size_t offset, uint64_t *value);

/**
 * Sets a word to `value`. An atomic operation: see `scomm_fetch_add_u64`.
 */
int scomm_store_u64(scomm_window_t window, int to, size_t offset, uint64_t value);

/**
 * Adds `number` to a word, wrapping around. An atomic operation: see `scomm_fetch_add_u64`.
 */
int scomm_fetch_add_u32(scomm_window_t window, int to, size_t offset, uint32_t number, uint32_t *before);

/**
 * Keeps those bits of a word that are set in `mask`. An atomic operation: see `scomm_fetch_add_u64`.
 */
int scomm_fetch_and_u32(scomm_window_t window, int to, size_t offset, uint32_t mask, uint32_t *before);

/**
 * Sets those bits of a word that are set in `mask`. An atomic operation: see `scomm_fetch_add_u64`.
 */
int scomm_fetch_or_u32(scomm_window_t window, int to, size_t offset, uint32_t mask, uint32_t *before);

/**
 * Turns those bits of a word that are set in `mask`. An atomic operation: see `scomm_fetch_add_u64`.
 */
int scomm_fetch_xor_u32(scomm_window_t window, int to, size_t offset, uint32_t mask, uint32_t *before);

/**
 * Replaces a word by `value`. An atomic operation: see `scomm_fetch_add_u64`.
 */
int scomm_swap_u32(scomm_window_t window, int to, size_t offset, uint32_t value, uint32_t *before);

/**
 * Replaces a word by `value` if it is `expected`. If, and only if, `*before` is `expected` after the
 * call, it was replaced. An atomic operation: see `scomm_fetch_add_u64`.
 */
int scomm_compare_swap_u32(scomm_window_t window, int to, size_t offset, uint32_t expected, uint32_t value, uint32_t *before);

/**
 * Sets `*value` to what a word is. An atomic operation: see `scomm_fetch_add_u64`.
 */
int scomm_load_u32(scomm_window_t window, int to, size_t offset, uint32_t *value);

/**
 * Sets a word to `value`. An atomic operation: see `scomm_fetch_add_u64`.
 */
int scomm_store_u32(scomm_window_t window, int to, size_t offset, uint32_t value);

/**
 * Registers a handler of active messages under a number from 0 to 65535; `context` is given to each of
 * its calls. Collective: all ranks register the same numbers in the same order.
 *
 * The handler is called with each active message of that number, whether or not the program calls in:
 * by a thread that waits or tests, or one of the library's; one at a time. Other active messages wait
 * meanwhile, and messages may, too: so it is short, and waits for nothing. It answers, and sends others,
 * by `scomm_call`, which does not wait there.
 *
 * Returns 0, or an error: the number is none or has a handler, `handler` is NULL, ranks name different
 * numbers, or a rank is gone.
 */
int scomm_register_handler(int number, scomm_handler_t handler, void *context);

/**
 * Sends an active message: the bytes may be changed when this returns, and the handler of that number
 * runs with them at the rank `to`. Where many are on their way it waits until those before it have left,
 * but not in a handler. `scomm_fence` tells that the message was handled.
 *
 * Returns 0, or an error: there is no such rank or handler, the message is longer than those that are
 * pushed (SCASH_MP_PUSH), or the rank is gone. In a handler also SCOMM_ERROR_FULL: so much that handlers
 * have sent to that rank waits to leave that no more is kept (SCASH_MP_HELD); a handler may leave the
 * message, or put it where another thread finds it, whose call waits.
 */
int scomm_call(int to, int handler, const void *bytes, size_t len);

#ifdef __cplusplus
}
#endif

#endif  /* SCASH_COMM_H */
