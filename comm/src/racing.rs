//! Copies of memory that other threads and processes may access at the same time: parts of windows,
//! registered segments.
//!
//! **Why a copy that races is no undefined behaviour here.** A data race is one of accesses that Rust's
//! compiler knows as plain ones. This copy has none: it is a call of the C library's machine code by an
//! address that the compiler does not know, so that it has to assume whatever a foreign function may do. What
//! that does to the bytes is what relaxed atomic loads and stores of each byte would do: the result is any
//! mixture of old and new bytes, never anything else. Copies by loops of atomics, for which compilers make no
//! vector instructions, take 1.5 to 2.8 times as long from 1 KiB on (AMD EPYC), this one as long as
//! [`std::ptr::copy`].

use std::ffi::c_void;

type Copy = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;

/// The C library's copy of memory that may overlap.
#[cfg(not(miri))]
static COPY: Copy = libc::memmove;

/// Miri does not know that function. Of what it runs (`scripts/deep`), no two threads copy.
#[cfg(miri)]
static COPY: Copy = {
    unsafe extern "C" fn alone(dst: *mut c_void, src: *const c_void, len: usize) -> *mut c_void {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy(src.cast::<u8>(), dst.cast::<u8>(), len) };
        dst
    }
    alone
};

/// Copies `len` bytes, of which either side (or both) may be shared; they may overlap.
///
/// # Safety
/// `src` is readable and `dst` writable for `len` bytes, and all who access what is shared there at the same
/// time do so by such copies, by atomics, or as other processes and the kernel do.
#[inline]
pub unsafe fn copy(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: our own static. Volatile: the compiler must not know which function it is.
    let copy = unsafe { (&raw const COPY).read_volatile() };
    // SAFETY: the caller's promise.
    unsafe { copy(dst.cast(), src.cast(), len) };
}

#[cfg(test)]
mod tests {
    use super::copy;
    use crate::SharedMemory;
    use std::thread;

    #[test]
    fn bytes_that_are_copied_while_others_write_them_are_old_or_new_ones() {
        const LEN: usize = 5_000;
        let memory = SharedMemory::new(LEN).unwrap();
        thread::scope(|threads| {
            threads.spawn(|| {
                for round in 0..=200u8 {
                    let bytes = vec![round; LEN];
                    // SAFETY: both have as many bytes, and the memory is accessed by such copies.
                    unsafe { copy(bytes.as_ptr(), memory.at(0), LEN) };
                }
            });
            let (mut bytes, mut last) = (vec![0; LEN], 0);
            while last < 200 {
                // SAFETY: as above.
                unsafe { copy(memory.at(0), bytes.as_mut_ptr(), LEN) };
                last = bytes[LEN - 1];
                assert!(bytes.iter().all(|&byte| byte <= 200));
            }
        });
    }

    #[test]
    fn memory_that_overlaps_is_copied_as_it_was() {
        let mut bytes: Vec<u8> = (0..200).collect();
        let start = bytes.as_mut_ptr();
        // SAFETY: both lie inside the vector.
        unsafe { copy(start, start.wrapping_add(7), 190) };
        assert!(bytes[7..197].iter().copied().eq(0..190));
    }
}
