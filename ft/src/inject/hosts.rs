//! Failures of hosts, of their agents, and of the launcher, which sees to them.

use crate::time;
use std::fmt;
use std::time::Duration;

/// One thing that is to go wrong with hosts or the launcher. It happens once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostInjection {
    /// What happens.
    pub act: HostAction,
    /// When.
    pub when: HostTrigger,
}

/// What happens to a host, by the name that the user gave it, or to the launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostAction {
    /// All processes of the job there die of SIGKILL at once.
    KillHost(String),
    /// The agent there dies of SIGKILL.
    KillAgent(String),
    /// All processes of the job there stop by SIGSTOP, and go on after so long.
    StopHost(String, Duration),
    /// The connections that it has to other hosts fall silent.
    CutHost(String),
    /// The connections between two hosts fall silent. Their names are joined by a hyphen, and may have some.
    CutLink(String),
    /// The host is called again, if it is lost.
    ReturnHost(String),
    /// The launcher dies of SIGKILL.
    KillLauncher,
}

/// When something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostTrigger {
    /// When the launcher learns that the ranks have this checkpoint, counted from 1, or a later one.
    Checkpoint(u64),
    /// So long after all ranks have begun to run.
    After(Duration),
    /// When the launcher brings ranks back, and has come so far this time, counted from 1.
    Recovery(u64, RecoveryMoment),
}

/// How far a launcher has come that brings ranks back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryMoment {
    /// It has killed the ranks that were left, or told their hosts to. They may still run.
    Recalled,
    /// None runs, and all is as they have left it.
    Ended,
    /// It is written in one more store, or a host was told to write in those that it has, from which epoch
    /// ranks go on.
    Rewound,
    /// All hosts were told to start their ranks; on one host, one more rank was started.
    Started,
}

/// All moments, and their names. The first one is meant where none is named.
pub(super) const MOMENTS: [(RecoveryMoment, &str); 4] = [
    (RecoveryMoment::Recalled, "recalled"),
    (RecoveryMoment::Ended, "ended"),
    (RecoveryMoment::Rewound, "rewound"),
    (RecoveryMoment::Started, "started"),
];

/// How often a launcher has come to each moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryCounts([u64; MOMENTS.len()]);

impl RecoveryCounts {
    /// The launcher is there once more.
    pub fn pass(&mut self, moment: RecoveryMoment) {
        self.0[moment as usize] += 1;
    }

    /// Whether it has come so far so often.
    pub fn has_passed(&self, moment: RecoveryMoment, times: u64) -> bool {
        self.0[moment as usize] >= times
    }
}

impl HostInjection {
    /// The host that is named, if one is.
    pub fn host(&self) -> Option<&str> {
        match &self.act {
            HostAction::KillHost(host)
            | HostAction::KillAgent(host)
            | HostAction::StopHost(host, _)
            | HostAction::CutHost(host)
            | HostAction::ReturnHost(host) => Some(host),
            HostAction::CutLink(_) | HostAction::KillLauncher => None,
        }
    }
}

/// The text that is read as this.
impl fmt::Display for HostInjection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.act {
            HostAction::KillHost(host) => write!(f, "kill host {host}")?,
            HostAction::KillAgent(host) => write!(f, "kill agent {host}")?,
            HostAction::StopHost(host, time) => {
                write!(f, "stop host {host} for ")?;
                time::write(f, *time)?;
            }
            HostAction::CutHost(host) => write!(f, "cut host {host}")?,
            HostAction::CutLink(ends) => write!(f, "cut link {ends}")?,
            HostAction::ReturnHost(host) => write!(f, "return host {host}")?,
            HostAction::KillLauncher => f.write_str("kill launcher")?,
        }
        match self.when {
            HostTrigger::Checkpoint(number) => write!(f, " at checkpoint {number}"),
            HostTrigger::Recovery(number, moment) => {
                f.write_str(" at recovery")?;
                if number > 1 {
                    write!(f, " {number}")?;
                }
                let name = MOMENTS.iter().skip(1).find(|(one, _)| *one == moment);
                name.map_or(Ok(()), |(_, name)| write!(f, " after {name}"))
            }
            HostTrigger::After(time) => {
                f.write_str(" after ")?;
                time::write(f, time)
            }
        }
    }
}
