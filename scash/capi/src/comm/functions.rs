//! Joining and leaving a job, and what tells of it.

#![allow(clippy::missing_safety_doc, reason = "the texts are those of the header: C has no section for it")]

use super::answers::{may, must, set};
use super::conversions::rank;
use super::job::{self, call, done, invalid, told};
use super::types::scomm_options_t;
use crate::error;
use scash_mp::Options;
use std::ffi::{c_char, c_int};

/// Fills `*options` with what the environment says (SCASH_MP_EAGER and so on), and with the defaults
/// where it says nothing. May be called before `scomm_init`.
///
/// Returns 0, or an error: NULL, or a setting that makes no sense.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_options(options: *mut scomm_options_t) -> c_int {
    told(if options.is_null() {
        invalid("scomm_options(NULL): give it a scomm_options_t to fill")
    } else {
        must("scomm_options", options).and_then(|()| Options::from_env()).map(|said| {
            // SAFETY: not null, so writable by the caller's word; what was in it need not have been set.
            unsafe { options.write(scomm_options_t::of(said)) };
            0
        })
    })
}

/// Joins the job for which `scash run` or another launcher started this process; a process that none
/// has started is a job of one rank. In a program that uses the shared memory of scash.h, too, after
/// `dsm_init`. Collective. To be called once. `options` may be NULL, for what the environment says;
/// all ranks choose the same `window` and `registered`.
///
/// Returns 0, or an error: ranks run different programs, options or settings (environment variables
/// SCASH_...) make no sense, or ranks do not reach each other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_init(options: *const scomm_options_t) -> c_int {
    told(may("scomm_init", options).and_then(|()| {
        // SAFETY: null or a structure, by the caller's word.
        let options = unsafe { options.as_ref() };
        // SAFETY: a structure that is given is set, by the caller's word.
        let options = options.map_or_else(Options::from_env, |options| unsafe { options.checked() });
        options.and_then(job::join).map(|()| 0)
    }))
}

/// Ends message passing, together with all other ranks. Collective; all operations were waited for
/// before, tested to their end, or cancelled, and no other thread is in a function of this header.
/// Then all functions fail but `scomm_error` and `scomm_free`. In a program that called `dsm_init`,
/// `dsm_finalize` comes afterwards; in others, a rank that exits without this call counts as failed,
/// and the job is ended.
///
/// Returns 0, or an error: a rank is gone; or operations are under way, of which it says how many, or
/// another thread is in a function of this header (then nothing happens, and it may be called again).
#[unsafe(no_mangle)]
pub extern "C" fn scomm_finalize() -> c_int {
    told(job::leave().map(|()| 0))
}

/// The number of this rank, from 0, or an error.
#[unsafe(no_mangle)]
pub extern "C" fn scomm_rank() -> c_int {
    call("scomm_rank", |job| Ok(int(job.rank())))
}

/// The number of ranks of the job, or an error.
#[unsafe(no_mangle)]
pub extern "C" fn scomm_size() -> c_int {
    call("scomm_size", |job| Ok(int(job.size())))
}

/// The number of threads that the user wants in each rank (`scash run --threads`), or an error. The
/// program is to start them: scash does not.
#[unsafe(no_mangle)]
pub extern "C" fn scomm_threads() -> c_int {
    call("scomm_threads", |job| Ok(int(job.threads())))
}

/// Sets where protocols change in messages to the rank `to`: `*eager` to the length of the longest that
/// travels at once, `*push` to that of the longest that is pushed (where long ones are). They are those of
/// the options, or, for ranks of the own host, what was measured (`calibrate` of `scomm_options_t`). Either
/// may be NULL.
///
/// Returns 0, or an error: there is no such rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_thresholds(to: c_int, eager: *mut usize, push: *mut usize) -> c_int {
    done("scomm_thresholds", |job| {
        may("scomm_thresholds", eager)?;
        may("scomm_thresholds", push)?;
        let thresholds = job.thresholds(rank(to)?)?;
        // SAFETY: null, or writable by the caller's word.
        unsafe { set(eager, thresholds.eager) };
        // SAFETY: as above.
        unsafe { set(push, thresholds.push) };
        Ok(())
    })
}

/// The text of the calling thread's last error: one line that says what to do about it. Never NULL;
/// "" if there was none. A later call of the same thread that fails replaces the text; the pointer stays
/// the same, and good for as long as the thread lives. `dsm_error` gives the same.
#[unsafe(no_mangle)]
pub extern "C" fn scomm_error() -> *const c_char {
    error::last()
}

/// A number for C.
fn int(number: u32) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}
