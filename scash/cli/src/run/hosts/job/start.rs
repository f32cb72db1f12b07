//! The launcher of a job on several hosts, until ranks run: it calls the agents, tells them what to run, and
//! lets them go when all are ready.

use super::Job;
use crate::run::hosts::address;
use crate::run::hosts::assignment::{Assignment, Replicated};
use crate::run::hosts::frames::{Down, FROM_LAUNCHER, check_hello};
use crate::run::hosts::link::{AgentLink, AgentStage, CallReason};
use crate::run::plan::Plan;
use crate::run::{Refusal, recovery, status};
use nix::sys::epoll::EpollFlags;
use nix::sys::signal::Signal;
use scash_comm::wipe;
use scash_join::boot::Settings;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

impl Job<'_> {
    /// Calls the agents of all hosts.
    pub(super) fn call(&mut self) -> Result<(), Refusal> {
        for (host, name) in (0..).zip(&self.hosts.names) {
            let call = match &self.hosts.former {
                None => CallReason::First(self.layout.ranks_of(host).collect()),
                Some(former) if former.absent.contains(&host) => {
                    self.links.push(AgentLink::absent(name));
                    continue;
                }
                Some(former) => CallReason::Orphan(former.job.clone(), host),
            };
            let link = AgentLink::call(self.hosts, name, call);
            let link = link.map_err(|why| Refusal::new(status::LAUNCHER, format!("host {name}: {why}")))?;
            self.watch_link(host, &link)?;
            self.links.push(link);
        }
        Ok(())
    }

    pub(super) fn watch_link(&self, host: u32, link: &AgentLink) -> Result<(), Refusal> {
        let Some((from, to)) = link.ends() else { return Ok(()) };
        self.watch(from, EpollFlags::EPOLLIN, 2 * u64::from(host))?;
        // Only when there is room again, which is of interest only then.
        self.watch(to, EpollFlags::EPOLLOUT | EpollFlags::EPOLLET, 2 * u64::from(host) + 1)
    }

    pub(super) fn greet(&mut self, host: u32, frames: u32, version: &str) {
        if self.link(host).is_of_orphan {
            return match check_hello(frames, version) {
                Ok(()) => self.link(host).stage = AgentStage::Preparing,
                Err(why) => self.refused(host, status::LAUNCHER, &why),
            };
        }
        let start = check_hello(frames, version).and_then(|()| self.assignment(host)).map(|assignment| {
            let start = Down::Start(Box::new(assignment));
            let mut bytes = start.encode();
            wipe(&mut bytes);
            (bytes.len() <= FROM_LAUNCHER).then_some(start)
        });
        match start {
            Ok(Some(start)) => {
                let program = self.program.clone();
                let link = self.link(host);
                link.send(&start);
                link.stage = AgentStage::Preparing;
                if let Some(program) = program {
                    link.send_program(program);
                }
            }
            Ok(None) => {
                let why = format!("arguments and environment have more than {} MiB", FROM_LAUNCHER >> 20);
                self.call_off(status::USAGE, &why);
            }
            Err(why) => self.lose(host, &why),
        }
    }

    fn assignment(&self, host: u32) -> Result<Assignment, String> {
        let Plan { task, .. } = self.plan;
        let name = &self.hosts.names[host as usize];
        let absolute = std::path::absolute(&task.program.path).map_err(|error| error.to_string())?;
        let directory = match &self.hosts.former {
            Some(former) => former.directory(),
            None => {
                std::env::current_dir().map_err(|error| format!("asking for the directory here: {error}"))?
            }
        };
        let stack = match &self.succession {
            Some(succession) => succession.stack,
            None => recovery::stack_limit().map_err(|refusal| refusal.why)?,
        };
        let several = self.layout.hosts() > 1;
        Ok(Assignment {
            secret: self.secret.clone(),
            layout: if self.is_returning(host) { self.layout_without(host) } else { self.layout.clone() },
            host,
            name: name.clone(),
            addresses: if several { address::resolve(name) } else { Vec::new() },
            settings: Settings { threads: self.plan.threads, provider: self.plan.provider.to_owned() },
            one_stream: self.one_stream,
            bind: self.plan.bind,
            no_aslr: self.plan.no_aslr,
            is_watched: self.hosts.heartbeat.is_some(),
            replicas: self.plan.replicas.as_ref().map(|replicas| Replicated {
                rule: self.hosts.copy_rule(replicas.copies),
                stack,
                env: replicas.env(),
                succession: self.succession.clone(),
            }),
            copied: self.program.as_ref().map(|program| program.len() as u64),
            directory: directory.into(),
            program: (absolute.into(), task.program.name.clone()),
            arguments: task.arguments.clone(),
            env: settings_here().chain(task.env.iter().cloned()).collect(),
        })
    }

    /// The agents of two hosts are on one machine, which is lost as two of them. It is nothing new to who has
    /// named a rack for both.
    pub(super) fn are_one_machine(&mut self, host: u32, other: u32) {
        let has_copies = self.plan.replicas.as_ref().is_some_and(|replicas| replicas.copies > 0);
        let (first, second) = (host.min(other), host.max(other));
        let name = |host: u32| self.hosts.names.get(host as usize);
        let (Some(one), Some(other)) = (name(first), name(second)) else { return };
        let rack = |host: u32| self.hosts.racks.get(host as usize);
        let are_known = rack(first).is_some() && rack(first) == rack(second);
        if has_copies && !are_known && self.beside_others.insert(second) {
            crate::say(&format!(
                "hosts {one} and {other} are one machine, and are lost together: to --replicas they are two, unless \
                 --hostfile names a rack for both (rack=R)"
            ));
        }
    }

    pub(super) fn ready(&mut self, host: u32) {
        self.link(host).stage = AgentStage::Ready;
        if self.start_by.is_some() && self.links.iter().all(|link| link.stage == AgentStage::Ready) {
            self.start_by = None;
            self.links.iter_mut().for_each(|link| link.stage = AgentStage::Running);
            self.tell_all(&Down::Go);
        }
    }

    /// The job ends before any rank was started.
    pub(super) fn call_off(&mut self, status: u8, why: &str) {
        let is_taken_over = self.is_taken_over();
        if self.start_by.take().is_none() {
            return;
        }
        if !why.is_empty() {
            crate::say(why);
        }
        for link in &mut self.links {
            // One that has not answered has no ranks to end.
            if link.stage == AgentStage::Calling {
                link.kill();
            }
            // Agents that have kept something do so for the next launcher.
            if is_taken_over { link.leave() } else { link.let_go() }
        }
        // It would have ranks killed, of which there are none.
        drop(self.supervisor.not_started(self.plan.ranks, status));
    }

    /// A signal for ranks that there are not yet.
    pub(super) fn end_early(&mut self, signal: Signal) {
        let ends = !matches!(signal, Signal::SIGTSTP | Signal::SIGCONT | Signal::SIGUSR1 | Signal::SIGUSR2);
        if ends {
            let status = match self.supervisor.verdict() {
                0 => u8::try_from(128 + signal as i32).unwrap_or(u8::MAX),
                verdict => verdict,
            };
            self.call_off(status, "");
        }
    }
}

/// The program's bytes, which all hosts get alike whatever becomes of the file.
pub(super) fn read_program(path: &Path) -> Result<Rc<[u8]>, Refusal> {
    let refuse =
        |why: &str| Refusal::new(status::NOT_EXECUTABLE, format!("--copy: {}: {why}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| refuse(&error.to_string()))?;
    if bytes.is_empty() {
        return Err(refuse("it is empty"));
    }
    Ok(bytes.into())
}

/// The settings of scash that stand in the environment here, for ranks elsewhere.
fn settings_here() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| name.as_bytes().starts_with(b"SCASH_"))
}
