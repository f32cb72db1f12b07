//! Hosts that the launcher which goes on with a job has not reached before it began (`takeover`): those that
//! the user has not named, or that did not answer in time. Their agents may have kept what ranks need. As
//! long as it is not decided where ranks go on, which takes a while if ranks wait for their hosts
//! (`--on-loss wait`), these hosts are called for what they have kept. An agent that is called as others are
//! would begin with nothing, and have the one end that was there before.

use super::Job;
use super::survive::Survival;
use super::takeover::committed;
use crate::run::hosts::link::CallReason;
use crate::run::status;
use scash_join::boot::JobFailure;
use std::time::Instant;

impl Job<'_> {
    /// What a host is called for that was lost.
    pub(super) fn reason_to_call(&self, host: u32) -> CallReason {
        let may_keep = self.survival.as_ref().is_some_and(|survival| survival.may_keep.contains(&host));
        match &self.succession {
            Some(succession) if may_keep => CallReason::OrphanAgain(succession.job.clone(), host),
            _ => CallReason::Again,
        }
    }

    /// Whether ranks that come back may need what a lost host has kept. An agent that is called there for
    /// nothing of that would have the one end that keeps it.
    pub(super) fn may_have_what_is_needed(&self, host: u32) -> bool {
        let is_called_for_it = self.survival.as_ref().is_some_and(|all| all.may_keep.contains(&host));
        self.succession.is_some() && !is_called_for_it && self.lack_a_store()
    }

    /// Whether some rank has no store to go on from, by what hosts have said so far that are there.
    fn lack_a_store(&self) -> bool {
        let Some(Survival { recall, rule, moves, .. }) = &self.survival else { return false };
        recall.lacks_a_store(&self.layout, rule, moves.without_wanted())
    }

    /// Whether ranks wait for lost hosts. Those that come back with nothing do not help ranks that have no
    /// store to go on from.
    pub(super) fn wait_for_hosts(&self) -> bool {
        let Some(Survival { returns, recall, may_keep, .. }) = &self.survival else { return false };
        let is_in_vain = || !recall.any_run() && may_keep.is_empty() && self.lack_a_store();
        returns.are_waited_for() && !is_in_vain()
    }

    /// The agent of a host that was called again cannot do what it was called for. If nothing was kept there,
    /// the next call is for an agent that begins with nothing.
    pub(super) fn refuses_to_return(&mut self, host: u32, why: &str) {
        let is_of_orphan = self.links[host as usize].is_of_orphan;
        self.not_back(host, why);
        if let Some(Survival { may_keep, returns, .. }) = self.survival.as_mut().filter(|_| is_of_orphan) {
            may_keep.remove(&host);
            returns.called_a_moment_later(host, Instant::now());
        }
    }

    /// An agent has come with what it has kept. Takes note of that, and returns whether it does not know its
    /// ranks; `None` if the host cannot be taken in: ranks may have gone on without it, or have been started
    /// again without the hosts that are here.
    pub(super) fn take_what_is_kept(&mut self, host: u32) -> Option<bool> {
        let Some(Survival { may_keep, found, come, recall, .. }) = &mut self.survival else { return None };
        let Some(keeping) = self.keepings[host as usize].as_ref().filter(|_| may_keep.contains(&host)) else {
            self.not_back(host, "ranks have gone on without what it has kept");
            return None;
        };
        if keeping.base.incarnation > found.incarnation {
            // Ranks may be elsewhere since. What has come is printed first: the next launcher gets it, too.
            if self.printers.are_idle() {
                let name = &self.hosts.names[host as usize];
                self.leave_what_was_found(format!("host {name} knows of a later restart than all others"));
            }
            return None;
        }
        recall.have_had(committed(std::slice::from_ref(&self.keepings[host as usize]), *found));
        let is_new_to_them = keeping.tell_what_was_printed(host, &self.layout, come);
        may_keep.remove(&host);
        Some(is_new_to_them)
    }

    /// Leaves the job to another launcher, with what hosts keep.
    pub(super) fn leave_what_was_found(&mut self, why: String) {
        if self.supervisor.verdict() != 0 {
            // Nothing else is said of a job that has failed.
            crate::say(&format!("{why}{}", self.another_launcher().unwrap_or_default()));
        }
        if let Some(survival) = &mut self.survival {
            survival.recall.over();
        }
        self.leave_for_want_of_stores(JobFailure { rank: None, why, status: status::LAUNCHER });
    }
}
