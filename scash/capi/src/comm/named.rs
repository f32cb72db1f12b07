//! Collective operations as C names them, and what they mean to [`scash_mp`].

use super::answers::{begin, may};
use super::conversions::{rank, reduction};
use super::job::{done, invalid};
use super::memory::check;
use super::types::{scomm_op_t, scomm_request_t, scomm_type_t};
use scash_comm::Result;
use scash_mp::{Collective, Communicator, Request};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

type Element = MaybeUninit<scomm_type_t>;
type Op = MaybeUninit<scomm_op_t>;

/// A collective operation, as the arguments of its function. Arrays have an entry for each rank.
#[derive(Clone, Copy)]
pub(super) enum Named {
    Barrier,
    Broadcast { root: c_int, len: usize },
    Reduce { root: c_int, count: usize, element: Element, op: Op },
    AllReduce { count: usize, element: Element, op: Op },
    Gather { root: c_int, len: usize },
    AllGather { len: usize },
    AllGatherV { lens: *const usize },
    AllToAll { len: usize },
    AllToAllV { to: *const usize, from: *const usize },
    ReduceScatter { counts: *const usize, element: Element, op: Op },
}

impl Named {
    /// What it means among so many ranks.
    ///
    /// # Safety
    /// Arrays are null, or as long as there are ranks; all bytes of enums are set.
    unsafe fn meant(self, name: &str, size: usize) -> Result<Collective> {
        // SAFETY: by the caller's word.
        let array = |numbers| unsafe { copy(name, numbers, size) };
        // SAFETY: by the caller's word.
        let reduction = |element, op| unsafe { reduction(element, op) };
        Ok(match self {
            Self::Barrier => Collective::Barrier,
            Self::Broadcast { root, len } => Collective::Broadcast { root: rank(root)?, len },
            Self::Reduce { root, count, element, op } => {
                Collective::Reduce { root: rank(root)?, count, reduction: reduction(element, op)? }
            }
            Self::AllReduce { count, element, op } => {
                Collective::AllReduce { count, reduction: reduction(element, op)? }
            }
            Self::Gather { root, len } => Collective::Gather { root: rank(root)?, len },
            Self::AllGather { len } => Collective::AllGather { lens: vec![len; size] },
            Self::AllGatherV { lens } => Collective::AllGather { lens: array(lens)? },
            Self::AllToAll { len } => Collective::AllToAll { to: vec![len; size], from: vec![len; size] },
            Self::AllToAllV { to, from } => Collective::AllToAll { to: array(to)?, from: array(from)? },
            Self::ReduceScatter { counts, element, op } => {
                Collective::ReduceScatter { counts: array(counts)?, reduction: reduction(element, op)? }
            }
        })
    }

    /// Begins it for the function `name`.
    ///
    /// # Safety
    /// As for [`meant`](Self::meant); `mine` is readable and unchanged, and `result` writable and used by
    /// nobody else, until the operation is over.
    unsafe fn start(
        self,
        name: &str,
        job: &Communicator,
        mine: *const c_void,
        result: *mut c_void,
    ) -> Result<Request> {
        // SAFETY: by the caller's word.
        let collective = unsafe { self.meant(name, job.size() as usize) }?;
        let (mine, result) = (mine.cast::<u8>(), result.cast::<u8>());
        let (given, got) = (collective.input_len(job.rank()), collective.output_len(job.rank(), job.size()));
        check(name, mine, given)?;
        check(name, result, got)?;
        // Neither goes past the end of the address space: `check`.
        if (mine as usize) < result as usize + got && (result as usize) < mine as usize + given {
            return invalid(&format!(
                "{name}: what is given and what is got overlap: let them be two buffers"
            ));
        }
        // SAFETY: by the caller's word.
        unsafe { job.start(&collective, mine, result) }
    }

    /// Plays it for the function `name`, to its end.
    ///
    /// # Safety
    /// As for [`start`](Self::start).
    pub(super) unsafe fn play(self, name: &str, mine: *const c_void, result: *mut c_void) -> c_int {
        done(name, |job| {
            // SAFETY: by the caller's word, who gets the memory back when it was waited for.
            let request = unsafe { self.start(name, job, mine, result) }?;
            job.wait(request).map(drop)
        })
    }

    /// Begins it for the function `name`, and sets `*request`.
    ///
    /// # Safety
    /// As for [`start`](Self::start); `request` is null, or may be written.
    pub(super) unsafe fn begin(
        self,
        name: &str,
        mine: *const c_void,
        result: *mut c_void,
        request: *mut scomm_request_t,
    ) -> c_int {
        // SAFETY: by the caller's word.
        let start = |job: &Communicator| unsafe { self.start(name, job, mine, result) };
        // SAFETY: by the caller's word.
        unsafe { begin(name, request, start) }
    }
}

/// Copies an array that has a number for each rank.
///
/// # Safety
/// It is null, or that long.
unsafe fn copy(name: &str, numbers: *const usize, size: usize) -> Result<Vec<usize>> {
    if numbers.is_null() {
        return invalid(&format!("{name}: NULL for numbers of {size} ranks: give it one for each"));
    }
    may(name, numbers)?;
    // SAFETY: not null, so as long as there are ranks by the caller's word.
    Ok(unsafe { std::slice::from_raw_parts(numbers, size) }.to_vec())
}
