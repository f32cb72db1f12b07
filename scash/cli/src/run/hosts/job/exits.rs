//! How ranks have ended, as agents report it.

use super::Job;
use super::survive::Survival;
use crate::run::supervisor::WORD_OF_OTHERS;
use scash_ft::{Epoch, image};
use scash_join::boot::{Exit, Report};
use std::time::Instant;

impl Job<'_> {
    /// Takes what an agent reports of a rank. The error says why no agent reports that.
    pub(super) fn report(&mut self, host: u32, report: Report) -> Result<(), String> {
        if let Report::Exited(rank, exit) = report {
            if !self.link(host).ranks.remove(&rank) {
                return Err(format!("a second end of rank {rank}"));
            }
            if self.cannot_come_back(exit) {
                self.go_on_elsewhere(host, rank, exit);
                return Ok(());
            }
            let failed_by_itself = matches!(exit, Exit::Status(1..));
            let may_be_explained = self.links.len() > 1 || self.survival.is_some();
            if failed_by_itself && may_be_explained && self.supervisor.verdict() == 0 {
                self.held_back.push((Instant::now() + WORD_OF_OTHERS, host, rank, exit));
                return Ok(());
            }
            return self.take_exit(host, rank, exit);
        }
        self.launcher_relay.take(host, report)
    }

    /// Whether a rank has ended as one does that cannot go on from its checkpoint at its host, in a job that
    /// has others.
    fn cannot_come_back(&self, exit: Exit) -> bool {
        let Some(Survival { recovery, .. }) = &self.survival else { return false };
        // Until all have come back, none runs on, and may end so by itself.
        let has_image = recovery.awaits_all() && recovery.base().epoch > Epoch(0);
        let is_refusal = matches!(exit, Exit::Status(status) if i32::from(status) == image::REFUSED);
        is_refusal && has_image && self.links.len() > 1 && self.supervisor.may_go_on()
    }

    /// The process of a rank has ended.
    fn take_exit(&mut self, host: u32, rank: u32, exit: Exit) -> Result<(), String> {
        if self.survival.is_some() {
            self.take_survivors_exit(host, rank, exit);
            return Ok(());
        }
        self.supervisor.exited();
        self.launcher_relay.take(host, Report::Exited(rank, exit))
    }

    /// Takes the ends that were held back, unless what may explain them is still to come.
    pub(super) fn release(&mut self) {
        let Some((until, ..)) = self.held_back.first() else { return };
        let is_explained = self.supervisor.verdict() != 0 || self.is_ending();
        let is_due = Instant::now() >= *until && self.links.iter().all(|link| link.cut_off.is_none());
        if is_explained || is_due {
            for (_, host, rank, exit) in std::mem::take(&mut self.held_back) {
                if let Err(lie) = self.take_exit(host, rank, exit) {
                    self.lose(host, &lie);
                }
            }
            self.settle();
        }
    }
}
