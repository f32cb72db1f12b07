//! A value that is replaced when its process comes back from an image, and never otherwise.

use std::cell::UnsafeCell;
use std::ops::Deref;

/// A value that may be put into the place of another one when its process comes back from an image.
pub struct Renewable<T>(UnsafeCell<T>);

// SAFETY: it gives references as a plain value does; who replaces it promises that there are none.
unsafe impl<T: Send + Sync> Sync for Renewable<T> {}

impl<T> Renewable<T> {
    /// The first one.
    pub fn new(value: T) -> Renewable<T> {
        Renewable(UnsafeCell::new(value))
    }

    /// Puts another value into its place, and returns the one before.
    ///
    /// # Safety
    /// Nobody has a reference to the value, and no other thread uses it meanwhile.
    pub unsafe fn renew(&self, value: T) -> T {
        // SAFETY: as the caller promises.
        unsafe { self.0.get().replace(value) }
    }
}

impl<T> Deref for Renewable<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: while there are references the value stays.
        unsafe { &*self.0.get() }
    }
}
