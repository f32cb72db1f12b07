//! The launcher of a job whose hosts are all in one process.

use scash_comm::Secret;
use scash_join::boot::{Branch, Exit, Invitation, Layout, Settings, Trunk};

/// What `scash run` and its agents are to ranks on several hosts.
pub(crate) struct Launcher {
    layout: Layout,
    trunk: Trunk,
    branches: Vec<Branch>,
    /// By rank: whether it was told that it is gone.
    is_gone: Vec<bool>,
}

impl Launcher {
    /// Of so many ranks on each host.
    pub(crate) fn new(ranks: &[u32], settings: &Settings) -> Launcher {
        let layout = Layout::new(ranks).unwrap();
        let secret = Secret::random().unwrap();
        let branch = |host| Branch::new(layout.clone(), host, secret.clone(), settings.clone()).unwrap();
        let branches = (0..layout.hosts()).map(branch).collect();
        let is_gone = vec![false; layout.size() as usize];
        Launcher { trunk: Trunk::new(layout.clone()), branches, is_gone, layout }
    }

    /// The host of a rank.
    pub(crate) fn host_of(&self, rank: u32) -> usize {
        self.layout.host_of(rank) as usize
    }

    /// What a rank is to be started with.
    pub(crate) fn invite(&mut self, rank: u32) -> Invitation {
        let host = self.host_of(rank);
        self.branches[host].invite(rank).unwrap()
    }

    /// The process of a rank was killed.
    pub(crate) fn killed(&mut self, rank: u32, signal: i32) {
        if std::mem::replace(&mut self.is_gone[rank as usize], true) {
            return;
        }
        let host = self.host_of(rank);
        self.branches[host].exited(rank, Exit::Signal(u8::try_from(signal).unwrap()));
    }

    /// Takes what ranks have sent, and tells them what is decided.
    pub(crate) fn turn(&mut self) {
        for (host, branch) in (0..).zip(&mut self.branches) {
            branch.turn();
            while let Some(report) = branch.report() {
                self.trunk.take(host, report).unwrap();
            }
        }
        while let Some(decision) = self.trunk.decision() {
            for branch in &mut self.branches {
                branch.take(decision.clone()).unwrap();
            }
        }
    }
}
