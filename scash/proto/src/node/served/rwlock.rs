//! A reader–writer lock.
//!
//! Readers in a row share it. Whoever comes behind somebody who waits, waits as well: so neither readers nor
//! writers are ever passed over.

use super::Waiter;
use crate::Rank;
use std::collections::{BTreeMap, VecDeque};

/// See [the module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct RwLock {
    /// Readers by rank.
    readers: BTreeMap<Rank, u32>,
    writer: Option<Rank>,
    /// Who waits, and whether to write.
    queue: VecDeque<(bool, Waiter)>,
}

impl RwLock {
    /// Somebody wants to read or write.
    pub(super) fn ask(&mut self, writes: bool, waiter: Waiter, go: &mut Vec<Waiter>) {
        self.queue.push_back((writes, waiter));
        self.let_go_on(go);
    }

    /// Somebody has read. `None` if that rank was not reading.
    pub(super) fn has_read(&mut self, rank: Rank, go: &mut Vec<Waiter>) -> Option<()> {
        let readers = self.readers.get_mut(&rank)?;
        *readers -= 1;
        if *readers == 0 {
            self.readers.remove(&rank);
        }
        self.let_go_on(go);
        Some(())
    }

    /// Somebody has written. `None` if that rank was not writing.
    pub(super) fn has_written(&mut self, rank: Rank, go: &mut Vec<Waiter>) -> Option<()> {
        self.writer.take_if(|writer| *writer == rank)?;
        self.let_go_on(go);
        Some(())
    }

    /// The first who waits.
    pub(super) fn first(&self) -> Option<&Waiter> {
        self.queue.front().map(|(_, waiter)| waiter)
    }

    /// As many from the head of the queue as can have it together.
    fn let_go_on(&mut self, go: &mut Vec<Waiter>) {
        while let Some(&(writes, Waiter { place, .. })) = self.queue.front() {
            let free = self.writer.is_none() && (!writes || self.readers.is_empty());
            if !free {
                return;
            }
            if writes {
                self.writer = Some(place.rank);
            } else {
                *self.readers.entry(place.rank).or_default() += 1;
            }
            go.extend(self.queue.pop_front().map(|(_, waiter)| waiter));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ranks, waiter};
    use super::*;

    fn ask(lock: &mut RwLock, rank: u32, writes: bool) -> Vec<u32> {
        let mut go = Vec::new();
        lock.ask(writes, waiter(rank), &mut go);
        ranks(&go)
    }

    fn done(lock: &mut RwLock, rank: u32, wrote: bool) -> Option<Vec<u32>> {
        let mut go = Vec::new();
        let done =
            if wrote { lock.has_written(Rank(rank), &mut go) } else { lock.has_read(Rank(rank), &mut go) };
        done.map(|()| ranks(&go))
    }

    #[test]
    fn readers_in_a_row_share_and_a_writer_is_alone() {
        let mut lock = RwLock::default();
        assert_eq!(ask(&mut lock, 1, false), [1]);
        assert_eq!(ask(&mut lock, 2, false), [2]);
        assert_eq!(ask(&mut lock, 3, true), []);
        assert_eq!(done(&mut lock, 1, false), Some(vec![]));
        assert_eq!(done(&mut lock, 2, false), Some(vec![3]));
        assert_eq!(ask(&mut lock, 4, true), []);
        assert_eq!(ask(&mut lock, 5, false), []);
        assert_eq!(done(&mut lock, 3, true), Some(vec![4]));
        assert_eq!(done(&mut lock, 4, true), Some(vec![5]));
    }

    #[test]
    fn a_reader_that_comes_after_a_writer_waits_for_it() {
        let mut lock = RwLock::default();
        assert_eq!(ask(&mut lock, 1, false), [1]);
        assert_eq!(ask(&mut lock, 2, true), []);
        for reader in 3..6 {
            assert_eq!(ask(&mut lock, reader, false), [], "reader {reader} passes a writer over");
        }
        assert_eq!(ask(&mut lock, 6, true), []);
        assert_eq!(done(&mut lock, 1, false), Some(vec![2]));
        assert_eq!(done(&mut lock, 2, true), Some(vec![3, 4, 5]));
    }

    #[test]
    fn several_threads_of_a_rank_read() {
        let mut lock = RwLock::default();
        assert_eq!(ask(&mut lock, 1, false), [1]);
        assert_eq!(ask(&mut lock, 1, false), [1]);
        assert_eq!(ask(&mut lock, 2, true), []);
        assert_eq!(done(&mut lock, 1, false), Some(vec![]));
        assert_eq!(done(&mut lock, 1, false), Some(vec![2]));
    }

    #[test]
    fn a_writer_waits_for_readers_of_its_own_rank() {
        let mut lock = RwLock::default();
        assert_eq!(ask(&mut lock, 1, false), [1]);
        assert_eq!(ask(&mut lock, 1, true), [], "another thread of that rank reads");
        assert_eq!(done(&mut lock, 1, false), Some(vec![1]));
        assert_eq!(ask(&mut lock, 1, true), [], "another thread of that rank writes");
        assert_eq!(ask(&mut lock, 1, false), []);
        assert_eq!(done(&mut lock, 1, true), Some(vec![1]));
        assert_eq!(done(&mut lock, 1, true), Some(vec![1]));
    }

    #[test]
    fn who_does_not_have_it_cannot_give_it_back() {
        let mut lock = RwLock::default();
        assert_eq!(done(&mut lock, 1, false), None);
        assert_eq!(ask(&mut lock, 1, false), [1]);
        assert_eq!(done(&mut lock, 1, true), None);
        assert_eq!(done(&mut lock, 2, false), None);
        assert_eq!(done(&mut lock, 1, false), Some(vec![]));
        assert_eq!(ask(&mut lock, 2, true), [2]);
        assert_eq!(done(&mut lock, 1, true), None);
    }
}
