//! Atomic operations on words of windows.

#![allow(clippy::missing_safety_doc, reason = "the texts are those of the header: C has no section for it")]

use super::answers::{may, set};
use super::conversions::rank;
use super::job::done;
use super::one_sided::{scomm_window_t, window};
use scash_comm::{Atomic, Rmw};
use std::ffi::c_int;

/// Executes an operation for the function `name`, and stores what the word was before where that is wanted.
///
/// # Safety
/// `before` is null, or may be written.
unsafe fn operate<T: TryFrom<u64>>(
    name: &str,
    (part, to, offset): (scomm_window_t, c_int, usize),
    op: Atomic,
    before: *mut T,
) -> c_int {
    done(name, |job| {
        may(name, before)?;
        let window = window(part)?;
        let was = job.atomic(&window, rank(to)?, offset, op)?;
        // A word of this width, so it fits.
        if let Ok(was) = T::try_from(was) {
            // SAFETY: by the caller's word.
            unsafe { set(before, was) };
        }
        Ok(())
    })
}

/// An atomic operation on a word of a window: adds `number` to the word at `offset` of the part of the
/// rank `to`, wrapping around, and sets `*before` to what it was before. `before` may be NULL, if nobody
/// wants to know. `to` may be this rank, and `offset` is a multiple of the word's size; whether the word
/// is taken for signed or not makes no difference.
///
/// It is executed where the word is, and waits for nobody's program: within a host it is one
/// instruction, over TCP a message there and back. The operations of all ranks and threads have one
/// order. One comes after what this rank has put to `to` by calls that are over, so a word can announce
/// what was put beside it. Words that are operated on are operated on in one width, and by all: read by
/// `scomm_load_u64`, also at the rank that they are of.
///
/// Returns 0, or an error: there is no such window, rank or place in its part, no word begins there, or
/// the rank is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_fetch_add_u64(
    window: scomm_window_t,
    to: c_int,
    offset: usize,
    number: u64,
    before: *mut u64,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("scomm_fetch_add_u64", (window, to, offset), Atomic::U64(Rmw::Add(number)), before) }
}

/// Keeps those bits of a word that are set in `mask`. An atomic operation: see `scomm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_fetch_and_u64(
    window: scomm_window_t,
    to: c_int,
    offset: usize,
    mask: u64,
    before: *mut u64,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("scomm_fetch_and_u64", (window, to, offset), Atomic::U64(Rmw::And(mask)), before) }
}

/// Sets those bits of a word that are set in `mask`. An atomic operation: see `scomm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_fetch_or_u64(
    window: scomm_window_t,
    to: c_int,
    offset: usize,
    mask: u64,
    before: *mut u64,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("scomm_fetch_or_u64", (window, to, offset), Atomic::U64(Rmw::Or(mask)), before) }
}

/// Turns those bits of a word that are set in `mask`. An atomic operation: see `scomm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_fetch_xor_u64(
    window: scomm_window_t,
    to: c_int,
    offset: usize,
    mask: u64,
    before: *mut u64,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("scomm_fetch_xor_u64", (window, to, offset), Atomic::U64(Rmw::Xor(mask)), before) }
}

/// Replaces a word by `value`. An atomic operation: see `scomm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_swap_u64(
    window: scomm_window_t,
    to: c_int,
    offset: usize,
    value: u64,
    before: *mut u64,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("scomm_swap_u64", (window, to, offset), Atomic::U64(Rmw::Swap(value)), before) }
}

/// Replaces a word by `value` if it is `expected`. If, and only if, `*before` is `expected` after the
/// call, it was replaced. An atomic operation: see `scomm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_compare_swap_u64(
    window: scomm_window_t,
    to: c_int,
    offset: usize,
    expected: u64,
    value: u64,
    before: *mut u64,
) -> c_int {
    let op = Atomic::U64(Rmw::CompareSwap { expected, new: value });
    // SAFETY: by the caller's word.
    unsafe { operate("scomm_compare_swap_u64", (window, to, offset), op, before) }
}

/// Sets `*value` to what a word is. An atomic operation: see `scomm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_load_u64(
    window: scomm_window_t,
    to: c_int,
    offset: usize,
    value: *mut u64,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("scomm_load_u64", (window, to, offset), Atomic::U64(Rmw::Load), value) }
}

/// Sets a word to `value`. An atomic operation: see `scomm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub extern "C" fn scomm_store_u64(window: scomm_window_t, to: c_int, offset: usize, value: u64) -> c_int {
    let nowhere: *mut u64 = std::ptr::null_mut();
    // SAFETY: nobody wants to know what was there.
    unsafe { operate("scomm_store_u64", (window, to, offset), Atomic::U64(Rmw::Swap(value)), nowhere) }
}

/// Adds `number` to a word, wrapping around. An atomic operation: see `scomm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_fetch_add_u32(
    window: scomm_window_t,
    to: c_int,
    offset: usize,
    number: u32,
    before: *mut u32,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("scomm_fetch_add_u32", (window, to, offset), Atomic::U32(Rmw::Add(number)), before) }
}

/// Keeps those bits of a word that are set in `mask`. An atomic operation: see `scomm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_fetch_and_u32(
    window: scomm_window_t,
    to: c_int,
    offset: usize,
    mask: u32,
    before: *mut u32,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("scomm_fetch_and_u32", (window, to, offset), Atomic::U32(Rmw::And(mask)), before) }
}

/// Sets those bits of a word that are set in `mask`. An atomic operation: see `scomm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_fetch_or_u32(
    window: scomm_window_t,
    to: c_int,
    offset: usize,
    mask: u32,
    before: *mut u32,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("scomm_fetch_or_u32", (window, to, offset), Atomic::U32(Rmw::Or(mask)), before) }
}

/// Turns those bits of a word that are set in `mask`. An atomic operation: see `scomm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_fetch_xor_u32(
    window: scomm_window_t,
    to: c_int,
    offset: usize,
    mask: u32,
    before: *mut u32,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("scomm_fetch_xor_u32", (window, to, offset), Atomic::U32(Rmw::Xor(mask)), before) }
}

/// Replaces a word by `value`. An atomic operation: see `scomm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_swap_u32(
    window: scomm_window_t,
    to: c_int,
    offset: usize,
    value: u32,
    before: *mut u32,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("scomm_swap_u32", (window, to, offset), Atomic::U32(Rmw::Swap(value)), before) }
}

/// Replaces a word by `value` if it is `expected`. If, and only if, `*before` is `expected` after the
/// call, it was replaced. An atomic operation: see `scomm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_compare_swap_u32(
    window: scomm_window_t,
    to: c_int,
    offset: usize,
    expected: u32,
    value: u32,
    before: *mut u32,
) -> c_int {
    let op = Atomic::U32(Rmw::CompareSwap { expected, new: value });
    // SAFETY: by the caller's word.
    unsafe { operate("scomm_compare_swap_u32", (window, to, offset), op, before) }
}

/// Sets `*value` to what a word is. An atomic operation: see `scomm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scomm_load_u32(
    window: scomm_window_t,
    to: c_int,
    offset: usize,
    value: *mut u32,
) -> c_int {
    // SAFETY: by the caller's word.
    unsafe { operate("scomm_load_u32", (window, to, offset), Atomic::U32(Rmw::Load), value) }
}

/// Sets a word to `value`. An atomic operation: see `scomm_fetch_add_u64`.
#[unsafe(no_mangle)]
pub extern "C" fn scomm_store_u32(window: scomm_window_t, to: c_int, offset: usize, value: u32) -> c_int {
    let nowhere: *mut u32 = std::ptr::null_mut();
    // SAFETY: nobody wants to know what was there.
    unsafe { operate("scomm_store_u32", (window, to, offset), Atomic::U32(Rmw::Swap(value)), nowhere) }
}
