//! The launcher's part in having a second one that waits (`--standby`).

use super::{FAREWELL, Job};
use crate::run::hosts::link::{AgentLink, AgentStage, prepare, words};
use crate::run::hosts::standby;
use crate::run::status;
use nix::unistd::getpid;
use scash_join::boot::JobFailure;
use std::fmt::Write as _;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// The second launcher.
#[derive(Debug)]
pub(super) enum Standby {
    /// There is none yet.
    None,
    /// The remote shell's command runs it. It is told that the job is over when the channel is dropped.
    /// `is_ready`: it has said that it waits.
    Waits { child: Child, over: mpsc::Sender<()>, is_ready: Arc<AtomicBool> },
    /// There is none any more.
    Gone,
}

impl Job<'_> {
    /// Where a second launcher is to wait.
    fn standby_host(&self) -> Option<&str> {
        self.plan.replicas.as_ref()?.standby.as_deref()
    }

    /// Starts the second launcher when ranks run, and says so if it is gone. That keeps nobody from going on.
    pub(super) fn look_after_standby(&mut self) {
        let Some(name) = self.standby_host().map(str::to_owned) else { return };
        if self.start_by.is_some() || self.supervisor.is_over() {
            return;
        }
        let ended = match &mut self.standby {
            Standby::None => self.start_standby(&name).err(),
            Standby::Waits { child, .. } => match child.try_wait() {
                Ok(None) => None,
                Ok(Some(ended)) => Some(format!("the remote shell's command has ended ({ended})")),
                Err(error) => Some(error.to_string()),
            },
            Standby::Gone => None,
        };
        if let Some(why) = ended {
            self.standby = Standby::Gone;
            crate::say(&format!("the job has no other launcher on host {name} (--standby): {why}"));
        }
    }

    fn start_standby(&mut self, name: &str) -> Result<(), String> {
        let Some(succession) = self.succession.clone() else {
            return Err("the job has nothing to go on from".to_owned());
        };
        let words = words(self.hosts, name);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("--standby").stdin(Stdio::piped()).stdout(Stdio::piped());
        let launcher = getpid();
        // SAFETY: `prepare` makes system calls only, as the child of a process with several threads must.
        unsafe { command.pre_exec(move || prepare(launcher, false)) };
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let to = child.stdin.take().ok_or("it has no pipe")?;
        let from = child.stdout.take().ok_or("it has no pipe")?;
        let (over, is_over) = mpsc::channel();
        // What it says goes nowhere if the other end is gone, which shows by its process.
        thread::Builder::new()
            .name("standby".to_owned())
            .spawn(move || standby::tell(to, &succession, &is_over))
            .map_err(|error| error.to_string())?;
        let is_ready = Arc::new(AtomicBool::new(false));
        let ready = Arc::clone(&is_ready);
        thread::Builder::new()
            .name("standby-says".to_owned())
            .spawn(move || standby::hear(from, || ready.store(true, Relaxed)))
            .map_err(|error| error.to_string())?;
        self.standby = Standby::Waits { child, over, is_ready };
        Ok(())
    }

    /// What the user is told of it.
    pub(super) fn status_of_standby(&self, text: &mut String) {
        let Some(name) = self.standby_host() else { return };
        let state = match &self.standby {
            Standby::Waits { is_ready, .. } if is_ready.load(Relaxed) => "another launcher waits",
            Standby::None | Standby::Waits { .. } => "another launcher does not wait yet",
            Standby::Gone => "no other launcher waits any more",
        };
        let _ = writeln!(text, "{state} on host {name}");
    }

    /// The job is over: the second launcher is to go.
    pub(super) fn part_with_standby(&mut self) {
        let standby = std::mem::replace(&mut self.standby, Standby::Gone);
        let Standby::Waits { mut child, over, .. } = standby else { return };
        drop(over);
        let by = Instant::now() + FAREWELL;
        while Instant::now() < by && matches!(child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// A host is lost. Leaves the job to the second launcher, if there may be one and this one does not reach
    /// more than half of the hosts: they may have lost this one. Returns whether that is so.
    pub(super) fn is_outvoted(&mut self, host: u32, why: &str) -> bool {
        let Some(name) = self.standby_host().map(str::to_owned) else { return false };
        let is_there = |link: &&AgentLink| matches!(link.stage, AgentStage::Running | AgentStage::Done);
        let there = self.links.iter().filter(is_there).count();
        // When all ranks have ended, one that has said all is not missed.
        let is_complete = self.has_said_all(host);
        if 2 * there > self.links.len() || is_complete || !self.supervisor.may_go_on() {
            return false;
        }
        let all = self.links.len();
        let why = format!(
            "{why}; {there} of {all} hosts are left, and with --standby the launcher that has more than half goes on: this may be the one on host {name}, and `scash resume` elsewhere does so, too"
        );
        self.leave_to_another(JobFailure { rank: None, why, status: 0 });
        true
    }

    /// Another launcher may go on with the job, and this one ends without it.
    pub(super) fn leave_to_another(&mut self, failure: JobFailure) {
        for link in &mut self.links {
            // Agents wait for that one. Their ranks end.
            link.leave();
            link.kill();
        }
        // It must not hear that the job is over.
        if let Standby::Waits { mut child, over, .. } = std::mem::replace(&mut self.standby, Standby::Gone) {
            let _ = child.kill().and_then(|()| child.wait());
            drop(over);
        }
        self.give_up(&JobFailure { status: status::LAUNCHER, ..failure });
    }
}
