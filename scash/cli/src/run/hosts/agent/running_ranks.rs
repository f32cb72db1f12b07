//! What an agent has for its host's ranks, once the launcher has said what to run.

use super::survival::Survival;
use crate::run::hosts::address;
use crate::run::hosts::assignment::Assignment;
use crate::run::hosts::heartbeat::HeartbeatListener;
use crate::run::hosts::program_copy::ProgramCopy;
use crate::run::output::Printing;
use crate::run::plan::Task;
use crate::run::processes::Processes;
use crate::run::program::{self, Program};
use crate::run::{Refusal, limits, recovery, status};
use scash_comm::Secret;
use scash_join::boot::{HostRelay, Layout, Settings};
use std::ffi::OsStr;
use std::path::PathBuf;

/// This host's ranks.
pub(super) struct RunningRanks {
    pub(super) host_relay: HostRelay,
    pub(super) layout: Layout,
    /// Which of its hosts this is.
    pub(super) host: u32,
    pub(super) processes: Processes,
    pub(super) task: Task,
    /// The program itself, if it was sent here: ranks are started from it.
    _copy: Option<ProgramCopy>,
    pub(super) bind: bool,
    pub(super) settings: Settings,
    /// Whether both streams of a rank go to one file.
    pub(super) one_stream: bool,
    /// Whether they were started.
    pub(super) begun: bool,
    /// `None` when all output is on its way.
    pub(super) printing: Option<Printing>,
    /// Where ranks may die.
    pub(super) survival: Option<Survival>,
    /// By which the launcher knows that this host is there.
    pub(super) listener: Option<HeartbeatListener>,
}

impl RunningRanks {
    /// Looks whether all is here that ranks need.
    pub(super) fn new(assignment: Assignment, copy: Option<ProgramCopy>) -> Result<RunningRanks, Refusal> {
        let several = assignment.layout.hosts() > 1;
        let mut env = assignment.env.clone();
        let is_given = std::env::var_os(address::INTERFACE).is_some()
            || env.iter().any(|(name, _)| name == address::INTERFACE);
        if several && !is_given {
            let address = address::choose(&assignment).map_err(|why| Refusal::new(status::LAUNCHER, why))?;
            env.push((address::INTERFACE.into(), address.to_string().into()));
        }
        // Without it the launcher notices later that this host is gone.
        let interface = std::env::var(address::INTERFACE).ok();
        let given = env.iter().find(|(name, _)| name == address::INTERFACE);
        let given = given.and_then(|(_, value)| value.to_str().map(str::to_owned));
        let is_watched = several && assignment.is_watched;
        let listener =
            given.or(interface).filter(|_| is_watched).and_then(|text| HeartbeatListener::new(&text).ok());
        enter(&assignment.directory)?;
        let path = copy.as_ref().map_or_else(|| PathBuf::from(assignment.program.0), ProgramCopy::path);
        let program = Program { path, name: assignment.program.1 };
        program::check(&program.path)?;
        let (layout, host, settings) = (assignment.layout, assignment.host, assignment.settings);
        let host_relay = host_relay(&layout, host, assignment.secret, &settings)?;
        // Of ranks that may come here the stores and the output are here, too.
        let ranks =
            if assignment.replicas.is_some() { layout.size() as usize } else { host_relay.ranks().len() };
        limits::make_room(u32::try_from(ranks).unwrap_or(u32::MAX), "ranks")?;
        if assignment.no_aslr {
            recovery::fix_addresses()?;
        }
        let survival = |replicas| Survival::new(&layout, host, replicas, assignment.one_stream);
        Ok(RunningRanks {
            processes: Processes::default(),
            survival: assignment.replicas.map(survival).transpose()?,
            host_relay,
            layout,
            host,
            settings,
            task: Task { program, arguments: assignment.arguments, env },
            _copy: copy,
            bind: assignment.bind,
            one_stream: assignment.one_stream,
            begun: false,
            printing: None,
            listener,
        })
    }

    pub(super) fn take_exit(&mut self, rank: u32) {
        if let Some(exit) = self.processes.take_exit(rank) {
            // What ranks have printed that may be started again is perhaps taken back.
            let is_last = exit.shell_status() != 0 && self.survival.is_none();
            if let Some(printing) = self.printing.as_ref().filter(|_| is_last) {
                printing.catch_up();
            }
            self.host_relay.exited(rank, exit);
        }
    }

    /// Makes lines for ranks that are started again, there, and which know this secret. Returns the former
    /// ones, which stay if that fails.
    pub(super) fn renew(&mut self, secret: Secret, layout: Layout) -> Result<HostRelay, Refusal> {
        let renewed = host_relay(&layout, self.host, secret, &self.settings)?;
        self.layout = layout;
        self.processes = Processes::default();
        Ok(std::mem::replace(&mut self.host_relay, renewed))
    }
}

fn host_relay(layout: &Layout, host: u32, secret: Secret, settings: &Settings) -> Result<HostRelay, Refusal> {
    let host_relay = HostRelay::new(layout.clone(), host, secret, settings.clone());
    host_relay.map_err(|error| Refusal::new(status::LAUNCHER, error.to_string()))
}

/// Makes the launcher's directory this process's own, and its ranks'.
fn enter(directory: &OsStr) -> Result<(), Refusal> {
    std::env::set_current_dir(directory).map_err(|error| {
        let shown = directory.display();
        let why = format!(
            "the job's directory {shown} cannot be entered: {error}; start the job in one that all hosts have"
        );
        Refusal::new(status::LAUNCHER, why)
    })
}
