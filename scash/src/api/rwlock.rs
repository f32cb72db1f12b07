//! Reader–writer locks in the typed interface.

use crate::api::session::{Session, job};
use crate::api::shared::{Plain, SharedSlice};
use crate::error::Result;
use crate::runtime::Runtime;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A value that all ranks share: any number at a time read it, or one writes it. Nobody is passed over: who
/// comes after somebody who waits, waits too.
///
/// ```no_run
/// # fn main() -> scash::Result<()> {
/// let mut dsm = scash::Dsm::init()?;
/// let table = dsm.rwlock([0u32; 64])?;
/// table.write(&dsm)?[dsm.rank()] = 1;
/// let here = table.read(&dsm)?.iter().sum::<u32>();
/// assert!((1..=64).contains(&here));
/// dsm.finalize()
/// # }
/// ```
///
/// A guard does not outlive the interval in which it was made:
///
/// ```compile_fail,E0502
/// # fn f(dsm: &mut scash::Dsm, table: scash::DsmRwLock<u64>) -> scash::Result<()> {
/// let guard = table.read(dsm)?;
/// dsm.barrier()?; // error: `guard` still borrows it
/// println!("{}", *guard);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DsmRwLock<T> {
    pub(crate) number: u32,
    pub(crate) values: SharedSlice<T>,
    pub(crate) index: usize,
}

impl<T: Plain> DsmRwLock<T> {
    /// The locks of some values, numbered from the first one on.
    pub(crate) fn all(first: u32, values: SharedSlice<T>) -> Vec<Self> {
        (first..).zip(0..values.len()).map(|(number, index)| Self { number, values, index }).collect()
    }

    /// Waits until nobody writes the value, and gives access to it.
    ///
    /// # Errors
    /// The thread has it already; a rank is gone.
    pub fn read<'a>(&self, session: &'a (impl Session + ?Sized)) -> Result<ReadGuard<'a, T>> {
        job(session).read_lock(self.number)?;
        Ok(ReadGuard { value: self.values.element(self.index), _has: Has::new(job(session), self.number) })
    }

    /// Waits until nobody else has the value, and gives access to it.
    ///
    /// # Errors
    /// The thread has it already; a rank is gone.
    pub fn write<'a>(&self, session: &'a (impl Session + ?Sized)) -> Result<WriteGuard<'a, T>> {
        job(session).write_lock(self.number)?;
        Ok(WriteGuard { value: self.values.element(self.index), _has: Has::new(job(session), self.number) })
    }
}

/// A reader–writer lock that this thread has, until the value is dropped.
struct Has<'a> {
    runtime: &'static Runtime,
    number: u32,
    /// Borrowed from the session of the thread that has the lock, which no other thread has.
    _session: PhantomData<(&'a (), *mut ())>,
}

impl Has<'_> {
    fn new(runtime: &'static Runtime, number: u32) -> Self {
        Has { runtime, number, _session: PhantomData }
    }
}

impl std::fmt::Debug for Has<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Has").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Drop for Has<'_> {
    fn drop(&mut self) {
        // If a rank is gone, the next call says so.
        let _ = self.runtime.rw_unlock(self.number);
    }
}

/// Access to the value of a [`DsmRwLock`] that nobody writes until it is dropped.
#[derive(Debug)]
#[must_use = "the value is given back when this is dropped"]
pub struct ReadGuard<'a, T> {
    value: *const T,
    _has: Has<'a>,
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: an element of a live allocation that is reached by guards only; while there is one to read,
        // the lock lets nobody have one to write.
        unsafe { &*self.value }
    }
}

/// Access to the value of a [`DsmRwLock`] that nobody else has until it is dropped.
#[derive(Debug)]
#[must_use = "the value is given back when this is dropped"]
pub struct WriteGuard<'a, T> {
    value: *mut T,
    _has: Has<'a>,
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: an element of a live allocation that is reached by guards only; while there is one to
        // write, the lock lets nobody have another.
        unsafe { &*self.value }
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.value }
    }
}
