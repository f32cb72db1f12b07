//! Values that several threads and ranks may read and write at the same time.
//!
//! A data race is one of accesses that the compiler knows as plain ones. These are relaxed atomic accesses to
//! the words of a value, as wide as its alignment allows: what comes of a race is a mixture of old and new
//! words, and every mixture is a value of a plain type.

use crate::api::shared::Plain;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// The widest atomic that an alignment allows.
trait Word {
    /// Copies a word that others may write at the same time to a place of this thread's own.
    ///
    /// # Safety
    /// Both are those of a word, and aligned; who writes the first at the same time does so by atomics, or in
    /// another process.
    unsafe fn load(from: *mut u8, to: *mut u8);

    /// The other way.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    unsafe fn store(from: *const u8, to: *mut u8);
}

macro_rules! words {
    ($($atomic:ty, $plain:ty);*) => { $(
        impl Word for $atomic {
            #[inline]
            unsafe fn load(from: *mut u8, to: *mut u8) {
                // SAFETY: the caller's promise.
                let word = unsafe { Self::from_ptr(from.cast()) }.load(Ordering::Relaxed);
                // SAFETY: the caller's promise.
                unsafe { to.cast::<$plain>().write(word) };
            }

            #[inline]
            unsafe fn store(from: *const u8, to: *mut u8) {
                // SAFETY: the caller's promise.
                let word = unsafe { from.cast::<$plain>().read() };
                // SAFETY: the caller's promise.
                unsafe { Self::from_ptr(to.cast()) }.store(word, Ordering::Relaxed);
            }
        }
    )* };
}
words! { AtomicU8, u8; AtomicU16, u16; AtomicU32, u32; AtomicU64, u64 }

/// Reads a value that others may write at the same time.
///
/// # Safety
/// `at` is that of a value; who writes it at the same time does so by [`store`], by atomic operations, or in
/// another process.
#[inline]
pub(crate) unsafe fn load<T: Plain>(at: *mut T) -> T {
    let mut value = T::zeroed();
    let (from, to) = (at.cast::<u8>(), (&raw mut value).cast::<u8>());
    match align_of::<T>() {
        // SAFETY: the caller's promise; the other value is this function's own.
        1 => unsafe { load_words::<AtomicU8>(from, to, size_of::<T>()) },
        // SAFETY: the caller's promise; the other value is this function's own.
        2 => unsafe { load_words::<AtomicU16>(from, to, size_of::<T>()) },
        // SAFETY: the caller's promise; the other value is this function's own.
        4 => unsafe { load_words::<AtomicU32>(from, to, size_of::<T>()) },
        // SAFETY: the caller's promise; the other value is this function's own.
        _ => unsafe { load_words::<AtomicU64>(from, to, size_of::<T>()) },
    }
    value
}

/// Writes a value that others may read or write at the same time.
///
/// # Safety
/// As for [`load`], and for those who read it.
#[inline]
pub(crate) unsafe fn store<T: Plain>(at: *mut T, value: T) {
    let (from, to) = ((&raw const value).cast::<u8>(), at.cast::<u8>());
    match align_of::<T>() {
        // SAFETY: the caller's promise; the other value is this function's own.
        1 => unsafe { store_words::<AtomicU8>(from, to, size_of::<T>()) },
        // SAFETY: the caller's promise; the other value is this function's own.
        2 => unsafe { store_words::<AtomicU16>(from, to, size_of::<T>()) },
        // SAFETY: the caller's promise; the other value is this function's own.
        4 => unsafe { store_words::<AtomicU32>(from, to, size_of::<T>()) },
        // SAFETY: the caller's promise; the other value is this function's own.
        _ => unsafe { store_words::<AtomicU64>(from, to, size_of::<T>()) },
    }
}

/// # Safety
/// As for [`Word::load`], for as many words as `bytes` are, a multiple of theirs.
#[inline]
unsafe fn load_words<W: Word>(from: *mut u8, to: *mut u8, bytes: usize) {
    for at in (0..bytes).step_by(size_of::<W>()) {
        // SAFETY: the caller's promise.
        unsafe { W::load(from.wrapping_add(at), to.wrapping_add(at)) };
    }
}

/// # Safety
/// As for [`Word::store`], for as many words as `bytes` are, a multiple of theirs.
#[inline]
unsafe fn store_words<W: Word>(from: *const u8, to: *mut u8, bytes: usize) {
    for at in (0..bytes).step_by(size_of::<W>()) {
        // SAFETY: the caller's promise.
        unsafe { W::store(from.wrapping_add(at), to.wrapping_add(at)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    fn comes_back<T: Plain + PartialEq + Debug>(values: [T; 2]) {
        let mut place = values[0];
        // SAFETY: a value of this thread's own.
        assert_eq!(unsafe { load(&raw mut place) }, values[0]);
        // SAFETY: as above.
        unsafe { store(&raw mut place, values[1]) };
        assert_eq!(place, values[1]);
    }

    #[test]
    fn values_of_any_alignment_come_back_as_they_went() {
        comes_back([1u8, 255]);
        comes_back([[1u8, 2, 3], [7, 8, 9]]);
        comes_back([300u16, 0xfffe]);
        comes_back([[1u16; 5], [700; 5]]);
        comes_back([-1i32, i32::MIN]);
        comes_back([[1.5f32; 3], [-2.5; 3]]);
        comes_back([1u64 << 40, 3]);
        comes_back([[0.1f64; 7], [1e300; 7]]);
        comes_back([1u128 << 100, 5]);
        comes_back([(); 2]);
    }
}
