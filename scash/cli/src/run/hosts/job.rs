//! The launcher of a job on several hosts: calls the agents ([`start`]), waits for whatever happens, and lets
//! the [`Supervisor`] decide; where ranks may die, the [`Recovery`](crate::run::recovery::Recovery) decides
//! first ([`survive`]).

mod accusations;
mod end;
mod exits;
mod failures;
mod heartbeats;
mod killed;
mod latecomers;
mod moves;
mod release;
mod requests;
mod returns;
mod standby;
mod start;
mod survive;
mod takeover;

use super::frames::{Down, Keeping, Up};
use super::heartbeat::HeartbeatProbe;
use super::link::{AgentLink, AgentStage, waited_for};
use super::printer::{OutputChunk, OutputReport, OutputSource, Printers};
use super::quorum::Quorum;
use super::succession::Succession;
use super::{BEAT, Hosts, SILENCE};
use crate::run::control::Control;
use crate::run::front::{FrontNews, Orders, SignalOrder};
use crate::run::oom;
use crate::run::output;
use crate::run::plan::Plan;
use crate::run::supervisor::{Action, Supervisor};
use crate::run::{Refusal, status, sweep};
use failures::Failures;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use scash_comm::Secret;
use scash_join::boot::{Exit, LauncherRelay, Layout};
use standby::Standby;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::{Duration, Instant};
use survive::Survival;
use takeover::Served;

/// What became readable: the pipe from a host's agent by twice the host's number, the pipe to it by one more,
/// or one of these.
const ORDERS: u64 = 1 << 32;
const CHILD: u64 = ORDERS + 1;
const PRINTED: u64 = ORDERS + 2;
const ASKED: u64 = ORDERS + 3;

/// How long hosts may take until all their agents are ready. Whoever is asked for a password must have time
/// to type it.
const START: Duration = Duration::from_secs(120);
/// After how long the user hears which hosts are still waited for.
const IMPATIENCE: Duration = Duration::from_secs(5);
/// How long an agent may take to say that its killed ranks have ended.
const AFTER_KILL: Duration = Duration::from_secs(5);
/// How long the remote shell's command may take to end when its output has ended, and the other way round.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long printing may take after an interrupted job has ended.
const LAST_LINES: Duration = Duration::from_secs(2);
/// How long agents that are done may take to be gone.
const FAREWELL: Duration = Duration::from_secs(1);

/// Runs the job to its end; returns the exit status.
pub(in crate::run) fn run(plan: &Plan, hosts: &Hosts, orders: Orders) -> u8 {
    let mut is_left = false;
    let done = Job::new(plan, hosts, orders).and_then(|mut job| {
        let done = job.call().and_then(|()| {
            while job.goes_on() {
                job.step()?;
            }
            Ok(())
        });
        // Whatever has happened, agents are not to wait for another launcher.
        job.part();
        is_left = job.is_left;
        done.map(|()| job.supervisor.verdict())
    });
    let status = done.unwrap_or_else(|refusal| {
        crate::say(&refusal.why);
        refusal.status
    });
    // Agents that are still called end with the commands that call them; those that wait for another launcher
    // may be descendants of this process.
    if !is_left {
        sweep::sweep(&[]);
    }
    status
}

struct Job<'a> {
    plan: &'a Plan,
    hosts: &'a Hosts,
    /// Where ranks run: as the hosts were dealt them, until one is lost.
    layout: Layout,
    secret: Secret,
    /// The program, if it is sent to the hosts.
    program: Option<Rc<[u8]>>,
    supervisor: Supervisor,
    launcher_relay: LauncherRelay,
    /// One a host.
    links: Vec<AgentLink>,
    /// The process of each rank, on its host.
    pids: Vec<Option<u32>>,
    /// `None` when the front is dead.
    orders: Option<Orders>,
    child_signals: SignalFd,
    epoll: Epoll,
    printers: Printers,
    /// Whether stdout and stderr are one file.
    one_stream: bool,
    /// Until when all agents must be ready; `None` when they are.
    start_by: Option<Instant>,
    /// When the user hears which agents are not ready; `None` when that was said.
    tell_by: Option<Instant>,
    /// When agents are told next that the launcher is there.
    next_beat: Instant,
    /// When it was looked last whether agents are there.
    looked: Instant,
    /// When hosts are asked next whether they are there.
    next_probe: Instant,
    /// Until when killed ranks must have ended.
    dead_by: Option<Instant>,
    /// Until when an end waits for word of others ([`exits`]), its host, its rank, and how that exited; the
    /// oldest first.
    held_back: Vec<(Instant, u32, u32, Exit)>,
    /// When the last rank ended.
    over_since: Option<Instant>,
    /// Where ranks may die.
    survival: Option<Survival>,
    /// By which other commands ask; `None` where the system has none.
    control: Option<Control>,
    /// What agents know so that the job outlives this launcher.
    succession: Option<Succession>,
    /// By host: what it has kept, until all have said that, if the job has lost its launcher before.
    keepings: Vec<Option<Keeping>>,
    /// Hosts whose agents have said that they have that launcher, when they have last.
    served: BTreeMap<u32, Served>,
    /// Whether agents wait for another launcher, which goes on with the job.
    is_left: bool,
    /// What is to go wrong because the user wants it.
    failures: Failures,
    /// The second launcher, if the user wants one.
    standby: Standby,
    /// Which hosts have a say in whether this one goes on, if there is a second one.
    quorum: Quorum,
    /// Hosts out of reach, whose agents may wait for another launcher.
    unreached: BTreeSet<u32>,
    /// Hosts that are one machine with one of a lower number, as the user has been told.
    beside_others: BTreeSet<u32>,
}

impl<'a> Job<'a> {
    fn new(plan: &'a Plan, hosts: &'a Hosts, orders: Orders) -> Result<Job<'a>, Refusal> {
        let mut child = SigSet::empty();
        child.add(Signal::SIGCHLD);
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let refuse = |error: String| Refusal::new(status::LAUNCHER, error);
        let screens = output::open(plan.label, plan.ranks, output::is_one_file());
        let one_stream = hosts.former.as_ref().map_or_else(output::is_one_file, Succession::is_one_stream);
        let job = Job {
            plan,
            hosts,
            layout: hosts.layout.clone(),
            secret: Secret::random().map_err(|error| refuse(error.to_string()))?,
            program: hosts.copy.then(|| start::read_program(&plan.task.program.path)).transpose()?,
            supervisor: Supervisor::new(plan.ranks, plan.timeout, Instant::now()),
            launcher_relay: LauncherRelay::new(hosts.layout.clone()),
            links: Vec::new(),
            pids: vec![None; plan.ranks as usize],
            orders: Some(orders),
            child_signals: SignalFd::with_flags(&child, flags).map_err(failed("making a signalfd"))?,
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed("making an epoll"))?,
            printers: screens
                .and_then(Printers::start)
                .map_err(|error| refuse(format!("printing: {error}")))?,
            one_stream,
            start_by: Some(Instant::now() + if hosts.former.is_some() { takeover::START } else { START }),
            tell_by: Some(Instant::now() + IMPATIENCE),
            next_beat: Instant::now() + BEAT,
            looked: Instant::now(),
            next_probe: Instant::now(),
            dead_by: None,
            held_back: Vec::new(),
            over_since: None,
            survival: Survival::of(plan, hosts),
            control: Control::open().ok(),
            succession: takeover::succession(plan, hosts, one_stream)?,
            keepings: hosts.names.iter().map(|_| None).collect(),
            served: BTreeMap::new(),
            is_left: false,
            failures: Failures::of(plan, hosts)?,
            standby: Standby::None,
            quorum: hosts
                .former
                .as_ref()
                .map_or_else(|| Quorum::of_all(hosts.names.len()), Succession::quorum),
            unreached: BTreeSet::new(),
            beside_others: BTreeSet::new(),
        };
        if let Some(control) = &job.control {
            job.watch(control, EpollFlags::EPOLLIN, ASKED)?;
        }
        job.watch(&job.child_signals, EpollFlags::EPOLLIN, CHILD)?;
        job.watch(&job.printers, EpollFlags::EPOLLIN, PRINTED)?;
        if let Some(orders) = &job.orders {
            job.watch(orders, EpollFlags::EPOLLIN, ORDERS)?;
        }
        Ok(job)
    }

    fn watch(&self, fd: impl AsFd, what: EpollFlags, tag: u64) -> Result<(), Refusal> {
        self.epoll.add(fd, EpollEvent::new(what, tag)).map_err(failed("watching a descriptor"))
    }

    /// Whether there is anything left to wait for.
    fn goes_on(&mut self) -> bool {
        if !self.supervisor.is_over() {
            return true;
        }
        let since = match self.over_since {
            Some(since) => since,
            None => self.over(),
        };
        let is_out = self.printers.are_idle() && !self.links.iter().any(AgentLink::is_open);
        let is_out = is_out && output::all_is_said();
        if self.supervisor.is_hurried() {
            output::hurry();
        }
        // Whoever reads our output may be slow; who pressed Ctrl-C does not want to wait for that.
        !is_out && (!self.supervisor.is_hurried() || Instant::now() < since + LAST_LINES)
    }

    /// Waits for the next thing to happen, and acts on it.
    fn step(&mut self) -> Result<(), Refusal> {
        let mut events = [EpollEvent::empty(); 64];
        let count = match self.epoll.wait(&mut events, self.timeout()) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(failed("waiting for the hosts")(error)),
        };
        for event in &events[..count] {
            match event.data() {
                ORDERS => self.take_orders(),
                CHILD => while let Ok(Some(_)) = self.child_signals.read_signal() {},
                PRINTED => self.take_printed(),
                ASKED => self.answer(),
                tag => {
                    let host = u32::try_from(tag / 2).expect("the epoll returns what it was given");
                    if tag % 2 == 0 { self.hear(host) } else { self.link(host).flush() }
                }
            }
            self.settle();
        }
        self.look_after_links();
        self.call_served_again();
        self.probe_hosts();
        self.look_for_lost_hosts();
        self.judge_accusations();
        self.release();
        self.fail();
        self.look_after_standby();
        let actions = self.supervisor.tick(Instant::now());
        self.act(actions);
        self.settle();
        self.recover()
    }

    /// How long nothing may happen until something is due.
    fn timeout(&self) -> EpollTimeout {
        let last_lines = self.over_since.filter(|_| self.supervisor.is_hurried()).map(|at| at + LAST_LINES);
        let cut_off = self.links.iter().filter_map(|link| link.cut_off).min().map(|at| at + LAST_WORDS);
        let held = self.held_back.first().map(|(until, ..)| *until).filter(|_| cut_off.is_none());
        let tell = self.start_by.and(self.tell_by);
        let doubts = self.survival.as_ref().and_then(|all| all.deadline(self.supervisor.may_go_on()));
        let unsaid = self.over_since.map(|_| Instant::now() + output::LOOK_AGAIN);
        let own =
            [last_lines, unsaid, cut_off, held, self.start_by, tell, self.dead_by, self.calls_served_at()];
        let probe = self.links.iter().any(|link| link.probe.is_some()).then_some(self.next_probe);
        let due =
            own.into_iter().chain([self.supervisor.deadline(), doubts, probe, self.failures.deadline()]);
        let due = due.flatten().min().map_or(self.next_beat, |due| due.min(self.next_beat));
        // The kernel counts milliseconds; a fraction more is not too early.
        let time = due.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        EpollTimeout::try_from(time).unwrap_or(EpollTimeout::MAX)
    }

    fn link(&mut self, host: u32) -> &mut AgentLink {
        &mut self.links[host as usize]
    }

    /// The agent of a host, as the source of output.
    fn source(&self, host: u32) -> OutputSource {
        OutputSource { host, call: self.links[host as usize].call }
    }

    fn take_orders(&mut self) {
        while let Some(orders) = &mut self.orders {
            let actions = match orders.next() {
                FrontNews::Nothing => return,
                // The terminal of this machine has sent ranks of other sessions nothing.
                FrontNews::Order(order) => {
                    let order = SignalOrder { from_terminal: false, ..order };
                    self.supervisor.ordered(order, Instant::now())
                }
                FrontNews::FrontGone => {
                    self.orders = None;
                    if self.may_be_left() {
                        self.leave_what_was_found("the process by which the job is called was killed".into());
                    }
                    self.supervisor.front_gone()
                }
            };
            self.act(actions);
        }
    }

    fn take_printed(&mut self) {
        for printed in self.printers.printed() {
            match printed {
                OutputReport::Taken(from, stream, bytes) => {
                    if self.source(from.host) == from {
                        self.link(from.host).send(&Down::Taken { stream, bytes });
                    }
                }
                OutputReport::Failed(trouble) => self.not_written(trouble),
            }
        }
        self.move_ranks_if_all_is_read();
    }

    /// Takes what an agent has said.
    fn hear(&mut self, host: u32) {
        let heard = self.link(host).read(Instant::now());
        if self.link(host).stage == AgentStage::Gone {
            return; // it was let go, and is only to read what was sent to it
        }
        let lie = match heard {
            Ok(all) => all.into_iter().find_map(|up| self.take(host, up).err()),
            Err(lie) => Some(lie),
        };
        if let Some(lie) = lie {
            let command = self.link(host).command.clone();
            self.lose(host, &format!("`{command}` says what no agent says: {lie}"));
        }
    }

    /// Takes a frame. The error says why no agent sends it.
    fn take(&mut self, host: u32, up: Up) -> Result<(), String> {
        match (self.link(host).stage, up) {
            (AgentStage::Done | AgentStage::Gone, _) | (_, Up::Alive) => {}
            (AgentStage::Calling, Up::Hello { frames, version }) => self.greet(host, frames, &version),
            (AgentStage::Preparing, Up::Listens(address)) => {
                self.link(host).probe =
                    self.hosts.heartbeat.and_then(|heartbeat| HeartbeatProbe::call(address, heartbeat));
            }
            (AgentStage::Preparing, Up::Beside(other)) => self.are_one_machine(host, other),
            (AgentStage::Preparing, Up::Ready) if !self.link(host).is_of_orphan => self.ready(host),
            (AgentStage::Preparing, Up::Keeps(keeping)) if self.link(host).is_of_orphan => {
                self.keeps(host, *keeping)?
            }
            (AgentStage::Preparing, Up::Served { seconds }) if self.link(host).is_of_orphan => {
                self.is_served(host, seconds)
            }
            (AgentStage::Preparing | AgentStage::Running, Up::Refused { status, why }) => {
                self.refused(host, status, &why)
            }
            (AgentStage::Running, Up::Started { rank, pid }) if self.link(host).ranks.contains(&rank) => {
                self.pids[rank as usize] = Some(pid);
            }
            (AgentStage::Running, Up::OutOfMemory) => self.link(host).out_of_memory = true,
            (AgentStage::Running, Up::Report(report)) => self.report(host, report)?,
            (AgentStage::Running, Up::Output { stream, rank, bytes }) if self.is_of(rank, host) => {
                self.has_come(rank, stream, bytes.len());
                self.printers.print(stream, OutputChunk { from: self.source(host), rank, bytes });
            }
            // Of ranks that have gone on elsewhere, which have brought it along; or word that they print no
            // more.
            (AgentStage::Running, Up::Output { stream, bytes, .. }) if self.survival.is_some() => {
                let bytes = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                self.link(host).send(&Down::Taken { stream, bytes });
            }
            (AgentStage::Running, Up::Done) if self.link(host).ranks.is_empty() && self.may_be_done() => {
                self.link(host).stage = AgentStage::Done;
                // It has said so of each rank to the launcher before this one, and not to this one.
                self.print_no_more_of(host);
            }
            (AgentStage::Running, up) if self.survival.is_some() => self.take_of_survivors(host, up)?,
            (stage, up) => {
                let what: String = format!("{up:?}").chars().take(60).collect();
                return Err(format!("{what} while it is {stage:?}"));
            }
        }
        Ok(())
    }

    /// Whether there is such a rank, on that host.
    fn is_of(&self, rank: u32, host: u32) -> bool {
        self.layout.is_on(rank, host)
    }

    /// An agent cannot start (all of) its ranks, or cannot take their stores.
    fn refused(&mut self, host: u32, status: u8, why: &str) {
        if self.is_taken_over() {
            return self.keeps_nothing(host, why);
        }
        if self.may_do_without(host) {
            if let Some(survival) = &mut self.survival {
                // Called again by itself, it would refuse them again.
                survival.returns.leave_out(host);
            }
            return self.lose(host, why);
        }
        let why = format!("host {}: {why}", self.link(host).name);
        if self.start_by.is_some() {
            return self.call_off(status, &why);
        }
        if self.is_returning(host) {
            return self.refuses_to_return(host, &why);
        }
        // Agents have all that ranks had, and may start them later; unless an order ends the job.
        self.take_orders();
        if self.is_left {
            return;
        }
        if self.are_coming_back() && self.succession.is_some() {
            return self.leave_what_was_found(why);
        }
        crate::say(&why);
        let pids = &self.pids;
        let missing: Vec<u32> = self.links[host as usize]
            .ranks
            .iter()
            .copied()
            .filter(|rank| pids[*rank as usize].is_none())
            .collect();
        for rank in &missing {
            self.link(host).ranks.remove(rank);
        }
        let actions = self.supervisor.not_started(u32::try_from(missing.len()).unwrap_or(0), status);
        self.act(actions);
    }

    /// A host is out of reach for good.
    fn lose(&mut self, host: u32, why: &str) {
        if self.is_taken_over() {
            return self.keeps_nothing(host, why);
        }
        let mut why = format!("host {}: {why}", self.link(host).name);
        if self.start_by.is_some() {
            return self.call_off(status::LAUNCHER, &why);
        }
        if self.is_returning(host) {
            return self.not_back(host, &why);
        }
        let ranks: Vec<u32> = self.link(host).ranks.iter().copied().collect();
        // If more hosts than this one turn out to be lost, another launcher may need what it keeps.
        if self.succession.is_some() {
            self.link(host).leave()
        } else {
            self.link(host).let_go()
        }
        self.link(host).kill();
        self.unreached.insert(host);
        if let Some(hint) = self.hint_at_another_launcher(host) {
            why += &hint;
            self.unreached.clear();
        }
        if self.is_outvoted(host, &why) || self.survive_a_host(host, &why) {
            return;
        }
        self.print_no_more_of(host);
        if self.lose_in_a_recovery(host, &why) {
            return;
        }
        ranks.iter().for_each(|_| self.supervisor.exited());
        self.launcher_relay.lost(&ranks, &why, status::LAUNCHER);
    }

    /// Notices agents that are gone, or that keep the job from ending.
    fn look_after_links(&mut self) {
        let now = Instant::now();
        // While this launcher stood still, agents may have, too, as when a machine is suspended: they
        // have not yet had the time to say anything.
        let still = stood_still(std::mem::replace(&mut self.looked, now), now);
        self.links.iter_mut().for_each(|link| link.heard += still);
        self.links.iter_mut().for_each(|link| link.reap(now));
        let is_late = |by: Option<Instant>| by.is_some_and(|by| now >= by);
        for host in 0..self.layout.hosts() {
            let link = self.link(host);
            let said_all = link.ends().is_none() && link.exit.is_some();
            if link.cut_off.is_some_and(|at| said_all || now >= at + LAST_WORDS) {
                let why = link.obituary();
                self.lose(host, &why);
            } else if is_late(self.start_by)
                && !matches!(self.link(host).stage, AgentStage::Ready | AgentStage::Gone)
            {
                let command = self.link(host).command.clone();
                let most = self.timeout_at_start().as_secs();
                self.lose(host, &format!("`{command}` has brought no agent that is ready in {most} s"));
            } else if self.link(host).is_served()
                && now >= self.link(host).heard + SILENCE
                && !self.link(host).has_unread()
            {
                let silence = SILENCE.as_secs();
                self.lose(
                    host,
                    &format!("its agent has said nothing for {silence} s: it is down, or the way to it is"),
                );
            } else if is_late(self.dead_by) && self.link(host).is_open() && !self.link(host).ranks.is_empty()
            {
                self.lose(host, "its agent does not say that its ranks have ended although they were killed");
            }
        }
        if self.start_by.is_some() && self.tell_by.take_if(|by| now >= *by).is_some() {
            crate::say(&waited_for(&self.links, self.timeout_at_start()));
        }
        if now >= self.next_beat {
            self.next_beat = now + BEAT;
            let waits = |link: &&mut AgentLink| link.is_served() || link.stage == AgentStage::Done;
            self.links.iter_mut().filter(waits).for_each(|link| link.send(&Down::Alive));
        }
        self.dead_by = self.dead_by.filter(|by| now < *by);
        self.settle();
    }

    /// Passes on what has been decided.
    fn settle(&mut self) {
        while let Some(decision) = self.launcher_relay.decision() {
            // Hosts without ranks have nobody to tell, and may have come when others were told already.
            let decision = Down::Decision(decision);
            for (host, link) in (0..).zip(&mut self.links) {
                if link.stage == AgentStage::Running && self.layout.first_of(host).is_some() {
                    link.send(&decision);
                }
            }
        }
        self.hear_accusations();
        if self.is_ending() {
            return;
        }
        while let Some(mut failure) = self.launcher_relay.failure() {
            self.tell_of_a_restart_in_vain();
            let link = failure.rank.map(|rank| &self.links[self.layout.host_of(rank) as usize]);
            if oom::is_kill(failure.status) && link.is_some_and(|link| link.out_of_memory) {
                failure.why += oom::HINT;
            }
            let place = failure.rank.and_then(|rank| self.place(rank));
            let actions = self.supervisor.failed(&failure, place.as_deref(), Instant::now());
            self.act(actions);
        }
    }

    /// Where a rank runs or ran, for people.
    fn place(&self, rank: u32) -> Option<String> {
        let (pid, host) = (*self.pids.get(rank as usize)?, self.layout.host_of(rank));
        Some(format!("pid {} on host {}", pid?, self.links[host as usize].name))
    }

    fn tell_all(&mut self, down: &Down) {
        self.links
            .iter_mut()
            .filter(|link| link.stage == AgentStage::Running)
            .for_each(|link| link.send(down));
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Say(text) => crate::say(&text),
                Action::Abandon(why) => self.launcher_relay.abandon(&why),
                Action::Signal(signal) if self.start_by.is_some() => self.end_early(signal),
                Action::Signal(signal) => {
                    if signal == Signal::SIGKILL {
                        self.dead_by.get_or_insert_with(|| Instant::now() + AFTER_KILL);
                    }
                    self.tell_all(&Down::Signal(signal));
                }
            }
        }
    }
}

/// For how long a launcher stood still that looked after its agents then, and does so again now, as it does
/// every [`BEAT`].
fn stood_still(looked: Instant, now: Instant) -> Duration {
    now.saturating_duration_since(looked + 2 * BEAT)
}

fn failed(what: &'static str) -> impl Fn(Errno) -> Refusal {
    move |error| Refusal::new(status::LAUNCHER, format!("{what}: {error}"))
}
