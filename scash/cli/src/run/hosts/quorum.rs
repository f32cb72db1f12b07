//! Which hosts have a say in who goes on with a job that has a second launcher (`--standby`), as a value.
//!
//! A launcher goes on by the word of more than half of them. At first all hosts have a say. One that stays
//! lost, as when it was drained and switched off, would count against the launcher for good: so it loses its
//! say after [`LONG`], and has it again when it is back. Hosts that are lost together, as when a network
//! splits, all count until then.
//!
//! The two launchers need not know of that at the same time. Of two sets of which one has a host more, more
//! than half of the one and more than half of the other always have a host in common. So the launcher changes
//! the set by one host at a time, goes by the new one at once, and makes the next change when the second
//! launcher has said that it knows of this one. (Raft changes its members in this way: Ongaro, *Consensus:
//! Bridging Theory and Practice*, section 4.1.)

use super::BEAT;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long a host has its say that is lost. (Those that are lost together may be missed a while apart, by
/// their pipes.)
pub(super) const LONG: Duration = BEAT.saturating_mul(3);

/// A host loses its say, or has it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Out(u32),
    In(u32),
}

/// See [the module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Quorum {
    /// Hosts that have a say.
    members: BTreeSet<u32>,
    /// Those of them that are lost, and since when.
    lost: BTreeMap<u32, Instant>,
    /// Whether there are no changes.
    is_fixed: bool,
    /// Whether the second launcher has not said that it knows of the last change.
    is_unconfirmed: bool,
}

impl Quorum {
    /// All of so many hosts.
    pub(super) fn of_all(hosts: usize) -> Quorum {
        let members = (0..u32::try_from(hosts).unwrap_or(u32::MAX)).collect();
        Quorum { members, lost: BTreeMap::new(), is_fixed: false, is_unconfirmed: false }
    }

    /// These hosts, for good: the second launcher that has gone on by their word may do so once more, beside
    /// another one that waits since.
    pub(super) fn fixed(members: &[u32]) -> Quorum {
        Quorum { members: members.iter().copied().collect(), is_fixed: true, ..Quorum::of_all(0) }
    }

    /// These hosts, unless it is fixed.
    pub(super) fn begin_with(&mut self, members: &[u32]) {
        if !self.is_fixed {
            self.members = members.iter().copied().collect();
        }
    }

    /// Hosts that have a say.
    pub(super) fn members(&self) -> Vec<u32> {
        self.members.iter().copied().collect()
    }

    /// How many hosts have a say, and how many of them are such.
    pub(super) fn count(&self, is_such: impl Fn(u32) -> bool) -> (usize, usize) {
        (self.members.len(), self.members.iter().filter(|host| is_such(**host)).count())
    }

    /// Whether more than half of those that have a say are such.
    pub(super) fn is_decided_by(&self, is_such: impl Fn(u32) -> bool) -> bool {
        let (all, such) = self.count(is_such);
        2 * such > all
    }

    /// Whether a launcher may begin with such hosts: any, unless it is the second one, which does so by the
    /// word of more than half.
    pub(super) fn lets_begin_with(&self, are_such: impl Fn(u32) -> bool) -> bool {
        !self.is_fixed || self.is_decided_by(are_such)
    }

    /// Of so many hosts, those that have no say.
    pub(super) fn out(&self, hosts: usize) -> Vec<u32> {
        Quorum::of_all(hosts).members.difference(&self.members).copied().collect()
    }

    /// In the launcher, which looks at it all the time: makes a change, if hosts have been lost for long or
    /// are back, the launcher may go on, and the second one knows of the change before.
    pub(super) fn next_change(
        &mut self,
        hosts: u32,
        is_there: impl Fn(u32) -> bool,
        now: Instant,
    ) -> Option<Change> {
        self.lost.retain(|host, _| !is_there(*host));
        for host in self.members.iter().filter(|host| !is_there(**host)) {
            self.lost.entry(*host).or_insert(now);
        }
        if self.is_fixed || self.is_unconfirmed || !self.is_decided_by(&is_there) {
            return None;
        }
        let is_back = |host: &u32| is_there(*host) && !self.members.contains(host);
        let is_out = |(host, since): (&u32, &Instant)| (now >= *since + LONG).then_some(Change::Out(*host));
        let back = (0..hosts).find(is_back).map(Change::In);
        let change = back.or_else(|| self.lost.iter().find_map(is_out))?;
        self.make(change);
        self.is_unconfirmed = true;
        Some(change)
    }

    /// In the launcher: the second one knows of the change.
    pub(super) fn confirmed(&mut self) {
        self.is_unconfirmed = false;
    }

    /// In the second launcher: the first one has made a change.
    pub(super) fn make(&mut self, change: Change) {
        match change {
            Change::Out(host) => self.members.remove(&host),
            Change::In(host) => self.members.insert(host),
        };
        self.lost.retain(|host, _| self.members.contains(host));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn more_than_half_of_the_hosts_decide() {
        let decide = |all: usize, such: u32| Quorum::of_all(all).is_decided_by(|host| host < such);
        assert!(!decide(2, 1) && !decide(3, 1) && !decide(4, 2));
        assert!(decide(3, 2) && decide(4, 3) && decide(5, 3));
    }

    #[test]
    fn hosts_that_are_switched_off_one_after_the_other_do_not_end_the_job() {
        let (mut quorum, start) = (Quorum::of_all(4), Instant::now());
        let mut change = |left: u32, after: u32, is_confirmed: bool| {
            if is_confirmed {
                quorum.confirmed();
            }
            assert!(quorum.is_decided_by(|host| host < left), "{left} of {quorum:?}");
            quorum.next_change(4, |host| host < left, start + after * LONG)
        };
        assert_eq!([change(3, 0, false), change(3, 1, false)], [None, Some(Change::Out(3))]);
        assert_eq!(change(2, 1, false), None, "it may be back at once");
        assert_eq!(change(2, 2, false), None, "the other launcher may not know of the one before");
        assert_eq!([change(2, 2, true), change(2, 3, false)], [Some(Change::Out(2)), None]);
        assert!(!quorum.is_decided_by(|host| host < 1), "of two hosts neither knows");
        quorum.confirmed();
        assert_eq!(quorum.next_change(4, |host| host < 1, start + 4 * LONG), None);
        assert_eq!(quorum.out(4), [2, 3]);
        assert_eq!(quorum.next_change(4, |_| true, start + 4 * LONG), Some(Change::In(2)));
        assert!(quorum.lets_begin_with(|_| false), "the user wants it so");
        let mut fixed = Quorum::fixed(&[0, 1]);
        assert!(!fixed.lets_begin_with(|host| host == 0) && fixed.lets_begin_with(|host| host < 2));
        assert_eq!(fixed.next_change(4, |_| true, start), None);
        fixed.begin_with(&[0, 1, 2]);
        assert_eq!(fixed.members(), [0, 1]);
    }

    #[test]
    fn hosts_that_are_lost_together_count_together() {
        let (mut quorum, now) = (Quorum::of_all(4), Instant::now());
        quorum.next_change(4, |host| host < 3, now);
        assert_eq!(quorum.next_change(4, |host| host < 2, now + LONG / 2), None);
        assert!(!quorum.is_decided_by(|host| host < 2));
        assert_eq!(quorum.next_change(4, |host| host < 2, now + LONG), None);
        assert_eq!(quorum.next_change(4, |host| host > 0, now + LONG), None, "another one, since now");
    }

    proptest! {
        /// Whichever hosts are lost and come back, and however late the second launcher hears of it: they
        /// never both have more than half of what they go by.
        #[test]
        fn no_two_launchers_go_on(
            hosts in 3u32..8,
            turns in prop::collection::vec((any::<u8>(), 0u32..3), 0..80),
            split in any::<u8>()
        ) {
            let mut first = Quorum::of_all(hosts as usize);
            let mut second = first.clone();
            let (mut told, mut now) = (None, Instant::now());
            for (there, event) in turns {
                let is_there = |host: u32| there >> host & 1 == 1;
                match event {
                    0 => {
                        now += LONG;
                        told = first.next_change(hosts, is_there, now).or(told);
                    }
                    1 => if let Some(change) = told {
                        second.make(change);
                    },
                    _ => if told.take().is_some_and(|change| { second.make(change); true }) {
                        first.confirmed();
                    },
                }
                let is_here = |host: u32| split >> host & 1 == 1;
                prop_assert!(!(first.is_decided_by(is_here) && second.is_decided_by(|host| !is_here(host))));
            }
        }
    }
}
