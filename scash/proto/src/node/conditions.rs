//! Waiting for a condition, with a lock.
//!
//! A rank that waits gives the lock back only when the condition's manager has said that the wait is queued.
//! Were both on their way together, the lock's next holder could signal before the wait has arrived, and the
//! signal would be lost. Whom a signal lets go on asks for the lock like anybody else. What was written
//! before the signal comes with the lock, so the signal carries nothing.

use super::{Node, Violation};
use crate::Rank;
use crate::wire::sync::Request;

/// A thread of this rank that waits for a condition.
#[derive(Clone, Debug)]
pub(super) struct ConditionWait {
    condition: u32,
    ticket: u32,
    who: u64,
    /// What it had, and will take again.
    lock: u32,
    /// The manager has said that it waits.
    queued: bool,
}

impl ConditionWait {
    /// The thread.
    pub(super) fn who(&self) -> u64 {
        self.who
    }

    /// The number of the lock that it will take again.
    pub(super) fn lock(&self) -> u32 {
        self.lock
    }

    /// The condition's number.
    pub(super) fn condition(&self) -> u32 {
        self.condition
    }
}

impl Node {
    /// A thread that has a lock waits for a condition: [`Acquired`](super::Output::Acquired) for the lock
    /// follows.
    pub(super) fn wait(&mut self, condition: u32, lock: u32, who: u64) -> Result<(), Violation> {
        let ticket = self.sync.served.ticket();
        self.sync.waits.push(ConditionWait { condition, ticket, who, lock, queued: false });
        self.ask_manager(condition, ticket, Request::Wakeup)
    }

    fn find_wait(&self, condition: u32, ticket: u32, queued: bool) -> Option<usize> {
        let sought = (condition, ticket, queued);
        self.sync.waits.iter().position(|w| (w.condition, w.ticket, w.queued) == sought)
    }

    /// A wait is queued at the manager: the lock is given back now.
    pub(super) fn queued(&mut self, from: Rank, condition: u32, ticket: u32) -> Result<(), Violation> {
        let at = self.find_wait(condition, ticket, false);
        let at =
            at.ok_or(Violation { rank: from, what: "a place in a queue that this rank does not ask for" })?;
        let wait = &mut self.sync.waits[at];
        wait.queued = true;
        let lock = wait.lock;
        self.release(lock);
        Ok(())
    }

    /// The condition of a wait that is not queued is no more: the thread has its lock. Returns the lock and
    /// the thread.
    pub(super) fn no_longer_waits(&mut self, condition: u32, ticket: u32) -> Option<(u32, u64)> {
        let at = self.find_wait(condition, ticket, false)?;
        let ConditionWait { lock, who, .. } = self.sync.waits.swap_remove(at);
        Some((lock, who))
    }

    /// A signal came for a thread that waits: it asks for its lock again.
    pub(super) fn woken(&mut self, from: Rank, condition: u32, ticket: u32) -> Result<(), Violation> {
        let at = self.find_wait(condition, ticket, true);
        let at = at.ok_or(Violation { rank: from, what: "a signal that this rank does not wait for" })?;
        let ConditionWait { lock, who, .. } = self.sync.waits.swap_remove(at);
        self.acquire(lock, who, true)
    }
}
