//! The launcher's part in having a second one that waits (`--standby`).

use super::{FAREWELL, Job};
use crate::run::hosts::link::{AgentLink, AgentStage, prepare, words};
use crate::run::hosts::standby::{self, Said, Word};
use crate::run::status;
use nix::unistd::getpid;
use scash_join::boot::JobFailure;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// The second launcher.
#[derive(Debug)]
pub(super) enum Standby {
    /// There is none yet.
    None,
    /// The remote shell's command runs it. The job is left to it when `words` is dropped.
    ///
    /// `misses`: it did not reach these hosts when it looked, as the user knows.
    Waits { child: Child, words: mpsc::Sender<Word>, said: Arc<StandbyNews>, misses: BTreeSet<u32> },
    /// There is none any more.
    Gone,
}

/// What the second launcher has said.
#[derive(Debug, Default)]
pub(super) struct StandbyNews {
    /// That it waits.
    is_ready: AtomicBool,
    /// That it knows of the newest change.
    knows: AtomicBool,
    /// That it has not reached these hosts; not told the user yet.
    missed: Mutex<Vec<u32>>,
}

impl StandbyNews {
    fn take(&self, said: Said) {
        match said {
            Said::Waits => self.is_ready.store(true, Relaxed),
            Said::Knows => self.knows.store(true, Relaxed),
            Said::Misses(host) => self.missed.lock().unwrap_or_else(PoisonError::into_inner).push(host),
        }
    }

    fn take_missed(&self) -> Vec<u32> {
        std::mem::take(&mut self.missed.lock().unwrap_or_else(PoisonError::into_inner))
    }
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
        self.tell_of_hosts_that_it_misses(&name);
        self.change_quorum();
    }

    /// Says which hosts the second launcher has not reached, if this one does.
    fn tell_of_hosts_that_it_misses(&mut self, name: &str) {
        let Standby::Waits { said, misses, .. } = &mut self.standby else { return };
        for host in said.take_missed() {
            let Some(missed) = self.hosts.names.get(host as usize) else { continue };
            if is_there(&self.links, host) && misses.insert(host) {
                crate::say(&format!(
                    "the other launcher, on host {name} (--standby), has not found the agent of host {missed} when it \
                     looked: `{} {missed}` must work there",
                    self.hosts.rsh.join(" ")
                ));
            }
        }
    }

    /// Hosts that stay lost lose their say, and those that are back have it again. If the second launcher is
    /// gone, which may be there all the same, it knows of no change any more.
    fn change_quorum(&mut self) {
        if let Standby::Waits { said, .. } = &self.standby
            && said.knows.swap(false, Relaxed)
        {
            self.quorum.confirmed();
        }
        let links = &self.links;
        let is_reached = |host| is_there(links, host);
        let change = self.quorum.next_change(self.layout.hosts(), is_reached, Instant::now());
        if let (Some(change), Standby::Waits { words, .. }) = (change, &self.standby) {
            let _ = words.send(Word::Changed(change));
        }
    }

    fn start_standby(&mut self, name: &str) -> Result<(), String> {
        let Some(mut succession) = self.succession.clone() else {
            return Err("the job has nothing to go on from".to_owned());
        };
        succession.voters = Some(self.quorum.members());
        let words = words(self.hosts, name);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("--standby").stdin(Stdio::piped()).stdout(Stdio::piped());
        let launcher = getpid();
        // SAFETY: `prepare` makes system calls only, as the child of a process with several threads must.
        unsafe { command.pre_exec(move || prepare(launcher, false)) };
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let to = child.stdin.take().ok_or("it has no pipe")?;
        let from = child.stdout.take().ok_or("it has no pipe")?;
        let (words, all_words) = mpsc::channel();
        // What it says goes nowhere if the other end is gone, which shows by its process.
        thread::Builder::new()
            .name("standby".to_owned())
            .spawn(move || standby::tell(to, &succession, &all_words))
            .map_err(|error| error.to_string())?;
        let said = Arc::new(StandbyNews::default());
        let news = Arc::clone(&said);
        thread::Builder::new()
            .name("standby-says".to_owned())
            .spawn(move || standby::hear(from, |word| news.take(word)))
            .map_err(|error| error.to_string())?;
        self.standby = Standby::Waits { child, words, said, misses: BTreeSet::new() };
        // The description says who has a say.
        self.quorum.confirmed();
        Ok(())
    }

    /// What the user is told of it.
    pub(super) fn status_of_standby(&self, text: &mut String) {
        let Some(name) = self.standby_host() else { return };
        let state = match &self.standby {
            Standby::Waits { said, .. } if said.is_ready.load(Relaxed) => "another launcher waits",
            Standby::None | Standby::Waits { .. } => "another launcher does not wait yet",
            Standby::Gone => "no other launcher waits any more",
        };
        let _ = writeln!(text, "{state} on host {name}");
        if let Standby::Waits { misses, .. } = &self.standby {
            for host in misses {
                let _ = writeln!(
                    text,
                    "it did not reach host {} when it looked",
                    self.hosts.names[*host as usize]
                );
            }
        }
        let out = self.quorum.out(self.links.len());
        if !out.is_empty() {
            let names: Vec<&str> = out.iter().map(|host| &*self.hosts.names[*host as usize]).collect();
            let _ = writeln!(text, "no say in which launcher goes on: {}", names.join(", "));
        }
    }

    /// The job is over: the second launcher is to go.
    pub(super) fn part_with_standby(&mut self) {
        let standby = std::mem::replace(&mut self.standby, Standby::Gone);
        let Standby::Waits { mut child, words, .. } = standby else { return };
        let _ = words.send(Word::Over);
        let by = Instant::now() + FAREWELL;
        while Instant::now() < by && matches!(child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// A host is lost. Leaves the job to the second launcher, if there may be one and this one does not reach
    /// more than half of the hosts: they may have lost this one. Returns whether that is so.
    pub(super) fn is_outvoted(&mut self, host: u32, why: &str) -> bool {
        let Some(name) = self.standby_host().map(str::to_owned) else { return false };
        let is_reached = |host| is_there(&self.links, host);
        // When all ranks have ended, one that has said all is not missed.
        let is_complete = self.has_said_all(host);
        if self.quorum.is_decided_by(is_reached) || is_complete || !self.supervisor.may_go_on() {
            return false;
        }
        let (all, there) = self.quorum.count(is_reached);
        let why = format!(
            "{why}; {there} of the {all} hosts that have a say are left, and with --standby the launcher that \
             has more than half goes on: this may be the one on host {name}, and `scash resume` elsewhere does \
             so, too"
        );
        self.leave_to_another(JobFailure { rank: None, why, status: 0 });
        true
    }

    /// Another launcher may go on with the job, and this one ends without it.
    pub(super) fn leave_to_another(&mut self, failure: JobFailure) {
        self.is_left = true;
        self.printers.leave();
        // Agents wait for that one. Their ranks end. The remote shell passes on what was said to them, as
        // what is printed, and ends with this process.
        self.links.iter_mut().for_each(AgentLink::leave);
        if let Some(survival) = &mut self.survival {
            survival.recovery.left();
        }
        if let Standby::Waits { mut child, .. } = std::mem::replace(&mut self.standby, Standby::Gone) {
            let _ = child.kill().and_then(|()| child.wait());
        }
        self.give_up(&JobFailure { status: status::LAUNCHER, ..failure });
    }
}

/// Whether the agent of a host is reached.
fn is_there(links: &[AgentLink], host: u32) -> bool {
    matches!(links[host as usize].stage, AgentStage::Running | AgentStage::Done)
}
