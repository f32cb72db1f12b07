//! Objects of synchronisation: which there are, who manages them, and the messages about them.
//!
//! All have numbers from one series, in the order in which they were made. Rank (number mod ranks) *manages* an object. Locks are [`locks`](super::locks); the others are
//! [served](super::served) by their managers.

use super::conditions::Wait;
use super::{Node, Output, Part, Phase, Violation};
use crate::Rank;
use crate::wire::SyncMessage;
use crate::wire::sync::SyncBody;
use std::collections::BTreeMap;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// Whoever has it is alone.
    Lock,
    /// Whoever has it to write is alone; whoever has it to read shares it with other readers.
    RwLock,
    /// A count, of which who takes one waits until there is one. In the beginning there are so many.
    Semaphore(u32),
    /// Who has a lock gives it back and waits for a signal.
    Condition,
    /// A number that only grows, and that threads wait for.
    Flag,
}

impl ObjectKind {
    /// Two numbers that stand for it, so that ranks can compare theirs.
    pub(super) fn numbers(self) -> [u64; 2] {
        match self {
            ObjectKind::Lock => [0, 0],
            ObjectKind::RwLock => [1, 0],
            ObjectKind::Semaphore(count) => [2, u64::from(count)],
            ObjectKind::Condition => [3, 0],
            ObjectKind::Flag => [4, 0],
        }
    }
}

/// Which objects a job has, and messages about them that are on their way.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// What was made in each call, with the number of the first object of the next one.
    made: Vec<(u32, ObjectKind)>,
    /// Messages of ranks that have left the memory barrier before this one.
    early: Vec<(Rank, SyncMessage)>,
    /// Deeds sent since the last memory barrier, by receiver.
    deeds: BTreeMap<Rank, u32>,
}

impl Objects {
    /// Whether the job has any.
    pub(super) fn any(&self) -> bool {
        !self.made.is_empty()
    }

    fn count(&self) -> u32 {
        self.made.last().map_or(0, |&(end, _)| end)
    }

    /// Makes so many more. Returns the number of the first, or nothing if there are no numbers for them.
    pub(super) fn add(&mut self, kind: ObjectKind, count: u32) -> Option<u32> {
        let first = self.count();
        self.made.push((first.checked_add(count)?, kind));
        Some(first)
    }

    /// What an object is, if there is one of that number.
    pub(super) fn kind(&self, number: u32) -> Option<ObjectKind> {
        let at = self.made.partition_point(|&(end, _)| end <= number);
        self.made.get(at).map(|&(_, kind)| kind)
    }

    /// A deed was sent: the memory barrier waits for its arrival.
    pub(super) fn count_deed(&mut self, to: Rank) {
        *self.deeds.entry(to).or_default() += 1;
    }
}

impl Node {
    pub(super) fn manager(&self, object: u32) -> Rank {
        Rank(object % self.cfg.size)
    }

    /// Number of objects of synchronisation that the job has.
    pub fn objects(&self) -> u32 {
        self.objects.count()
    }

    /// What the object of that number is, if there is one.
    pub fn kind(&self, object: u32) -> Option<ObjectKind> {
        self.objects.kind(object)
    }

    /// Whether this rank has come to a collective call that is not over: objects are not for use then.
    pub fn in_collective_call(&self) -> bool {
        self.phase != Phase::Running
    }

    /// An object that a thread of this rank waits for, if one does: the rank must not come to a collective call then.
    pub fn awaited(&self) -> Option<u32> {
        let lock = self.locks.iter().find(|(_, lock)| lock.is_awaited()).map(|(&number, _)| number);
        let wait = || self.waits.first().map(Wait::condition);
        lock.or_else(|| self.served.awaited()).or_else(wait)
    }

    pub(super) fn tell(&mut self, to: Rank, object: u32, body: SyncBody) {
        self.out.push_back(Output::Sync(to, SyncMessage { epoch: self.interval, object, body }));
    }

    /// Takes a peer's message, or keeps it until the memory barrier is over.
    pub(super) fn sync(&mut self, from: Rank, message: SyncMessage) -> Result<(), Violation> {
        // What came early, and is not taken yet although the memory barrier is over, stays in front of what comes now. During the memory barrier it is not
        // in the way: the barrier may wait for this very message.
        let overdue = self.objects.early.first().is_some_and(|(_, first)| first.epoch == self.interval);
        if self.epoch_of(from, message.epoch)? && !overdue {
            return self.take_sync(from, message);
        }
        self.objects.early.push((from, message));
        Ok(())
    }

    /// After a memory barrier: what came early is taken now.
    pub(super) fn take_early(&mut self) -> Result<(), Violation> {
        let early = std::mem::take(&mut self.objects.early);
        early.into_iter().try_for_each(|(from, message)| self.sync(from, message))
    }

    /// Whether something came early.
    pub(super) fn has_early(&self) -> bool {
        !self.objects.early.is_empty()
    }

    fn take_sync(&mut self, from: Rank, message: SyncMessage) -> Result<(), Violation> {
        let SyncMessage { object, body, .. } = message;
        match self.kind(object).filter(|_| from.0 < self.cfg.size) {
            None => Err(Violation { rank: from, what: "a message about an object that does not exist" }),
            Some(ObjectKind::Lock) => self.lock_message(from, object, body),
            Some(_) => self.served_message(from, object, body),
        }
    }

    /// The deeds that the first meeting must wait for, as items of it.
    pub(super) fn announce_deeds(&mut self) {
        for (to, count) in std::mem::take(&mut self.objects.deeds) {
            self.now.sent(to, count);
        }
    }

    /// A deed has arrived: an item of the first meeting that comes.
    pub(super) fn deed_arrives(&mut self, from: Rank) -> Result<(), Violation> {
        let due = match self.phase {
            Phase::Flushing(part) | Phase::Meeting(part) => part == Part::Flush,
            Phase::Running | Phase::Failed => true,
        };
        if !due {
            return Err(Violation { rank: from, what: "a deed after the meeting that waited for it" });
        }
        self.item_arrives();
        Ok(())
    }

    /// Copies are out of view that must be before a thread goes on.
    pub(super) fn entered_object(&mut self, object: u32, ticket: u32) {
        match self.kind(object) {
            Some(ObjectKind::Lock) => self.entered(object, ticket),
            _ => self.entered_served(object, ticket),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_numbered_in_one_series() {
        let mut objects = Objects::default();
        assert_eq!((objects.any(), objects.kind(0)), (false, None));
        assert_eq!(objects.add(ObjectKind::Lock, 3), Some(0));
        assert_eq!(objects.add(ObjectKind::Semaphore(5), 1), Some(3));
        assert_eq!(objects.add(ObjectKind::Flag, u32::MAX), None);
        assert_eq!(objects.add(ObjectKind::Flag, u32::MAX - 4), Some(4));
        let kinds = [0, 2, 3, 4, u32::MAX - 1, u32::MAX].map(|number| objects.kind(number));
        let [lock, semaphore, flag] =
            [ObjectKind::Lock, ObjectKind::Semaphore(5), ObjectKind::Flag].map(Some);
        assert_eq!(kinds, [lock, lock, semaphore, flag, flag, None]);
    }
}
