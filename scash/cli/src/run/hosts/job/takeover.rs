//! A launcher that goes on with the job of another one, which is lost (`scash resume JOB`): it calls the
//! agents that have kept what they had, hears what that is, and has all ranks come back from there, as after
//! any loss.
//!
//! Hosts whose agents keep nothing, or do not answer, are lost hosts: they may come back later.

use super::Job;
use super::survive::Survival;
use crate::run::hosts::Hosts;
use crate::run::hosts::frames::{Down, Keeping};
use crate::run::hosts::link::{AgentLink, AgentStage, CallReason};
use crate::run::hosts::succession::Succession;
use crate::run::output::Lengths;
use crate::run::plan::Plan;
use crate::run::recovery::{self, Loss, Recovery};
use crate::run::{Refusal, status};
use scash_ft::{Base, Epoch};
use scash_join::boot::{Exit, LauncherRelay, Layout};
use std::time::{Duration, Instant};

/// How long agents may take to say what they have kept. (A host that was switched off is missed after 20 s.)
pub(super) const START: Duration = Duration::from_secs(30);
/// After how long an agent is asked again that had another launcher.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// An agent has said that it has a launcher.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    /// When it said so first, and how many seconds before that launcher had said something.
    first: (Instant, u32),
    /// When it did last.
    last: Instant,
}

impl Served {
    /// Whether that launcher has said nothing since, if it has been silent for so many seconds now.
    fn is_silent(&self, seconds: u32, now: Instant) -> bool {
        // Both numbers are of whole seconds, and answers take a while.
        let (at, before) = self.first;
        u64::from(seconds) + 2 > u64::from(before) + now.saturating_duration_since(at).as_secs()
    }
}

/// What agents are to know so that the job outlives this launcher, if it is to.
pub(super) fn succession(plan: &Plan, hosts: &Hosts, is_one: bool) -> Result<Option<Succession>, Refusal> {
    if let Some(former) = &hosts.former {
        let mut succession = former.clone();
        (succession.absent, succession.voters) = (Vec::new(), None);
        return Ok(Some(succession));
    }
    let linger = plan.replicas.as_ref().and_then(|replicas| replicas.linger);
    let Some(linger) = linger.filter(|_| hosts.names.len() > 1) else { return Ok(None) };
    let succession = Succession::of(plan, hosts, is_one, linger, recovery::stack_limit()?);
    succession.map(Some).map_err(|error| {
        Refusal::new(
            status::LAUNCHER,
            format!("describing the job to its agents: {error}; --linger off does without"),
        )
    })
}

impl Job<'_> {
    /// Whether agents are called that have lost their launcher, and have not all answered.
    pub(super) fn is_taken_over(&self) -> bool {
        self.hosts.former.is_some() && self.start_by.is_some()
    }

    /// How long agents may take until they are ready.
    pub(super) fn timeout_at_start(&self) -> Duration {
        if self.is_taken_over() { START } else { super::START }
    }

    /// An agent says what it has kept. The error says why no agent keeps that.
    pub(super) fn keeps(&mut self, host: u32, keeping: Keeping) -> Result<(), String> {
        let layout = &keeping.layout;
        let here = [self.layout.hosts(), self.layout.size()];
        if [layout.hosts(), layout.size()] != here {
            return Err(format!("it is of {} ranks on {} hosts", layout.size(), layout.hosts()));
        }
        self.keepings[host as usize] = Some(keeping);
        // If it is called again, that has nothing to do with the launcher that it had.
        self.served.remove(&host);
        self.link(host).stage = AgentStage::Ready;
        if self.is_taken_over() {
            self.take_over();
        }
        Ok(())
    }

    /// An agent has another launcher, or has not missed it yet. It is asked again until it does; if it hears
    /// that launcher meanwhile, the job is not to be gone on with.
    pub(super) fn is_served(&mut self, host: u32, seconds: u32) {
        let (now, is_taken_over) = (Instant::now(), self.is_taken_over());
        let served = self.served.entry(host).or_insert(Served { first: (now, seconds), last: now });
        served.last = now;
        if served.is_silent(seconds, now) {
            if !is_taken_over {
                return self.not_back(host, "its agent does not miss its launcher yet");
            }
            *self.link(host) = self.links[host as usize].put_off();
            return;
        }
        let name = &self.link(host).name;
        let why = format!(
            "host {name}: its agent has a launcher, which said something {seconds} s ago: the job goes on without this one"
        );
        if is_taken_over {
            self.call_off(status::LAUNCHER, &why);
        } else {
            self.leave_what_was_found(why);
        }
    }

    /// When [`call_served_again`](Self::call_served_again) is due.
    pub(super) fn calls_served_at(&self) -> Option<Instant> {
        let all = self.served.iter().filter(|(host, _)| self.links[**host as usize].is_put_off());
        all.map(|(_, served)| served.last + ASK_AGAIN).min().filter(|_| self.is_taken_over())
    }

    /// Asks those again that had another launcher a while ago.
    pub(super) fn call_served_again(&mut self) {
        let now = Instant::now();
        if self.calls_served_at().is_none_or(|at| now < at) {
            return;
        }
        let due = |(host, served): (&u32, &Served)| (now >= served.last + ASK_AGAIN).then_some(*host);
        let due: Vec<u32> = self.served.iter().filter_map(due).collect();
        for host in
            due.into_iter().filter(|host| self.links[*host as usize].is_put_off()).collect::<Vec<u32>>()
        {
            if let Err(why) = self.call_orphan(host) {
                self.keeps_nothing(host, &why);
            }
        }
    }

    /// Calls the agent of a host that has perhaps lost its launcher.
    fn call_orphan(&mut self, host: u32) -> Result<(), String> {
        let Some(former) = &self.hosts.former else { return Ok(()) };
        let name = &self.hosts.names[host as usize];
        let link = AgentLink::call(self.hosts, name, CallReason::Orphan(former.job.clone(), host))?;
        self.watch_link(host, &link).map_err(|refusal| refusal.why)?;
        self.links[host as usize] = link;
        Ok(())
    }

    /// An agent has not kept anything, or does not answer: its host is lost.
    pub(super) fn keeps_nothing(&mut self, host: u32, why: &str) {
        let link = self.link(host);
        crate::say(&format!("host {}: {why}", link.name));
        link.leave();
        link.kill();
        self.take_over();
    }

    /// Goes on with the job when all agents have answered that will.
    pub(super) fn take_over(&mut self) {
        if self.links.iter().any(|link| !matches!(link.stage, AgentStage::Ready | AgentStage::Gone)) {
            return;
        }
        let Some(Keeping { base, layout, adopted, .. }) = newest(&self.keepings).cloned() else {
            return self.call_off(status::LAUNCHER, "no host keeps anything of this job");
        };
        // They had said that they miss their launcher, and may not have come to this one.
        let has_come = |host: u32| self.links[host as usize].stage == AgentStage::Ready;
        if !self.quorum.lets_begin_with(has_come) {
            let (all, come) = self.quorum.count(has_come);
            let why = format!("{come} of the {all} hosts that have a say have come: too few to go on with");
            return self.call_off(status::LAUNCHER, &why);
        }
        self.start_by = None;
        self.layout = layout;
        self.launcher_relay = LauncherRelay::new(self.layout.clone());
        let (ranks, limit) =
            (self.plan.ranks, self.plan.replicas.as_ref().map_or(0, |replicas| replicas.restarts));
        let Some(Survival { recovery, recall, moves, come, found, .. }) = &mut self.survival else { return };
        moves.take_over(&self.layout, &adopted);
        (*recovery, *found) = (Recovery::new(ranks, limit, base), base);
        recall.take_over(committed(&self.keepings, base));
        for (host, keeping) in (0..).zip(&self.keepings) {
            let Some(keeping) = keeping else { continue };
            if keeping.tell_what_was_printed(host, &self.layout, come) {
                recall.had_returned(host);
            }
        }
        let is_there = |host: &u32| self.links[*host as usize].stage == AgentStage::Ready;
        let (there, lost): (Vec<u32>, Vec<u32>) = (0..self.layout.hosts()).partition(is_there);
        // Who has a say is not known, if it is the user who has another launcher go on: those that are there.
        self.quorum.begin_with(&there);
        let has_all = lost.iter().all(|host| self.layout.first_of(*host).is_none());
        if let Some(status) =
            end_that_was_known(&self.keepings, base).filter(|status| has_all || *status != 0)
        {
            return self.take_over_the_end(status);
        }
        // A spare that is there takes the ranks of a host that is lost.
        there.into_iter().chain(lost).for_each(|host| self.begin_with(host));
        self.send_home();
        let why = format!(
            "the launcher of job {} is lost",
            self.succession.as_ref().map_or_else(String::new, |s| s.job.to_string())
        );
        let lost = Loss { rank: 0, exit: Exit::Signal(9), host: None, hint: "", with_host: Some(why) };
        let Some(Survival { recovery, .. }) = &mut self.survival else { return };
        let step = recovery.lost_host(lost, Instant::now());
        // It cannot fail: only starting can.
        let _ = self.take_step(step);
    }

    /// An agent is this launcher's from now on, or its host is lost.
    fn begin_with(&mut self, host: u32) {
        if self.link(host).stage == AgentStage::Ready {
            let ranks = self.layout.ranks_of(host).collect();
            let link = self.link(host);
            (link.stage, link.ranks) = (AgentStage::Running, ranks);
            return link.send(&Down::Go);
        }
        self.unreached.insert(host);
        let layout = self.layout.clone();
        if let Some(Survival { recall, come, may_keep, .. }) = &mut self.survival {
            recall.lost(host);
            may_keep.insert(host);
            // Nobody knows how much of it the launcher had printed that is lost, too.
            layout.ranks_of(host).for_each(|rank| come[rank as usize] = [u64::MAX; 2]);
        }
        let they_wait = self.expect(host);
        self.replace(host, they_wait);
    }
}

impl Keeping {
    /// How much of what ranks of the host have printed is out, and need not come from there. Returns whether
    /// the host was told that they are elsewhere: it had come back with nothing when the launcher was lost,
    /// or was to start them with a restart that it has not begun. They come to it, or go elsewhere, as if
    /// nothing of them were there.
    pub(super) fn tell_what_was_printed(&self, host: u32, layout: &Layout, come: &mut [Lengths]) -> bool {
        let is_new_to_them = layout.first_of(host).is_some() && self.layout.first_of(host).is_none();
        // Nobody knows how much of it the launcher had printed that is lost, too; but a host that was to
        // start a rank was told.
        let unknown = if is_new_to_them { [u64::MAX; 2] } else { [0; 2] };
        layout.ranks_of(host).for_each(|rank| come[rank as usize] = unknown);
        for (rank, lengths) in self.printed.iter().filter(|(rank, _)| layout.is_on(*rank, host)) {
            come[*rank as usize] = *lengths;
        }
        is_new_to_them
    }
}

/// What a host has kept that knows where ranks ran last. One that had just come back when the launcher was
/// lost, of a job whose ranks were started once only, has as new a base as the others, and does not know: it
/// was told that its ranks are elsewhere.
fn newest(keepings: &[Option<Keeping>]) -> Option<&Keeping> {
    let all = (0..).zip(keepings).filter_map(|(host, keeping)| Some((host, keeping.as_ref()?)));
    let has_ranks = |host: u32, keeping: &Keeping| keeping.layout.first_of(host).is_some();
    let newest = all.max_by_key(|(host, keeping)| (keeping.base.incarnation, has_ranks(*host, keeping)));
    newest.map(|(_, keeping)| keeping)
}

/// The newest epoch of which somebody knows that all ranks had it: they do not go back behind it. A host that
/// had just come back was told, and knows of no restart. What others know is of another course of the job, if
/// parts of a cluster have each gone on with it.
pub(super) fn committed(keepings: &[Option<Keeping>], base: Base) -> Epoch {
    let knows = |keeping: &&Keeping| [base, Base::default()].contains(&keeping.base);
    let newest = keepings.iter().flatten().filter(knows);
    newest.map(|keeping| keeping.committed).max().unwrap_or(Epoch(0))
}

/// If the former launcher had said that all ranks have ended for good, which were started from `base`: the
/// exit status of the job. It may have wanted them to go on after that.
fn end_that_was_known(keepings: &[Option<Keeping>], base: Base) -> Option<u8> {
    let newest = || keepings.iter().flatten().filter(|keeping| keeping.base == base);
    if newest().any(|keeping| keeping.is_recalled) {
        return None;
    }
    newest().filter_map(|keeping| keeping.finished).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use scash_ft::Incarnation;

    fn base(incarnation: u64) -> Base {
        Base { incarnation: Incarnation(incarnation), epoch: Epoch(incarnation) }
    }

    fn keeping(incarnation: u64, finished: Option<u8>, is_recalled: bool) -> Option<Keeping> {
        let layout = Layout::new(&[1, 1]).unwrap();
        let (adopted, printed) = (Vec::new(), Vec::new());
        let committed = Epoch(0);
        Some(Keeping { base: base(incarnation), finished, is_recalled, committed, layout, adopted, printed })
    }

    #[test]
    fn an_end_is_known_if_any_agent_knows_it_and_no_rank_was_to_go_on_after_it() {
        let known = |keepings: &[Option<Keeping>]| end_that_was_known(keepings, base(4));
        assert_eq!(known(&[keeping(4, None, false), keeping(4, None, false)]), None);
        // The launcher was lost while it told them.
        assert_eq!(known(&[keeping(4, None, false), None, keeping(4, Some(3), false)]), Some(3));
        // Ranks were ended to be started again, of which one host does not know.
        assert_eq!(known(&[keeping(4, None, true), keeping(4, Some(0), false)]), None);
        // They were started again.
        assert_eq!(known(&[keeping(4, None, false), keeping(3, Some(0), false)]), None);
        assert_eq!(known(&[keeping(4, Some(0), false), keeping(3, None, true)]), Some(0));
    }

    #[test]
    fn ranks_do_not_go_back_behind_what_a_host_was_told_that_had_just_come_back() {
        let with = |incarnation: u64, epoch: u64| {
            let committed = Epoch(epoch);
            keeping(incarnation, None, false).map(|kept| Keeping { committed, ..kept })
        };
        assert_eq!(committed(&[with(2, 40), None, with(2, 41), with(1, 90)], base(2)), Epoch(41));
        let back = with(0, 60);
        assert_eq!(committed(&[with(1, 20), back], base(1)), Epoch(60));
    }

    #[test]
    fn a_host_that_had_just_come_back_does_not_say_where_ranks_were() {
        let layout = Layout::new(&[1, 1]).unwrap();
        let without = layout.moved(|_| 0).unwrap();
        let back = || keeping(0, None, false).map(|kept| Keeping { layout: without.clone(), ..kept });
        let keepings = [keeping(0, None, false), back()];
        assert_eq!(newest(&keepings).map(|kept| &kept.layout), Some(&layout));
        // Ranks were started without it, and it was told where they are.
        let keepings =
            [keeping(1, None, false).map(|kept| Keeping { layout: without.clone(), ..kept }), back()];
        assert_eq!(newest(&keepings).map(|kept| &kept.layout), Some(&without));
        let of_spare = [None, keeping(2, None, false)];
        assert_eq!(newest(&of_spare).map(|kept| kept.base), Some(base(2)));
    }

    #[test]
    fn what_ranks_had_printed_at_a_host_that_does_not_know_them_is_known_only_if_it_was_told() {
        let layout = Layout::new(&[1, 2]).unwrap();
        let tell = |kept: Keeping| {
            let mut come = [[5; 2]; 3];
            let is_new = kept.tell_what_was_printed(1, &layout, &mut come);
            assert_eq!(come[0], [5; 2]);
            (is_new, [come[1], come[2]])
        };
        let with = |layout: &Layout, printed: &[(u32, Lengths)]| {
            let (layout, printed) = (layout.clone(), printed.to_vec());
            Keeping { layout, printed, ..keeping(1, None, false).unwrap() }
        };
        assert_eq!(tell(with(&layout, &[])), (false, [[0; 2]; 2]));
        assert_eq!(tell(with(&layout, &[(1, [7, 0])])), (false, [[7, 0], [0; 2]]));
        let without = layout.moved(|_| 0).unwrap();
        assert_eq!(tell(with(&without, &[])), (true, [[u64::MAX; 2]; 2]));
        assert_eq!(tell(with(&without, &[(1, [0; 2])])), (true, [[0; 2], [u64::MAX; 2]]));
    }

    #[test]
    fn a_launcher_that_has_said_something_since_is_not_silent() {
        let at = Instant::now();
        let after = |seconds: u64| at + Duration::from_secs(seconds);
        let first = Served { first: (at, 5), last: at };
        assert!(first.is_silent(5, at) && first.is_silent(6, after(1)) && first.is_silent(14, after(10)));
        assert!(!first.is_silent(0, after(1)) && !first.is_silent(3, after(2)));
        // One that says something all the time is known to do so when two seconds have passed.
        let first = Served { first: (at, 0), last: after(1) };
        assert!(first.is_silent(0, after(1)) && !first.is_silent(0, after(2)));
    }
}
