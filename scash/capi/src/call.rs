//! What all functions share: the job, and how an answer of the runtime becomes one for C.
//!
//! Each function asks [`call`] for the rank's runtime, so each fails in the same way before `dsm_init` and
//! after `dsm_finalize`.

use crate::error;
use crate::pointers::aligned;
use scash::runtime::{ObjectKind, Runtime};
use scash::{Error, Result};
use scash_comm::forked;
use std::ffi::{CString, c_int};
use std::sync::OnceLock;

/// The job that this process has joined.
static JOB: OnceLock<Job> = OnceLock::new();

pub(crate) struct Job {
    runtime: &'static Runtime,
    /// Names as C strings, for as long as the process lives.
    pub(crate) engine: CString,
    pub(crate) provider: CString,
}

/// The process has joined a job.
pub(crate) fn joined(runtime: &'static Runtime) {
    let name = |text: &str| CString::new(text).unwrap_or_default();
    let job = Job { runtime, engine: name(runtime.engine()), provider: name(runtime.provider()) };
    // A process joins once (`runtime::init` sees to it), so nobody else sets it.
    JOB.get_or_init(|| job);
}

/// The job, if the process is in one now; `name` is the function that wants to know.
pub(crate) fn job(name: &str) -> Result<&'static Job> {
    if forked::is_child() {
        return Err(Error::Argument(forked::refusal(name)));
    }
    match JOB.get() {
        Some(job) if job.runtime.is_finalized() => {
            Err(Error::Argument(format!("{name} was called after dsm_finalize")))
        }
        Some(job) => Ok(job),
        None => Err(Error::Argument(format!("{name} was called before dsm_init, or dsm_init failed"))),
    }
}

/// The runtime, if the process has joined its job by `dsm_init`, whether or not it has left it since.
pub(crate) fn runtime() -> Option<&'static Runtime> {
    JOB.get().map(|job| job.runtime)
}

/// Keeps the text of an error.
pub(crate) fn note<T>(result: Result<T>) -> Option<T> {
    result.inspect_err(error::set).ok()
}

/// What the runtime answers, or nothing and a text for `dsm_error`.
pub(crate) fn call<T>(name: &str, run: impl FnOnce(&'static Runtime) -> Result<T>) -> Option<T> {
    note(job(name).and_then(|job| run(job.runtime)))
}

/// 0 or -1.
pub(crate) fn status(done: Option<()>) -> c_int {
    if done.is_some() { 0 } else { -1 }
}

/// A number that C programs get as an int, or -1.
pub(crate) fn int(number: Option<u32>) -> c_int {
    number.map_or(-1, |n| c_int::try_from(n).unwrap_or(c_int::MAX))
}

/// Destroys objects of synchronisation for the function `name`.
pub(crate) fn destroy(name: &str, kind: ObjectKind, first: u32, count: c_int) -> c_int {
    status(call(name, |runtime| {
        let count = u32::try_from(count)
            .map_err(|_| Error::Argument(format!("{name} of {count}: name at least one")))?;
        runtime.destroy_objects(kind, first, count)
    }))
}

/// Makes objects of synchronisation for the function `name`, and sets `*first` to the number of the first.
///
/// # Safety
/// `first` is null, or may be written.
pub(crate) unsafe fn make(name: &str, kind: ObjectKind, count: c_int, first: *mut u32) -> c_int {
    let all = |runtime: &Runtime| {
        let count = u32::try_from(count)
            .map_err(|_| Error::Argument(format!("{name} of {count}: ask for at least one")))?;
        runtime.make_objects(kind, count)
    };
    // SAFETY: the caller's word for `first`.
    unsafe { set_to(name, first, all) }
}

/// Makes an object of synchronisation by this rank alone, for the function `name`, and sets `*number`.
///
/// # Safety
/// `number` is null, or may be written.
pub(crate) unsafe fn make_one(name: &str, kind: ObjectKind, number: *mut u32) -> c_int {
    // SAFETY: the caller's word for `number`.
    unsafe { set_to(name, number, |runtime| runtime.make_object(kind)) }
}

/// Destroys an object of synchronisation that one rank has made, for the function `name`.
pub(crate) fn delete(name: &str, kind: ObjectKind, number: u32) -> c_int {
    status(call(name, |runtime| runtime.destroy_object(kind, number)))
}

/// Sets `*number` for the function `name`.
///
/// # Safety
/// `number` is null, or may be written.
unsafe fn set_to(name: &str, number: *mut u32, make: impl FnOnce(&Runtime) -> Result<u32>) -> c_int {
    status(call(name, |runtime| {
        if number.is_null() {
            let text = format!("{name}(..., NULL): give it a number to set");
            return Err(Error::Argument(text));
        }
        aligned(name, number)?;
        let made = make(runtime)?;
        // SAFETY: not null, so the caller promises that it may be written; what was in it need not have been
        // set.
        unsafe { number.write(made) };
        Ok(())
    }))
}
