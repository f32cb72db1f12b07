//! What the runs of a soak come to.

use super::run::{Run, Wrong};
use std::fmt;

/// Counts.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    runs: u64,
    failed: u64,
    kills: u64,
    injected: u64,
    launchers: u64,
    hosts: u64,
    orders: u64,
    over: u64,
    lost: u64,
    restarts: u64,
    wrong: Vec<Wrong>,
}

impl Tally {
    /// A run is over.
    pub fn take(&mut self, run: &Run) {
        self.runs += 1;
        self.failed += u64::from(!run.findings.is_empty());
        self.kills += run.kills();
        self.injected += run.injected.len() as u64;
        self.launchers += run.launchers_killed;
        self.hosts += run.hosts_lost();
        self.orders += run.orders.len() as u64;
        self.over += u64::from(run.was_over);
        self.lost += u64::from(run.is_lost);
        self.restarts += run.restarts;
        self.wrong.extend(run.findings.iter().map(|finding| finding.wrong));
    }

    /// Runs so far.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Whether nothing was wrong.
    pub fn is_right(&self) -> bool {
        self.failed == 0
    }

    fn count(&self, wrong: Wrong) -> usize {
        self.wrong.iter().filter(|one| **one == wrong).count()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { runs, failed, kills, injected, launchers, hosts, orders, over, lost, restarts, .. } =
            self;
        let rows = [
            ("runs", runs.to_string()),
            (
                "kills that hit a living rank",
                format!("{kills}: {injected} injected, {} from outside", kills - injected),
            ),
            ("launchers killed", launchers.to_string()),
            ("hosts lost", hosts.to_string()),
            ("`scash migrate` and `scash drain` that were not refused", orders.to_string()),
            ("jobs that were over when their launcher was killed", over.to_string()),
            (
                "jobs that ended for want of a checkpoint, or of their last output, as they may",
                lost.to_string(),
            ),
            ("restarts", restarts.to_string()),
            ("wrong results", self.count(Wrong::Result).to_string()),
            ("hangs", self.count(Wrong::Hang).to_string()),
            ("processes left", self.count(Wrong::Process).to_string()),
            ("files left in /dev/shm", self.count(Wrong::SharedFile).to_string()),
            ("files left in --checkpoint-dir", self.count(Wrong::Checkpoint).to_string()),
            ("spontaneous restarts", self.count(Wrong::Spontaneous).to_string()),
            ("other failures", self.count(Wrong::Failure).to_string()),
            ("runs with any of these", failed.to_string()),
        ];
        writeln!(f, "| what | count |\n|---|---|")?;
        rows.iter().try_for_each(|(what, count)| writeln!(f, "| {what} | {count} |"))
    }
}
