//! Barriers of some threads, and events that can be reset: each is made of a lock and of what lets others go
//! on.

use crate::api::dsm::Dsm;
use crate::api::mutex::DsmMutex;
use crate::api::session::Session;
use crate::api::signals::{Condvar, Flag};
use crate::error::{Error, Result};

/// A number of threads that meet again and again, known to all ranks. A handle: copying it makes no other
/// group.
///
/// ```no_run
/// # fn main() -> scash::Result<()> {
/// # let mut dsm = scash::Dsm::init()?;
/// let pair = dsm.group(2)?;
/// if dsm.rank() < 2 {
///     pair.barrier(&dsm)?; // each sees what both wrote before
/// }
/// # dsm.finalize()
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// How many threads have come, in all meetings.
    come: DsmMutex<u64>,
    /// How many meetings are over.
    met: Flag,
    threads: u64,
}

impl Group {
    /// Waits until as many threads have come as the group is of, this one among them. From then on each of
    /// their ranks sees what all of them had written before. Any threads may come; those of one meeting are
    /// the next that do. While a thread waits, its rank does not come to a collective function. No memory
    /// barrier of all ranks, and no place for a checkpoint.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn barrier(&self, session: &(impl Session + ?Sized)) -> Result<()> {
        let before = {
            let mut come = self.come.lock(session)?;
            let before = *come;
            *come += 1;
            before
        };
        let meeting = before / self.threads + 1;
        // Whoever comes last has had the lock after all others, and so has seen what they wrote.
        if (before + 1).is_multiple_of(self.threads) {
            self.met.raise(session, meeting)
        } else {
            self.met.wait(session, meeting)
        }
    }
}

/// Something that has happened or not, and can happen again, known to all ranks. A handle: copying it makes
/// no other event.
///
/// A thread that [`wait`](Self::wait)s sees what was written, by any rank, before the event was
/// [`set`](Self::set).
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Twice the times that it was set, and 1 more while it is.
    state: DsmMutex<u64>,
    changed: Condvar,
}

impl Event {
    /// It happens: whoever waits goes on.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn set(&self, session: &(impl Session + ?Sized)) -> Result<()> {
        let mut state = self.state.lock(session)?;
        *state = ((*state >> 1) + 1) << 1 | 1;
        self.changed.broadcast(session)
    }

    /// It has not happened: whoever comes to wait from now on waits until it is set again.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn reset(&self, session: &(impl Session + ?Sized)) -> Result<()> {
        *self.state.lock(session)? &= !1;
        Ok(())
    }

    /// Waits until it has happened. A thread that waits goes on even if the event is reset right behind.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn wait(&self, session: &(impl Session + ?Sized)) -> Result<()> {
        let state = self.state.lock(session)?;
        let before = *state >> 1;
        self.changed.wait_while(state, |now| *now & 1 == 0 && *now >> 1 == before).map(drop)
    }
}

impl Dsm {
    /// A group of so many threads, on whichever ranks. Collective, with the same number at all ranks.
    ///
    /// # Errors
    /// `threads` is 0; as for [`mutex`](Self::mutex).
    pub fn group(&mut self, threads: usize) -> Result<Group> {
        if threads == 0 {
            return Err(Error::Argument("a group of 0 threads: give it at least one".to_owned()));
        }
        Ok(Group { come: self.mutex(0)?, met: self.flags(1)?[0], threads: threads as u64 })
    }

    /// An event that has not happened. Collective.
    pub fn event(&mut self) -> Result<Event> {
        Ok(Event { state: self.mutex(0)?, changed: self.condvar()? })
    }

    /// Destroys a group at which no thread is. Collective. No copy of the handle can be used any more.
    ///
    /// # Errors
    /// As for [`destroy`](Self::destroy).
    pub fn destroy_group(&mut self, group: Group) -> Result<()> {
        self.destroy(&[group.met])?;
        self.destroy(&[group.come])
    }

    /// Destroys an event for which no thread waits. Collective. No copy of the handle can be used any more.
    ///
    /// # Errors
    /// As for [`destroy`](Self::destroy).
    pub fn destroy_event(&mut self, event: Event) -> Result<()> {
        self.destroy(&[event.changed])?;
        self.destroy(&[event.state])
    }
}
