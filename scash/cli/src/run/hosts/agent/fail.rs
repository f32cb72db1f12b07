//! What goes wrong on a host because the user wants it (`scash run --inject`).

use super::{Agent, cut};
use crate::run::Refusal;
use crate::run::front::die;
use crate::run::hosts::frames::HostFailure;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpid, getppid};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Stops processes, and has them go on after a while: somebody must who does not stop.
const STOP: &str = r#"time=$1; shift; kill -STOP "$@"; sleep "$time"; kill -CONT "$@""#;

impl Agent {
    /// Fails as the launcher says.
    pub(super) fn fail(&mut self, failure: HostFailure) -> Result<(), Refusal> {
        match failure {
            HostFailure::Kill => {
                if let Some(work) = &self.work {
                    work.processes.signal(Signal::SIGKILL);
                }
                die()
            }
            HostFailure::KillAgent => die(),
            HostFailure::Stop(time) => self.stop_all(time).map_err(|error| super::trouble(&error)),
            HostFailure::Cut(from) => {
                // The launcher's connection may have come since the last beat.
                if let Some(listener) = self.work.as_mut().and_then(|work| work.listener.as_mut()) {
                    listener.turn();
                }
                if let Err(error) = cut::cut(self.running().chain([getpid()]), &from) {
                    crate::say(&format!("--inject: cutting connections: {error}"));
                }
                Ok(())
            }
        }
    }

    /// The processes of ranks.
    fn running(&self) -> impl Iterator<Item = Pid> {
        self.work.iter().flat_map(|work| work.processes.running())
    }

    fn stop_all(&self, time: Duration) -> std::io::Result<()> {
        let all = self.running().chain([getppid(), getpid()]).map(|pid| pid.to_string());
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", STOP, "scash-waker"]).arg(time.as_secs_f64().to_string()).args(all);
        // It is reaped with what ranks leave behind.
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(drop)
    }
}
