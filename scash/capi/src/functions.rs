//! The functions of the C interface, but for those of locks ([`locks`](crate::locks)) and words
//! ([`atomics`](crate::atomics)).

#![allow(clippy::missing_safety_doc, reason = "the texts are those of the header: C has no section for it")]

use crate::call::{self, call, int, note, status};
use crate::comm;
use crate::error;
use crate::heap;
use crate::pointers::aligned;
use crate::types::{self, DSM_HOME_NONE, dsm_alloc_options_t, dsm_block_t, dsm_protocol_t, dsm_stats_t};
use scash::runtime::{self, Runtime};
use scash::{AllocOptions, Error, Result};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;

/// Joins the job for which `scash run` or another launcher started this process; a process that none
/// has started is a job of one rank. To be called once, before all other functions, by one thread.
///
/// Returns 0, or -1 if ranks run different programs, a setting (environment variable SCASH_...) makes
/// no sense, or the system lacks what is needed; `dsm_error` tells. Then no other call can succeed.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_init() -> c_int {
    status(note(runtime::init()).map(call::joined))
}

/// Ends this rank's part in the job, together with all other ranks. Collective. A rank that
/// touches shared memory afterwards says so on stderr and dies of SIGSEGV, and all functions but
/// `dsm_error` and `dsm_version` fail. A rank that exits without this call counts as failed, and
/// the job is ended.
///
/// Returns 0, or -1 on error.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_finalize() -> c_int {
    status(call("dsm_finalize", |runtime| {
        if comm::is_open() {
            let text = "dsm_finalize was called before scomm_finalize: message passing ends first";
            return Err(Error::Argument(text.to_owned()));
        }
        runtime.finalize()
    }))
}

/// The number of this rank, from 0; -1 on error.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_rank() -> c_int {
    int(call("dsm_rank", |runtime| Ok(runtime.rank())))
}

/// The number of ranks of the job; -1 on error.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_size() -> c_int {
    int(call("dsm_size", |runtime| Ok(runtime.size())))
}

/// The number of threads that the user wants in each rank (`scash run --threads`); -1 on error. The
/// program is to start them: scash does not.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_threads() -> c_int {
    int(call("dsm_threads", |runtime| Ok(runtime.threads())))
}

/// Allocates `bytes` bytes of shared memory, filled with zeros. Collective: all ranks ask for the
/// same, and get the same address.
///
/// The address is that of a page; whatever is left of the last page belongs to no other allocation.
/// Where ranks do not share frames, each page has its home at the rank that touches it first.
///
/// Returns NULL, at all ranks, if `bytes` is 0, there is no room (SCASH_REGION sets how much there
/// is), or ranks asked for different things (after which no collective call can succeed).
#[unsafe(no_mangle)]
pub extern "C" fn dsm_alloc(bytes: usize) -> *mut c_void {
    let done = call("dsm_alloc", |runtime| runtime.alloc(bytes, AllocOptions::default()));
    done.map_or(std::ptr::null_mut(), <*mut u8>::cast)
}

/// Allocates as `dsm_alloc` does, with a say in placement, protocol and block size. Collective:
/// with the same options at all ranks. `options` may be NULL, for the defaults.
///
/// To place pages by a rule of your own, use `dsm_alloc_blocks`.
///
/// Returns NULL on error, as `dsm_alloc` does, or if an option has a value that does not exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_alloc_with(bytes: usize, options: *const dsm_alloc_options_t) -> *mut c_void {
    let done = call("dsm_alloc_with", |runtime| {
        // SAFETY: null or a structure that is set, by the caller's word.
        let options = unsafe { options_of("dsm_alloc_with", options) }?;
        runtime.alloc(bytes, options)
    });
    done.map_or(std::ptr::null_mut(), <*mut u8>::cast)
}

/// Allocates `count` blocks, one right behind the other, each at home at a rank of its own. Collective: all
/// ranks come with the same blocks. `options` may be NULL, for the defaults; the blocks take the place of
/// its placement.
///
/// A page that several blocks share is at home at the rank of the first of these: give blocks that are to
/// lie on pages of their own multiples of DSM_PAGE_SIZE.
///
/// Returns NULL on error, as `dsm_alloc` does, or if there is no such rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_alloc_blocks(
    blocks: *const dsm_block_t,
    count: usize,
    options: *const dsm_alloc_options_t,
) -> *mut c_void {
    let done = call("dsm_alloc_blocks", |runtime| {
        if blocks.is_null() || count == 0 {
            return Err(Error::Argument("dsm_alloc_blocks of no blocks: give at least one".to_owned()));
        }
        if count > isize::MAX as usize / size_of::<dsm_block_t>() {
            return Err(Error::Argument(format!("dsm_alloc_blocks of {count} blocks: no array is so long")));
        }
        aligned("dsm_alloc_blocks", blocks)?;
        // SAFETY: so many blocks that are set, by the caller's word, and aligned.
        let blocks = unsafe { std::slice::from_raw_parts(blocks, count) };
        let blocks = blocks.iter().map(|block| Ok((block.bytes, types::rank(block.rank)?)));
        // SAFETY: null or a structure that is set, by the caller's word.
        let options = unsafe { options_of("dsm_alloc_blocks", options) }?;
        runtime.alloc_blocks(&blocks.collect::<Result<Vec<_>>>()?, options)
    });
    done.map_or(std::ptr::null_mut(), <*mut u8>::cast)
}

/// What the options ask for.
///
/// # Safety
/// `options` is null, or leads to a structure that is set if it is aligned.
unsafe fn options_of(name: &str, options: *const dsm_alloc_options_t) -> Result<AllocOptions> {
    aligned(name, options)?;
    // SAFETY: null or a structure, by the caller's word.
    let options = unsafe { options.as_ref() };
    // SAFETY: a structure that is given is set, by the caller's word.
    let checked = options.map(|options| unsafe { options.checked() });
    checked.unwrap_or(Ok(AllocOptions::default()))
}

/// Frees shared memory. The address tells which of two things it does.
///
/// What `dsm_alloc`, `dsm_alloc_with` or `dsm_alloc_blocks` returned is freed by all ranks together: then the
/// call is collective. A rank that touches the memory afterwards says so on stderr and dies of SIGSEGV.
///
/// What `dsm_malloc` and the like returned is freed by one thread of any rank, at any time but while
/// another thread of the rank is in a collective function. All use of the object comes before, in the
/// order that locks and the like or memory barriers make. (Atomic operations order nothing.) Its place
/// can be allocated again at once; in a job that has made no locks or the like, and with SCASH_RACES,
/// after the next memory barrier if another rank than the one that allocated it frees it. What touches
/// it afterwards is not noticed.
///
/// `dsm_free(NULL)` does nothing, whoever calls it.
///
/// Returns 0, or -1 if `p` is not the beginning of an allocation or an object: memory of another kind, or
/// freed before. Nothing is done then.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_free(p: *mut c_void) -> c_int {
    status(call("dsm_free", |runtime| heap::free(runtime, p)))
}

/// The memory barrier. Collective: returns when all ranks have called it; from then on each rank
/// sees what any rank had written before its call. Between two memory barriers, no rank may touch
/// bytes that another one writes.
///
/// To be called by one thread of each rank, while no other thread of the rank touches shared
/// memory.
///
/// Returns 0, or -1 if a rank is gone or made another collective call; then no collective call can
/// succeed any more. Also -1, and nothing happens, if another thread of this rank is in a collective
/// call.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_barrier() -> c_int {
    status(call("dsm_barrier", Runtime::barrier))
}

/// The memory barrier, and at it a checkpoint, whatever `scash run --checkpoint` says. Collective, as
/// dsm_barrier.
///
/// Returns 1 if it was committed: if ranks die after that, all go on from here. 0 if it was not:
/// where ranks do not come back (`scash run --replicas`), or if one of them cannot be saved, which is
/// said once. -1 for what makes dsm_barrier return -1.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_checkpoint_now() -> c_int {
    call("dsm_checkpoint_now", Runtime::checkpoint).map_or(-1, c_int::from)
}

/// How often the ranks of this job have come back (`scash run --replicas`); -1 on error. For what a
/// program says of itself: its results do not depend on it.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_incarnation() -> i64 {
    let number = call("dsm_incarnation", |runtime| Ok(runtime.incarnation()));
    number.map_or(-1, |number| i64::try_from(number).unwrap_or(i64::MAX))
}

/// The memory barrier of all application threads: returns when dsm_threads() threads of each rank
/// have called it, and then each of them sees what any had written before its call.
///
/// Returns 0, or -1 to all threads of the rank for what makes dsm_barrier return -1. Also -1, and
/// nothing happens, to a thread more than dsm_threads(). While some threads wait here for others of
/// their rank, other collective calls of the rank fail.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_barrier_threads() -> c_int {
    status(call("dsm_barrier_threads", Runtime::barrier_threads))
}

/// The home of the page that holds the byte at `p`, as of the last memory barrier: a rank, or
/// DSM_HOME_NONE while no rank has touched the page; -1 if `p` is not in allocated shared memory.
/// Where ranks share frames (SCASH_SHARE) nobody knows who touched a page first: there it is the rank
/// that the allocation or dsm_set_home has named, or DSM_HOME_NONE if neither has.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_home(p: *const c_void) -> c_int {
    match call("dsm_home", |runtime| runtime.home(p.cast())) {
        Some(None) => DSM_HOME_NONE,
        home => int(home.flatten()),
    }
}

/// Moves the home of every page that the `bytes` bytes at `p` touch to `rank`, at the next memory
/// barrier. It is enough that one rank asks for it. A page that was touched for the first time since
/// the last memory barrier, and whose home nobody named before, moves at the next one but one: ranks
/// that do not share frames settle first who touched it.
///
/// Returns 0, or -1 if there is no such rank, or the bytes are not within one allocation.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_set_home(p: *const c_void, bytes: usize, rank: c_int) -> c_int {
    status(call("dsm_set_home", |runtime| runtime.set_home(p.cast(), bytes, types::rank(rank)?)))
}

/// Gives the allocation that holds `p` a name, by which this rank calls it where it tells a data
/// race (SCASH_RACES). To be called by all ranks.
///
/// Returns 0, or -1 if `p` is not in allocated shared memory, or `name` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_name(p: *const c_void, name: *const c_char) -> c_int {
    status(call("dsm_name", |runtime| {
        if name.is_null() {
            return Err(Error::Argument("dsm_name(p, NULL): give it a name".to_owned()));
        }
        // SAFETY: not null, and a string that ends with a zero byte, by the caller's word.
        let name = unsafe { CStr::from_ptr(name) };
        runtime.name(p.cast(), &name.to_string_lossy())
    }))
}

/// From now on, the copies that this rank has of the allocation that holds `p` are kept coherent by
/// `protocol`. All ranks should ask for the same.
///
/// Returns 0, or -1 if there is no such protocol, `p` is not in allocated shared memory, or another
/// thread is in a collective function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_set_protocol(p: *const c_void, protocol: MaybeUninit<dsm_protocol_t>) -> c_int {
    // SAFETY: an argument is set, by the caller's word.
    let protocol = unsafe { types::protocol(protocol) };
    status(call("dsm_set_protocol", |runtime| runtime.set_protocol(p.cast(), protocol?)))
}

/// Brings what this rank has written in the `bytes` bytes at `p` to the homes of their pages now,
/// before the next memory barrier.
///
/// Returns 0, or -1 if the bytes are not within one allocation, another thread is in a collective
/// function, or a home is gone.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_write_back(p: *const c_void, bytes: usize) -> c_int {
    status(call("dsm_write_back", |runtime| runtime.write_back(p.cast(), bytes)))
}

/// Brings this rank's copies of the `bytes` bytes at `p` up to what the homes of their pages hold
/// now. What this rank wrote since the last memory barrier stays.
///
/// Returns 0, or -1 if the bytes are not within one allocation, another thread is in a collective
/// function, or a home is gone.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_read_home(p: *mut c_void, bytes: usize) -> c_int {
    status(call("dsm_read_home", |runtime| runtime.read_home(p.cast(), bytes)))
}

/// Brings the pages of the `bytes` bytes at `p` from their homes to all ranks, which then read them
/// without a fault until the next memory barrier. Collective, and a memory barrier: what any rank had
/// written before its call is in it. For data that one rank makes and all need.
///
/// Returns 0, or -1 if the bytes are not within one allocation, or as `dsm_barrier` does.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_broadcast(p: *mut c_void, bytes: usize) -> c_int {
    status(call("dsm_broadcast", |runtime| runtime.broadcast(p.cast(), bytes)))
}

/// Makes the pages of the `bytes` bytes at `p` ready for this rank: to be read, or, if `write` is
/// not 0, to be read and written. For memory that is handed to the system: `read(fd, p, bytes)`
/// fails with EFAULT where a plain access would have fetched the page.
///
/// Returns 0, or -1 if the bytes are not within one allocation, or a home is gone.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_touch(p: *mut c_void, bytes: usize, write: c_int) -> c_int {
    status(call("dsm_touch", |runtime| runtime.touch(p.cast(), bytes, write != 0)))
}

/// Fills `*stats` with what this rank has counted and timed so far.
///
/// Returns 0, or -1 if `stats` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_stats(stats: *mut dsm_stats_t) -> c_int {
    status(call("dsm_stats", |runtime| {
        if stats.is_null() {
            return Err(Error::Argument("dsm_stats(NULL): give it a dsm_stats_t to fill".to_owned()));
        }
        aligned("dsm_stats", stats)?;
        // SAFETY: not null, so writable by the caller's word; what was in it need not have been set.
        unsafe { stats.write(runtime.stats().into()) };
        Ok(())
    }))
}

/// The text of the calling thread's last error: one line that says what to do about it. Never NULL;
/// "" if there was none. A later call of the same thread that fails replaces the text; the pointer stays
/// the same, and good for as long as the thread lives.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_error() -> *const c_char {
    error::last()
}

/// The version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn dsm_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

/// Whether the ranks of this job share frames: 1 if they do, as those of one host do by default
/// (SCASH_SHARE), and the processor keeps their memory coherent; 0 if each has its own; -1 on error.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_shares_frames() -> c_int {
    call("dsm_shares_frames", |runtime| Ok(runtime.shares_frames())).map_or(-1, c_int::from)
}

/// How this rank notices accesses to shared memory that need work ("uffd" or "mprotect"); NULL on
/// error. Where ranks share frames, only accesses to what is not allocated are noticed.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_engine() -> *const c_char {
    note(call::job("dsm_engine")).map_or(std::ptr::null(), |job| job.engine.as_ptr())
}

/// What ranks communicate through ("shm", "tcp", or "composite" for both); NULL on error.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_provider() -> *const c_char {
    note(call::job("dsm_provider")).map_or(std::ptr::null(), |job| job.provider.as_ptr())
}
