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
            HostTrigger::After(time) => {
                f.write_str(" after ")?;
                time::write(f, time)
            }
        }
    }
}
