//! Hosts whose ranks cannot reach each other, while the launcher reaches them all: ranks accuse each other
//! then. The host that has most cut links is left out, as if it were lost.

use super::Job;
use super::survive::Survival;
use scash_ft::{Base, Epoch};
use scash_join::boot::{Accusation, Layout};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long other ranks may take to say the same: their systems do not give a link up at the same time.
const TOGETHER: Duration = Duration::from_secs(1);

/// Links that ranks say are cut.
#[derive(Debug, Default)]
pub(super) struct Accusations {
    /// Pairs of hosts, the lower number first.
    links: BTreeSet<(u32, u32)>,
    /// What was said first, and when.
    first: Option<(Accusation, Instant)>,
    /// When one is judged.
    judged_at: Option<Instant>,
}

impl Accusations {
    /// A rank accuses another one, of another host.
    fn add(&mut self, accusation: Accusation, layout: &Layout, now: Instant) {
        let [one, other] = [accusation.rank, accusation.other].map(|rank| layout.host_of(rank));
        self.links.insert((one.min(other), one.max(other)));
        self.first.get_or_insert((accusation, now));
        self.judged_at.get_or_insert(now + TOGETHER);
    }

    /// When the host is chosen that is left out.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.judged_at
    }

    /// The host that is left out, and for what, if it is time. `heard`: when the launcher has heard a host
    /// last. One that it has not heard since ranks missed others may be down, so that it would be the others
    /// that are left out: it is waited for, until it says something, or is missed for its silence.
    fn judge(
        &mut self,
        layout: &Layout,
        heard: impl Fn(u32) -> Instant,
        now: Instant,
    ) -> Option<(u32, Accusation)> {
        self.judged_at.filter(|at| now >= *at)?;
        let (_, since) = self.first.as_ref()?;
        if self.links.iter().any(|(one, other)| [one, other].iter().any(|host| heard(**host) < *since)) {
            self.judged_at = Some(now + TOGETHER);
            return None;
        }
        let worst = self.worst(layout)?;
        let (first, _) = std::mem::take(self).first?;
        Some((worst, first))
    }

    /// The host that has most cut links; among several, that which has fewest ranks, and then the last one.
    fn worst(&self, layout: &Layout) -> Option<u32> {
        let count =
            |host: u32| self.links.iter().filter(|(one, other)| [*one, *other].contains(&host)).count();
        let accused = (0..layout.hosts()).filter(|host| count(*host) > 0);
        accused.max_by_key(|host| (count(*host), std::cmp::Reverse(layout.ranks_of(*host).count()), *host))
    }
}

impl Job<'_> {
    /// Takes what ranks say who cannot reach others.
    pub(super) fn hear_accusations(&mut self) {
        while let Some(accusation) = self.launcher_relay.accusation() {
            let is_within = self.layout.is_on(accusation.other, self.layout.host_of(accusation.rank));
            let may_go_on = self.supervisor.may_go_on();
            match &mut self.survival {
                Some(Survival { accusations, recovery, .. }) if may_go_on && !is_within => {
                    // What is said while ranks end is of an incarnation that is over.
                    if !recovery.is_ending() {
                        accusations.add(accusation, &self.layout, Instant::now());
                    }
                }
                _ => self.launcher_relay.believe(&accusation),
            }
        }
    }

    /// Leaves the host out that has most cut links, when all have had the time to say so.
    pub(super) fn judge_accusations(&mut self) {
        let may_go_on = self.supervisor.may_go_on();
        let Some(survival) = &mut self.survival else { return };
        let had = survival.newest_had();
        let Survival { accusations, recovery, recall, returns, rule, .. } = survival;
        if recovery.is_ending() || recall.is_under_way() || !may_go_on {
            *accusations = Accusations::default(); // that ended the ranks that could not reach each other
            return;
        }
        let now = Instant::now();
        let is_missed_soon = self.hosts.heartbeat.is_some_and(|heartbeat| heartbeat.limit <= TOGETHER);
        let heard = |host: u32| {
            let link = &self.links[host as usize];
            // Its system has answered since, or it would have been missed.
            if is_missed_soon && link.probe.is_some() && link.was_probed { now } else { link.heard }
        };
        let Some((host, first)) = accusations.judge(&self.layout, heard, now) else { return };
        // Hosts that do not reach each other when a job begins are not set up to, which the user must know.
        if first.is_joining && recovery.base() == Base::default() && had == Epoch(0) {
            return self.launcher_relay.believe(&first);
        }
        let why = first.why;
        returns.leave_out(host);
        let then = if rule.count > 0 {
            "; when the network is mended, `scash rejoin` takes it in again"
        } else {
            ""
        };
        let why = format!("its agent answers, and ranks of other hosts cannot reach its ranks: {why}{then}");
        self.lose(host, &why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accusations(layout: &Layout, pairs: &[(u32, u32)], now: Instant) -> Accusations {
        let mut accusations = Accusations::default();
        for (rank, other) in pairs {
            let (rank, other, why) = (*rank, *other, "it is cut".to_owned());
            accusations.add(Accusation { rank, other, why, is_joining: false }, layout, now);
        }
        assert_eq!(accusations.deadline(), Some(now + TOGETHER));
        accusations
    }

    /// Who is left out, if all hosts have said something since.
    fn worst(layout: &Layout, pairs: &[(u32, u32)]) -> Option<u32> {
        let now = Instant::now();
        let mut accusations = accusations(layout, pairs, now);
        assert_eq!(accusations.judge(layout, |_| now, now), None, "others may say more");
        let judged = accusations.judge(layout, |_| now, now + TOGETHER);
        assert_eq!(accusations.deadline(), None);
        judged.map(|(host, _)| host)
    }

    #[test]
    fn the_host_that_most_others_cannot_reach_is_left_out() {
        let layout = Layout::new(&[1, 3, 1, 1]).unwrap();
        // Host 1 has lost its links to 0 and 2, whoever says so, and how often.
        assert_eq!(worst(&layout, &[(0, 1), (0, 2), (4, 3)]), Some(1));
        assert_eq!(worst(&layout, &[(1, 0), (2, 4)]), Some(1));
    }

    #[test]
    fn of_two_hosts_that_cannot_reach_each_other_the_one_with_fewer_ranks_is_left_out_and_else_the_last() {
        let layout = Layout::new(&[1, 3, 1, 1]).unwrap();
        assert_eq!(worst(&layout, &[(1, 0), (0, 1)]), Some(0));
        assert_eq!(worst(&layout, &[(0, 5)]), Some(3));
    }

    #[test]
    fn nobody_is_left_out_while_an_accused_host_may_be_down() {
        let layout = Layout::new(&[1, 2, 1]).unwrap();
        let now = Instant::now();
        let mut accusations = accusations(&layout, &[(0, 1)], now);
        let before = now.checked_sub(Duration::from_millis(1)).unwrap();
        // Host 1 has said nothing since: it is not host 0, which has fewer ranks, that is left out.
        let heard = |host: u32| if host == 1 { before } else { now };
        let later = now + TOGETHER;
        assert_eq!(accusations.judge(&layout, heard, later), None);
        assert_eq!(accusations.deadline(), Some(later + TOGETHER));
        // Host 2 is not accused, and nobody waits for its word.
        let heard = |host: u32| if host == 2 { before } else { now };
        let judged = accusations.judge(&layout, heard, later + TOGETHER);
        assert_eq!(judged.map(|(host, first)| (host, first.why)), Some((0, "it is cut".to_owned())));
    }
}
