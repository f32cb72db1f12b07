//! Objects of synchronisation: which there are, who manages them, and the messages about them.
//!
//! Those that all ranks make together have numbers from one series, in the order in which they were made; a
//! number is never used again. Rank (number mod ranks) *manages* an object. Those that one rank makes have
//! numbers of their own kind ([`own`](super::own)). Locks are [`locks`](super::locks); the others are
//! [served](super::served) by their managers.

use super::maps::cut_out;
use super::own::{LEAST_OWN, OwnNumber};
use super::{MeetingStage, Node, ObjectKind, Output, Phase, Violation};
use crate::Rank;
use crate::wire::SyncMessage;
use crate::wire::sync::SyncBody;
use std::collections::BTreeMap;
use std::ops::Range;

/// Which objects a job has, and messages about them that are on their way.
///
/// **Invariant:** no number is given twice, so that of an object that was destroyed never comes to mean
/// another one.
#[derive(Clone, Debug, Default)]
pub(super) struct Objects {
    /// Runs of objects of a kind that are there, by the number of the first: where each ends.
    runs: BTreeMap<u32, (u32, ObjectKind)>,
    /// Numbers that were given.
    given: u32,
    /// Messages of ranks that have left the memory barrier before this one.
    early: Vec<(Rank, SyncMessage)>,
    /// Signals sent since the last memory barrier, by receiver.
    signals: BTreeMap<Rank, u64>,
}

impl Objects {
    /// Whether the job has, or has had, any. (Who is the home of which page, and what is at home, was kept
    /// accordingly, and stays so.)
    pub(super) fn any(&self) -> bool {
        self.given > 0
    }

    /// Makes so many more, if there are no more than `most` then. Returns the number of the first, or nothing
    /// if there are no numbers for them.
    pub(super) fn add(&mut self, kind: ObjectKind, count: u32, most: u32) -> Option<u32> {
        let first = self.given;
        self.given = first.checked_add(count).filter(|&given| given <= most.min(LEAST_OWN))?;
        if count > 0 {
            self.runs.insert(first, (self.given, kind));
        }
        Some(first)
    }

    /// The object of that number, if there is one: its kind, and the end of its run.
    fn run(&self, number: u32) -> Option<(u32, ObjectKind)> {
        let (_, &run) = self.runs.range(..=number).next_back()?;
        Some(run).filter(|&(end, _)| number < end)
    }

    /// What an object is, if there is one of that number.
    pub(super) fn kind(&self, number: u32) -> Option<ObjectKind> {
        self.run(number).map(|(_, kind)| kind)
    }

    /// Takes these out, as far as they are there.
    pub(super) fn remove(&mut self, objects: Range<u32>) {
        for cut in [objects.start, objects.end] {
            if let Some((end, kind)) = self.run(cut)
                && let Some((_, run)) = self.runs.range_mut(..cut).next_back()
                && run.0 == end
            {
                run.0 = cut;
                self.runs.insert(cut, (end, kind));
            }
        }
        cut_out(&mut self.runs, objects);
    }

    /// Whether a signal was sent whose arrival the next memory barrier waits for.
    pub(super) fn owes_signals(&self) -> bool {
        !self.signals.is_empty()
    }

    /// A signal was sent: the memory barrier waits for its arrival.
    pub(super) fn count_signal(&mut self, to: Rank) {
        *self.signals.entry(to).or_default() += 1;
    }
}

impl Node {
    pub(super) fn manager(&self, object: u32) -> Rank {
        OwnNumber::of(object).map_or(Rank(object % self.cfg.size), |own| own.maker(self.cfg.size))
    }

    /// Number of objects of synchronisation that all ranks have made so far: all have lower numbers.
    pub fn objects(&self) -> u32 {
        self.sync.objects.given
    }

    /// Where the run of objects ends that are of one kind and were made together with this one, if there is
    /// one of that number.
    pub fn run_end(&self, object: u32) -> Option<u32> {
        self.sync.objects.run(object).map(|(end, _)| end)
    }

    /// What the object of that number is, if there is one. One that another rank has made may be no more.
    pub fn kind(&self, object: u32) -> Option<ObjectKind> {
        match OwnNumber::of(object) {
            Some(own) => self.own_kind(own),
            None => self.sync.objects.kind(object),
        }
    }

    /// Whether this rank has come to a collective call that is not over: objects are not for use then.
    pub fn in_collective_call(&self) -> bool {
        self.meetings.phase != Phase::Running
    }

    /// Whether this rank has come to a memory barrier whose epoch is not over.
    pub(super) fn in_memory_barrier(&self) -> bool {
        !matches!(self.meetings.phase, Phase::Running | Phase::Announcing) && !self.is_committing()
    }

    pub(super) fn tell(&mut self, to: Rank, object: u32, body: SyncBody) {
        self.out.push_back(Output::Sync(to, SyncMessage { epoch: self.interval, object, body }));
    }

    /// Takes a peer's message, or keeps it until the memory barrier is over.
    pub(super) fn sync(&mut self, from: Rank, message: SyncMessage) -> Result<(), Violation> {
        // What came early, and is not taken yet although the memory barrier is over, stays in front of what
        // comes now. During the memory barrier it is not in the way: the barrier may wait for this very
        // message.
        let overdue = self.sync.objects.early.first().is_some_and(|(_, first)| first.epoch == self.interval);
        if self.epoch_of(from, message.epoch)? && !overdue && !self.is_committing() {
            return self.take_sync(from, message);
        }
        self.sync.objects.early.push((from, message));
        Ok(())
    }

    /// After a memory barrier: what came early is taken now.
    pub(super) fn take_early(&mut self) -> Result<(), Violation> {
        let early = std::mem::take(&mut self.sync.objects.early);
        early.into_iter().try_for_each(|(from, message)| self.sync(from, message))
    }

    /// Whether something came early.
    pub(super) fn has_early(&self) -> bool {
        !self.sync.objects.early.is_empty()
    }

    fn take_sync(&mut self, from: Rank, message: SyncMessage) -> Result<(), Violation> {
        let SyncMessage { object, body, .. } = message;
        if let SyncBody::Track { pages } = body {
            return self.track_for(from, &pages);
        }
        if matches!(body, SyncBody::Unmade { .. } | SyncBody::Absent { .. }) {
            return self.own_message(from, object, body);
        }
        let known = from.0 < self.cfg.size;
        match self.kind(object).filter(|_| known) {
            None if known && self.has_made(object) => self.about_absent(from, object, body),
            None => Err(Violation { rank: from, what: "a message about an object that does not exist" }),
            Some(_) if matches!(body, SyncBody::Unmake { .. }) => self.own_message(from, object, body),
            Some(ObjectKind::Lock) => self.lock_message(from, object, body),
            Some(_) => self.served_message(from, object, body),
        }
    }

    /// The signals that the first meeting must wait for, as items of it.
    pub(super) fn announce_signals(&mut self) {
        for (to, count) in std::mem::take(&mut self.sync.objects.signals) {
            self.meetings.now.sent(to, count);
        }
    }

    /// A signal has arrived: an item of the first meeting that comes.
    pub(super) fn signal_arrives(&mut self, from: Rank) -> Result<(), Violation> {
        let due = match self.meetings.phase {
            Phase::Flushing(part) | Phase::Meeting(part) => part == MeetingStage::Flush,
            Phase::Running | Phase::Announcing | Phase::Failed => true,
            // Until this rank leaves the call, `sync` keeps what belongs to the next epoch.
            Phase::Staging => false,
        };
        if !due {
            return Err(Violation { rank: from, what: "a signal after the meeting that waited for it" });
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
        assert_eq!(objects.add(ObjectKind::Lock, 3, u32::MAX), Some(0));
        assert_eq!(objects.add(ObjectKind::Semaphore(5), 1, u32::MAX), Some(3));
        assert_eq!(objects.add(ObjectKind::Flag, u32::MAX, u32::MAX), None);
        assert_eq!(objects.add(ObjectKind::Flag, LEAST_OWN - 3, u32::MAX), None);
        assert_eq!(objects.add(ObjectKind::Flag, LEAST_OWN - 4, u32::MAX), Some(4));
        let kinds = [0, 2, 3, 4, LEAST_OWN - 1, LEAST_OWN].map(|number| objects.kind(number));
        let [lock, semaphore, flag] =
            [ObjectKind::Lock, ObjectKind::Semaphore(5), ObjectKind::Flag].map(Some);
        assert_eq!(kinds, [lock, lock, semaphore, flag, flag, None]);
    }

    /// The numbers below 20 that stand for an object.
    fn there(objects: &Objects) -> Vec<u32> {
        (0..20).filter(|&number| objects.kind(number).is_some()).collect()
    }

    #[test]
    fn what_is_removed_is_gone_wherever_it_lies_and_its_numbers_do_not_come_back() {
        let mut objects = Objects::default();
        objects.add(ObjectKind::Lock, 6, u32::MAX);
        objects.add(ObjectKind::Flag, 4, u32::MAX);
        let removals =
            [(2..4, vec![0, 1, 4, 5, 6, 7, 8, 9]), (5..7, vec![0, 1, 4, 7, 8, 9]), (0..9, vec![9])];
        for (range, left) in removals {
            objects.remove(range.clone());
            assert_eq!(there(&objects), left, "after {range:?}");
        }
        assert_eq!((objects.kind(9), objects.runs.len()), (Some(ObjectKind::Flag), 1));
        assert_eq!(objects.add(ObjectKind::Condition, 1, u32::MAX), Some(10));
        objects.remove(9..12);
        assert_eq!((there(&objects), objects.any()), (vec![], true));
    }

    #[test]
    fn a_series_that_is_made_and_removed_again_and_again_takes_no_room() {
        let mut objects = Objects::default();
        let stays = objects.add(ObjectKind::Lock, 1, u32::MAX).unwrap();
        for _ in 0..1000 {
            let first = objects.add(ObjectKind::Semaphore(1), 3, u32::MAX).unwrap();
            objects.remove(first..first + 3);
        }
        assert_eq!((objects.runs.len(), objects.kind(stays)), (1, Some(ObjectKind::Lock)));
    }
}
