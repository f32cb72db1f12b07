//! Semaphores, condition variables and flags in the typed interface.

use crate::api::mutex::{HeldLock, MutexGuard};
use crate::api::session::{Session, job};
use crate::error::Result;

/// A counting semaphore, known to all ranks by its number. A handle: copying it makes no other semaphore.
///
/// A thread that [`wait`](Self::wait)s sees all that was written, by any rank, before the
/// [`post`](Self::post) that lets it go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Semaphore(pub(crate) u32);

impl Semaphore {
    /// Takes one from the count: waits until there is one. Those who wait go on in the order in which they
    /// came.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn wait(&self, session: &(impl Session + ?Sized)) -> Result<()> {
        job(session).semaphore_wait(self.0)
    }

    /// Adds one to the count. Waits for nobody.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn post(&self, session: &(impl Session + ?Sized)) -> Result<()> {
        self.post_many(session, 1)
    }

    /// Adds so many to the count.
    ///
    /// # Errors
    /// `count` is 0; a rank is gone.
    pub fn post_many(&self, session: &(impl Session + ?Sized), count: u32) -> Result<()> {
        job(session).semaphore_post(self.0, count)
    }
}

/// A condition variable, known to all ranks by its number. A handle: copying it makes no other one.
///
/// ```no_run
/// # fn main() -> scash::Result<()> {
/// # let mut dsm = scash::Dsm::init()?;
/// let turn = dsm.mutex(0usize)?;
/// let changed = dsm.condvar()?;
/// let mut now = changed.wait_while(turn.lock(&dsm)?, |now| *now != dsm.rank())?;
/// *now += 1; // one rank after the other
/// changed.broadcast(&dsm)?;
/// # drop(now);
/// # dsm.finalize()
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Condvar(pub(crate) u32);

impl Condvar {
    /// Gives the value back, waits for a signal, and waits for the value again. May also return without a
    /// signal: see whether what was waited for is so.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> Result<MutexGuard<'a, T>> {
        guard.held().wait(self.0)?;
        Ok(guard)
    }

    /// Waits, as often as it takes, until something is so no longer.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut so: impl FnMut(&mut T) -> bool,
    ) -> Result<MutexGuard<'a, T>> {
        while so(&mut guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// As [`wait`](Self::wait), with a lock that protects no one value.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn wait_held<'a>(&self, held: HeldLock<'a>) -> Result<HeldLock<'a>> {
        held.wait(self.0)?;
        Ok(held)
    }

    /// Lets one go on: of those that wait, the one who came first. If nobody waits, nothing happens.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn signal(&self, session: &(impl Session + ?Sized)) -> Result<()> {
        job(session).condition_signal(self.0)
    }

    /// Lets all go on that wait.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn broadcast(&self, session: &(impl Session + ?Sized)) -> Result<()> {
        job(session).condition_broadcast(self.0)
    }
}

/// A number that only grows, known to all ranks; 0 in the beginning. A handle: copying it makes no other
/// flag.
///
/// A thread that [`wait`](Self::wait)s for a number sees all that was written, by any rank, before the flag
/// was [raised](Self::raise) so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Flag(pub(crate) u32);

impl Flag {
    /// Waits until the number is at least so large.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn wait(&self, session: &(impl Session + ?Sized), least: u64) -> Result<()> {
        job(session).flag_wait(self.0, least)
    }

    /// Raises the number. If it is larger already, it stays so. Waits for nobody.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn raise(&self, session: &(impl Session + ?Sized), to: u64) -> Result<()> {
        job(session).flag_raise(self.0, to)
    }
}
