//! Collective operations.

#![allow(clippy::missing_safety_doc, reason = "the texts are those of the header: C has no section for it")]
#![allow(clippy::too_many_arguments, reason = "they are those that C programs know from other libraries")]

use super::job::done;
use super::named::Named;
use super::types::{scomm_op_t, scomm_request_t, scomm_type_t};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

/// Returns when all ranks have called it.
///
/// Returns 0, or an error: a rank is gone, or calls another collective operation.
#[unsafe(no_mangle)]
pub extern "C" fn scomm_barrier() -> c_int {
    // SAFETY: there is no memory.
    unsafe { Named::Barrier.play("scomm_barrier", null(), null_mut()) }
}

/// Returns when all ranks have called it, and is a place for a checkpoint, as `dsm_barrier` is: in a job
/// of `scash run --replicas` ranks that are killed go on from the newest one. A program that never calls
/// it begins anew then. Messages that were sent and not yet received, and operations that were begun by
/// `scomm_isend` and `scomm_irecv`, are saved with the rest, and so are threads that wait in a function of
/// this header. Where one rank cannot be saved, all run on without, which that rank says once: it has
/// windows or other registered memory, or a collective operation that was only begun. In a program that
/// called `dsm_init` it is `dsm_barrier`, which does as well; in a job whose ranks do not come back it is
/// `scomm_barrier`.
///
/// Returns 0, or an error: a rank is gone, or calls another collective operation.
#[unsafe(no_mangle)]
pub extern "C" fn scomm_checkpoint() -> c_int {
    done("scomm_checkpoint", |job| job.checkpoint())
}

/// As `scomm_barrier`, but only begins the operation, and sets `*request`: it is over when all ranks
/// have begun it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_ibarrier(request: *mut scomm_request_t) -> c_int {
    // SAFETY: there is no memory; the request, by the caller's word.
    unsafe { Named::Barrier.begin("scomm_ibarrier", null(), null_mut(), request) }
}

/// Gives the `len` bytes at `data` of the rank `root` to all.
///
/// Returns 0, or an error: there is no such root, or as `scomm_barrier`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_broadcast(root: c_int, data: *mut c_void, len: usize) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { Named::Broadcast { root, len }.play("scomm_broadcast", null(), data) }
}

/// As `scomm_broadcast`, but only begins the operation, and sets `*request`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_ibroadcast(
    root: c_int,
    data: *mut c_void,
    len: usize,
    request: *mut scomm_request_t,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { Named::Broadcast { root, len }.begin("scomm_ibroadcast", null(), data, request) }
}

/// Combines the `count` elements of all ranks at `mine`, one by one, into `result` at the rank `root`;
/// elsewhere `result` is not used and may be NULL. Sums of floating-point numbers have the same bits in
/// every run on as many ranks.
///
/// Returns 0, or an error: there is no such root, type or operation, or as `scomm_barrier`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_reduce(
    root: c_int,
    mine: *const c_void,
    result: *mut c_void,
    count: usize,
    element: MaybeUninit<scomm_type_t>,
    op: MaybeUninit<scomm_op_t>,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { Named::Reduce { root, count, element, op }.play("scomm_reduce", mine, result) }
}

/// As `scomm_reduce`, but only begins the operation, and sets `*request`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_ireduce(
    root: c_int,
    mine: *const c_void,
    result: *mut c_void,
    count: usize,
    element: MaybeUninit<scomm_type_t>,
    op: MaybeUninit<scomm_op_t>,
    request: *mut scomm_request_t,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { Named::Reduce { root, count, element, op }.begin("scomm_ireduce", mine, result, request) }
}

/// Combines the `count` elements of all ranks at `mine`, one by one, into `result` at every rank. Sums
/// of floating-point numbers have the same bits at every rank, and in every run on as many ranks.
///
/// Returns 0, or an error: there is no such type or operation, or as `scomm_barrier`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_all_reduce(
    mine: *const c_void,
    result: *mut c_void,
    count: usize,
    element: MaybeUninit<scomm_type_t>,
    op: MaybeUninit<scomm_op_t>,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { Named::AllReduce { count, element, op }.play("scomm_all_reduce", mine, result) }
}

/// As `scomm_all_reduce`, but only begins the operation, and sets `*request`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_iall_reduce(
    mine: *const c_void,
    result: *mut c_void,
    count: usize,
    element: MaybeUninit<scomm_type_t>,
    op: MaybeUninit<scomm_op_t>,
    request: *mut scomm_request_t,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { Named::AllReduce { count, element, op }.begin("scomm_iall_reduce", mine, result, request) }
}

/// Gathers the `len` bytes of each rank at `mine`, in the order of ranks, in `all` at the rank `root`;
/// elsewhere `all` is not used and may be NULL.
///
/// Returns 0, or an error: there is no such root, or as `scomm_barrier`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_gather(
    root: c_int,
    mine: *const c_void,
    len: usize,
    all: *mut c_void,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { Named::Gather { root, len }.play("scomm_gather", mine, all) }
}

/// As `scomm_gather`, but only begins the operation, and sets `*request`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_igather(
    root: c_int,
    mine: *const c_void,
    len: usize,
    all: *mut c_void,
    request: *mut scomm_request_t,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { Named::Gather { root, len }.begin("scomm_igather", mine, all, request) }
}

/// Gathers the `len` bytes of each rank at `mine`, in the order of ranks, in `all` at every rank.
///
/// Returns 0, or an error as `scomm_barrier`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_all_gather(mine: *const c_void, len: usize, all: *mut c_void) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { Named::AllGather { len }.play("scomm_all_gather", mine, all) }
}

/// As `scomm_all_gather`, but only begins the operation, and sets `*request`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_iall_gather(
    mine: *const c_void,
    len: usize,
    all: *mut c_void,
    request: *mut scomm_request_t,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { Named::AllGather { len }.begin("scomm_iall_gather", mine, all, request) }
}

/// Gathers `lens[r]` bytes of each rank r at its `mine`, in the order of ranks, in `all` at every rank.
/// All ranks give the same lengths, one for each rank.
///
/// Returns 0, or an error: `lens` is NULL, or as `scomm_barrier`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_all_gather_v(
    mine: *const c_void,
    lens: *const usize,
    all: *mut c_void,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { Named::AllGatherV { lens }.play("scomm_all_gather_v", mine, all) }
}

/// As `scomm_all_gather_v`, but only begins the operation, and sets `*request`. The lengths are not
/// looked at any more when it returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_iall_gather_v(
    mine: *const c_void,
    lens: *const usize,
    all: *mut c_void,
    request: *mut scomm_request_t,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { Named::AllGatherV { lens }.begin("scomm_iall_gather_v", mine, all, request) }
}

/// Gives `len` bytes of `mine` to each rank, in the order of ranks, and gathers the `len` bytes that
/// each has for this one, likewise, in `theirs`.
///
/// Returns 0, or an error as `scomm_barrier`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_all_to_all(mine: *const c_void, len: usize, theirs: *mut c_void) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { Named::AllToAll { len }.play("scomm_all_to_all", mine, theirs) }
}

/// As `scomm_all_to_all`, but only begins the operation, and sets `*request`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_iall_to_all(
    mine: *const c_void,
    len: usize,
    theirs: *mut c_void,
    request: *mut scomm_request_t,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { Named::AllToAll { len }.begin("scomm_iall_to_all", mine, theirs, request) }
}

/// Gives the next `to[r]` bytes of `mine` to each rank r, and gathers the `from[r]` bytes that it has
/// for this one, in the order of ranks, in `theirs`.
///
/// Returns 0, or an error: `to` or `from` is NULL, or as `scomm_barrier`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_all_to_all_v(
    mine: *const c_void,
    to: *const usize,
    theirs: *mut c_void,
    from: *const usize,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { Named::AllToAllV { to, from }.play("scomm_all_to_all_v", mine, theirs) }
}

/// As `scomm_all_to_all_v`, but only begins the operation, and sets `*request`. The lengths are not
/// looked at any more when it returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_iall_to_all_v(
    mine: *const c_void,
    to: *const usize,
    theirs: *mut c_void,
    from: *const usize,
    request: *mut scomm_request_t,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { Named::AllToAllV { to, from }.begin("scomm_iall_to_all_v", mine, theirs, request) }
}

/// Combines the elements of all ranks at `mine`, one by one, and gives the next `counts[r]` of the
/// result to each rank r, in its `result`. All ranks give the same counts, one for each rank.
///
/// Returns 0, or an error: `counts` is NULL, there is no such type or operation, or as `scomm_barrier`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_reduce_scatter(
    mine: *const c_void,
    result: *mut c_void,
    counts: *const usize,
    element: MaybeUninit<scomm_type_t>,
    op: MaybeUninit<scomm_op_t>,
) -> c_int {
    let name = "scomm_reduce_scatter";
    // SAFETY: by the caller's word.
    unsafe { Named::ReduceScatter { counts, element, op }.play(name, mine, result) }
}

/// As `scomm_reduce_scatter`, but only begins the operation, and sets `*request`. The counts are not
/// looked at any more when it returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_ireduce_scatter(
    mine: *const c_void,
    result: *mut c_void,
    counts: *const usize,
    element: MaybeUninit<scomm_type_t>,
    op: MaybeUninit<scomm_op_t>,
    request: *mut scomm_request_t,
) -> c_int {
    let name = "scomm_ireduce_scatter";
    // SAFETY: by the caller's word.
    unsafe { Named::ReduceScatter { counts, element, op }.begin(name, mine, result, request) }
}
