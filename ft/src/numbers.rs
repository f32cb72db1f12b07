//! Numbers of checkpoints and of incarnations, and the records that they make up in a store.

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

    /// The incarnation before this one; none before the first.
    pub fn before(self) -> Option<Incarnation> {
        self.0.checked_sub(1).map(Incarnation)
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a store says of one of its two indices: that it, and each slot that it names, has arrived. An index
/// without a mark counts for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark {
    /// The incarnation that took the checkpoint. Without it, two runs of the same epoch would be mixed.
    pub incarnation: Incarnation,
    /// The checkpoint. Its index and its mark are those of the store whose number is `epoch % 2`.
    pub epoch: Epoch,
}

/// What a store says of the newest restart: the incarnation that began with it, and the checkpoint that it
/// went on from. A new store says that incarnation 0 began from epoch 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Base {
    /// The incarnation that began.
    pub incarnation: Incarnation,
    /// The epoch that it went on from.
    pub epoch: Epoch,
}
