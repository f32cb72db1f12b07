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
        if let Some(survival) = &mut self.survival {
            survival.recall.over();
        }
        self.leave_for_want_of_stores(JobFailure { rank: None, why, status: status::LAUNCHER });
    }
}
