//! What the launcher does at the end of a job for hosts that it has lost: their agents may be there, as on a
//! host that was too slow to answer, and would wait for another launcher with all that they keep
//! (`--linger`). They are called once more, and told to end. Where the job ends because hosts are lost, they
//! are not: what they keep may be enough for another launcher.

use super::Job;
use crate::run::hosts::link::{self, AgentLink, AgentStage};
use nix::unistd::getpid;
use scash_ft::recovery::Unrecoverable;
use scash_join::boot::JobFailure;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long hosts that are out of reach may take to answer. The user waits for the job's end meanwhile.
const ANSWER: Duration = Duration::from_secs(2);

/// The remote shell's commands that call them.
#[derive(Debug)]
pub(super) struct Releases {
    children: Vec<Child>,
    until: Instant,
}

impl Job<'_> {
    /// If the job ends because no host is left when this one is lost, though its agents may wait for another
    /// launcher: how the user is told of that.
    pub(super) fn hint_at_another_launcher(&self, host: u32) -> Option<String> {
        let is_there = |link: &AgentLink| matches!(link.stage, AgentStage::Running | AgentStage::Done);
        let others = (0..).zip(&self.links).any(|(other, link)| other != host && is_there(link));
        let is_complete = self.has_said_all(host);
        if others || is_complete || !self.supervisor.may_go_on() {
            return None;
        }
        self.another_launcher()
    }

    /// How the user is told that agents keep what they have for another launcher, if they do.
    pub(super) fn another_launcher(&self) -> Option<String> {
        let succession = self.succession.as_ref()?;
        let (job, time) = (&succession.job, succession.linger().as_secs());
        Some(format!("; for {time} s, `scash resume {job}` goes on with what hosts keep"))
    }

    /// Whether another launcher may go on with the job, or print what is left of it, if this one does not:
    /// nobody wants it to end.
    pub(super) fn may_be_left(&self) -> bool {
        let has_failed = self.is_finished() && !self.supervisor.is_hurried();
        let has_begun = self.start_by.is_none() && !self.is_left;
        self.succession.is_some() && has_begun && (self.supervisor.may_go_on() || has_failed)
    }

    /// Whether another launcher may find what a rank needs: on hosts that are out of reach, or because all
    /// ranks are known to have had it.
    pub(super) fn may_be_left_to_another(&self, why: Unrecoverable) -> bool {
        let is_known = match (why, &self.survival) {
            (Unrecoverable::Lost { epoch, .. }, Some(survival)) => survival.recall.is_committed(epoch),
            // The checkpoint is there, and what hosts lack may be there later.
            (Unrecoverable::Unfit { .. }, _) => true,
            _ => false,
        };
        self.succession.is_some() && (is_known || !self.unreached.is_empty())
    }

    /// No store within reach has what a rank needs.
    pub(super) fn leave_for_want_of_stores(&mut self, mut failure: JobFailure) {
        failure.why += &self.another_launcher().unwrap_or_default();
        self.leave_to_another(failure);
    }

    /// Agents of these hosts were let go. Tells those that have not ended in time: the word may have been
    /// lost behind what was on its way to them.
    pub(super) fn release_again(&mut self, hosts: &[u32]) {
        for host in hosts {
            let link = self.link(*host);
            if link.exit.is_none() {
                link.leave();
                link.kill();
                self.unreached.insert(*host);
            }
        }
        self.release_unreached().wait();
    }

    /// Tells agents on hosts that are out of reach that the job is over.
    pub(super) fn release_unreached(&mut self) -> Releases {
        let unreached = std::mem::take(&mut self.unreached);
        let Some(succession) = &self.succession else {
            return Releases { children: Vec::new(), until: Instant::now() };
        };
        let launcher = getpid();
        let call = |host: u32| {
            let words = link::words(self.hosts, &self.hosts.names[host as usize]);
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).args(["--release", &succession.job.to_string()]);
            command.args(["--host", &host.to_string()]);
            // A host that does not answer is no news.
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            // SAFETY: `prepare` makes system calls only, as the child of a process with several threads must.
            unsafe { command.pre_exec(move || link::prepare(launcher, true)) };
            command.spawn().ok()
        };
        Releases {
            children: unreached.into_iter().filter_map(call).collect(),
            until: Instant::now() + ANSWER,
        }
    }
}

impl Releases {
    /// Waits until they have answered, or for as long as they may take.
    pub(super) fn wait(self) {
        for mut child in self.children {
            while Instant::now() < self.until && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(1));
            }
            // One that has ended was waited for.
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}
