//! Locks and reader–writer locks.

#![allow(clippy::missing_safety_doc, reason = "the texts are those of the header: C has no section for it")]
#![allow(non_camel_case_types, reason = "C's way to name types")]

use crate::call::{call, destroy, make, status};
use scash::runtime::ObjectKind;
use std::ffi::c_int;

/// A lock: a number that means the same lock on every rank. It can be kept in shared memory.
pub type dsm_lock_t = u32;

/// Makes `count` locks, which nobody has, and sets `*first` to the first one; the others are the
/// numbers that follow: `*first + 1`, and so on. Collective: all ranks ask for as many, and get the
/// same numbers. (For a lock that one rank makes see `dsm_lock_new`.) There are locks until
/// `dsm_locks_destroy` or `dsm_finalize`; those that are never used cost nothing.
///
/// ```c
/// dsm_lock_t locks;
/// dsm_locks_create(100, &locks);
/// dsm_lock(locks + 7);
/// a[7] += 1;
/// dsm_unlock(locks + 7);
/// ```
///
/// Returns 0, or -1 if `count` is less than 1, `first` is NULL, there would be more than 2^26 objects of all
/// kinds (2^31 where ranks do not share frames), or as `dsm_barrier` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_locks_create(count: c_int, first: *mut dsm_lock_t) -> c_int {
    // SAFETY: the caller's word for `first` is what `make` asks for.
    unsafe { make("dsm_locks_create", ObjectKind::Lock, count, first) }
}

/// Destroys `count` locks, from `first` on. Collective, and a memory barrier: all ranks name the same
/// locks. Their numbers never mean other locks: a rank that uses one later is told so.
///
/// If a thread of any rank has one of the locks, or waits for it (or for a condition, with the lock),
/// all ranks get -1, and the text names it: none of the locks is destroyed then at any rank, and the
/// call was no memory barrier.
///
/// Returns 0, or -1 if one is in use, `count` is less than 1, there are no such locks, or as
/// `dsm_barrier` does.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_locks_destroy(first: dsm_lock_t, count: c_int) -> c_int {
    destroy("dsm_locks_destroy", ObjectKind::Lock, first, count)
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

/// Takes a lock if nobody has it, and waits for nobody who has: only for the answers of other ranks
/// if the lock is not here.
///
/// Returns 1 if the calling thread has the lock now, 0 if another one has it or waits for it, or -1
/// as `dsm_lock` does.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_try_lock(lock: dsm_lock_t) -> c_int {
    call("dsm_try_lock", |runtime| runtime.try_lock(lock)).map_or(-1, c_int::from)
}

/// Gives a lock back that the calling thread took.
///
/// Returns 0, or -1 if there is no such lock, the calling thread does not have it, or a rank is gone.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_unlock(lock: dsm_lock_t) -> c_int {
    status(call("dsm_unlock", |runtime| runtime.unlock(lock)))
}

/// A reader-writer lock: a number that means the same one on every rank. Any number of threads have
/// it to read at a time, or one has it to write.
pub type dsm_rwlock_t = u32;

/// Makes `count` reader-writer locks, which nobody has; see `dsm_locks_create`. Collective.
///
/// Returns 0, or -1 if `count` is less than 1, `first` is NULL, or as `dsm_barrier` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_rwlocks_create(count: c_int, first: *mut dsm_rwlock_t) -> c_int {
    // SAFETY: the caller's word for `first` is what `make` asks for.
    unsafe { make("dsm_rwlocks_create", ObjectKind::RwLock, count, first) }
}

/// Destroys `count` reader-writer locks, from `first` on, if no thread of any rank has one or waits for
/// it; see `dsm_locks_destroy`. Collective.
///
/// Returns 0, or -1 as `dsm_locks_destroy` does.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_rwlocks_destroy(first: dsm_rwlock_t, count: c_int) -> c_int {
    destroy("dsm_rwlocks_destroy", ObjectKind::RwLock, first, count)
}

/// Takes a reader-writer lock to read: returns when nobody has it to write, and nobody waits for it
/// who came before. From then on this rank sees what was written by those who had it to write.
///
/// A thread that has the lock already, to read or to write, does not get it again.
///
/// Returns 0, or -1 if there is no such lock, the calling thread has it already, or a rank is gone.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_read_lock(lock: dsm_rwlock_t) -> c_int {
    status(call("dsm_read_lock", |runtime| runtime.read_lock(lock)))
}

/// Takes a reader-writer lock to write: returns when nobody else has it. From then on this rank sees
/// what was written by those who had it before.
///
/// Returns 0, or -1 as `dsm_read_lock` does.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_write_lock(lock: dsm_rwlock_t) -> c_int {
    status(call("dsm_write_lock", |runtime| runtime.write_lock(lock)))
}

/// Gives a reader-writer lock back that the calling thread took, to read or to write.
///
/// Returns 0, or -1 if there is no such lock, the calling thread does not have it, or a rank is gone.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_rw_unlock(lock: dsm_rwlock_t) -> c_int {
    status(call("dsm_rw_unlock", |runtime| runtime.rw_unlock(lock)))
}
