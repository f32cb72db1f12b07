//! Arrays of requests, as C gives them, and what is told of several operations.

use super::answers::{may, must, set, tell};
use super::conversions::given_back;
use super::job::invalid;
use super::types::{SCOMM_NO_INDEX, SCOMM_REQUEST_NULL, scomm_request_t, scomm_status_t};
use scash_comm::Result;
use scash_mp::{Completed, Received, Request};
use std::ffi::c_int;

/// An array of requests.
pub(super) struct Array<'a> {
    all: &'a mut [scomm_request_t],
    /// Those that are not null,
    pub(super) live: Vec<Request>,
    /// and where they are.
    at: Vec<usize>,
}

impl Array<'_> {
    /// What the function `name` was given.
    ///
    /// # Safety
    /// `requests` is null, or there are `count`, which nobody else uses for as long as this lives.
    pub(super) unsafe fn new(name: &str, count: c_int, requests: *mut scomm_request_t) -> Result<Self> {
        let Ok(len) = usize::try_from(count) else {
            return invalid(&format!("{name}: {count} requests: name none or more"));
        };
        let all = if len == 0 {
            &mut []
        } else {
            must(name, requests)?;
            // SAFETY: not null, so there are as many by the caller's word.
            unsafe { std::slice::from_raw_parts_mut(requests, len) }
        };
        let named = |(at, &request)| given_back(request).map(|request| (at, request));
        let (at, live) = all.iter().enumerate().filter_map(named).unzip();
        Ok(Self { all, live, at })
    }

    /// The indices and statuses that the function `name` is to set are there, if it may have to.
    pub(super) fn check_room(
        &self,
        name: &str,
        indices: *mut c_int,
        statuses: *mut scomm_status_t,
    ) -> Result<()> {
        may(name, statuses)?;
        if self.all.is_empty() { Ok(()) } else { must(name, indices) }
    }

    /// Tells of one operation that is over, if there is one.
    ///
    /// # Safety
    /// `index` may be written; `status` is null, or may be written.
    pub(super) unsafe fn tell_one(
        &mut self,
        over: Option<Completed>,
        index: *mut c_int,
        status: *mut scomm_status_t,
    ) -> Result<()> {
        let Some((which, outcome)) = over else {
            // SAFETY: by the caller's word.
            unsafe { set(index, SCOMM_NO_INDEX) };
            // SAFETY: by the caller's word.
            unsafe { set(status, scomm_status_t::NONE) };
            return Ok(());
        };
        // SAFETY: by the caller's word.
        unsafe { set(index, self.end(which)) };
        // SAFETY: by the caller's word.
        unsafe { tell(outcome, status) }
    }

    /// Tells of some operations that are over. Why the first of those that failed did so.
    ///
    /// # Safety
    /// `count` may be written; there is room for all indices, unless there are no requests; `statuses` is
    /// null, or there is room as well.
    pub(super) unsafe fn tell_some(
        &mut self,
        over: Vec<Completed>,
        count: *mut c_int,
        indices: *mut c_int,
        statuses: *mut scomm_status_t,
    ) -> Result<()> {
        // No more than there are requests.
        // SAFETY: by the caller's word.
        unsafe { set(count, c_int::try_from(over.len()).unwrap_or(c_int::MAX)) };
        let mut verdict = Ok(());
        for (nth, (which, outcome)) in over.into_iter().enumerate() {
            // SAFETY: by the caller's word.
            unsafe { set(indices.wrapping_add(nth), self.end(which)) };
            // SAFETY: by the caller's word.
            let told = unsafe { tell(outcome, at(statuses, nth)) };
            verdict = verdict.and(told);
        }
        verdict
    }

    /// Tells of all operations, which are over. Why the first of those that failed did so.
    ///
    /// # Safety
    /// `statuses` is null, or there is room for all.
    pub(super) unsafe fn tell_all(
        &mut self,
        outcomes: Vec<Result<Received>>,
        statuses: *mut scomm_status_t,
    ) -> Result<()> {
        for nth in 0..self.all.len() {
            // SAFETY: by the caller's word.
            unsafe { set(at(statuses, nth), scomm_status_t::NONE) };
        }
        let mut verdict = Ok(());
        for (outcome, &nth) in outcomes.into_iter().zip(&self.at) {
            // SAFETY: by the caller's word.
            let told = unsafe { tell(outcome, at(statuses, nth)) };
            verdict = verdict.and(told);
        }
        self.all.fill(SCOMM_REQUEST_NULL);
        verdict
    }

    /// An operation is over: its request names none from now on. Its index.
    fn end(&mut self, which: usize) -> c_int {
        let at = self.at[which];
        self.all[at] = SCOMM_REQUEST_NULL;
        // There are no more than an int tells.
        c_int::try_from(at).unwrap_or(c_int::MAX)
    }
}

/// The nth status of an array; null if there is none.
fn at(statuses: *mut scomm_status_t, nth: usize) -> *mut scomm_status_t {
    if statuses.is_null() { statuses } else { statuses.wrapping_add(nth) }
}
