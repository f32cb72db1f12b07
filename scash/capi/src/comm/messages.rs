//! Sends, receives and probes.

#![allow(clippy::missing_safety_doc, reason = "the texts are those of the header: C has no section for it")]

use super::answers::{begin, may, must, set, tell};
use super::conversions::{any_tag, rank, source, tag};
use super::job::done;
use super::memory::check;
use super::types::{scomm_request_t, scomm_status_t};
use scash_comm::{Error, Result};
use scash_mp::{Communicator, Request};
use std::ffi::{c_int, c_void};

/// Sends the `len` bytes at `bytes` to the rank `to`, with a tag from 0 on. Returns when they may be
/// changed again: at once if the message is short or pushed, else when it was received. Messages of
/// one rank to another keep their order.
///
/// Returns 0, or an error: there is no such rank, or it is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_send(to: c_int, tag: i64, bytes: *const c_void, len: usize) -> c_int {
    done("scomm_send", |job| {
        // SAFETY: the bytes are there, by the caller's word, who gets them back when they were waited for.
        let request = unsafe { send("scomm_send", job, to, tag, bytes, len) }?;
        job.wait(request).map(drop)
    })
}

/// Begins to send, and sets `*request`. The bytes stay as they are until the operation is over.
///
/// Returns 0, or an error: there is no such rank, or it is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_isend(
    to: c_int,
    tag: i64,
    bytes: *const c_void,
    len: usize,
    request: *mut scomm_request_t,
) -> c_int {
    // SAFETY: by the caller's word.
    let start = |job: &Communicator| unsafe { send("scomm_isend", job, to, tag, bytes, len) };
    // SAFETY: by the caller's word.
    unsafe { begin("scomm_isend", request, start) }
}

/// Sends a message and forgets about it: the bytes are copied, and may be changed when this returns. The
/// copy is kept until the message has left or, where it cannot leave unasked, until it is received;
/// `scomm_fence` waits for that.
///
/// Returns 0, or an error: there is no such rank, or it is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_send_and_forget(
    to: c_int,
    tag: i64,
    bytes: *const c_void,
    len: usize,
) -> c_int {
    done("scomm_send_and_forget", |job| {
        check("scomm_send_and_forget", bytes.cast(), len)?;
        let bytes: &[u8] = match len {
            0 => &[],
            // SAFETY: not null, so there are as many by the caller's word.
            len => unsafe { std::slice::from_raw_parts(bytes.cast(), len) },
        };
        let mut copy = Vec::new();
        copy.try_reserve_exact(len).map_err(|_| Error::Io {
            what: format!("scomm_send_and_forget: copying {len} bytes"),
            source: std::io::ErrorKind::OutOfMemory.into(),
        })?;
        copy.extend_from_slice(bytes);
        job.send_and_forget(rank(to)?, self::tag(tag)?, copy)
    })
}

/// Receives a message of at most `len` bytes from the rank `source` or SCOMM_ANY_SOURCE, with the tag
/// `tag` or SCOMM_ANY_TAG, into the memory at `into`; of several that fit, the one that came first.
/// `status` may be NULL.
///
/// Returns 0, or an error: there is no such rank, it is gone, or the message is longer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_recv(
    source: c_int,
    tag: i64,
    into: *mut c_void,
    len: usize,
    status: *mut scomm_status_t,
) -> c_int {
    done("scomm_recv", |job| {
        may("scomm_recv", status)?;
        // SAFETY: the memory is there, by the caller's word, who gets it back when it was waited for.
        let request = unsafe { receive("scomm_recv", job, source, tag, into, len) }?;
        // SAFETY: by the caller's word.
        unsafe { tell(job.wait(request), status) }
    })
}

/// Begins to receive as `scomm_recv` does, and sets `*request`. The memory is the operation's until it
/// is over or was cancelled. Of several receives that a message fits, the one that was begun first
/// gets it.
///
/// Returns 0, or an error: there is no such rank, or it is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_irecv(
    source: c_int,
    tag: i64,
    into: *mut c_void,
    len: usize,
    request: *mut scomm_request_t,
) -> c_int {
    // SAFETY: by the caller's word.
    let start = |job: &Communicator| unsafe { receive("scomm_irecv", job, source, tag, into, len) };
    // SAFETY: by the caller's word.
    unsafe { begin("scomm_irecv", request, start) }
}

/// Receives a message of any length: into memory that is made for it, or was when it came. It is
/// `status->bytes`, to be given to `scomm_free`.
///
/// Returns 0, or an error: there is no such rank, it is gone, or `status` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_recv_alloc(source: c_int, tag: i64, status: *mut scomm_status_t) -> c_int {
    done("scomm_recv_alloc", |job| {
        must("scomm_recv_alloc", status)?;
        let received = job.receive_owned(self::source(source)?, any_tag(tag)?);
        // SAFETY: not null, so writable by the caller's word.
        unsafe { tell(received, status) }
    })
}

/// Begins to receive a message of any length, and sets `*request`. The status that tells of the
/// operation's end has the message in its member `bytes`, to be given to `scomm_free`; if its end is
/// waited for without a status, the message is lost.
///
/// Returns 0, or an error: there is no such rank, or it is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_irecv_alloc(source: c_int, tag: i64, request: *mut scomm_request_t) -> c_int {
    // SAFETY: by the caller's word.
    unsafe {
        begin("scomm_irecv_alloc", request, |job| {
            job.start_receive_owned(self::source(source)?, any_tag(tag)?)
        })
    }
}

/// Waits until there is a message that a receive of this kind would get now, and tells of it.
///
/// Returns 0, or an error: there is no such rank, it is gone, or, with SCOMM_ANY_SOURCE, a rank goes
/// meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_probe(source: c_int, tag: i64, status: *mut scomm_status_t) -> c_int {
    done("scomm_probe", |job| {
        may("scomm_probe", status)?;
        let found = job.wait_for_message(self::source(source)?, any_tag(tag)?)?;
        // SAFETY: by the caller's word.
        unsafe { set(status, scomm_status_t::of_message(found)) };
        Ok(())
    })
}

/// Makes progress, and sets `*found` to 1, and `*status`, if there is a message that a receive of this
/// kind would get now; else to 0.
///
/// Returns 0, or an error: there is no such rank, it is gone and has left no such message, or `found` is
/// NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_iprobe(
    source: c_int,
    tag: i64,
    found: *mut c_int,
    status: *mut scomm_status_t,
) -> c_int {
    done("scomm_iprobe", |job| {
        must("scomm_iprobe", found)?;
        may("scomm_iprobe", status)?;
        let message = job.probe(self::source(source)?, any_tag(tag)?)?;
        // SAFETY: not null, so writable by the caller's word.
        unsafe { found.write(c_int::from(message.is_some())) };
        if let Some(message) = message {
            // SAFETY: by the caller's word.
            unsafe { set(status, scomm_status_t::of_message(message)) };
        }
        Ok(())
    })
}

/// Begins to send for the function `name`.
///
/// # Safety
/// The bytes are readable and unchanged until the operation is over.
unsafe fn send(
    name: &str,
    job: &Communicator,
    to: c_int,
    tag: i64,
    bytes: *const c_void,
    len: usize,
) -> Result<Request> {
    check(name, bytes.cast(), len)?;
    // SAFETY: by the caller's word.
    unsafe { job.start_send(rank(to)?, self::tag(tag)?, bytes.cast(), len) }
}

/// Begins to receive for the function `name`.
///
/// # Safety
/// The memory is writable, and nobody else's until the operation is over or was taken back.
unsafe fn receive(
    name: &str,
    job: &Communicator,
    source: c_int,
    tag: i64,
    into: *mut c_void,
    len: usize,
) -> Result<Request> {
    check(name, into.cast(), len)?;
    // SAFETY: by the caller's word.
    unsafe { job.start_receive(self::source(source)?, any_tag(tag)?, into.cast(), len) }
}
