//! Semaphores, conditions and flags: what lets others go on.

#![allow(clippy::missing_safety_doc, reason = "the texts are those of the header: C has no section for it")]
#![allow(non_camel_case_types, reason = "C's way to name types")]

use crate::call::{call, destroy, make, status};
use crate::locks::dsm_lock_t;
use scash::runtime::ObjectKind;
use std::ffi::{c_int, c_uint};

/// A counting semaphore: a number that means the same one on every rank.
pub type dsm_semaphore_t = u32;

/// Makes `count` semaphores, each with this number in the beginning; see `dsm_locks_create`.
/// Collective.
///
/// Returns 0, or -1 if `count` is less than 1, `first` is NULL, or as `dsm_barrier` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_semaphores_create(
    count: c_int,
    initial: c_uint,
    first: *mut dsm_semaphore_t,
) -> c_int {
    // SAFETY: the caller's word for `first` is what `make` asks for.
    unsafe { make("dsm_semaphores_create", ObjectKind::Semaphore(initial), count, first) }
}

/// Destroys `count` semaphores, from `first` on, if no thread of any rank waits for one, whatever their
/// numbers are; see `dsm_locks_destroy`. Collective.
///
/// Returns 0, or -1 as `dsm_locks_destroy` does.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_semaphores_destroy(first: dsm_semaphore_t, count: c_int) -> c_int {
    destroy("dsm_semaphores_destroy", ObjectKind::Semaphore(0), first, count)
}

/// Takes one from a semaphore's number: waits until it is not 0. From then on this rank sees all that
/// was written, by any rank, before the `dsm_semaphore_post` that let it go on. Those who wait go on
/// in the order in which they came.
///
/// A rank does not come to a collective function while one of its threads waits.
///
/// Returns 0, or -1 if there is no such semaphore, or a rank is gone.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_semaphore_wait(semaphore: dsm_semaphore_t) -> c_int {
    status(call("dsm_semaphore_wait", |runtime| runtime.semaphore_wait(semaphore)))
}

/// Adds `count` to a semaphore's number: as many who wait go on. Any thread may do so. Waits for
/// nobody.
///
/// Returns 0, or -1 if there is no such semaphore, `count` is 0, or a rank is gone.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_semaphore_post(semaphore: dsm_semaphore_t, count: c_uint) -> c_int {
    status(call("dsm_semaphore_post", |runtime| runtime.semaphore_post(semaphore, count)))
}

/// A condition variable: a number that means the same one on every rank.
pub type dsm_condition_t = u32;

/// Makes `count` conditions, for which nobody waits; see `dsm_locks_create`. Collective.
///
/// Returns 0, or -1 if `count` is less than 1, `first` is NULL, or as `dsm_barrier` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_conditions_create(count: c_int, first: *mut dsm_condition_t) -> c_int {
    // SAFETY: the caller's word for `first` is what `make` asks for.
    unsafe { make("dsm_conditions_create", ObjectKind::Condition, count, first) }
}

/// Destroys `count` conditions, from `first` on, if no thread of any rank waits for one; see
/// `dsm_locks_destroy`. Collective.
///
/// Returns 0, or -1 as `dsm_locks_destroy` does.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_conditions_destroy(first: dsm_condition_t, count: c_int) -> c_int {
    destroy("dsm_conditions_destroy", ObjectKind::Condition, first, count)
}

/// Gives `lock` back, which the calling thread has, waits for a signal, and takes the lock again. No
/// signal is missed that is given by somebody who has had the lock since. May also return without a
/// signal, so it stands in a loop:
///
/// ```c
/// dsm_lock(lock);
/// while (!*ready)
///     dsm_condition_wait(condition, lock);
/// dsm_unlock(lock);
/// ```
///
/// A rank does not come to a collective function while one of its threads waits.
///
/// Returns 0, or -1 if there is no such condition or lock, the calling thread does not have the lock,
/// or a rank is gone.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_condition_wait(condition: dsm_condition_t, lock: dsm_lock_t) -> c_int {
    status(call("dsm_condition_wait", |runtime| runtime.condition_wait(condition, lock)))
}

/// Lets one thread go on that waits for a condition: the one that came first. If nobody waits,
/// nothing happens. Waits for nobody.
///
/// Returns 0, or -1 if there is no such condition, or a rank is gone.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_condition_signal(condition: dsm_condition_t) -> c_int {
    status(call("dsm_condition_signal", |runtime| runtime.condition_signal(condition)))
}

/// Lets all threads go on that wait for a condition.
///
/// Returns 0, or -1 as `dsm_condition_signal` does.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_condition_broadcast(condition: dsm_condition_t) -> c_int {
    status(call("dsm_condition_broadcast", |runtime| runtime.condition_broadcast(condition)))
}

/// A flag: a number that means the same one on every rank. A flag has a value that only grows, 0 in
/// the beginning.
pub type dsm_flag_t = u32;

/// Makes `count` flags; see `dsm_locks_create`. Collective.
///
/// Returns 0, or -1 if `count` is less than 1, `first` is NULL, or as `dsm_barrier` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_flags_create(count: c_int, first: *mut dsm_flag_t) -> c_int {
    // SAFETY: the caller's word for `first` is what `make` asks for.
    unsafe { make("dsm_flags_create", ObjectKind::Flag, count, first) }
}

/// Destroys `count` flags, from `first` on, if no thread of any rank waits for one; see
/// `dsm_locks_destroy`. Collective.
///
/// Returns 0, or -1 as `dsm_locks_destroy` does.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_flags_destroy(first: dsm_flag_t, count: c_int) -> c_int {
    destroy("dsm_flags_destroy", ObjectKind::Flag, first, count)
}

/// Waits until a flag's value is at least this one. From then on this rank sees all that was written,
/// by any rank, before the flag was raised so far.
///
/// A rank does not come to a collective function while one of its threads waits.
///
/// Returns 0, or -1 if there is no such flag, or a rank is gone.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_flag_wait(flag: dsm_flag_t, least: u64) -> c_int {
    status(call("dsm_flag_wait", |runtime| runtime.flag_wait(flag, least)))
}

/// Raises a flag's value. If it is larger already, it stays so. Any thread may do so. Waits for
/// nobody.
///
/// Returns 0, or -1 if there is no such flag, or a rank is gone.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_flag_raise(flag: dsm_flag_t, to: u64) -> c_int {
    status(call("dsm_flag_raise", |runtime| runtime.flag_raise(flag, to)))
}
