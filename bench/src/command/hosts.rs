//! Hosts that are network namespaces of this machine, for as long as a benchmark runs.

use super::runner::Job;
use scash_bench::namespaces::{Namespaces, address};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// The remote shell's name in its directory.
const RSH: &str = "rsh";

/// Some hosts, and the remote shell that reaches them.
#[derive(Debug)]
pub(super) struct Hosts {
    namespaces: Namespaces,
    directory: TempDir,
}

impl Hosts {
    /// Makes so many hosts. The text says why there cannot be any.
    pub(super) fn new(count: u32) -> Result<Hosts, String> {
        let namespaces = Namespaces::new(count).map_err(|why| why.to_string())?;
        let directory = tempfile::tempdir().map_err(|why| why.to_string())?;
        namespaces.rsh(&directory.path().join(RSH)).map_err(|why| why.to_string())?;
        Ok(Hosts { namespaces, directory })
    }

    pub(super) fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// A file of that name, which goes when this does.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The same command on one of them.
    pub(super) fn on(&self, host: u32, command: &Command) -> Command {
        let mut there = Command::new(self.file(RSH));
        there.arg(address(host)).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => there.env(name, value),
                None => there.env_remove(name),
            };
        }
        there
    }

    /// The same job, which finds them.
    pub(super) fn reached_by(&self, job: Job) -> Job {
        job.with("SCASH_RSH", self.file(RSH).display().to_string())
    }
}
