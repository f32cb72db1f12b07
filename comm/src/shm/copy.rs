//! Copies to and from memory that another process may be writing.
//!
//! **Invariant:** shared bytes are touched by these copies and by atomics, nowhere else; no Rust reference to them
//! exists.

use std::ptr;
use std::sync::atomic::{Ordering, compiler_fence};

/// Copies `len` bytes, of which either side (or both) may be shared with other processes.
///
/// The bytes may change while they are copied: the result is then any mixture of old and new bytes. What must not
/// happen is that the compiler, believing that nobody else writes, reads the source a second time instead of the
/// copy, or moves the copy across the atomics around it. The two fences forbid that (they cost no instruction):
/// beyond each the compiler must assume that the memory has changed.
///
/// # Safety
/// `src` is readable and `dst` writable for `len` bytes.
#[inline]
pub(super) unsafe fn copy(src: *const u8, dst: *mut u8, len: usize) {
    compiler_fence(Ordering::SeqCst);
    // SAFETY: the caller's promise. `copy`, not `copy_nonoverlapping`: a rank may put to itself.
    unsafe { ptr::copy(src, dst, len) };
    compiler_fence(Ordering::SeqCst);
}

/// Asks for a cache line to be brought here for writing, and does not wait for it. A peer's processor has it, so that the first store there would wait for that one to give it up.
#[inline]
pub(super) fn own_soon(line: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint: it changes nothing but caches, cannot fault, and processors that do not know it pass over it.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) line, options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}
