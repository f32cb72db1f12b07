//! Locks: the functions that order memory between two memory barriers.

#![allow(clippy::missing_safety_doc, reason = "the texts are those of the header: C has no section for it")]
#![allow(non_camel_case_types, reason = "C's way to name types")]

use crate::call::{call, status};
use scash::Error;
use std::ffi::c_int;

/// A lock: a number that means the same lock on every rank. It can be kept in shared memory.
pub type dsm_lock_t = u32;

/// Makes `count` locks, which nobody has, and sets `*first` to the first one; the others are the
/// numbers that follow: `*first + 1`, and so on. Collective: all ranks ask for as many, and get the
/// same numbers. There are locks until `dsm_finalize`; those that are never used cost nothing.
///
/// ```c
/// dsm_lock_t locks;
/// dsm_locks_create(100, &locks);
/// dsm_lock(locks + 7);
/// a[7] += 1;
/// dsm_unlock(locks + 7);
/// ```
///
/// Returns 0, or -1 if `count` is less than 1, `first` is NULL, or as `dsm_barrier` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_locks_create(count: c_int, first: *mut dsm_lock_t) -> c_int {
    status(call("dsm_locks_create", |runtime| {
        if first.is_null() {
            let text = "dsm_locks_create(..., NULL): give it a dsm_lock_t to set";
            return Err(Error::Argument(text.to_owned()));
        }
        let count = u32::try_from(count).map_err(|_| {
            Error::Argument(format!("dsm_locks_create of {count} locks: ask for at least one"))
        })?;
        let number = runtime.make_locks(count)?;
        // SAFETY: not null, so writable by the caller's word; what was in it need not have been set.
        unsafe { first.write(number) };
        Ok(())
    }))
}

/// Takes a lock: returns when no other thread of any rank has it. From then on this rank sees all
/// that any rank wrote before it last gave this lock back, and all that such a rank had seen. So
/// data that are only touched by who has the lock are touched by one thread at a time, and each sees
/// what the one before it wrote. Ranks get the lock in the order in which they asked for it.
///
/// Locks are not recursive. A rank does not come to a collective function while one of its threads
/// waits for a lock.
///
/// Returns 0, or -1 if there is no such lock, the calling thread has it already, or a rank is gone.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_lock(lock: dsm_lock_t) -> c_int {
    status(call("dsm_lock", |runtime| runtime.lock(lock)))
}

/// Gives a lock back that the calling thread took.
///
/// Returns 0, or -1 if there is no such lock, the calling thread does not have it, or a rank is gone.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_unlock(lock: dsm_lock_t) -> c_int {
    status(call("dsm_unlock", |runtime| runtime.unlock(lock)))
}
