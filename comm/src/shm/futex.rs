//! The two futex calls, on words that processes share.

use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps until woken, for `limit` at most; returns at once if the word is not `expected`. Wakes up early now
/// and then: callers look again.
pub(super) fn wait(word: &AtomicU32, expected: u32, limit: Duration) {
    let limit = libc::timespec {
        tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
        // Below 10⁹, which fits every `c_long`.
        tv_nsec: limit.subsec_nanos() as libc::c_long,
    };
    // SAFETY: the word is borrowed and `limit` lives for the call; the kernel only reads both.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, ptr::from_ref(&limit))
    };
}

/// Wakes one thread that waits on the word, in whichever process.
#[cold]
pub(super) fn wake_one(word: &AtomicU32) {
    // SAFETY: the kernel uses the word's address only to find its waiters.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}

/// Wakes all that wait on the word, in every process.
#[cold]
pub(super) fn wake_all(word: &AtomicU32) {
    // SAFETY: the kernel uses the word's address only to find its waiters.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
