//! Memory that the workers of a program share, with nothing but two unsafe ways to get a slice of it.
//!
//! The kernels want slices, but a slice must not reach into elements that another worker writes meanwhile.
//! [`Shared`] is the memory alone: an [`Array`](crate::owned::Array) knows who owns what, and gives slices
//! accordingly.

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use memmap2::{MmapMut, MmapRaw};
use nix::errno::Errno;
use scash::Plain;

use crate::{Error, Result};

/// What arrays consist of.
pub trait Element: Plain + Send + Sync {
    /// Whether both have the same bits.
    fn same_bits(&self, other: &Self) -> bool;
}

impl Element for f64 {
    fn same_bits(&self, other: &Self) -> bool {
        self.to_bits() == other.to_bits()
    }
}

macro_rules! whole_numbers {
    ($($t:ty),*) => { $(
        impl Element for $t {
            fn same_bits(&self, other: &Self) -> bool {
                self == other
            }
        }
    )* };
}
whole_numbers!(u8, u32, usize, i64);

impl<T: Element, const N: usize> Element for [T; N] {
    fn same_bits(&self, other: &Self) -> bool {
        self.iter().zip(other).all(|(a, b)| a.same_bits(b))
    }
}

/// What keeps private memory, as long as it lives.
pub type KeepAlive = Option<Arc<dyn Send + Sync>>;

/// An array that all workers can reach.
#[derive(Clone, Copy, Debug)]
pub struct Shared<T> {
    start: NonNull<T>,
    len: usize,
}

// SAFETY: a `Shared` is an address and a length; who makes a slice of it answers for what other threads do
// there.
unsafe impl<T: Element> Send for Shared<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Element> Sync for Shared<T> {}

impl<T: Element> Shared<T> {
    /// The `len` elements from `start` on.
    ///
    /// # Safety
    /// They are initialised, and stay mapped for as long as slices are made of the value or a copy of it.
    pub unsafe fn new(start: NonNull<T>, len: usize) -> Self {
        Self { start, len }
    }

    /// How many elements there are.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Where the first one is.
    pub(crate) fn address(self) -> usize {
        self.start.addr().get()
    }

    /// The first one, for those who operate on it.
    pub(crate) fn as_ptr(self) -> *const T {
        self.start.as_ptr()
    }

    /// The elements of `range`, to read.
    ///
    /// # Safety
    /// Nobody writes to them while the slice lives.
    ///
    /// # Panics
    /// If the range reaches beyond the array.
    pub unsafe fn get<'a>(self, range: Range<usize>) -> &'a [T] {
        let (start, len) = self.locate(range);
        // SAFETY: `locate` checked the bounds of an array that is alive (`new`), and the caller keeps writers
        // away.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), len) }
    }

    /// The elements of `range`, to read and write.
    ///
    /// # Safety
    /// Nobody else reads or writes them while the slice lives.
    ///
    /// # Panics
    /// If the range reaches beyond the array.
    pub unsafe fn get_mut<'a>(self, range: Range<usize>) -> &'a mut [T] {
        let (start, len) = self.locate(range);
        // SAFETY: `locate` checked the bounds of an array that is alive (`new`), and the caller keeps others
        // away.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) }
    }

    fn locate(self, range: Range<usize>) -> (NonNull<T>, usize) {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} elements", self.len);
        // SAFETY: the start of the range is within the array, or at its end.
        (unsafe { self.start.add(range.start) }, range.len())
    }
}

/// Zeroed memory of this process alone, aligned to pages; its pages are taken when they are first touched.
#[derive(Debug)]
pub struct Private<T> {
    mapping: MmapRaw,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Element> Private<T> {
    /// Memory for `len` elements.
    ///
    /// # Errors
    /// If the system does not give that much.
    pub fn zeroed(len: usize) -> Result<Self> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or(Error::TooLarge)?.max(1);
        let mapping = MmapMut::map_anon(bytes).map_err(|error| {
            let reason = error.raw_os_error().map_or(Errno::ENOMEM, Errno::from_raw);
            Error::Memory { bytes, reason }
        })?;
        Ok(Self { mapping: mapping.into(), len, elements: PhantomData })
    }

    /// The memory for several threads to use, while `self` lives.
    pub fn share(&self) -> Shared<T> {
        let start = NonNull::new(self.mapping.as_mut_ptr().cast()).expect("nothing is mapped at address 0");
        // SAFETY: the mapping has room for `len` elements, and zeros are valid ones. Those who make slices of
        // the array know its owner, and keep it.
        unsafe { Shared::new(start, self.len) }
    }

    /// The memory as a slice.
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: the mapping has room for `len` elements, zeros are valid ones, and it lives as long as
        // `self`.
        unsafe { std::slice::from_raw_parts(self.mapping.as_ptr().cast(), self.len) }
    }

    /// The memory as a slice to write to.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as for `as_slice`; and `self` is borrowed mutably for as long as the slice.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.as_mut_ptr().cast(), self.len) }
    }
}
