//! Atomic operations on words of shared memory.

#![allow(clippy::missing_safety_doc, reason = "the texts are those of the header: C has no section for it")]

use crate::call::{call, status};
use crate::pointers::aligned;
use scash::{Atomic, Rmw};
use std::ffi::c_int;

/// Executes an operation, and stores what the word was before where that is wanted.
///
/// # Safety
/// `before` is NULL or writable.
unsafe fn operate<T: TryFrom<u64>>(name: &str, word: *mut T, op: Atomic, before: *mut T) -> c_int {
    let was = call(name, |runtime| {
        aligned(name, before)?;
        runtime.atomic(word.cast_const().cast(), op)
    });
    if let Some(Ok(was)) = was.map(T::try_from)
        && !before.is_null()
    {
        // SAFETY: not null, so writable by the caller's word; what was in it need not have been set.
        unsafe { before.write(was) };
    }
    status(was.map(drop))
}

/// An atomic operation on a word of shared memory: adds `number` to `*word`, wrapping around, and
/// sets `*before` to what it was before. `before` may be NULL, if nobody wants to know.
///
/// The operation is executed at the home of the word's page, or on the memory that ranks share, without
/// another rank's help: within a host by one instruction, over TCP by a message there and back. The
/// operations of all ranks and threads have one order. `word` is a multiple of its size, anywhere in memory
/// from `dsm_alloc`; whether it is taken for signed or not makes no difference.
///
/// Between two memory barriers a word is either operated on, by all who use it, or read and written
/// as plain memory. After a memory barrier, all read what the operations before it have left. An
/// operation orders nothing but itself: who sees its result does not for that reason see what else
/// the rank had written before. That is what `dsm_lock` and `dsm_barrier` are for.
///
/// Returns 0, or -1 if `word` is not such an address, or a rank is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_fetch_add_u64(word: *mut u64, number: u64, before: *mut u64) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("dsm_fetch_add_u64", word, Atomic::U64(Rmw::Add(number)), before) }
}

/// Keeps those bits of `*word` that are set in `mask`. An atomic operation: see `dsm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_fetch_and_u64(word: *mut u64, mask: u64, before: *mut u64) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("dsm_fetch_and_u64", word, Atomic::U64(Rmw::And(mask)), before) }
}

/// Sets those bits of `*word` that are set in `mask`. An atomic operation: see `dsm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_fetch_or_u64(word: *mut u64, mask: u64, before: *mut u64) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("dsm_fetch_or_u64", word, Atomic::U64(Rmw::Or(mask)), before) }
}

/// Turns those bits of `*word` that are set in `mask`. An atomic operation: see `dsm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_fetch_xor_u64(word: *mut u64, mask: u64, before: *mut u64) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("dsm_fetch_xor_u64", word, Atomic::U64(Rmw::Xor(mask)), before) }
}

/// Replaces `*word` by `value`. An atomic operation: see `dsm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_swap_u64(word: *mut u64, value: u64, before: *mut u64) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("dsm_swap_u64", word, Atomic::U64(Rmw::Swap(value)), before) }
}

/// Replaces `*word` by `value` if it is `expected`. If, and only if, `*before` is `expected` after
/// the call, it was replaced. An atomic operation: see `dsm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_compare_swap_u64(
    word: *mut u64,
    expected: u64,
    value: u64,
    before: *mut u64,
) -> c_int {
    let op = Atomic::U64(Rmw::CompareSwap { expected, new: value });
    // SAFETY: by the caller's word.
    unsafe { operate("dsm_compare_swap_u64", word, op, before) }
}

/// Sets `*value` to what `*word` is. An atomic operation: see `dsm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_load_u64(word: *const u64, value: *mut u64) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("dsm_load_u64", word.cast_mut(), Atomic::U64(Rmw::Load), value) }
}

/// Sets `*word` to `value`. An atomic operation: see `dsm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_store_u64(word: *mut u64, value: u64) -> c_int {
    // SAFETY: nobody wants to know what was there.
    unsafe { operate("dsm_store_u64", word, Atomic::U64(Rmw::Swap(value)), std::ptr::null_mut()) }
}

/// Adds `number` to `*word`, wrapping around. An atomic operation: see `dsm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_fetch_add_u32(word: *mut u32, number: u32, before: *mut u32) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("dsm_fetch_add_u32", word, Atomic::U32(Rmw::Add(number)), before) }
}

/// Keeps those bits of `*word` that are set in `mask`. An atomic operation: see `dsm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_fetch_and_u32(word: *mut u32, mask: u32, before: *mut u32) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("dsm_fetch_and_u32", word, Atomic::U32(Rmw::And(mask)), before) }
}

/// Sets those bits of `*word` that are set in `mask`. An atomic operation: see `dsm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_fetch_or_u32(word: *mut u32, mask: u32, before: *mut u32) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("dsm_fetch_or_u32", word, Atomic::U32(Rmw::Or(mask)), before) }
}

/// Turns those bits of `*word` that are set in `mask`. An atomic operation: see `dsm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_fetch_xor_u32(word: *mut u32, mask: u32, before: *mut u32) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("dsm_fetch_xor_u32", word, Atomic::U32(Rmw::Xor(mask)), before) }
}

/// Replaces `*word` by `value`. An atomic operation: see `dsm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_swap_u32(word: *mut u32, value: u32, before: *mut u32) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("dsm_swap_u32", word, Atomic::U32(Rmw::Swap(value)), before) }
}

/// Replaces `*word` by `value` if it is `expected`. If, and only if, `*before` is `expected` after
/// the call, it was replaced. An atomic operation: see `dsm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_compare_swap_u32(
    word: *mut u32,
    expected: u32,
    value: u32,
    before: *mut u32,
) -> c_int {
    let op = Atomic::U32(Rmw::CompareSwap { expected, new: value });
    // SAFETY: by the caller's word.
    unsafe { operate("dsm_compare_swap_u32", word, op, before) }
}

/// Sets `*value` to what `*word` is. An atomic operation: see `dsm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_load_u32(word: *const u32, value: *mut u32) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("dsm_load_u32", word.cast_mut(), Atomic::U32(Rmw::Load), value) }
}

/// Sets `*word` to `value`. An atomic operation: see `dsm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_store_u32(word: *mut u32, value: u32) -> c_int {
    // SAFETY: nobody wants to know what was there.
    unsafe { operate("dsm_store_u32", word, Atomic::U32(Rmw::Swap(value)), std::ptr::null_mut()) }
}
