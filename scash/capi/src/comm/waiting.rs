//! Tests, waits, and receives that are taken back.

#![allow(clippy::missing_safety_doc, reason = "the texts are those of the header: C has no section for it")]

use super::answers::{may, must, tell};
use super::array::Array;
use super::conversions::given_back;
use super::job::{done, invalid};
use super::types::{SCOMM_REQUEST_NULL, scomm_request_t, scomm_status_t};
use scash_mp::{Received, Request};
use std::ffi::c_int;

/// Waits until the operation is over. `*request` is SCOMM_REQUEST_NULL then. `status` may be NULL.
///
/// Returns 0, or why the operation failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_wait(request: *mut scomm_request_t, status: *mut scomm_status_t) -> c_int {
    done("scomm_wait", |job| {
        must("scomm_wait", request)?;
        may("scomm_wait", status)?;
        // SAFETY: not null, so a request by the caller's word.
        let given = unsafe { request.replace(SCOMM_REQUEST_NULL) };
        let outcome = given_back(given).map_or(Ok(Received::default()), |operation| job.wait(operation));
        // SAFETY: by the caller's word.
        unsafe { tell(outcome, status) }
    })
}

/// Makes progress, and sets `*over` to 1 if the operation is over then, and to 0 if not. If it is, all
/// is as after `scomm_wait`.
///
/// Returns 0, or why the operation failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_test(
    request: *mut scomm_request_t,
    over: *mut c_int,
    status: *mut scomm_status_t,
) -> c_int {
    done("scomm_test", |job| {
        must("scomm_test", request)?;
        must("scomm_test", over)?;
        may("scomm_test", status)?;
        // SAFETY: not null, so a request by the caller's word.
        let given = unsafe { request.read() };
        let found =
            given_back(given).map_or(Ok(Some(Received::default())), |mut operation| job.test(&mut operation));
        // SAFETY: not null, so writable by the caller's word.
        unsafe { over.write(c_int::from(!matches!(found, Ok(None)))) };
        let Some(outcome) = found.transpose() else { return Ok(()) };
        // SAFETY: as above.
        unsafe { request.write(SCOMM_REQUEST_NULL) };
        // SAFETY: by the caller's word.
        unsafe { tell(outcome, status) }
    })
}

/// Waits until one of the `count` operations is over, and sets `*index` to which one, and its request
/// to SCOMM_REQUEST_NULL. Requests that are null are passed over; if all are, `*index` is
/// SCOMM_NO_INDEX. `status` may be NULL.
///
/// Returns 0, or why that operation failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_wait_any(
    count: c_int,
    requests: *mut scomm_request_t,
    index: *mut c_int,
    status: *mut scomm_status_t,
) -> c_int {
    done("scomm_wait_any", |job| {
        must("scomm_wait_any", index)?;
        may("scomm_wait_any", status)?;
        // SAFETY: by the caller's word.
        let mut array = unsafe { Array::new("scomm_wait_any", count, requests) }?;
        let first = job.wait_any(&mut array.live);
        // SAFETY: by the caller's word.
        unsafe { array.tell_one(first, index, status) }
    })
}

/// Makes progress, and sets `*over` to 1 if one of the `count` operations is over then, or all requests
/// are null, and to 0 otherwise. If it is 1, all is as after `scomm_wait_any`; else `*index` is
/// SCOMM_NO_INDEX.
///
/// Returns 0, or why that operation failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_test_any(
    count: c_int,
    requests: *mut scomm_request_t,
    over: *mut c_int,
    index: *mut c_int,
    status: *mut scomm_status_t,
) -> c_int {
    done("scomm_test_any", |job| {
        must("scomm_test_any", over)?;
        must("scomm_test_any", index)?;
        may("scomm_test_any", status)?;
        // SAFETY: by the caller's word.
        let mut array = unsafe { Array::new("scomm_test_any", count, requests) }?;
        let is_empty = array.live.is_empty();
        let first = job.test_any(&mut array.live);
        // SAFETY: not null, so writable by the caller's word.
        unsafe { over.write(c_int::from(is_empty || first.is_some())) };
        // SAFETY: by the caller's word.
        unsafe { array.tell_one(first, index, status) }
    })
}

/// Waits until at least one of the `count` operations is over, and tells of all that are: `*over` is
/// their number, `indices` has which they are, in their order, and `statuses`, which may be NULL, what
/// became of each. Both have room for `count`. Their requests are SCOMM_REQUEST_NULL then. If all
/// requests are null, `*over` is 0.
///
/// Returns 0, or why the first of those that failed did so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_wait_some(
    count: c_int,
    requests: *mut scomm_request_t,
    over: *mut c_int,
    indices: *mut c_int,
    statuses: *mut scomm_status_t,
) -> c_int {
    done("scomm_wait_some", |job| {
        must("scomm_wait_some", over)?;
        // SAFETY: by the caller's word.
        let mut array = unsafe { Array::new("scomm_wait_some", count, requests) }?;
        array.check_room("scomm_wait_some", indices, statuses)?;
        let some = job.wait_some(&mut array.live);
        // SAFETY: by the caller's word.
        unsafe { array.tell_some(some, over, indices, statuses) }
    })
}

/// Makes progress, and tells of those of the `count` operations that are over then, as
/// `scomm_wait_some` does; `*over` may be 0.
///
/// Returns 0, or why the first of those that failed did so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_test_some(
    count: c_int,
    requests: *mut scomm_request_t,
    over: *mut c_int,
    indices: *mut c_int,
    statuses: *mut scomm_status_t,
) -> c_int {
    done("scomm_test_some", |job| {
        must("scomm_test_some", over)?;
        // SAFETY: by the caller's word.
        let mut array = unsafe { Array::new("scomm_test_some", count, requests) }?;
        array.check_room("scomm_test_some", indices, statuses)?;
        let some = job.test_some(&mut array.live);
        // SAFETY: by the caller's word.
        unsafe { array.tell_some(some, over, indices, statuses) }
    })
}

/// Waits until all of the `count` operations are over. All requests are SCOMM_REQUEST_NULL then, and
/// `statuses`, which has room for `count` or is NULL, tells what became of each.
///
/// Returns 0, or why the first of those that failed did so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_wait_all(
    count: c_int,
    requests: *mut scomm_request_t,
    statuses: *mut scomm_status_t,
) -> c_int {
    done("scomm_wait_all", |job| {
        may("scomm_wait_all", statuses)?;
        // SAFETY: by the caller's word.
        let mut array = unsafe { Array::new("scomm_wait_all", count, requests) }?;
        let live = std::mem::take(&mut array.live);
        let outcomes = live.into_iter().map(|request| job.wait(request)).collect();
        // SAFETY: by the caller's word.
        unsafe { array.tell_all(outcomes, statuses) }
    })
}

/// Makes progress, and sets `*over` to 1 if all of the `count` operations are over then; all is as
/// after `scomm_wait_all` then. Otherwise `*over` is 0, and nothing else has changed.
///
/// Returns 0, or why the first of those that failed did so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_test_all(
    count: c_int,
    requests: *mut scomm_request_t,
    over: *mut c_int,
    statuses: *mut scomm_status_t,
) -> c_int {
    done("scomm_test_all", |job| {
        must("scomm_test_all", over)?;
        may("scomm_test_all", statuses)?;
        // SAFETY: by the caller's word.
        let mut array = unsafe { Array::new("scomm_test_all", count, requests) }?;
        let outcomes = job.test_all(&mut array.live);
        // SAFETY: not null, so writable by the caller's word.
        unsafe { over.write(c_int::from(outcomes.is_some())) };
        // SAFETY: by the caller's word.
        outcomes.map_or(Ok(()), |outcomes| unsafe { array.tell_all(outcomes, statuses) })
    })
}

/// Takes back a receive that has no message yet, or a send that no receive has got, and sets `*cancelled`
/// to 1 and `*request` to SCOMM_REQUEST_NULL. If it is too late for that, or the operation is another one,
/// `*cancelled` is 0, and the operation is to be waited for as before. Of a send, the other rank's library
/// is asked, but not its program.
///
/// Returns 0, or an error: there is no such operation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_cancel(request: *mut scomm_request_t, cancelled: *mut c_int) -> c_int {
    done("scomm_cancel", |job| {
        must("scomm_cancel", request)?;
        must("scomm_cancel", cancelled)?;
        // SAFETY: not null, so a request by the caller's word.
        let given = unsafe { request.read() };
        let kept =
            given_back(given).map_or(Some(Request::from_raw(0)), |operation| job.cancel(operation).err());
        if kept.as_ref().is_some_and(|operation| !job.has(operation)) {
            return invalid(
                "scomm_cancel: there is no such operation: it was waited for or cancelled before",
            );
        }
        let is_back = kept.is_none();
        if is_back {
            // SAFETY: as above.
            unsafe { request.write(SCOMM_REQUEST_NULL) };
        }
        // SAFETY: not null, so writable by the caller's word.
        unsafe { cancelled.write(c_int::from(is_back)) };
        Ok(())
    })
}
