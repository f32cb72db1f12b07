//! What another launcher keeps for the processes that it has started: their numbers, and words that each can
//! give to all.

use scash_comm::{Result, SecretText};
use std::fmt::Debug;
use std::time::Instant;

/// Longest word: what PMI's servers take (MPICH and Slurm: 1,024 bytes with its zero).
pub(super) const LONGEST: usize = 1000;

/// A job's key-value space, and its launcher behind it. Keys and values are printable ASCII without spaces,
/// of at most 60 and [`LONGEST`] bytes.
pub(super) trait Space: Debug + Send {
    /// This process's number, as its launcher counts.
    fn rank(&self) -> u32;

    /// Number of processes.
    fn size(&self) -> u32;

    /// What tells the job from all others that run.
    fn job(&self) -> &str;

    /// Gives a word to all, to be had after the next [`fence`](Self::fence).
    fn put(&mut self, key: &str, value: &str) -> Result<()>;

    /// Waits until all processes have come here; `false` if they have not until `deadline`.
    fn fence(&mut self, deadline: Instant) -> Result<bool>;

    /// The word that process `owner` gave. It may have the job's secret in it.
    fn get(&mut self, owner: u32, key: &str) -> Result<SecretText>;

    /// This process is done: the launcher need not wonder at its end.
    fn finalize(&mut self) -> Result<()>;

    /// Asks the launcher to end all processes. It may do so before this returns.
    fn abort(&mut self);
}
