//! The launcher's process: starts the ranks, then waits for whatever happens, and lets the [`Supervisor`]
//! decide.

use super::front::{News, Orders};
use super::oom::{self, OomKills};
use super::output::{self, Printing, Terminals, Wiring, Word};
use super::plan::Plan;
use super::processes::Processes;
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

/// What became readable: a rank's pidfd by the rank's number, or one of these.
const HOST: u64 = 1 << 32;
const ORDERS: u64 = HOST + 1;
const CHILD: u64 = HOST + 2;
const PRINTED: u64 = HOST + 3;

/// How long output may take to come out after an interrupted job has ended.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Runs the job to its end; returns the exit status.
pub(super) fn run(plan: &Plan, orders: Orders) -> u8 {
    let done = Job::new(plan, orders).and_then(|mut job| {
        job.start(plan)?;
        while job.goes_on() {
            job.step()?;
        }
        Ok(job.supervisor.verdict())
    });
    done.unwrap_or_else(|refusal| {
        // Ranks that run are children of this process, and end in the sweep.
        crate::say(&refusal.why);
        sweep::sweep(&[]);
        refusal.status
    })
}

struct Job {
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
}

impl Job {
    fn new(plan: &Plan, orders: Orders) -> Result<Job, Refusal> {
        let settings = Settings { threads: plan.threads, provider: plan.provider.to_owned() };
        let host = Host::new(plan.ranks, settings)
            .map_err(|error| Refusal::new(status::LAUNCHER, error.to_string()))?;
        let mut child = SigSet::empty();
        child.add(Signal::SIGCHLD);
        child.add(Signal::SIGWINCH);
        child.thread_block().map_err(failed("blocking signals"))?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let job = Job {
            supervisor: Supervisor::new(plan.ranks, plan.timeout, Instant::now()),
            oom_kills: OomKills::until_now(),
            host,
            processes: Processes::from(0),
            orders: Some(orders),
            child_signals: SignalFd::with_flags(&child, flags).map_err(failed("making a signalfd"))?,
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed("making an epoll"))?,
            printing: None,
            terminals: None,
            over_since: None,
        };
        job.watch(&job.host, HOST)?;
        job.watch(&job.child_signals, CHILD)?;
        if let Some(orders) = &job.orders {
            job.watch(orders, ORDERS)?;
        }
        Ok(job)
    }

    fn watch(&self, fd: impl AsFd, tag: u64) -> Result<(), Refusal> {
        self.epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, tag)).map_err(failed("watching a descriptor"))
    }

    /// Starts all ranks, or none that lives on.
    fn start(&mut self, plan: &Plan) -> Result<(), Refusal> {
        let mut wiring = Wiring::here(plan.ranks, plan.label);
        let refuse = |error: io::Error| Refusal::new(status::LAUNCHER, format!("printing: {error}"));
        let places = cores::places(plan.bind, plan.ranks, plan.threads)?;
        for number in 0..plan.ranks {
            let streams = Streams { stdin: number == 0, output: wiring.make(number).map_err(refuse)? };
            let place = places.as_ref().and_then(|places| places.of(number));
            match spawn(&plan.task, streams, self.host.invite(number), number, place) {
                Ok(rank) => {
                    self.watch(&rank.pidfd, u64::from(number))?;
                    self.processes.add(rank);
                }
                Err(refusal) => {
                    crate::say(&refusal.why);
                    let actions = self.supervisor.not_started(plan.ranks - number, refusal.status);
                    self.act(actions);
                    break;
                }
            }
        }
        self.terminals = wiring.take_terminals().map_err(refuse)?;
        let screens = output::open(plan.label, plan.ranks, output::is_one_file()).map_err(refuse)?;
        let printing = Printing::start(wiring, screens).map_err(refuse)?;
        self.watch(&printing, PRINTED)?;
        self.printing = Some(printing);
        Ok(())
    }

    /// Takes what those say who print.
    fn take_printed(&mut self) {
        while let Some(printing) = &mut self.printing {
            match printing.word() {
                Word::Nothing => return,
                Word::Done => self.printing = None,
                Word::Failed(trouble) => {
                    let actions = self.supervisor.unwritten(trouble, Instant::now());
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
        let since = *self.over_since.get_or_insert_with(|| {
            sweep::sweep(&[]);
            Instant::now()
        });
        // Whoever reads our output may be slow; who pressed Ctrl-C does not want to wait for that.
        self.printing.is_some() && (!self.supervisor.is_hurried() || Instant::now() < since + LAST_LINES)
    }

    /// Waits for the next thing to happen, and acts on it.
    fn step(&mut self) -> Result<(), Refusal> {
        let mut events = [EpollEvent::empty(); 64];
        let count = match self.epoll.wait(&mut events, self.patience()) {
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
                rank => self.take_exit(u32::try_from(rank).expect("the epoll returns what it was given")),
            }
            self.take_failures();
        }
        if self.host.patience().is_some() {
            self.host.turn();
            self.take_failures();
        }
        self.processes.reap_orphans();
        let actions = self.supervisor.tick(Instant::now());
        self.act(actions);
        Ok(())
    }

    /// How long nothing may happen until something is due.
    fn patience(&self) -> EpollTimeout {
        let last_lines =
            self.over_since.filter(|_| self.supervisor.is_hurried()).map(|since| since + LAST_LINES);
        let due = [self.supervisor.deadline(), last_lines].into_iter().flatten().min();
        let due = due.map(|at| at.saturating_duration_since(Instant::now()));
        match [due, self.host.patience()].into_iter().flatten().min() {
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
                News::Nothing => return,
                News::Order(order) => self.supervisor.ordered(order, Instant::now()),
                News::FrontGone => {
                    self.orders = None;
                    self.supervisor.front_gone()
                }
            };
            self.act(actions);
        }
    }

    /// The process of a rank has ended.
    fn take_exit(&mut self, rank: u32) {
        if let Some(exit) = self.processes.take_exit(rank) {
            self.supervisor.exited();
            self.host.exited(rank, exit);
        }
    }

    fn take_failures(&mut self) {
        while let Some(mut failure) = self.host.failure() {
            if let Some(printing) = &self.printing {
                printing.catch_up();
            }
            if self.oom_kills.may_explain(failure.status, OomKills::until_now) {
                failure.why += oom::HINT;
            }
            let pid = failure.rank.and_then(|rank| self.processes.pid(rank));
            let place = pid.map(|pid| format!("pid {pid}"));
            let actions = self.supervisor.failed(&failure, place.as_deref(), Instant::now());
            self.act(actions);
        }
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

fn failed(what: &'static str) -> impl Fn(Errno) -> Refusal {
    move |error| Refusal::new(status::LAUNCHER, format!("{what}: {error}"))
}
