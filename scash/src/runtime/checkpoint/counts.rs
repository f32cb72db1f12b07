//! What a rank counts of its checkpoints, and the watch over one of them.

use super::restart::RestartTime;
use crate::fault::PAGE;
use std::fmt;
use std::time::{Duration, Instant};

/// What a rank has counted and timed of its checkpoints (`scash run --replicas`), all incarnations together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointStats {
    /// Checkpoints that were committed.
    pub committed: u64,
    /// Those that were left out, because a rank could not be saved.
    pub left_out: u64,
    /// Which start of the ranks this is, from 0.
    pub incarnation: u64,
    /// Pages of private and shared memory that were copied into the store.
    pub copied: u64,
    /// Pages that the newest checkpoint of this rank consists of.
    pub kept: u64,
    /// Bytes of memory, or of the disk, that this rank's store takes on its host: of the newest checkpoint,
    /// of what the one before has of its own, and of slots that are free again.
    pub store: u64,
    /// Looking at what the process has, and stopping its threads.
    pub stop: Duration,
    /// Finding and copying what changed of private memory.
    pub image: Duration,
    /// How much of that the kernel has looked which pages were written.
    pub scan: Duration,
    /// Comparing and copying shared pages.
    pub shared: Duration,
    /// How much of both was copying, in checkpoints that were not left out; of many pages an estimate.
    pub copy: Duration,
    /// Bringing it to the disk, or to copies on other hosts, and marking it as whole.
    pub fence: Duration,
    /// Waiting until all ranks have theirs.
    pub meeting: Duration,
    /// What the newest restart took, if this process has come back.
    pub restart: Option<RestartTime>,
}

impl fmt::Display for CheckpointStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "checkpoints: {} ({} left out), incarnation {}, {} pages copied ({:.1} MB), {} kept ({:.1} MB), \
             the store takes {:.1} MB, \
             stop {:.3?}, image {:.3?} ({:.3?} of it scan), \
             shared {:.3?}, copy {:.3?} of both, fence {:.3?}, meeting {:.3?}",
            self.committed,
            self.left_out,
            self.incarnation,
            self.copied,
            megabytes(self.copied),
            self.kept,
            megabytes(self.kept),
            self.store as f64 / 1e6,
            self.stop,
            self.image,
            self.scan,
            self.shared,
            self.copy,
            self.fence,
            self.meeting
        )?;
        self.restart.map_or(Ok(()), |restart| write!(f, "; came back in {restart}"))
    }
}

/// So many pages, in units of 10^6 bytes, as people count what a network or a disk carries.
fn megabytes(pages: u64) -> f64 {
    (pages * PAGE as u64) as f64 / 1e6
}

/// When a checkpoint began, and its newest part.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckpointTimer {
    began: Instant,
    last: Instant,
}

impl CheckpointTimer {
    pub(super) fn start() -> CheckpointTimer {
        let now = Instant::now();
        CheckpointTimer { began: now, last: now }
    }

    /// Since the last time that this was asked.
    pub(super) fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now - std::mem::replace(&mut self.last, now)
    }

    pub(super) fn all(&self) -> Duration {
        self.began.elapsed()
    }
}
