//! Collective operations, as schedules: which rank sends which bytes to whom in which round.
//!
//! A [`Schedule`] is a value that a rank computes from its number alone; the engine plays it
//! (`engine/running.rs`), so that an operation which was begun goes on while the application computes. The
//! algorithms are chosen by length, as is usual (Thakur, Rabenseifner, Gropp: Optimization of collective
//! communication operations in MPICH, 2005):
//!
//! | operation | short | long |
//! |---|---|---|
//! | barrier | words within groups that share memory (`barrier`); between them dissemination, log₂ rounds, or a flat tree where ranks compete for cores | |
//! | broadcast | binomial tree between groups, and within each | a chain of ranks through which pieces are passed on |
//! | reduce | binomial tree | reduce-scatter on a ring, then to the root |
//! | all-reduce | doubling distances | reduce-scatter, then all-gather, on a ring |
//! | all-gather | doubling distances (Bruck) | ring |
//! | all-to-all | all at once | some pairs at a time |
//! | reduce-scatter | ring | ring |
//! | gather | to the root | to the root |
//!
//! Reductions give the same bits at every rank, and in every run with as many ranks; the order in which
//! floating-point numbers are added is not that of the ranks.

mod algorithms;
mod reduction;
mod ring_position;
mod schedule;
mod stamp;
#[cfg(test)]
mod tests;
mod trees;

pub use reduction::{Element, Op, Reducible, Reduction};
pub(super) use schedule::{Area, AreaRange, LocalWork, Round, Schedule, Transfer};
pub(super) use stamp::Stamp;

/// A collective operation. Lengths are in bytes, counts in elements; all ranks name the same operation, with
/// the same numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Returns when all ranks have called it.
    Barrier,
    /// `len` bytes of the root's output go to all outputs.
    Broadcast {
        /// Whose bytes.
        root: u32,
        /// How many.
        len: usize,
    },
    /// All inputs, combined, go to the root's output.
    Reduce {
        /// Who gets the result.
        root: u32,
        /// Elements of an input.
        count: usize,
        /// How they are combined.
        reduction: Reduction,
    },
    /// All inputs, combined, go to all outputs.
    AllReduce {
        /// Elements of an input.
        count: usize,
        /// How they are combined.
        reduction: Reduction,
    },
    /// All inputs, in the order of ranks, go to the root's output.
    Gather {
        /// Who gets them.
        root: u32,
        /// Bytes of an input.
        len: usize,
    },
    /// All inputs, in the order of ranks, go to all outputs.
    AllGather {
        /// Bytes of each rank's input.
        lens: Vec<usize>,
    },
    /// Part r of each input goes to rank r's output, where they lie in the order of ranks. The only one whose
    /// numbers differ from rank to rank.
    AllToAll {
        /// Bytes of the part for each rank.
        to: Vec<usize>,
        /// Bytes of the part that each rank has for this one.
        from: Vec<usize>,
    },
    /// Part r of all inputs, combined, goes to rank r's output.
    ReduceScatter {
        /// Elements of each part.
        counts: Vec<usize>,
        /// How they are combined.
        reduction: Reduction,
    },
}

impl Collective {
    /// What is wrong with it, among so many ranks.
    pub(super) fn check(&self, size: u32) -> Result<(), String> {
        let wrong = |what: &str, given: usize| {
            Err(format!(
                "{given} {what} for a collective operation of {size} ranks: there must be one for each"
            ))
        };
        match self {
            Self::Broadcast { root, .. } | Self::Reduce { root, .. } | Self::Gather { root, .. }
                if *root >= size =>
            {
                Err(format!("there is no rank {root}: the job has {size}, counted from 0"))
            }
            Self::AllGather { lens } if lens.len() != size as usize => wrong("lengths", lens.len()),
            Self::AllToAll { to, from } if to.len() != size as usize || from.len() != size as usize => {
                wrong("lengths", to.len().min(from.len()))
            }
            Self::ReduceScatter { counts, .. } if counts.len() != size as usize => {
                wrong("counts", counts.len())
            }
            _ => Ok(()),
        }
    }

    /// Its root, if it has one.
    pub(super) fn root(&self) -> Option<u32> {
        match self {
            Self::Broadcast { root, .. } | Self::Reduce { root, .. } | Self::Gather { root, .. } => {
                Some(*root)
            }
            _ => None,
        }
    }

    /// Bytes that a rank gives; 0 if the operation has no number for it.
    pub fn input_len(&self, rank: u32) -> usize {
        match self {
            Self::Barrier | Self::Broadcast { .. } => 0,
            Self::Reduce { count, reduction, .. } | Self::AllReduce { count, reduction } => {
                count.saturating_mul(reduction.width())
            }
            Self::Gather { len, .. } => *len,
            Self::AllGather { lens } => of(lens, rank),
            Self::AllToAll { to, .. } => sum(to),
            Self::ReduceScatter { counts, reduction } => sum(counts).saturating_mul(reduction.width()),
        }
    }

    /// Bytes that a rank gets among so many; 0 if the operation has no number for it.
    pub fn output_len(&self, rank: u32, size: u32) -> usize {
        let at = |root: u32, len: usize| if rank == root { len } else { 0 };
        match self {
            Self::Barrier => 0,
            Self::Broadcast { len, .. } => *len,
            Self::Reduce { root, count, reduction } => at(*root, count.saturating_mul(reduction.width())),
            Self::AllReduce { count, reduction } => count.saturating_mul(reduction.width()),
            Self::Gather { root, len } => at(*root, len.saturating_mul(size as usize)),
            Self::AllGather { lens } => sum(lens),
            Self::AllToAll { from, .. } => sum(from),
            Self::ReduceScatter { counts, reduction } => of(counts, rank).saturating_mul(reduction.width()),
        }
    }
}

fn of(numbers: &[usize], rank: u32) -> usize {
    numbers.get(rank as usize).copied().unwrap_or(0)
}

fn sum(lens: &[usize]) -> usize {
    lens.iter().fold(0, |sum, len| sum.saturating_add(*len))
}
