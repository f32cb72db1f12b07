//! Shared slices of plain data.

use crate::dsm::Dsm;
use crate::error::{Error, Result};
use std::marker::PhantomData;
use std::ops::Range;

/// Types whose every bit pattern is a value and that hold no pointers: they may lie in memory that other ranks write.
///
/// # Safety
/// The type is `Copy`, has no padding that matters, no references, and all bit patterns are valid.
pub unsafe trait Plain: Copy + 'static {}

macro_rules! plain {
    ($($t:ty),*) => { $(
        // SAFETY: a number: all bit patterns are values, no padding.
        unsafe impl Plain for $t {}
    )* };
}
plain!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64);

// SAFETY: an array of plain values has no padding of its own.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// An allocation of `len` values at the same address on every rank. A handle: copying it copies no data.
pub struct SharedSlice<T> {
    ptr: *mut T,
    len: usize,
    _type: PhantomData<T>,
}

impl<T> Clone for SharedSlice<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedSlice<T> {}

impl<T> std::fmt::Debug for SharedSlice<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedSlice({:p}, {})", self.ptr, self.len)
    }
}

impl<T: Plain> SharedSlice<T> {
    pub(crate) fn new(ptr: *mut T, len: usize) -> Self {
        SharedSlice { ptr, len, _type: PhantomData }
    }

    /// Number of values.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The first value's address, the same on every rank. Plain pointers into shared memory are free to use as in C.
    pub fn as_ptr(self) -> *mut T {
        self.ptr
    }

    /// Address and length in bytes of some elements.
    pub(crate) fn address(self, elements: Range<usize>) -> Result<(*const u8, usize)> {
        if elements.start > elements.end || elements.end > self.len {
            return Err(Error::Argument(format!("elements {elements:?} of a shared slice of {}", self.len)));
        }
        let at = self.ptr.wrapping_add(elements.start);
        Ok((at.cast::<u8>().cast_const(), elements.len() * size_of::<T>()))
    }

    /// Reads one value.
    ///
    /// # Panics
    /// If there is no such element.
    pub fn get(self, _dsm: &Dsm, index: usize) -> T {
        assert!(index < self.len, "element {index} of {}", self.len);
        // SAFETY: inside the allocation; a volatile read of a plain value is defined whatever others write.
        unsafe { self.ptr.wrapping_add(index).read_volatile() }
    }

    /// Writes one value.
    ///
    /// # Panics
    /// If there is no such element.
    pub fn set(self, _dsm: &Dsm, index: usize, value: T) {
        assert!(index < self.len, "element {index} of {}", self.len);
        // SAFETY: as in `get`.
        unsafe { self.ptr.wrapping_add(index).write_volatile(value) };
    }

    /// Elements as a slice, until the next memory barrier.
    ///
    /// # Safety
    /// No rank and no thread writes any of these elements before the next memory barrier.
    ///
    /// # Panics
    /// If there are no such elements.
    pub unsafe fn slice(self, _dsm: &Dsm, elements: Range<usize>) -> &[T] {
        self.check(&elements);
        // SAFETY: inside the allocation, aligned (allocations begin at pages), plain; unchanged meanwhile by the caller's word.
        unsafe { std::slice::from_raw_parts(self.ptr.wrapping_add(elements.start), elements.len()) }
    }

    /// Elements as a mutable slice, until the next memory barrier.
    ///
    /// # Safety
    /// No other rank or thread touches any of these elements before the next memory barrier, and no other slice of them lives here.
    ///
    /// # Panics
    /// If there are no such elements.
    #[allow(
        clippy::mut_from_ref,
        reason = "what the borrow protects is the interval; the elements are the caller's word"
    )]
    pub unsafe fn slice_mut(self, _dsm: &Dsm, elements: Range<usize>) -> &mut [T] {
        self.check(&elements);
        // SAFETY: as in `slice`, and nobody else looks, by the caller's word.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.wrapping_add(elements.start), elements.len()) }
    }

    fn check(self, elements: &Range<usize>) {
        let within = elements.start <= elements.end && elements.end <= self.len;
        assert!(within, "elements {elements:?} of a shared slice of {}", self.len);
    }
}
