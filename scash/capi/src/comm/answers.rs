//! What functions write where the program says.

use super::conversions::given_out;
use super::job::{call, invalid};
use super::types::{scomm_request_t, scomm_status_t};
use crate::pointers::misplaced;
use scash_comm::Result;
use scash_mp::{Communicator, Received, Request};
use std::ffi::c_int;

/// Sets what lies there, unless it is null.
///
/// # Safety
/// It is null, or may be written, and aligned ([`may`]); what is in it need not have been set.
pub(super) unsafe fn set<T>(at: *mut T, value: T) {
    if !at.is_null() {
        // SAFETY: not null, so writable by the caller's word.
        unsafe { at.write(value) };
    }
}

/// The place that the function `name` must be given to set something there.
pub(super) fn must<T>(name: &str, at: *const T) -> Result<()> {
    if at.is_null() { invalid(&format!("{name}: NULL where it is to set something")) } else { may(name, at) }
}

/// The place that the function `name` may be given: null, or that of a value as far as its address tells. To
/// be looked at before anything is done.
pub(super) fn may<T>(name: &str, at: *const T) -> Result<()> {
    misplaced(name, at).map_or(Ok(()), |why| invalid(&why))
}

/// Begins an operation for the function `name`.
///
/// # Safety
/// `request` is null, or may be written.
pub(super) unsafe fn begin(
    name: &str,
    request: *mut scomm_request_t,
    start: impl FnOnce(&Communicator) -> Result<Request>,
) -> c_int {
    call(name, |job| {
        must(name, request)?;
        let begun = start(job)?;
        // SAFETY: not null, so writable by the caller's word.
        unsafe { request.write(given_out(begun)) };
        Ok(0)
    })
}

/// Tells of an operation that is over: its status, unless that is null, and its error.
///
/// # Safety
/// `status` is null, or may be written, and aligned ([`may`]).
pub(super) unsafe fn tell(outcome: Result<Received>, status: *mut scomm_status_t) -> Result<()> {
    match outcome {
        Ok(received) => {
            if !status.is_null() {
                // SAFETY: not null, so writable by the caller's word. Without a status, a message is freed
                // rather than handed out.
                unsafe { status.write(scomm_status_t::of(received)) };
            }
            Ok(())
        }
        Err(error) => {
            // SAFETY: by the caller's word.
            unsafe { set(status, scomm_status_t::of_error(&error)) };
            Err(error)
        }
    }
}
