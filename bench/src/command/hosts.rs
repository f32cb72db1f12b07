//! Hosts that are network namespaces of this machine, for as long as a benchmark runs.

use super::runner::Job;
use scash_bench::namespaces::Namespaces;
use tempfile::TempDir;

/// The remote shell's name in its directory.
const RSH: &str = "rsh";

/// Some hosts, and the remote shell that reaches them.
#[derive(Debug)]
pub(super) struct Hosts {
    _namespaces: Namespaces,
    directory: TempDir,
}

impl Hosts {
    /// Makes so many hosts. The text says why there cannot be any.
    pub(super) fn new(count: u32) -> Result<Hosts, String> {
        let namespaces = Namespaces::new(count).map_err(|why| why.to_string())?;
        let directory = tempfile::tempdir().map_err(|why| why.to_string())?;
        namespaces.rsh(&directory.path().join(RSH)).map_err(|why| why.to_string())?;
        Ok(Hosts { _namespaces: namespaces, directory })
    }

    /// The same job, which finds them.
    pub(super) fn reached_by(&self, job: Job) -> Job {
        job.with("SCASH_RSH", self.directory.path().join(RSH).display().to_string())
    }
}
