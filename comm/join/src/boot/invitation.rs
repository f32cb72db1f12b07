//! What ranks are told when they are started.

use std::os::fd::OwnedFd;

/// What a job's ranks are told besides their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Application threads a rank.
    pub threads: u32,
    /// The provider that carries their traffic.
    pub provider: String,
}

/// What one rank needs to be started with.
#[derive(Debug)]
pub struct Invitation {
    /// The rank's end of its line. It is closed on exec: whoever starts the process must undo that **in the
    /// child**, and close it here afterwards.
    pub line: OwnedFd,
    /// Environment variables to be set.
    pub env: Vec<(&'static str, String)>,
}
