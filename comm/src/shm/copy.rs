//! Copies to and from rings, which another process writes. (Puts and gets, whose memory threads of this
//! process may write too, are [`racing::copy`](crate::racing::copy)s.)
//!
//! **Invariant:** shared bytes are touched by these copies and by atomics, nowhere else; no Rust reference to
//! them exists.

use std::ptr;
use std::sync::atomic::{Ordering, compiler_fence};

/// Copies `len` bytes, of which either side (or both) may be shared with other processes.
///
/// The bytes may change while they are copied: the result is then any mixture of old and new bytes. What must
/// not happen is that the compiler, believing that nobody else writes, reads the source a second time instead
/// of the copy, or moves the copy across the atomics around it. The two fences forbid that (they cost no
/// instruction): beyond each the compiler must assume that the memory has changed.
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

/// [`copy`] of less than 64 bytes between memories that do not overlap: what heads and short messages are, in
/// less time than a call takes.
///
/// # Safety
/// As for [`copy`]; `len` is less than 64, and the two sides do not overlap.
#[inline]
pub(super) unsafe fn copy_few(src: *const u8, dst: *mut u8, len: usize) {
    compiler_fence(Ordering::SeqCst);
    let mut at = 0;
    // The words that the binary form of the length is made of; the compiler makes two instructions of each.
    for word in [32, 16, 8, 4, 2, 1] {
        if len & word != 0 {
            // SAFETY: the caller's promise: these words are `len` bytes together.
            let from = unsafe { src.add(at) };
            // SAFETY: as above.
            let to = unsafe { dst.add(at) };
            // SAFETY: as above.
            unsafe { ptr::copy_nonoverlapping(from, to, word) };
            at += word;
        }
    }
    compiler_fence(Ordering::SeqCst);
}

/// Asks for a cache line to be brought here for writing, and does not wait for it. A peer's processor has it,
/// so that the first store there would wait for that one to give it up.
#[inline]
pub(super) fn own_soon(line: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint: it changes nothing but caches, cannot fault, and processors that do not know it pass
    // over it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_bytes_are_copied_and_none_beside_them() {
        let from: Vec<u8> = (1..=64).collect();
        for len in 0..64 {
            let mut to = [0; 66];
            // SAFETY: both have as many bytes, and are apart.
            unsafe { copy_few(from.as_ptr(), to[1..].as_mut_ptr(), len) };
            assert_eq!(to[1..=len], from[..len]);
            assert!(to[0] == 0 && to[1 + len..].iter().all(|byte| *byte == 0));
        }
    }
}
