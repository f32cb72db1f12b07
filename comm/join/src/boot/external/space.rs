//! What another launcher keeps for the processes that it has started: their numbers, and words that each can
//! give to all.

use super::pmi::Pmi;
use super::pmix::Pmix;
use scash_comm::Result;
use std::ffi::OsString;
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

    /// The word that process `owner` gave.
    fn get(&mut self, owner: u32, key: &str) -> Result<String>;

    /// This process is done: the launcher need not wonder at its end.
    fn finalize(&mut self) -> Result<()>;

    /// Asks the launcher to end all processes. It may do so before this returns.
    fn abort(&mut self);
}

/// The space that the environment tells of. `None`: no launcher that we know has started this process.
pub(super) fn find(
    var: &dyn Fn(&str) -> Option<OsString>,
    deadline: Instant,
) -> Result<Option<Box<dyn Space>>> {
    if let Some(pmi) = Pmi::find(var, deadline)? {
        return Ok(Some(Box::new(pmi)));
    }
    Ok(Pmix::find(var)?.map(|pmix| Box::new(pmix) as Box<dyn Space>))
}
