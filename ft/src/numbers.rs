//! Numbers of checkpoints and of incarnations.

#![forbid(unsafe_code)]

use std::fmt;

/// Number of a committed checkpoint. Epoch 0 is the beginning of the job, which nobody needs to store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch that the next checkpoint commits.
    pub fn next(self) -> Epoch {
        // No job gets so far, but a damaged store may say that it did.
        Epoch(self.0.saturating_add(1))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many times all ranks of the job were started again: 0 in a job that lost nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// The incarnation that the next restart begins.
    pub fn next(self) -> Incarnation {
        Incarnation(self.0.saturating_add(1))
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
