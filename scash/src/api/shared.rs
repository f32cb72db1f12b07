//! Shared slices of plain data.

use crate::api::racing;
use crate::api::session::Session;
use crate::error::{Error, Result};
use crate::fault::PAGE;
use crate::runtime::live::Generation;
use bytemuck::Pod;
use std::marker::PhantomData;
use std::ops::Range;

/// Types of values that may lie in memory that other ranks write, and that travel between ranks byte by byte:
/// every bit pattern is a value, every byte is part of it (there is no padding, whose bytes have no values),
/// and no part is a reference or a pointer.
///
/// These are the types that [`bytemuck`] calls [`Pod`]: numbers, arrays of such types, and structures in C's
/// layout that its derive has checked:
///
/// ```
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Body {
///     place: [f64; 3],
///     mass: f64,
/// }
/// fn shared<T: scash::Plain>() {}
/// shared::<[Body; 100]>();
/// ```
///
/// Padding is refused; an explicit member in its place makes it part of the value:
///
/// ```compile_fail,E0512
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Padded {
///     small: u8, // error: three bytes follow that are no part of the value
///     large: u32,
/// }
/// ```
///
/// Allocations begin at pages, so no value can be asked to lie better than a page does:
///
/// ```compile_fail,E0080
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C, align(8192))]
/// struct Wide([u8; 8192]);
/// # fn main() -> scash::Result<()> {
/// # let mut dsm = scash::Dsm::init()?;
/// let wide = dsm.alloc::<Wide>(1)?; // error: aligned to more than a page
/// # Ok(()) }
/// ```
pub trait Plain: Pod {}

impl<T: Pod> Plain for T {}

/// An allocation of `len` values at the same address on every rank. A handle: copying it copies no data.
///
/// Once the allocation is freed, no copy of the handle leads to its memory any more, whatever lies there
/// then: calls that return a [`Result`] say so, the others panic.
pub struct SharedSlice<T> {
    ptr: *mut T,
    len: usize,
    generation: Generation,
    _type: PhantomData<T>,
}

impl<T> Clone for SharedSlice<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedSlice<T> {}

// SAFETY: an address, and whether there is something. Reading and writing takes a session; values of plain
// types may be read and written by any thread, and no safe call makes a reference.
unsafe impl<T: Plain> Send for SharedSlice<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Plain> Sync for SharedSlice<T> {}

impl<T> std::fmt::Debug for SharedSlice<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedSlice({:p}, {})", self.ptr, self.len)
    }
}

impl<T: Plain> SharedSlice<T> {
    /// The handle of an allocation that holds `len` values and begins at a page.
    pub(crate) fn new(ptr: *mut T, len: usize, generation: Generation) -> Self {
        const { assert!(align_of::<T>() <= PAGE, "values in shared memory are aligned to a page at most") };
        SharedSlice { ptr, len, generation, _type: PhantomData }
    }

    /// Number of values.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The first value's address, the same on every rank. Plain pointers into shared memory are free to use
    /// as in C, as long as it is allocated.
    pub fn as_ptr(self) -> *mut T {
        self.ptr
    }

    /// The same allocation as bytes.
    pub(crate) fn bytes(self) -> SharedSlice<u8> {
        let Self { ptr, len, generation, _type } = self;
        SharedSlice { ptr: ptr.cast(), len: len * size_of::<T>(), generation, _type: PhantomData }
    }

    /// The same allocation as `len` values.
    pub(crate) fn of<U: Plain>(self, len: usize) -> SharedSlice<U> {
        SharedSlice::new(self.ptr.cast(), len, self.generation)
    }

    /// What the allocation is known by, also when it is freed.
    pub(crate) fn generation(self) -> Generation {
        self.generation
    }

    /// The address of the allocation, if it is still there.
    pub(crate) fn allocation(self) -> Result<*const u8> {
        if self.generation.is_live() {
            return Ok(self.ptr.cast::<u8>().cast_const());
        }
        Err(Error::Argument(self.gone()))
    }

    fn gone(self) -> String {
        format!("{self:?} was freed: no copy of its handle can be used any more")
    }

    /// Address and length in bytes of some elements.
    pub(crate) fn address(self, elements: Range<usize>) -> Result<(*const u8, usize)> {
        self.allocation()?;
        if elements.start > elements.end || elements.end > self.len {
            return Err(Error::Argument(format!("elements {elements:?} of a shared slice of {}", self.len)));
        }
        let at = self.ptr.wrapping_add(elements.start);
        Ok((at.cast::<u8>().cast_const(), elements.len() * size_of::<T>()))
    }

    /// Reads one value. If others write it meanwhile, ranks or threads, it is any mixture of old and new
    /// bytes.
    ///
    /// # Panics
    /// If there is no such element, or the allocation was freed.
    pub fn get(self, _session: &(impl Session + ?Sized), index: usize) -> T {
        let at = self.element(index);
        // SAFETY: an element of a live allocation; who writes it does so by `set`, or answers for it.
        unsafe { racing::load(at) }
    }

    /// Writes one value.
    ///
    /// # Panics
    /// If there is no such element, or the allocation was freed.
    pub fn set(self, _session: &(impl Session + ?Sized), index: usize, value: T) {
        let at = self.element(index);
        // SAFETY: as in `get`; safe references lead to other allocations only (those of partitions and the
        // like).
        unsafe { racing::store(at, value) };
    }

    /// Elements as a slice, until the next memory barrier.
    ///
    /// # Safety
    /// No rank and no thread writes any of these elements before the next memory barrier.
    ///
    /// # Panics
    /// If there are no such elements, or the allocation was freed.
    pub unsafe fn slice(self, _session: &(impl Session + ?Sized), elements: Range<usize>) -> &[T] {
        // SAFETY: the caller's promise; the next memory barrier borrows the session mutably.
        unsafe { self.part(elements) }
    }

    /// Elements as a mutable slice, until the next memory barrier.
    ///
    /// # Safety
    /// No other rank or thread touches any of these elements before the next memory barrier, and no other
    /// slice of them lives here.
    ///
    /// # Panics
    /// If there are no such elements, or the allocation was freed.
    #[allow(
        clippy::mut_from_ref,
        reason = "what the borrow protects is the interval; the elements are the caller's word"
    )]
    pub unsafe fn slice_mut(self, _session: &(impl Session + ?Sized), elements: Range<usize>) -> &mut [T] {
        // SAFETY: as in `slice`, and nobody else looks, by the caller's word.
        unsafe { self.part_mut(elements) }
    }

    /// Elements as a slice, for as long as the caller likes.
    ///
    /// # Safety
    /// Nobody writes any of these elements while the slice lives, which ends before the allocation does.
    ///
    /// # Panics
    /// As [`slice`](Self::slice).
    pub(crate) unsafe fn part<'a>(self, elements: Range<usize>) -> &'a [T] {
        self.check(&elements);
        // SAFETY: inside a live allocation, aligned (allocations begin at pages), plain; unchanged meanwhile
        // by the caller's word.
        unsafe { std::slice::from_raw_parts(self.ptr.wrapping_add(elements.start), elements.len()) }
    }

    /// Elements as a mutable slice, for as long as the caller likes.
    ///
    /// # Safety
    /// Nobody else touches any of these elements while the slice lives, which ends before the allocation
    /// does.
    ///
    /// # Panics
    /// As [`slice`](Self::slice).
    pub(crate) unsafe fn part_mut<'a>(self, elements: Range<usize>) -> &'a mut [T] {
        self.check(&elements);
        // SAFETY: as in `part`, and nobody else looks, by the caller's word.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.wrapping_add(elements.start), elements.len()) }
    }

    /// The address of an element that is there.
    pub(crate) fn element(self, index: usize) -> *mut T {
        assert!(index < self.len, "element {index} of {}", self.len);
        self.check_live();
        self.ptr.wrapping_add(index)
    }

    fn check(self, elements: &Range<usize>) {
        let within = elements.start <= elements.end && elements.end <= self.len;
        assert!(within, "elements {elements:?} of a shared slice of {}", self.len);
        self.check_live();
    }

    fn check_live(self) {
        assert!(self.generation.is_live(), "{}", self.gone());
    }
}
