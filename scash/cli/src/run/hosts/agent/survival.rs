//! What an agent has for ranks that may die; `survive` says what it does with it.

use crate::run::Refusal;
use crate::run::hosts::assignment::Replicated;
use crate::run::hosts::placement::{CopyRule, holdings};
use crate::run::recovery::{self, Kept};
use scash_ft::{Base, Epoch};
use scash_join::boot::Layout;

/// How far the agent's part in a restart is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Ranks compute, or have ended by themselves.
    Together,
    /// They were killed.
    Ending,
    /// They have ended, and the launcher knows what their stores say.
    Ended,
}

/// What an agent has whose ranks may die.
#[derive(Debug)]
pub(super) struct Survival {
    pub(super) kept: Kept,
    /// Which other hosts hold copies of a store.
    rule: CopyRule,
    /// What ranks were started from.
    pub(super) base: Base,
    /// Those of them that were adopted then, and the host of each.
    pub(super) adopted: Vec<(u32, u32)>,
    /// The newest epoch of which rank 0 has told.
    pub(super) told: Epoch,
    /// The newest of which it or a launcher has said that all ranks have it.
    pub(super) committed: Epoch,
    pub(super) phase: Phase,
    /// Whether the launcher has said that all ranks have ended for good.
    pub(super) is_finished: bool,
    /// Whether it knows that all they have printed is on its way.
    pub(super) is_done: bool,
    /// If any launcher has said that they have: the exit status of the job.
    pub(super) finished: Option<u8>,
    /// Whether ranks were ended since they were started last, to be started again.
    pub(super) is_recalled: bool,
    /// Whether the launcher knows that this host cannot do its part in that.
    pub(super) has_refused: bool,
}

impl Survival {
    /// For the ranks of that host. From then on this process is as they must be.
    pub(super) fn new(
        layout: &Layout,
        host: u32,
        Replicated { rule, env, stack, .. }: Replicated,
        is_one: bool,
    ) -> Result<Survival, Refusal> {
        recovery::fix_addresses_with(stack)?;
        recovery::withhold_descriptors();
        let kept = Kept::of_host(layout.size(), env, is_one)?;
        let (base, told, committed) = (Base::default(), Epoch(0), Epoch(0));
        let (adopted, phase) = (Vec::new(), Phase::Together);
        let (is_finished, is_done, is_recalled, finished) = (false, false, false, None);
        let mut survival = Survival {
            kept,
            rule,
            base,
            adopted,
            told,
            committed,
            phase,
            is_finished,
            is_done,
            is_recalled,
            has_refused: false,
            finished,
        };
        survival.place(layout, host);
        Ok(survival)
    }

    /// All ranks have ended for good.
    pub(super) fn finish(&mut self, status: u8) {
        (self.is_finished, self.finished) = (true, Some(status));
    }

    /// The launcher that has said so is gone. The next one finds out.
    pub(super) fn forget_launcher(&mut self) {
        (self.is_finished, self.is_done) = (false, false);
    }

    /// All ranks are to be started again, also if they have ended.
    pub(super) fn recall(&mut self) {
        self.forget_launcher();
        (self.finished, self.is_recalled, self.has_refused) = (None, true, false);
    }

    /// Ranks run so from now on.
    pub(super) fn place(&mut self, layout: &Layout, host: u32) {
        self.kept.place(layout.ranks_of(host).collect(), holdings(layout, &self.rule, host));
    }
}
