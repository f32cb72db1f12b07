//! What a job has whose ranks may die.

use crate::run::plan::Plan;
use crate::run::recovery::{self, Kept, Recovery};
use crate::run::{Refusal, output};
use scash_ft::Epoch;
use scash_ft::inject::RecoveryCounts;
use scash_join::boot::Exit;
use std::time::Instant;

/// What a job has in which ranks may die.
#[derive(Debug)]
pub(super) struct Survival {
    pub(super) recovery: Recovery,
    pub(super) kept: Kept,
    /// How far it has come, and how often, in bringing ranks back.
    pub(super) moments: RecoveryCounts,
    /// Ranks that have failed by themselves, and until when the death of another one may explain it.
    pub(super) held_back: Vec<(Instant, u32, Exit)>,
}

impl Survival {
    /// That of the job, if it asks for replicas. From then on this process is as its ranks must be.
    pub(super) fn of(plan: &Plan) -> Result<Option<Survival>, Refusal> {
        let Some(replicas) = &plan.replicas else { return Ok(None) };
        recovery::fix_addresses()?;
        let (kept, base) = Kept::new(plan.ranks, replicas, output::is_one_file())?;
        let recovery = Recovery::new(plan.ranks, replicas.restarts, base);
        Ok(Some(Survival { recovery, kept, moments: RecoveryCounts::default(), held_back: Vec::new() }))
    }

    /// When something is due that nothing else makes known.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let held = self.held_back.first().map(|(until, ..)| *until);
        // They wait longer where ranks may have died, which the recovery knows.
        self.recovery.deadline().or(held)
    }

    /// How far checkpoints are, for people.
    pub(super) fn status(&self) -> String {
        let (base, mebibytes) = (self.recovery.base(), self.kept.bytes().div_ceil(1 << 20));
        let last = match self.kept.epoch(base) {
            Epoch(0) => "no checkpoint yet".to_owned(),
            epoch => format!("last checkpoint: epoch {epoch}; checkpoints take {mebibytes} MiB"),
        };
        format!("incarnation {}; {last}\n", base.incarnation)
    }

    /// The job has ended with this status. Returns what there is to say of its files.
    pub(super) fn over(&self, status: u8) -> Option<String> {
        self.kept.over(status, self.recovery.base())
    }
}
