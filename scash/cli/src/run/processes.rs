//! The processes of the ranks that this process has started.

use super::exits::{Children, children, reap};
use super::spawn::Rank;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use scash_join::boot::Exit;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// The processes of ranks, by rank.
#[derive(Debug, Default)]
pub(super) struct Processes(BTreeMap<u32, Process>);

#[derive(Debug)]
struct Process {
    pid: Pid,
    /// `None` when it has ended.
    pidfd: Option<OwnedFd>,
}

impl Processes {
    /// Adds that of a rank.
    pub(super) fn add(&mut self, number: u32, rank: Rank) {
        self.0.insert(number, Process { pid: rank.pid, pidfd: Some(rank.pidfd) });
    }

    /// The process of a rank, if it was started.
    pub(super) fn pid(&self, rank: u32) -> Option<Pid> {
        Some(self.0.get(&rank)?.pid)
    }

    /// Whether any of them runs.
    pub(super) fn any_run(&self) -> bool {
        self.0.values().any(|process| process.pidfd.is_some())
    }

    /// Reaps the process of a rank, if it has just ended.
    pub(super) fn take_exit(&mut self, rank: u32) -> Option<Exit> {
        let process = self.0.get_mut(&rank)?;
        process.pidfd.as_ref()?;
        let exit = reap(process.pid)?;
        process.pidfd = None;
        Some(exit)
    }

    /// Those that run.
    pub(super) fn running(&self) -> impl Iterator<Item = Pid> {
        self.0.values().filter(|process| process.pidfd.is_some()).map(|process| process.pid)
    }

    /// Sends a signal to all that run.
    pub(super) fn signal(&self, signal: Signal) {
        // One that was not reaped yet keeps its number: no stranger is hit.
        for pid in self.running() {
            let _ = kill(pid, signal);
        }
    }

    /// Reaps what ranks have left behind and what has ended since. Ranks are reaped in their turn only.
    pub(super) fn reap_orphans(&self) {
        while let Children::Ended(pid) = children() {
            if self.0.values().any(|process| process.pid == pid && process.pidfd.is_some()) {
                return; // its pidfd is readable, and we shall come by here again
            }
            reap(pid);
        }
    }
}
