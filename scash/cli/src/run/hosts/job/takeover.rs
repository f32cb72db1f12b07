//! A launcher that goes on with the job of another one, which is lost (`scash resume JOB`): it calls the
//! agents that have kept what they had, hears what that is, and has all ranks come back from there, as after
//! any loss.
//!
//! Hosts whose agents keep nothing, or do not answer, are lost hosts: they may come back later.

use super::Job;
use super::survive::Survival;
use crate::run::hosts::Hosts;
use crate::run::hosts::frames::{Down, Keeping};
use crate::run::hosts::link::AgentStage;
use crate::run::hosts::succession::Succession;
use crate::run::plan::Plan;
use crate::run::recovery::{Loss, Recovery};
use crate::run::{Refusal, status};
use scash_join::boot::{Exit, LauncherRelay};
use std::time::{Duration, Instant};

/// How long agents may take to say what they have kept.
pub(super) const START: Duration = Duration::from_secs(30);

/// What agents are to know so that the job outlives this launcher, if it is to.
pub(super) fn succession(plan: &Plan, hosts: &Hosts, is_one: bool) -> Result<Option<Succession>, Refusal> {
    if let Some(former) = &hosts.former {
        let mut succession = former.clone();
        succession.absent.clear();
        return Ok(Some(succession));
    }
    let linger = plan.replicas.as_ref().and_then(|replicas| replicas.linger);
    let Some(linger) = linger.filter(|_| hosts.names.len() > 1) else { return Ok(None) };
    let succession = Succession::of(plan, hosts, is_one, linger);
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
        self.link(host).stage = AgentStage::Ready;
        self.take_over();
        Ok(())
    }

    /// An agent has another launcher, so that the job is not to be gone on with.
    pub(super) fn is_served(&mut self, host: u32, seconds: u32) {
        let name = &self.link(host).name;
        let why = format!(
            "host {name}: its agent has a launcher, which said something {seconds} s ago: the job goes on without this one"
        );
        self.call_off(status::LAUNCHER, &why);
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
        let newest = self.keepings.iter().flatten().max_by_key(|keeping| keeping.base.incarnation);
        let Some(Keeping { base, layout, adopted, .. }) = newest.cloned() else {
            return self.call_off(status::LAUNCHER, "no host keeps anything of this job");
        };
        self.start_by = None;
        self.layout = layout;
        self.launcher_relay = LauncherRelay::new(self.layout.clone());
        let (ranks, limit) =
            (self.plan.ranks, self.plan.replicas.as_ref().map_or(0, |replicas| replicas.restarts));
        let Some(Survival { recovery, recall, moves, come, .. }) = &mut self.survival else { return };
        moves.were_adopted(&adopted);
        *recovery = Recovery::new(ranks, limit, base);
        recall.take_over();
        for (host, keeping) in (0..).zip(&self.keepings) {
            let Some(Keeping { printed, .. }) = keeping else { continue };
            for (rank, lengths) in printed.iter().filter(|(rank, _)| self.layout.is_on(*rank, host)) {
                come[*rank as usize] = *lengths;
            }
        }
        let is_there = |host: &u32| self.links[*host as usize].stage == AgentStage::Ready;
        let (there, lost): (Vec<u32>, Vec<u32>) = (0..self.layout.hosts()).partition(is_there);
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
        if let Some(Survival { recall, come, .. }) = &mut self.survival {
            recall.lost(host);
            // Nobody knows how much of it the launcher had printed that is lost, too.
            layout.ranks_of(host).for_each(|rank| come[rank as usize] = [u64::MAX; 2]);
        }
        let they_wait = self.expect(host);
        self.replace(host, they_wait);
    }
}
