//! The launcher's process: starts the ranks, then waits for whatever happens, and lets the [`Supervisor`]
//! decide; where ranks may die, the [`Recovery`](super::recovery::Recovery) decides first ([`survive`]).

mod survival;
mod survive;

use super::control::Control;
use super::front::{FrontNews, Orders};
use super::oom::{self, OomKills};
use super::output::{self, Printing, PrintingState, Terminals, Wiring};
use super::plan::Plan;
use super::processes::Processes;
use super::recovery::{self, RankSetup};
use super::spawn::{Streams, spawn};
use super::supervisor::{Action, Supervisor};
use super::{Refusal, cores, status, sweep};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use scash_join::boot::{Host, Settings};
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use survival::Survival;

/// What became readable: a rank's pidfd by the rank's number, or one of these.
const HOST: u64 = 1 << 32;
const ORDERS: u64 = HOST + 1;
const CHILD: u64 = HOST + 2;
const PRINTED: u64 = HOST + 3;
const COMMITTED: u64 = HOST + 4;
const SAID: u64 = HOST + 5;
const ASKED: u64 = HOST + 6;

/// How long output may take to come out after an interrupted job has ended.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Runs the job to its end; returns the exit status.
pub(super) fn run(plan: &Plan, orders: Orders) -> u8 {
    let refused = |refusal: Refusal| {
        // Ranks that run are children of this process, and end in the sweep.
        crate::say(&refusal.why);
        sweep::sweep(&[]);
        refusal.status
    };
    match Job::new(plan, orders) {
        Ok(mut job) => job.run().unwrap_or_else(|refusal| {
            let status = refused(refusal);
            job.print_the_rest();
            status
        }),
        Err(refusal) => refused(refusal),
    }
}

struct Job<'a> {
    plan: &'a Plan,
    supervisor: Supervisor,
    oom_kills: OomKills,
    host: Host,
    processes: Processes,
    /// `None` when the front is dead.
    orders: Option<Orders>,
    /// Says when children have ended; which ones is asked elsewhere.
    child_signals: SignalFd,
    epoll: Epoll,
    /// `None` when all output is out.
    printing: Option<Printing>,
    /// Those of the ranks, if ours is one.
    terminals: Option<Terminals>,
    /// When the last rank ended.
    over_since: Option<Instant>,
    /// The processors of each rank, if it has its own.
    places: Option<cores::CoreSets>,
    /// Where ranks may die.
    survival: Option<Survival>,
    /// By which other commands ask; `None` where the system has none.
    control: Option<Control>,
}

impl<'a> Job<'a> {
    fn new(plan: &'a Plan, orders: Orders) -> Result<Job<'a>, Refusal> {
        let host = host(plan)?;
        if plan.no_aslr {
            recovery::fix_addresses()?;
        }
        let mut child = SigSet::empty();
        child.add(Signal::SIGCHLD);
        child.add(Signal::SIGWINCH);
        child.thread_block().map_err(failed("blocking signals"))?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let job = Job {
            plan,
            supervisor: Supervisor::new(plan.ranks, plan.timeout, Instant::now()),
            oom_kills: OomKills::until_now(),
            host,
            processes: Processes::default(),
            orders: Some(orders),
            child_signals: SignalFd::with_flags(&child, flags).map_err(failed("making a signalfd"))?,
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed("making an epoll"))?,
            printing: None,
            terminals: None,
            over_since: None,
            places: cores::places(plan.bind, plan.ranks, plan.threads)?,
            survival: Survival::of(plan)?,
            control: Control::open().ok(),
        };
        if let Some(control) = &job.control {
            job.watch(control, ASKED)?;
        }
        job.watch(&job.host, HOST)?;
        job.watch(&job.child_signals, CHILD)?;
        if let Some(orders) = &job.orders {
            job.watch(orders, ORDERS)?;
        }
        if let Some(survival) = &job.survival {
            job.watch(&survival.kept, COMMITTED)?;
            job.watch(&survival.kept.user_messages, SAID)?;
        }
        Ok(job)
    }

    /// Returns the exit status.
    fn run(&mut self) -> Result<u8, Refusal> {
        self.start()?;
        while self.goes_on() {
            self.step()?;
        }
        let verdict = self.supervisor.verdict();
        // What was not waited for in a hurry is left to who resumes the job, though it has ended well.
        let left = if self.printing.is_none() { verdict } else { verdict.max(1) };
        if let Some(news) = self.survival.as_ref().and_then(|survival| survival.over(left)) {
            crate::say(&news);
        }
        Ok(verdict)
    }

    fn watch(&self, fd: impl AsFd, tag: u64) -> Result<(), Refusal> {
        self.epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, tag)).map_err(failed("watching a descriptor"))
    }

    /// Starts all ranks, and to print what they print.
    fn start(&mut self) -> Result<(), Refusal> {
        let plan = self.plan;
        let printing = if self.survival.is_some() {
            let printing = self.print_saved()?;
            if self.has_ended() {
                crate::say("the job had ended: what it had printed and nobody has seen follows");
                self.supervisor.gone();
            } else {
                self.start_survivors()?;
            }
            printing
        } else {
            let mut wiring = Wiring::here(plan.ranks, plan.label);
            self.start_ranks(|rank| wiring.make(rank).map(RankSetup::plain))?;
            self.terminals = wiring.take_terminals().map_err(no_printing)?;
            let screens = output::open(plan.label, plan.ranks, output::is_one_file()).map_err(no_printing)?;
            Printing::start(wiring, screens).map_err(no_printing)?
        };
        self.watch(&printing, PRINTED)?;
        self.printing = Some(printing);
        Ok(())
    }

    /// Starts all ranks, or none that lives on.
    fn start_ranks(&mut self, mut setup: impl FnMut(u32) -> io::Result<RankSetup>) -> Result<(), Refusal> {
        for number in 0..self.plan.ranks {
            let streams = Streams { stdin: number == 0, setup: setup(number).map_err(no_printing)? };
            let place = self.places.as_ref().and_then(|places| places.of(number));
            match spawn(&self.plan.task, streams, self.host.invite(number), number, place) {
                Ok(rank) => {
                    self.watch(&rank.pidfd, u64::from(number))?;
                    self.processes.add(number, rank);
                }
                Err(refusal) => {
                    crate::say(&refusal.why);
                    let actions = self.supervisor.not_started(self.plan.ranks - number, refusal.status);
                    self.act(actions);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Takes what those say who print.
    fn take_printed(&mut self) {
        while let Some(printing) = &mut self.printing {
            match printing.word() {
                PrintingState::Nothing => return,
                PrintingState::Done => self.printing = None,
                PrintingState::Failed(trouble) => {
                    let mut actions = self.supervisor.unwritten(trouble, Instant::now());
                    if trouble.is_unread() && self.survival.is_some() {
                        actions.extend(self.supervisor.end_unread(Instant::now()));
                    }
                    self.act(actions);
                }
            }
        }
    }

    /// Takes signals that tell of children, or of another size of the terminal.
    fn take_signals(&mut self) {
        while let Ok(Some(info)) = self.child_signals.read_signal() {
            if i32::try_from(info.ssi_signo) == Ok(Signal::SIGWINCH as i32)
                && let Some(terminals) = &self.terminals
            {
                terminals.resize();
                // The terminal has told them before theirs had the size.
                self.processes.signal(Signal::SIGWINCH);
            }
        }
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
        let is_out = self.printing.is_none() && output::all_is_said();
        if self.supervisor.is_hurried() {
            output::hurry();
        }
        // Whoever reads our output may be slow; who pressed Ctrl-C does not want to wait for that.
        !is_out && (!self.supervisor.is_hurried() || Instant::now() < since + LAST_LINES)
    }

    /// The last rank has ended.
    fn over(&mut self) -> Instant {
        sweep::sweep(&[]);
        self.pass_sayings_on();
        self.say_the_rest();
        self.note_end();
        if let Some(printing) = &self.printing {
            printing.finish();
        }
        let now = Instant::now();
        self.over_since = Some(now);
        now
    }

    /// Answers what was asked meanwhile.
    fn answer(&self) {
        let Some(control) = &self.control else { return };
        while let Some(request) = control.next() {
            let answer = match request.words.first().map(String::as_str) {
                Some("status") => Ok(self.status()),
                _ => Err("all ranks of this job are on one host, and stay there".to_owned()),
            };
            control.answer(&request, answer);
        }
    }

    /// How the job is, for people.
    fn status(&self) -> String {
        let Plan { ranks, task, .. } = self.plan;
        let checkpoints = self.survival.as_ref().map_or_else(String::new, Survival::status);
        format!("{}: {ranks} ranks on this host\n{checkpoints}", task.program.name.display())
    }

    /// Waits for the next thing to happen, and acts on it.
    fn step(&mut self) -> Result<(), Refusal> {
        let mut events = [EpollEvent::empty(); 64];
        let count = match self.epoll.wait(&mut events, self.timeout()) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(failed("waiting for the ranks")(error)),
        };
        // In the order in which things happened, so that the first rank to fail is the one that is blamed.
        for event in &events[..count] {
            match event.data() {
                HOST => self.host.turn(),
                ORDERS => self.take_orders(),
                CHILD => self.take_signals(),
                PRINTED => self.take_printed(),
                COMMITTED => self.take_news(),
                SAID => self.pass_sayings_on(),
                ASKED => self.answer(),
                rank => self.take_exit(u32::try_from(rank).expect("the epoll returns what it was given")),
            }
            self.take_failures();
        }
        if self.host.timeout().is_some() {
            self.host.turn();
            self.take_failures();
        }
        self.processes.reap_orphans();
        let actions = self.supervisor.tick(Instant::now());
        self.act(actions);
        self.recover()
    }

    /// How long nothing may happen until something is due.
    fn timeout(&self) -> EpollTimeout {
        let last_lines =
            self.over_since.filter(|_| self.supervisor.is_hurried()).map(|since| since + LAST_LINES);
        let doubts = self.survival.as_ref().and_then(Survival::deadline);
        let unsaid = self.over_since.map(|_| Instant::now() + output::LOOK_AGAIN);
        let due = [self.supervisor.deadline(), last_lines, unsaid, doubts].into_iter().flatten().min();
        let due = due.map(|at| at.saturating_duration_since(Instant::now()));
        match [due, self.host.timeout()].into_iter().flatten().min() {
            // The kernel counts milliseconds; a fraction more is not too early.
            Some(time) => {
                EpollTimeout::try_from(time + Duration::from_millis(1)).unwrap_or(EpollTimeout::MAX)
            }
            None => EpollTimeout::NONE,
        }
    }

    fn take_orders(&mut self) {
        while let Some(orders) = &mut self.orders {
            let actions = match orders.next() {
                FrontNews::Nothing => return,
                FrontNews::Order(order) => {
                    let order = self.for_ranks_that_may_have_missed(order);
                    self.supervisor.ordered(order, Instant::now())
                }
                FrontNews::FrontGone => {
                    self.orders = None;
                    self.supervisor.front_gone()
                }
            };
            self.act(actions);
        }
    }

    /// The process of a rank has ended.
    fn take_exit(&mut self, rank: u32) {
        let Some(exit) = self.processes.take_exit(rank) else { return };
        if self.survival.is_some() {
            return self.take_survivors_exit(rank, exit);
        }
        self.supervisor.exited();
        self.host.exited(rank, exit);
    }

    fn take_failures(&mut self) {
        if self.survival.as_ref().is_some_and(|survival| survival.recovery.is_ending()) {
            return;
        }
        while let Some(mut failure) = self.host.failure() {
            if let Some(printing) = &self.printing {
                printing.catch_up();
            }
            self.tell_of_a_restart_in_vain();
            if self.oom_kills.may_explain(failure.status, OomKills::until_now) {
                failure.why += oom::HINT;
            }
            let place = failure.rank.and_then(|rank| self.place(rank));
            let actions = self.supervisor.failed(&failure, place.as_deref(), Instant::now());
            self.act(actions);
        }
    }

    /// Where a rank runs or ran, for people.
    fn place(&self, rank: u32) -> Option<String> {
        self.processes.pid(rank).map(|pid| format!("pid {pid}"))
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Say(text) => crate::say(&text),
                Action::Abandon(why) => self.host.abandon(&why),
                Action::Signal(signal) => self.processes.signal(signal),
            }
        }
    }
}

/// The launcher's end of lines that no rank has yet.
fn host(plan: &Plan) -> Result<Host, Refusal> {
    let settings = Settings { threads: plan.threads, provider: plan.provider.to_owned() };
    Host::new(plan.ranks, settings).map_err(|error| Refusal::new(status::LAUNCHER, error.to_string()))
}

fn no_printing(error: io::Error) -> Refusal {
    Refusal::new(status::LAUNCHER, format!("printing: {error}"))
}

fn failed(what: &'static str) -> impl Fn(Errno) -> Refusal {
    move |error| Refusal::new(status::LAUNCHER, format!("{what}: {error}"))
}
