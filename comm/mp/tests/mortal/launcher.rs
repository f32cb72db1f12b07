//! The launcher of a job whose hosts are all in one process.

use scash_comm::Secret;
use scash_join::boot::{Exit, HostRelay, Invitation, LauncherRelay, Layout, Settings};

/// What `scash run` and its agents are to ranks on several hosts.
pub(crate) struct Launcher {
    layout: Layout,
    launcher_relay: LauncherRelay,
    host_relays: Vec<HostRelay>,
    /// By rank: whether it was told that it is gone.
    is_gone: Vec<bool>,
}

impl Launcher {
    /// Of so many ranks on each host.
    pub(crate) fn new(ranks: &[u32], settings: &Settings) -> Launcher {
        let layout = Layout::new(ranks).unwrap();
        let secret = Secret::random().unwrap();
        let host_relay =
            |host| HostRelay::new(layout.clone(), host, secret.clone(), settings.clone()).unwrap();
        let host_relays = (0..layout.hosts()).map(host_relay).collect();
        let is_gone = vec![false; layout.size() as usize];
        Launcher { launcher_relay: LauncherRelay::new(layout.clone()), host_relays, is_gone, layout }
    }

    /// The host of a rank.
    pub(crate) fn host_of(&self, rank: u32) -> usize {
        self.layout.host_of(rank) as usize
    }

    /// What a rank is to be started with.
    pub(crate) fn invite(&mut self, rank: u32) -> Invitation {
        let host = self.host_of(rank);
        self.host_relays[host].invite(rank).unwrap()
    }

    /// The process of a rank was killed.
    pub(crate) fn killed(&mut self, rank: u32, signal: i32) {
        if std::mem::replace(&mut self.is_gone[rank as usize], true) {
            return;
        }
        let host = self.host_of(rank);
        self.host_relays[host].exited(rank, Exit::Signal(u8::try_from(signal).unwrap()));
    }

    /// Takes what ranks have sent, and tells them what is decided.
    pub(crate) fn turn(&mut self) {
        for (host, host_relay) in (0..).zip(&mut self.host_relays) {
            host_relay.turn();
            while let Some(report) = host_relay.report() {
                self.launcher_relay.take(host, report).unwrap();
            }
        }
        while let Some(decision) = self.launcher_relay.decision() {
            for host_relay in &mut self.host_relays {
                host_relay.take(decision.clone()).unwrap();
            }
        }
    }
}
