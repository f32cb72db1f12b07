//! Objects of synchronisation that one rank makes, and one destroys.

#![allow(clippy::missing_safety_doc, reason = "the texts are those of the header: C has no section for it")]

use crate::call::{delete, make_one};
use crate::locks::{dsm_lock_t, dsm_rwlock_t};
use crate::signals::{dsm_condition_t, dsm_flag_t, dsm_semaphore_t};
use scash::runtime::ObjectKind;
use std::ffi::{c_int, c_uint};

/// Makes a lock, which nobody has, by this rank alone, and sets `*lock` to its number, which means the same
/// lock on every rank. Not collective: any thread of any rank calls it at any time, also while it has
/// locks, but not while another thread of its rank is in a collective function. Other ranks get the
/// number as they get all that is written: it is kept in shared memory, beside what the lock is for. All
/// functions on locks take it, but for `dsm_locks_destroy`.
///
/// ```c
/// struct node { dsm_lock_t lock; int value; struct node *next; };
/// struct node *node = dsm_malloc(sizeof *node);
/// dsm_lock_new(&node->lock);
/// ```
///
/// All ranks must have made an object together before, once, by `dsm_locks_create` or the like. Of all
/// kinds there can be 2^24 such objects at a time, and each rank can have made an even part of them.
///
/// Returns 0, or -1 if `lock` is NULL, all ranks have made none before, or this rank can make no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_lock_new(lock: *mut dsm_lock_t) -> c_int {
    // SAFETY: the caller's word for `lock` is what `make_one` asks for.
    unsafe { make_one("dsm_lock_new", ObjectKind::Lock, lock) }
}

/// Destroys a lock that `dsm_lock_new` made, whichever rank called that. Waits until nobody has it. Not
/// collective.
///
/// Whoever uses the lock afterwards is told that there is none of that number. But numbers come again: after
/// the next memory barrier this one may mean another object.
///
/// Returns 0, or -1 if there is no such lock, the calling thread has it, or a rank is gone; or if a thread
/// waits for it that came after this call: that one gets the lock then, which is as it was.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_lock_delete(lock: dsm_lock_t) -> c_int {
    delete("dsm_lock_delete", ObjectKind::Lock, lock)
}

/// Makes a reader-writer lock, which nobody has, by this rank alone; see `dsm_lock_new`.
///
/// Returns 0, or -1 as `dsm_lock_new` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_rwlock_new(lock: *mut dsm_rwlock_t) -> c_int {
    // SAFETY: the caller's word for `lock` is what `make_one` asks for.
    unsafe { make_one("dsm_rwlock_new", ObjectKind::RwLock, lock) }
}

/// Destroys a reader-writer lock that `dsm_rwlock_new` made; see `dsm_lock_delete`.
///
/// Returns 0, or -1 as `dsm_lock_delete` does.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_rwlock_delete(lock: dsm_rwlock_t) -> c_int {
    delete("dsm_rwlock_delete", ObjectKind::RwLock, lock)
}

/// Makes a semaphore, with this number in the beginning, by this rank alone; see `dsm_lock_new`.
///
/// Returns 0, or -1 as `dsm_lock_new` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_semaphore_new(initial: c_uint, semaphore: *mut dsm_semaphore_t) -> c_int {
    // SAFETY: the caller's word for `semaphore` is what `make_one` asks for.
    unsafe { make_one("dsm_semaphore_new", ObjectKind::Semaphore(initial), semaphore) }
}

/// Destroys a semaphore that `dsm_semaphore_new` made, whatever its number is. Not collective. A post that
/// nobody has waited for is lost, also if it arrives later.
///
/// Returns 0, or -1 if a thread waits for it, there is no such semaphore, or a rank is gone.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_semaphore_delete(semaphore: dsm_semaphore_t) -> c_int {
    delete("dsm_semaphore_delete", ObjectKind::Semaphore(0), semaphore)
}

/// Makes a condition, for which nobody waits, by this rank alone; see `dsm_lock_new`.
///
/// Returns 0, or -1 as `dsm_lock_new` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_condition_new(condition: *mut dsm_condition_t) -> c_int {
    // SAFETY: the caller's word for `condition` is what `make_one` asks for.
    unsafe { make_one("dsm_condition_new", ObjectKind::Condition, condition) }
}

/// Destroys a condition that `dsm_condition_new` made; see `dsm_semaphore_delete`.
///
/// Returns 0, or -1 as `dsm_semaphore_delete` does.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_condition_delete(condition: dsm_condition_t) -> c_int {
    delete("dsm_condition_delete", ObjectKind::Condition, condition)
}

/// Makes a flag, whose value is 0, by this rank alone; see `dsm_lock_new`.
///
/// Returns 0, or -1 as `dsm_lock_new` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_flag_new(flag: *mut dsm_flag_t) -> c_int {
    // SAFETY: the caller's word for `flag` is what `make_one` asks for.
    unsafe { make_one("dsm_flag_new", ObjectKind::Flag, flag) }
}

/// Destroys a flag that `dsm_flag_new` made; see `dsm_semaphore_delete`.
///
/// Returns 0, or -1 as `dsm_semaphore_delete` does.
#[unsafe(no_mangle)]
pub extern "C" fn dsm_flag_delete(flag: dsm_flag_t) -> c_int {
    delete("dsm_flag_delete", ObjectKind::Flag, flag)
}
