//! Locks in the typed interface.

use crate::api::session::{Session, job};
use crate::api::shared::{Plain, SharedSlice};
use crate::error::Result;
use crate::runtime::Runtime;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A lock, known to all ranks by its number. A handle: copying it makes no other lock.
///
/// Whoever has it sees all that was written, by any rank, before it was last given back. It is handed on in
/// the order in which ranks asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Lock(pub(crate) u32);

impl Lock {
    /// The lock of that number, which [`Dsm::locks`](crate::Dsm::locks) made.
    pub(crate) fn new(number: u32) -> Lock {
        Lock(number)
    }

    /// Takes the lock: returns when no other thread of any rank has it.
    ///
    /// # Errors
    /// The thread has it already; a rank is gone.
    pub fn hold<'a>(&self, session: &'a (impl Session + ?Sized)) -> Result<HeldLock<'a>> {
        job(session).lock(self.0)?;
        Ok(HeldLock::new(job(session), self.0))
    }

    /// Takes the lock if no thread of any rank has it.
    ///
    /// # Errors
    /// The thread has it already; a rank is gone.
    pub fn try_hold<'a>(&self, session: &'a (impl Session + ?Sized)) -> Result<Option<HeldLock<'a>>> {
        Ok(job(session).try_lock(self.0)?.then(|| HeldLock::new(job(session), self.0)))
    }
}

/// A lock that this thread has, until the value is dropped. No memory barrier comes in between.
#[must_use = "the lock is given back when this is dropped"]
pub struct HeldLock<'a> {
    runtime: &'static Runtime,
    number: u32,
    /// Borrowed from the session of the thread that has the lock, which no other thread has.
    _session: PhantomData<(&'a (), *mut ())>,
}

impl std::fmt::Debug for HeldLock<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("number", &self.number).finish_non_exhaustive()
    }
}

impl HeldLock<'_> {
    fn new(runtime: &'static Runtime, number: u32) -> Self {
        HeldLock { runtime, number, _session: PhantomData }
    }

    /// Gives the lock back until a condition is signalled.
    pub(crate) fn wait(&self, condition: u32) -> Result<()> {
        self.runtime.condition_wait(condition, self.number)
    }
}

impl Drop for HeldLock<'_> {
    fn drop(&mut self) {
        // If a rank is gone, the next call says so.
        let _ = self.runtime.unlock(self.number);
    }
}

/// A value that all ranks share and one at a time uses.
///
/// ```no_run
/// # fn main() -> scash::Result<()> {
/// let mut dsm = scash::Dsm::init()?;
/// let count = dsm.mutex(0u64)?;
/// *count.lock(&dsm)? += 1;
/// dsm.barrier()?;
/// assert_eq!(*count.lock(&dsm)?, dsm.size() as u64);
/// dsm.finalize()
/// # }
/// ```
///
/// A guard does not outlive the interval in which it was made:
///
/// ```compile_fail,E0502
/// # fn f(dsm: &mut scash::Dsm, count: scash::DsmMutex<u64>) -> scash::Result<()> {
/// let mut guard = count.lock(dsm)?;
/// dsm.barrier()?; // error: `guard` still borrows it
/// *guard += 1;
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DsmMutex<T> {
    pub(crate) lock: Lock,
    pub(crate) values: SharedSlice<T>,
    pub(crate) index: usize,
}

impl<T: Plain> DsmMutex<T> {
    /// The mutexes of some values, with as many locks from the first one on.
    pub(crate) fn all(first: u32, values: SharedSlice<T>) -> Vec<Self> {
        (first..)
            .zip(0..values.len())
            .map(|(number, index)| Self { lock: Lock(number), values, index })
            .collect()
    }

    /// Waits until no other thread of any rank has the value, and gives access to it.
    ///
    /// # Errors
    /// The thread has it already; a rank is gone.
    pub fn lock<'a>(&self, session: &'a (impl Session + ?Sized)) -> Result<MutexGuard<'a, T>> {
        let held = self.lock.hold(session)?;
        Ok(self.guard(held))
    }

    /// Gives access to the value if no thread of any rank has it.
    ///
    /// # Errors
    /// The thread has it already; a rank is gone.
    pub fn try_lock<'a>(&self, session: &'a (impl Session + ?Sized)) -> Result<Option<MutexGuard<'a, T>>> {
        Ok(self.lock.try_hold(session)?.map(|held| self.guard(held)))
    }

    fn guard<'a>(&self, held: HeldLock<'a>) -> MutexGuard<'a, T> {
        MutexGuard { value: self.values.element(self.index), held }
    }
}

/// Access to the value of a [`DsmMutex`], until it is dropped.
#[derive(Debug)]
#[must_use = "the value is given back when this is dropped"]
pub struct MutexGuard<'a, T> {
    value: *mut T,
    held: HeldLock<'a>,
}

impl<'a, T> MutexGuard<'a, T> {
    pub(crate) fn held(&self) -> &HeldLock<'a> {
        &self.held
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: an element of a live allocation that is reached by guards only, of which there is one at a
        // time in the whole job.
        unsafe { &*self.value }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.value }
    }
}
