//! Whether restarting still helps.

use crate::Epoch;
use std::fmt;

/// Counts restarts since the job last made progress: since the epoch to go on from last grew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restarts {
    limit: u32,
    epoch: Epoch,
    since: u32,
    total: u64,
}

/// The job was restarted as often as it may be without progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoProgress {
    /// How often it was.
    pub restarts: u32,
    /// Where it went on from each time.
    pub epoch: Epoch,
}

impl fmt::Display for NoProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoProgress { restarts, epoch } = self;
        match restarts {
            0 => write!(f, "ranks are not started again, as the limit of restarts is 0"),
            1 => write!(f, "ranks were started again once from epoch {epoch}, and came no further"),
            _ => {
                write!(f, "ranks were started again {restarts} times from epoch {epoch}, and came no further")
            }
        }
    }
}

impl std::error::Error for NoProgress {}

impl Restarts {
    /// The limit of a job whose user gave none.
    pub const DEFAULT_LIMIT: u32 = 10;

    /// A job that was not restarted yet. With a limit of 0, it never is.
    pub fn new(limit: u32) -> Restarts {
        Restarts { limit, epoch: Epoch(0), since: 0, total: 0 }
    }

    /// Counts a restart from `epoch`, or refuses it.
    pub fn restart(&mut self, epoch: Epoch) -> Result<(), NoProgress> {
        if epoch > self.epoch {
            (self.epoch, self.since) = (epoch, 0);
        }
        if self.since >= self.limit {
            return Err(NoProgress { restarts: self.since, epoch: self.epoch });
        }
        self.since += 1;
        self.total += 1;
        Ok(())
    }

    /// All restarts of the job.
    pub fn total(&self) -> u64 {
        self.total
    }
}
