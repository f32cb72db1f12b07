//! Windows: memory of all ranks that all can put to and get from.

#![allow(non_camel_case_types, reason = "C's way to name types")]
#![allow(clippy::missing_safety_doc, reason = "the texts are those of the header: C has no section for it")]

use super::answers::{begin, may, must};
use super::conversions::rank;
use super::job::{done, invalid};
use super::memory::check;
use super::types::scomm_request_t;
use scash_comm::Result;
use scash_mp::{Communicator, Request, Strided, Window};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A window: memory of all ranks that all can put to and get from. A number, from 1 on, the same at all
/// ranks; one that names no window is an error wherever it is given.
pub type scomm_window_t = u64;

/// All ranks, for `scomm_fence`.
pub const SCOMM_ALL_RANKS: c_int = -1;

/// Blocks of one length on both sides of a put or get, at a distance of its own on each.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct scomm_strided_t {
    /// How many blocks.
    pub count: usize,
    /// Bytes of a block.
    pub len: usize,
    /// Bytes from the start of a block to that of the next one in this rank's memory: `len` or more.
    pub here: usize,
    /// The same in the window.
    pub there: usize,
}

/// The windows that are open.
#[derive(Default)]
struct Windows {
    open: HashMap<u64, Arc<Window>>,
    /// How many there have been.
    made: u64,
}

fn windows() -> MutexGuard<'static, Windows> {
    static WINDOWS: OnceLock<Mutex<Windows>> = OnceLock::new();
    // A panic ends the process.
    WINDOWS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// The window of this number.
pub(super) fn window(number: scomm_window_t) -> Result<Arc<Window>> {
    windows().open.get(&number).cloned().map_or_else(|| invalid(&no_window(number)), Ok)
}

fn no_window(number: scomm_window_t) -> String {
    format!("there is no window {number}: it was closed, or scomm_window_open has not made it")
}

/// Makes `len` bytes of this rank, of registered memory (SCASH_MP_REGISTERED), reachable for all, and
/// sets `*window`. Collective; each rank may choose another length. What is in them at first is not
/// said.
///
/// Returns 0, or an error: a rank has no room for its part, which all are told, or a rank is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_window_open(len: usize, window: *mut scomm_window_t) -> c_int {
    done("scomm_window_open", |job| {
        must("scomm_window_open", window)?;
        let opened = job.window(len)?;
        let mut windows = windows();
        windows.made += 1;
        let number = windows.made;
        windows.open.insert(number, Arc::new(opened));
        // SAFETY: not null, so writable by the caller's word.
        unsafe { window.write(number) };
        Ok(())
    })
}

/// Closes a window: when this returns, what any rank has put to it was in place, and its memory is
/// free. Collective. Gets from it are over before at the rank that has begun them.
///
/// Returns 0, or an error: there is no such window, or a rank is gone.
#[unsafe(no_mangle)]
pub extern "C" fn scomm_window_close(window: scomm_window_t) -> c_int {
    done("scomm_window_close", |job| {
        let Some(open) = windows().open.remove(&window) else { return invalid(&no_window(window)) };
        match Arc::try_unwrap(open) {
            Ok(open) => job.close_window(open),
            Err(open) => {
                windows().open.insert(window, open);
                invalid("scomm_window_close: another thread uses the window: let it return first")
            }
        }
    })
}

/// This rank's part of a window, which begins a page. Others may write it at any time: what they have
/// put is seen when it is known to be in place.
///
/// Returns NULL if there is no such window.
#[unsafe(no_mangle)]
pub extern "C" fn scomm_window_bytes(window: scomm_window_t) -> *mut c_void {
    let mut bytes = std::ptr::null_mut();
    done("scomm_window_bytes", |_| {
        bytes = self::window(window)?.as_ptr().cast();
        Ok(())
    });
    bytes
}

/// Puts the `len` bytes at `bytes` into the part of a window of the rank `to`, at `offset`, and returns
/// when they are in place.
///
/// Returns 0, or an error: there is no such window, rank or place in its part, or the rank is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_put(
    window: scomm_window_t,
    to: c_int,
    offset: usize,
    bytes: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: by the caller's word, who gets the bytes back when they are in place.
    let start = |job: &Communicator| unsafe {
        WindowPart::new("scomm_put", window, to, offset)?.start_put(job, bytes, whole(len))
    };
    done("scomm_put", |job| job.wait(start(job)?).map(drop))
}

/// Begins to put, and sets `*request`. The bytes may be changed when this returns; when the operation is
/// over, they are in place.
///
/// Returns 0, or an error: there is no such window, rank or place in its part, or the rank is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_iput(
    window: scomm_window_t,
    to: c_int,
    offset: usize,
    bytes: *const c_void,
    len: usize,
    request: *mut scomm_request_t,
) -> c_int {
    // SAFETY: by the caller's word.
    let start = |job: &Communicator| unsafe {
        WindowPart::new("scomm_iput", window, to, offset)?.start_put(job, bytes, whole(len))
    };
    // SAFETY: by the caller's word.
    unsafe { begin("scomm_iput", request, start) }
}

/// Puts bytes, which may be changed when this returns; `scomm_fence` tells that they are in place.
///
/// Returns 0, or an error: there is no such window, rank or place in its part, or the rank is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_put_and_forget(
    window: scomm_window_t,
    to: c_int,
    offset: usize,
    bytes: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: by the caller's word.
    done("scomm_put_and_forget", |job| unsafe {
        WindowPart::new("scomm_put_and_forget", window, to, offset)?.forget(job, bytes, whole(len))
    })
}

/// Puts blocks, of which the first one begins at `bytes`, and at `offset` of the rank's part of the
/// window, and returns when they are in place.
///
/// Returns 0, or an error as `scomm_put`, or if blocks overlap or `blocks` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_put_strided(
    window: scomm_window_t,
    to: c_int,
    offset: usize,
    bytes: *const c_void,
    blocks: *const scomm_strided_t,
) -> c_int {
    // SAFETY: by the caller's word.
    let blocks = unsafe { given("scomm_put_strided", blocks) };
    // SAFETY: by the caller's word, who gets the bytes back when they are in place.
    let start = |job: &Communicator| unsafe {
        WindowPart::new("scomm_put_strided", window, to, offset)?.start_put(job, bytes, blocks?)
    };
    done("scomm_put_strided", |job| job.wait(start(job)?).map(drop))
}

/// Begins to put blocks, and sets `*request`, as `scomm_iput` does.
///
/// Returns 0, or an error as `scomm_put`, or if blocks overlap or `blocks` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_iput_strided(
    window: scomm_window_t,
    to: c_int,
    offset: usize,
    bytes: *const c_void,
    blocks: *const scomm_strided_t,
    request: *mut scomm_request_t,
) -> c_int {
    // SAFETY: by the caller's word.
    let blocks = unsafe { given("scomm_iput_strided", blocks) };
    // SAFETY: by the caller's word.
    let start = |job: &Communicator| unsafe {
        WindowPart::new("scomm_iput_strided", window, to, offset)?.start_put(job, bytes, blocks?)
    };
    // SAFETY: by the caller's word.
    unsafe { begin("scomm_iput_strided", request, start) }
}

/// Puts blocks, as `scomm_put_and_forget` does.
///
/// Returns 0, or an error as `scomm_put`, or if blocks overlap or `blocks` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_put_strided_and_forget(
    window: scomm_window_t,
    to: c_int,
    offset: usize,
    bytes: *const c_void,
    blocks: *const scomm_strided_t,
) -> c_int {
    // SAFETY: by the caller's word.
    let blocks = unsafe { given("scomm_put_strided_and_forget", blocks) };
    // SAFETY: by the caller's word.
    done("scomm_put_strided_and_forget", |job| unsafe {
        WindowPart::new("scomm_put_strided_and_forget", window, to, offset)?.forget(job, bytes, blocks?)
    })
}

/// Gets `len` bytes at `offset` of the part of a window of the rank `from`, as they are after what this
/// rank has put there.
///
/// Returns 0, or an error: there is no such window, rank or place in its part, or the rank is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_get(
    window: scomm_window_t,
    from: c_int,
    offset: usize,
    into: *mut c_void,
    len: usize,
) -> c_int {
    // SAFETY: by the caller's word.
    done("scomm_get", |job| unsafe {
        WindowPart::new("scomm_get", window, from, offset)?.get(job, into, whole(len))
    })
}

/// Begins to get, and sets `*request`. The memory is the operation's until it is over.
///
/// Returns 0, or an error: there is no such window, rank or place in its part, or the rank is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_iget(
    window: scomm_window_t,
    from: c_int,
    offset: usize,
    into: *mut c_void,
    len: usize,
    request: *mut scomm_request_t,
) -> c_int {
    // SAFETY: by the caller's word.
    let start = |job: &Communicator| unsafe {
        WindowPart::new("scomm_iget", window, from, offset)?.start_get(job, into, whole(len))
    };
    // SAFETY: by the caller's word.
    unsafe { begin("scomm_iget", request, start) }
}

/// Gets blocks, of which the first one begins at `offset` of the rank's part of the window, and is to
/// begin at `into`.
///
/// Returns 0, or an error as `scomm_get`, or if blocks overlap or `blocks` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_get_strided(
    window: scomm_window_t,
    from: c_int,
    offset: usize,
    into: *mut c_void,
    blocks: *const scomm_strided_t,
) -> c_int {
    // SAFETY: by the caller's word.
    let blocks = unsafe { given("scomm_get_strided", blocks) };
    // SAFETY: by the caller's word.
    done("scomm_get_strided", |job| unsafe {
        WindowPart::new("scomm_get_strided", window, from, offset)?.get(job, into, blocks?)
    })
}

/// Begins to get blocks, and sets `*request`, as `scomm_iget` does.
///
/// Returns 0, or an error as `scomm_get`, or if blocks overlap or `blocks` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_iget_strided(
    window: scomm_window_t,
    from: c_int,
    offset: usize,
    into: *mut c_void,
    blocks: *const scomm_strided_t,
    request: *mut scomm_request_t,
) -> c_int {
    // SAFETY: by the caller's word.
    let blocks = unsafe { given("scomm_iget_strided", blocks) };
    // SAFETY: by the caller's word.
    let start = |job: &Communicator| unsafe {
        WindowPart::new("scomm_iget_strided", window, from, offset)?.start_get(job, into, blocks?)
    };
    // SAFETY: by the caller's word.
    unsafe { begin("scomm_iget_strided", request, start) }
}

/// Returns when all that this rank has put to the rank `rank`, or to SCOMM_ALL_RANKS, is in place, the
/// active messages that it has sent there were handled, and the messages that it has sent and forgotten
/// have arrived (or were received, if they could not be kept there).
///
/// Returns 0, or an error: there is no such rank; or one is gone, and it is not known whether that was
/// so.
#[unsafe(no_mangle)]
pub extern "C" fn scomm_fence(rank: c_int) -> c_int {
    done("scomm_fence", |job| job.fence(if rank == SCOMM_ALL_RANKS { None } else { Some(self::rank(rank)?) }))
}

/// One block.
fn whole(len: usize) -> Strided {
    Strided { count: 1, len, here: len, there: len }
}

/// The blocks that the function `name` was given.
///
/// # Safety
/// `blocks` is null, or a structure.
unsafe fn given(name: &str, blocks: *const scomm_strided_t) -> Result<Strided> {
    may(name, blocks)?;
    // SAFETY: by the caller's word.
    match unsafe { blocks.as_ref() } {
        Some(&scomm_strided_t { count, len, here, there }) => Ok(Strided { count, len, here, there }),
        None => invalid(&format!("{name}: NULL for a scomm_strided_t")),
    }
}

/// A place in a rank's part of a window, for the function `name`.
struct WindowPart<'a> {
    name: &'a str,
    window: Arc<Window>,
    rank: u32,
    offset: usize,
}

impl<'a> WindowPart<'a> {
    fn new(name: &'a str, window: scomm_window_t, rank: c_int, offset: usize) -> Result<Self> {
        Ok(Self { name, window: self::window(window)?, rank: self::rank(rank)?, offset })
    }

    /// Checks the program's memory from the first of these blocks to the last; how long it is.
    fn check(&self, at: *const c_void, blocks: Strided) -> Result<usize> {
        let Strided { count, len, here, .. } = blocks;
        let before = count.saturating_sub(1).saturating_mul(here);
        let span = if count == 0 { 0 } else { before.saturating_add(len) };
        check(self.name, at.cast(), span)?;
        Ok(span)
    }

    /// The bytes that the program gives.
    ///
    /// # Safety
    /// `at` is null, or there are so many blocks, which stay as they are for as long as the slice lives.
    unsafe fn bytes(&self, at: *const c_void, blocks: Strided) -> Result<&[u8]> {
        match self.check(at, blocks)? {
            0 => Ok(&[]),
            // SAFETY: not null, so there are as many by the caller's word.
            span => Ok(unsafe { std::slice::from_raw_parts(at.cast(), span) }),
        }
    }

    /// Begins to put.
    ///
    /// # Safety
    /// As for [`bytes`](Self::bytes), until this returns.
    unsafe fn start_put(&self, job: &Communicator, at: *const c_void, blocks: Strided) -> Result<Request> {
        // SAFETY: by the caller's word.
        let bytes = unsafe { self.bytes(at, blocks) }?;
        job.start_put_strided(&self.window, self.rank, self.offset, bytes, blocks)
    }

    /// Puts and forgets.
    ///
    /// # Safety
    /// As for [`bytes`](Self::bytes), until this returns.
    unsafe fn forget(&self, job: &Communicator, at: *const c_void, blocks: Strided) -> Result<()> {
        // SAFETY: by the caller's word.
        let bytes = unsafe { self.bytes(at, blocks) }?;
        job.put_strided_and_forget(&self.window, self.rank, self.offset, bytes, blocks)
    }

    /// Gets.
    ///
    /// # Safety
    /// `into` is null, or there is room for the blocks, which nobody else uses until this returns.
    unsafe fn get(&self, job: &Communicator, into: *mut c_void, blocks: Strided) -> Result<()> {
        let room = match self.check(into, blocks)? {
            0 => &mut [],
            // SAFETY: not null, so there is as much by the caller's word.
            span => unsafe { std::slice::from_raw_parts_mut(into.cast(), span) },
        };
        job.get_strided(&self.window, self.rank, self.offset, room, blocks)
    }

    /// Begins to get.
    ///
    /// # Safety
    /// As for [`get`](Self::get), until the operation is over.
    unsafe fn start_get(&self, job: &Communicator, into: *mut c_void, blocks: Strided) -> Result<Request> {
        self.check(into, blocks)?;
        // SAFETY: by the caller's word.
        unsafe { job.start_get_strided(&self.window, self.rank, self.offset, into.cast(), blocks) }
    }
}
