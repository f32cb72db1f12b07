//! Hosts that are out of reach and come back: when they are called again, how long ranks wait for them, and
//! how a host that answers is taken in. It has nothing any more of what it had (but see `latecomers`): it is
//! like a spare host, until its ranks move back to it when a checkpoint has been taken.

use super::Job;
use super::survive::Survival;
use crate::run::hosts::frames::Down;
use crate::run::hosts::heartbeat::HostHealth;
use crate::run::hosts::link::{AgentLink, AgentStage};
use crate::run::replicas::Return;
use scash_join::boot::Layout;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long after its loss a host is called the first time. Each time takes twice as long as the one before,
/// also when a host has come back and is lost again.
const FIRST: Duration = Duration::from_secs(1);
/// What it does not take longer than.
const LONGEST: Duration = Duration::from_secs(60);
/// A host that stays for so long is as good as new.
const PROBATION: Duration = Duration::from_secs(120);
/// How long it is waited for what called a host last.
const MOMENT: Duration = Duration::from_millis(50);
/// How long an agent that is called again may take until it is ready.
const ANSWER: Duration = Duration::from_secs(30);

/// A host that was lost at least once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Absence {
    /// How often it was called since it was last as good as new.
    calls: u32,
    /// When it is called next; `None` while it is called, when it is there, or if nobody calls it.
    next: Option<Instant>,
    /// Until when ranks wait for it.
    waits_until: Option<Instant>,
    /// When it came back.
    back: Option<Instant>,
    /// The user has said that it is to be called, and it is called until it comes.
    is_asked_for: bool,
}

/// Which hosts are called again, and when, as a value.
#[derive(Debug)]
pub(super) struct Returns {
    /// What the user wants.
    wish: Return,
    absent: BTreeMap<u32, Absence>,
    /// Hosts that are called when the user says so, and not before: they would come back at once.
    left_out: BTreeSet<u32>,
}

impl Returns {
    pub(super) fn new(wish: Return) -> Returns {
        Returns { wish, absent: BTreeMap::new(), left_out: BTreeSet::new() }
    }

    /// A host is out of reach. `has_ranks`: so that they could wait for it. Returns for how long they do.
    fn lost(&mut self, host: u32, has_ranks: bool, now: Instant) -> Option<Duration> {
        let absence = self.absent.entry(host).or_default();
        absence.is_asked_for = false;
        if absence.back.take().is_some_and(|back| now >= back + PROBATION) {
            absence.calls = 0;
        }
        let is_called = self.wish.calls && !self.left_out.contains(&host);
        absence.next = is_called.then(|| now + pause(absence.calls));
        let wait = self.wish.wait_for.filter(|_| has_ranks && !self.left_out.contains(&host));
        absence.waits_until = wait.map(|wait| now + wait);
        wait
    }

    /// Whether the user has ranks wait for their hosts.
    pub(super) fn have_ranks_wait(&self) -> bool {
        self.wish.wait_for.is_some()
    }

    /// A host will be lost that is not called until the user wants that.
    pub(super) fn leave_out(&mut self, host: u32) {
        self.left_out.insert(host);
    }

    /// Those that are to be called now.
    fn due(&self, now: Instant) -> Vec<u32> {
        let is_due = |absence: &Absence| absence.next.is_some_and(|next| now >= next);
        self.absent.iter().filter(|(_, absence)| is_due(absence)).map(|(host, _)| *host).collect()
    }

    /// A host is called.
    fn called(&mut self, host: u32) {
        let absence = self.absent.entry(host).or_default();
        absence.next = None;
        absence.calls = absence.calls.saturating_add(1);
    }

    /// It has not come: it is called again later.
    fn failed(&mut self, host: u32, now: Instant) {
        let absence = self.absent.entry(host).or_default();
        let is_called = self.wish.calls || absence.is_asked_for;
        absence.next = is_called.then(|| now + pause(absence.calls));
    }

    /// It is called in a moment: what called it last may not be gone yet.
    pub(super) fn called_a_moment_later(&mut self, host: u32, now: Instant) {
        self.absent.entry(host).or_default().next = Some(now + MOMENT);
    }

    /// The user wants it to be called now.
    fn asked(&mut self, host: u32, now: Instant) {
        self.left_out.remove(&host);
        let absence = self.absent.entry(host).or_default();
        (absence.next, absence.is_asked_for) = (Some(now), true);
    }

    /// It is there again.
    fn returned(&mut self, host: u32, now: Instant) {
        let absence = self.absent.entry(host).or_default();
        (absence.next, absence.waits_until, absence.back) = (None, None, Some(now));
        absence.is_asked_for = false;
    }

    /// Whether ranks wait for some host.
    pub(super) fn are_waited_for(&self) -> bool {
        self.absent.values().any(|absence| absence.waits_until.is_some())
    }

    /// Hosts that ranks have waited for as long as they should.
    fn given_up(&mut self, now: Instant) -> Vec<u32> {
        let is_over = |absence: &mut Absence| absence.waits_until.take_if(|until| now >= *until).is_some();
        self.absent.iter_mut().filter_map(|(host, absence)| is_over(absence).then_some(*host)).collect()
    }

    /// When something of this is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.absent.values().flat_map(|absence| [absence.next, absence.waits_until]).flatten().min()
    }

    /// When a host is called next, if it is.
    pub(super) fn next_call(&self, host: u32) -> Option<Instant> {
        self.absent.get(&host)?.next
    }
}

/// How long until a host is called again that was called so often.
fn pause(calls: u32) -> Duration {
    FIRST.saturating_mul(1 << calls.min(16)).min(LONGEST)
}

impl Job<'_> {
    /// A host is out of reach whose ranks may come back: it may, too. Returns whether they wait for that.
    pub(super) fn expect(&mut self, host: u32) -> bool {
        let has_ranks = self.layout.first_of(host).is_some();
        let Some(survival) = &mut self.survival else { return false };
        survival.kept[host as usize] = 0;
        let wait = survival.returns.lost(host, has_ranks, Instant::now());
        if let Some(wait) = wait {
            let name = &self.links[host as usize].name;
            crate::say(&format!("ranks wait until host {name} is back, for up to {} s", wait.as_secs_f64()));
        }
        wait.is_some()
    }

    /// Whether a host is called that was lost before, and has not come back.
    pub(super) fn is_returning(&self, host: u32) -> bool {
        let stage = self.links[host as usize].stage;
        self.start_by.is_none()
            && matches!(stage, AgentStage::Calling | AgentStage::Preparing | AgentStage::Ready)
    }

    /// Does what is due: calls hosts, takes in those that are ready, and has ranks wait no longer.
    pub(super) fn look_for_lost_hosts(&mut self) {
        let (now, may_go_on) = (Instant::now(), self.supervisor.may_go_on());
        let Some(survival) = &mut self.survival else { return };
        for host in survival.returns.given_up(now) {
            let name = &self.links[host as usize].name;
            crate::say(&format!("host {name} is not back: its ranks go on elsewhere"));
        }
        if survival.is_finished || !may_go_on {
            return;
        }
        for host in survival.returns.due(now) {
            let link = &self.links[host as usize];
            if link.stage == AgentStage::Gone && link.exit.is_some() && !self.may_have_what_is_needed(host) {
                self.call_again(host);
            } else if let Some(survival) = &mut self.survival {
                survival.returns.called_a_moment_later(host, now);
            }
        }
        for host in 0..self.layout.hosts() {
            let link = &self.links[host as usize];
            if link.ready_by.is_some_and(|by| now >= by) {
                self.not_back(host, &format!("its agent was not ready after {} s", ANSWER.as_secs()));
            } else if self.is_returning(host) && link.stage == AgentStage::Ready {
                self.take_in(host);
            }
        }
    }

    fn call_again(&mut self, host: u32) {
        let Some(survival) = &mut self.survival else { return };
        survival.returns.called(host);
        let name = &self.hosts.names[host as usize];
        let called = AgentLink::call(self.hosts, name, self.reason_to_call(host)).and_then(|mut link| {
            link.ready_by = Some(Instant::now() + ANSWER);
            self.watch_link(host, &link).map_err(|refusal| refusal.why)?;
            let former = &mut self.links[host as usize];
            (link.was_probed, link.call) = (former.was_probed, former.call + 1);
            *former = link;
            Ok(())
        });
        if let Err(why) = called {
            self.not_back(host, &why);
        }
    }

    /// A host that was called again has not come, for that reason.
    pub(super) fn not_back(&mut self, host: u32, why: &str) {
        let link = self.link(host);
        // One that keeps something does so until it hears of the job's end, or another one is called there.
        if link.is_of_orphan {
            link.leave()
        } else {
            link.let_go()
        }
        link.kill();
        link.failure = Some(why.to_owned());
        if let Some(survival) = &mut self.survival {
            survival.returns.failed(host, Instant::now());
        }
    }

    /// The agent of a host that was lost is ready: from now on it is one of the job's again.
    fn take_in(&mut self, host: u32) {
        let Some(survival) = &mut self.survival else { return };
        let link = &mut self.links[host as usize];
        // Who writes what is settled, and this one has no part in it. Or only its agent is within reach:
        // ranks there would be without a way to the others.
        let probe = self.hosts.heartbeat.zip(link.probe.as_mut());
        let life = probe.map(|(heartbeat, probe)| probe.turn(heartbeat, Instant::now()));
        if link.was_probed && matches!(life, None | Some(HostHealth::Broken)) {
            return self.not_back(host, "its agent has answered, and its network has not");
        }
        if survival.recall.is_writing() || (link.was_probed && life != Some(HostHealth::There)) {
            return;
        }
        let is_of_orphan = link.is_of_orphan;
        let kept = if is_of_orphan { self.take_what_is_kept(host) } else { Some(true) };
        let Some(is_new_to_its_ranks) = kept else { return };
        let Some(survival) = &mut self.survival else { return };
        let is_recalled =
            if is_new_to_its_ranks { survival.recall.returned(host) } else { survival.recall.came(host) };
        if is_recalled {
            survival.expect_ends();
        }
        survival.returns.returned(host, Instant::now());
        survival.moves.returned(&self.layout, host);
        let had = survival.newest_had();
        let link = &mut self.links[host as usize];
        (link.stage, link.ready_by) = (AgentStage::Running, None);
        self.unreached.remove(&host);
        link.send(&Down::Go);
        // The next launcher may reach only this one and hosts that were cut off for long: ranks do not go on
        // from what those have.
        link.send(&Down::Had(had));
        if is_recalled {
            link.send(&Down::Recall);
        }
        let with = if is_of_orphan { ", with what it has kept" } else { "" };
        crate::say(&format!("host {} is back{with}", link.name));
        self.send_home();
    }

    /// Has ranks move back to hosts that were lost and are there again.
    pub(super) fn send_home(&mut self) {
        let links = &self.links;
        let is_there = |host: u32| links[host as usize].stage == AgentStage::Running;
        if let Some(survival) = &mut self.survival {
            survival.moves.go_home(is_there);
        }
    }

    /// Where ranks run, as a host is told that is called again: not there.
    pub(super) fn layout_without(&self, host: u32) -> Layout {
        let layout = &self.layout;
        let other = (host + 1) % layout.hosts();
        let moved = layout.moved(|rank| if layout.is_on(rank, host) { other } else { layout.host_of(rank) });
        moved.unwrap_or_else(|| layout.clone())
    }

    /// The user wants a lost host to be called. Returns what to say.
    pub(super) fn rejoin(&mut self, name: &str) -> Result<String, String> {
        let host = self.host_of_name(name)?;
        let stage = self.links[host as usize].stage;
        if self.start_by.is_some() {
            return Err("other hosts are still being called".to_owned());
        }
        if self.may_have_what_is_needed(host) {
            return Err(format!("ranks may need what host {name} has kept"));
        }
        let survival = self.survival.as_mut().filter(|survival| !survival.is_finished);
        let none = || "hosts of this job cannot come back: start it with --replicas".to_owned();
        let Survival { returns, moves, .. } = survival.ok_or_else(none)?;
        match stage {
            AgentStage::Running if moves.refused_at(host).next().is_some() => {
                moves.returned(&self.layout, host);
                self.send_home();
                Ok(format!("host {name} may have ranks again"))
            }
            AgentStage::Gone => {
                returns.asked(host, Instant::now());
                Ok(format!("host {name} is called"))
            }
            AgentStage::Running => Err(format!("host {name} is there")),
            AgentStage::Done => Err(format!("host {name} is done")),
            AgentStage::Calling | AgentStage::Preparing | AgentStage::Ready => {
                Err(format!("host {name} is being called"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLS: Return = Return { calls: true, wait_for: None };

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_lost_host_is_called_less_and_less_often_until_it_has_stayed_for_a_while() {
        let mut returns = Returns::new(CALLS);
        let mut now = Instant::now();
        assert_eq!(returns.lost(1, true, now), None);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let next = returns.next_call(1).unwrap();
            pauses.push((next - now).as_secs());
            now = next;
            assert_eq!((returns.due(now), returns.due(now - seconds(1))), (vec![1], vec![]));
            returns.called(1);
            assert!(returns.due(now).is_empty(), "it is called already");
            returns.failed(1, now);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        returns.returned(1, now);
        assert_eq!(returns.deadline(), None);
        returns.lost(1, true, now + seconds(5));
        assert_eq!(returns.next_call(1), Some(now + seconds(65)), "it comes and goes");
        returns.returned(1, now + seconds(65));
        returns.lost(1, true, now + seconds(65) + PROBATION);
        assert_eq!(returns.next_call(1), Some(now + seconds(66) + PROBATION));
    }

    #[test]
    fn a_host_that_was_left_out_is_called_when_the_user_says_so_and_from_then_on() {
        let mut returns = Returns::new(CALLS);
        let now = Instant::now();
        returns.leave_out(1);
        returns.lost(1, true, now);
        assert_eq!(returns.deadline(), None);
        returns.asked(1, now);
        assert_eq!(returns.due(now), [1]);
        returns.called(1);
        returns.returned(1, now);
        returns.lost(1, true, now);
        assert!(returns.next_call(1).is_some());
    }

    #[test]
    fn nobody_calls_a_host_if_the_user_does_not_want_that_but_when_asked_to() {
        let mut returns = Returns::new(Return { calls: false, wait_for: None });
        let now = Instant::now();
        returns.lost(2, true, now);
        assert_eq!(returns.deadline(), None);
        returns.asked(2, now);
        assert_eq!(returns.due(now), [2]);
        returns.called(2);
        returns.failed(2, now);
        assert_eq!(returns.deadline(), Some(now + pause(1)), "it is, until it comes");
        returns.returned(2, now);
        returns.lost(2, true, now);
        assert_eq!(returns.deadline(), None);
    }

    #[test]
    fn ranks_wait_for_their_host_until_it_is_back_or_for_so_long() {
        let mut returns = Returns::new(Return { calls: true, wait_for: Some(seconds(10)) });
        let now = Instant::now();
        assert_eq!(returns.lost(0, false, now), None, "it has no ranks that could wait");
        assert!(!returns.are_waited_for());
        assert_eq!(returns.lost(1, true, now), Some(seconds(10)));
        assert!(returns.given_up(now + seconds(9)).is_empty());
        assert!(returns.are_waited_for());
        assert_eq!(returns.given_up(now + seconds(10)), [1]);
        assert!(!returns.are_waited_for() && returns.given_up(now + seconds(10)).is_empty());
        returns.lost(1, true, now);
        returns.returned(1, now);
        assert!(!returns.are_waited_for());
    }
}
