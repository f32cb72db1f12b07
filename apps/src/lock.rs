//! Locks that the workers of a program share, and values behind them, in each mode.
//!
//! Under `scash run` a [`Lock`] is one of the job's, of which each knows a number; without it, one of the
//! process. Either way, whoever has it sees all that was written before it was last given back. [`Mutex`] is
//! to programs here what [`scash::DsmMutex`] is to those that have a [`scash::Dsm`] at hand: a value that
//! only a guard leads to.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{self, Arc, Condvar, PoisonError};

use scash::runtime::Runtime;

use crate::Result;
use crate::shared::{Element, KeepAlive, Shared};

/// A lock. A handle: a clone is the same lock.
#[derive(Clone, Debug)]
pub struct Lock(LockKind);

/// Who knows whether it is taken.
#[derive(Clone)]
enum LockKind {
    Process(Arc<ThreadLock>),
    Job { runtime: &'static Runtime, number: u32 },
}

impl fmt::Debug for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(turn) => turn.fmt(f),
            Self::Job { number, .. } => write!(f, "lock {number} of the job"),
        }
    }
}

/// A lock between threads whose holder need not be a guard of the standard library.
#[derive(Debug, Default)]
struct ThreadLock {
    taken: sync::Mutex<bool>,
    free: Condvar,
}

impl ThreadLock {
    fn take(&self) {
        // Whoever panics with `taken` in hand leaves a plain value behind.
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        *self.free.wait_while(taken, |taken| *taken).unwrap_or_else(PoisonError::into_inner) = true;
    }

    fn give_back(&self) {
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.free.notify_one();
    }
}

impl Lock {
    /// A lock of this process.
    pub fn of_process() -> Self {
        Self(LockKind::Process(Arc::default()))
    }

    /// The lock of that number, which the job has made.
    pub fn of_job(runtime: &'static Runtime, number: u32) -> Self {
        Self(LockKind::Job { runtime, number })
    }

    /// Takes the lock: returns when no other worker has it.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn hold(&self) -> Result<LockGuard<'_>> {
        match &self.0 {
            LockKind::Process(turn) => turn.take(),
            LockKind::Job { runtime, number } => runtime.lock(*number)?,
        }
        Ok(LockGuard(self))
    }
}

/// A lock that this worker has, until the value is dropped. No barrier comes in between.
#[derive(Debug)]
#[must_use = "the lock is given back when this is dropped"]
pub struct LockGuard<'a>(&'a Lock);

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        match &self.0.0 {
            LockKind::Process(turn) => turn.give_back(),
            // If a rank is gone, the next call says so.
            LockKind::Job { runtime, number } => drop(runtime.unlock(*number)),
        }
    }
}

/// A value that all workers share and one at a time uses.
#[derive(Clone)]
pub struct Mutex<T> {
    lock: Lock,
    /// One element.
    value: Shared<T>,
    /// Keeps private memory.
    _keep: KeepAlive,
}

impl<T: Element> Mutex<T> {
    /// The first element of this memory, behind a lock.
    ///
    /// # Safety
    /// Nobody else makes slices of the memory, which is there for as long as `keep` or, without it, the
    /// process.
    ///
    /// # Panics
    /// If it has no element.
    pub(crate) unsafe fn new(lock: Lock, value: Shared<T>, keep: KeepAlive) -> Self {
        assert!(!value.is_empty(), "a mutex has a value");
        Self { lock, value, _keep: keep }
    }

    /// Waits until no other worker has the value, and gives access to it.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn lock(&self) -> Result<Guard<'_, T>> {
        let held = self.lock.hold()?;
        // SAFETY: who does not have the lock makes no reference to the value, and the reference lives as long
        // as the guard, which has the lock.
        let value = unsafe { &mut self.value.get_mut(0..1)[0] };
        Ok(Guard { value, _held: held })
    }
}

/// Access to the value of a [`Mutex`], until it is dropped.
#[derive(Debug)]
#[must_use = "the value is given back when this is dropped"]
pub struct Guard<'a, T: ?Sized> {
    value: &'a mut T,
    _held: LockGuard<'a>,
}

impl<'a, T: ?Sized> Guard<'a, T> {
    /// Access to a value that who has the lock alone uses.
    pub(crate) fn new(value: &'a mut T, held: LockGuard<'a>) -> Self {
        Self { value, _held: held }
    }
}

impl<T: ?Sized> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
    }
}

impl<T: ?Sized> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crew::tests::within_a_minute;
    use crate::crew::{Sequential, run_crew};
    use crate::memory::{Heap, Memory};

    #[test]
    fn nothing_that_threads_add_under_a_lock_is_lost() {
        within_a_minute(|| {
            let sum = Heap.mutex::<usize>().unwrap();
            run_crew(&Sequential, 4, false, |_| {
                for _ in 0..1000 {
                    let mut sum = sum.lock()?;
                    let seen = *sum;
                    std::thread::yield_now();
                    *sum = seen + 1;
                }
                Ok(())
            })
            .unwrap();
            assert_eq!(*sum.lock().unwrap(), 4000);
        });
    }

    #[test]
    fn a_lock_is_free_again_when_its_holder_panicked() {
        within_a_minute(|| {
            let lock = Lock::of_process();
            let other = lock.clone();
            let panicked = std::thread::spawn(move || {
                let _held = other.hold();
                panic!("a bug under a lock");
            });
            assert!(panicked.join().is_err());
            drop(lock.hold().unwrap());
        });
    }
}
