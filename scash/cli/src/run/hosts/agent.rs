//! `scash agent`: what the remote shell runs on each host of a job. It starts that host's ranks, serves their
//! boot lines as a launcher does, and reports to the launcher instead of deciding. [`work`] is what it has
//! for its ranks, [`survive`] what it does besides where they may die.

mod cut;
mod fail;
mod orphan;
mod running_ranks;
mod survival;
mod survive;

use super::assignment::Assignment;
use super::frames::{Cutter, Down, FROM_LAUNCHER, Up, hello};
use super::program_copy::ProgramCopy;
use super::uplink::{Output, Uplink};
use super::{BEAT, TIMEOUT};
use crate::run::front::{self, FrontNews, Orders};
use crate::run::oom::OomKills;
use crate::run::output::{Printing, PrintingState, Stream, Wiring};
use crate::run::recovery::RankSetup;
use crate::run::spawn::{Streams, spawn};
use crate::run::{Refusal, cores, signals, status, sweep};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use orphan::Orphan;
use running_ranks::RunningRanks;
use scash_join::boot::Report;
use std::fs::File;
use std::io::ErrorKind::{AddrInUse, Interrupted, WouldBlock};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What became readable: a rank's pidfd by the rank's number, or one of these.
const LAUNCHER: u64 = 1 << 32;
const LINES: u64 = LAUNCHER + 1;
const ORDERS: u64 = LAUNCHER + 2;
const CHILD: u64 = LAUNCHER + 3;
const PRINTED: u64 = LAUNCHER + 4;
const COMMITTED: u64 = LAUNCHER + 5;
const SAID: u64 = LAUNCHER + 6;
const FOUND: u64 = LAUNCHER + 7;
const ROOM: u64 = LAUNCHER + 8;

const NO_PIPE: &str = "watching a descriptor (scash agent is run by scash run, through pipes)";

/// Serves the launcher at the other end of stdin and stdout; returns the exit status.
pub(super) fn serve_launcher() -> u8 {
    // What the launcher's terminal sends its processes is for the launcher, which passes it on. (It fails
    // where a session was made already.)
    let _ = nix::unistd::setsid();
    // The end of its pipe tells of the launcher's, and there may be another one.
    let _ = prctl::set_pdeathsig(None);
    let ready = signals::reset().map_err(failed("resetting signals"));
    let done = ready.and_then(|()| front::run(None, serve));
    done.unwrap_or_else(|refusal| {
        crate::say(&refusal.why);
        refusal.status
    })
}

fn serve(orders: Orders) -> u8 {
    let done = Agent::new(orders).and_then(|mut agent| {
        let done = agent.serve();
        if done.is_ok() {
            agent.uplink.finish();
        }
        done
    });
    // Ranks that run, and what they left, are children of this process.
    sweep::sweep(&[]);
    done.err().map_or(0, |refusal| {
        crate::say(&refusal.why);
        refusal.status
    })
}

struct Agent {
    /// `None`: it is gone, and another one is waited for.
    launcher: Option<File>,
    uplink: Arc<Uplink>,
    cutter: Cutter,
    orders: Orders,
    child_signals: SignalFd,
    epoll: Epoll,
    oom_kills: OomKills,
    /// What to run, while its program comes.
    coming: Option<(Assignment, ProgramCopy)>,
    /// `None` until the launcher has said what to run.
    work: Option<RunningRanks>,
    /// When the launcher has said something last.
    heard: Instant,
    /// When it is told next that this agent is there.
    next_beat: Instant,
    /// If the job outlives its launcher.
    orphan: Option<Orphan>,
    /// Whether what was sent last has come to nobody.
    is_unheard: bool,
    over: bool,
}

impl Agent {
    fn new(orders: Orders) -> Result<Agent, Refusal> {
        let mut child = SigSet::empty();
        child.add(Signal::SIGCHLD);
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let own = |fd: io::Result<OwnedFd>| fd.map(File::from).map_err(|error| trouble(&error));
        let stdout = own(io::stdout().as_fd().try_clone_to_owned())?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed("making an epoll"))?;
        watch_room(&epoll, &stdout)?;
        let mut agent = Agent {
            launcher: Some(own(io::stdin().as_fd().try_clone_to_owned())?),
            uplink: Uplink::new(stdout).map_err(|error| trouble(&error))?,
            cutter: Cutter::new(FROM_LAUNCHER),
            orders,
            child_signals: SignalFd::with_flags(&child, flags).map_err(failed("making a signalfd"))?,
            epoll,
            oom_kills: OomKills::until_now(),
            coming: None,
            work: None,
            heard: Instant::now(),
            next_beat: Instant::now() + BEAT,
            orphan: None,
            is_unheard: false,
            over: false,
        };
        agent.launcher.iter().try_for_each(|launcher| agent.watch(launcher, LAUNCHER))?;
        agent.watch(&agent.orders, ORDERS)?;
        agent.watch(&agent.child_signals, CHILD)?;
        agent.send(&hello())?;
        Ok(agent)
    }

    fn watch(&self, fd: impl AsFd, tag: u64) -> Result<(), Refusal> {
        let event = EpollEvent::new(EpollFlags::EPOLLIN, tag);
        self.epoll.add(fd, event).map_err(failed(NO_PIPE))
    }

    /// Sends a frame. That the launcher is gone is noticed at the end of the step, whatever the agent is at.
    fn send(&mut self, up: &Up) -> Result<(), Refusal> {
        self.sent(self.uplink.send(up)).map_err(|error| trouble(&error))
    }

    /// Takes note of a launcher that is gone: what is sent to it goes nowhere from now on.
    fn sent(&mut self, sent: io::Result<()>) -> io::Result<()> {
        match sent {
            Err(error) if is_gone(&error) => {
                self.uplink.cut();
                self.is_unheard = true;
                Ok(())
            }
            sent => sent,
        }
    }

    fn serve(&mut self) -> Result<(), Refusal> {
        while !self.over {
            self.step()?;
        }
        Ok(())
    }

    /// Waits for the next thing to happen, and acts on it.
    fn step(&mut self) -> Result<(), Refusal> {
        let mut events = [EpollEvent::empty(); 64];
        let count = match self.epoll.wait(&mut events, self.timeout()) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(failed("waiting for the ranks")(error)),
        };
        for event in &events[..count] {
            match (event.data(), &mut self.work) {
                (LAUNCHER, _) => self.hear()?,
                (ROOM, _) => {
                    let flushed = self.uplink.flush();
                    self.sent(flushed).map_err(|error| trouble(&error))?;
                }
                (ORDERS, _) => self.take_orders(),
                (CHILD, _) => while let Ok(Some(_)) = self.child_signals.read_signal() {},
                (LINES, Some(work)) => work.host_relay.turn(),
                (PRINTED, Some(work)) => {
                    work.printing.take_if(|printing| printing.word() == PrintingState::Done);
                }
                (COMMITTED, Some(_)) => self.take_news()?,
                (SAID, Some(_)) => self.pass_sayings_on()?,
                (FOUND, Some(_)) => self.be_found()?,
                (rank, Some(work)) => {
                    work.take_exit(u32::try_from(rank).expect("the epoll returns what it was given"))
                }
                (_, None) => {}
            }
        }
        self.report()?;
        self.beat()?;
        if self.is_unheard && !self.over {
            self.lose_launcher();
        }
        Ok(())
    }

    /// Tells the launcher now and then that this agent is there, and looks whether the launcher is.
    fn beat(&mut self) -> Result<(), Refusal> {
        let now = Instant::now();
        self.look_at_the_clock();
        if now >= self.heard + TIMEOUT && self.orphan.is_some() && self.launcher.is_some() {
            self.lose_launcher();
        } else if now >= self.heard + TIMEOUT && self.orphan.is_none() {
            let why =
                format!("the launcher has said nothing for {} s; its ranks here end", TIMEOUT.as_secs());
            return Err(Refusal::new(status::LAUNCHER, why));
        }
        if now >= self.next_beat && !self.over {
            self.next_beat = now + BEAT;
            if let Some(listener) = self.work.as_mut().and_then(|work| work.listener.as_mut()) {
                listener.turn();
            }
            self.send(&Up::Alive)?;
        }
        Ok(())
    }

    fn timeout(&self) -> EpollTimeout {
        let beat = self.next_beat.saturating_duration_since(Instant::now());
        let line = self.work.as_ref().and_then(|work| work.host_relay.timeout());
        let due = [line, self.time_left()].into_iter().flatten().fold(beat, Duration::min);
        // The kernel counts milliseconds; a fraction more is not too early.
        EpollTimeout::try_from(due + Duration::from_millis(1)).unwrap_or(EpollTimeout::MAX)
    }

    /// Takes what the launcher has said. Its end is ours.
    fn hear(&mut self) -> Result<(), Refusal> {
        let mut buffer = vec![0; 64 << 10];
        let Some(launcher) = &mut self.launcher else { return Ok(()) };
        match launcher.read(&mut buffer) {
            Err(error) if matches!(error.kind(), Interrupted | WouldBlock) => return Ok(()),
            Ok(0) | Err(_) => {
                self.lose_launcher();
                return Ok(());
            }
            Ok(length) => {
                self.heard = Instant::now();
                self.cutter.push(&mut buffer[..length]);
            }
        }
        let lie =
            |why| Refusal::new(status::LAUNCHER, format!("the launcher says what no launcher says: {why}"));
        let mut all = Vec::new();
        while let Some(frame) = self.cutter.next().map_err(lie)? {
            all.push(Down::decode(frame).map_err(lie)?);
        }
        self.cutter.forget();
        all.into_iter().try_for_each(|down| if self.over { Ok(()) } else { self.take(down) })
    }

    fn take(&mut self, down: Down) -> Result<(), Refusal> {
        let is_orphan = self.is_orphan();
        match (down, &mut self.work) {
            (Down::Start(assignment), None) if self.coming.is_none() => return self.receive(*assignment),
            (Down::Program(bytes), None) => return self.take_part(&bytes),
            (Down::Farewell, _) => {
                // It reads no more.
                self.uplink.cut();
                self.over = true;
            }
            (Down::Go, Some(work)) if !work.begun => return self.begin(),
            (Down::Go, Some(_)) if is_orphan => return self.adopt(),
            (Down::Decision(decision), Some(work)) => {
                work.host_relay.take(decision).map_err(|why| Refusal::new(status::LAUNCHER, why))?;
            }
            // A process without a terminal does not stop at what terminals send.
            (Down::Signal(Signal::SIGTSTP), Some(work)) => work.processes.signal(Signal::SIGSTOP),
            (Down::Signal(signal), Some(work)) => work.processes.signal(signal),
            (Down::Alive, _) => {}
            (Down::Fail(failure), _) => return self.fail(failure),
            (Down::Taken { stream, bytes }, _) => self.give_up(stream, bytes),
            (Down::Shut(stream), _) => self.uplink.shut(stream),
            (down, Some(work)) if work.survival.is_some() => return self.take_of_survivors(down),
            (down, _) => {
                let what: String = format!("{down:?}").chars().take(20).collect();
                return Err(Refusal::new(status::LAUNCHER, format!("the launcher says {what} out of turn")));
            }
        }
        Ok(())
    }

    /// Gets ready to run what it is told, whose program may have to come first.
    fn receive(&mut self, assignment: Assignment) -> Result<(), Refusal> {
        let Some(size) = assignment.copied else { return self.prepare(assignment, None) };
        match ProgramCopy::new(&assignment.program.1, size) {
            Ok(copy) => self.coming = Some((assignment, copy)),
            Err(refusal) => return self.refuse(refusal),
        }
        Ok(())
    }

    /// Takes a part of the program, and gets ready when it was the last one.
    fn take_part(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let Some((assignment, mut copy)) = self.coming.take() else {
            return Err(Refusal::new(status::LAUNCHER, "the launcher sends a program out of turn"));
        };
        match copy.add(bytes) {
            Ok(true) => self.prepare(assignment, Some(copy)),
            Ok(false) => {
                self.coming = Some((assignment, copy));
                Ok(())
            }
            Err(refusal) => self.refuse(refusal),
        }
    }

    /// Says why nothing can run here.
    fn refuse(&mut self, Refusal { status, why }: Refusal) -> Result<(), Refusal> {
        self.over = true;
        self.send(&Up::Refused { status, why })
    }

    /// Gets ready to start ranks, or refuses.
    fn prepare(&mut self, mut assignment: Assignment, copy: Option<ProgramCopy>) -> Result<(), Refusal> {
        let succession = assignment.replicas.as_mut().and_then(|replicated| replicated.succession.take());
        let work = match RunningRanks::new(assignment, copy) {
            Ok(work) => work,
            Err(refusal) => return self.refuse(refusal),
        };
        if let Some(succession) = succession {
            match Orphan::new(succession, work.host) {
                Ok(orphan) => {
                    // The later one of two sees the other.
                    orphan
                        .others_here(work.host)
                        .into_iter()
                        .try_for_each(|host| self.send(&Up::Beside(host)))?;
                    self.outlive(orphan)?;
                }
                // The next launcher would find that one. (This host is called again later.)
                Err(error) if error.kind() == AddrInUse => {
                    let why = "an agent of this job is here that does not end";
                    return self.refuse(Refusal::new(status::LAUNCHER, why));
                }
                Err(error) => {
                    let why = format!("waiting for other launchers: {error}; --linger off does without");
                    return self.refuse(Refusal::new(status::LAUNCHER, why));
                }
            }
        }
        self.watch(&work.host_relay, LINES)?;
        if work.survival.is_some() {
            self.uplink.keep(work.layout.size() as usize);
        }
        let address = work.listener.as_ref().and_then(|listener| listener.address().ok());
        self.work = Some(work);
        if let Some(address) = address {
            self.send(&Up::Listens(address))?;
        }
        self.send(&Up::Ready)
    }

    /// Starts this host's ranks, or as many as can be, and to send what they print.
    fn begin(&mut self) -> Result<(), Refusal> {
        let Some(mut work) = self.work.take() else { return Ok(()) };
        work.begun = true;
        let printing = if work.survival.is_some() {
            self.start_survivors(&mut work, None)?;
            self.hear_survivors(&work)?
        } else {
            let mut wiring = Wiring::elsewhere(work.one_stream);
            self.start_ranks(&mut work, |rank| wiring.make(rank).map(RankSetup::plain))?;
            let uplink = &self.uplink;
            let printing = Printing::send(wiring, |done| outputs(uplink, done));
            let printing = printing.map_err(|error| trouble(&error))?;
            self.watch(&printing, PRINTED)?;
            printing
        };
        work.printing = Some(printing);
        self.work = Some(work);
        Ok(())
    }

    /// Starts all ranks, or as many as can be.
    fn start_ranks(
        &mut self,
        work: &mut RunningRanks,
        mut setup: impl FnMut(u32) -> io::Result<RankSetup>,
    ) -> Result<(), Refusal> {
        let ranks = work.host_relay.ranks().to_vec();
        let count = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
        let places = cores::places(work.bind, count, work.settings.threads)?;
        for (index, number) in (0..).zip(ranks) {
            let place = places.as_ref().and_then(|places| places.of(index));
            let setup = setup(number).map_err(|error| trouble(&error))?;
            let streams = Streams { stdin: false, setup };
            match spawn(&work.task, streams, work.host_relay.invite(number), number, place) {
                Ok(rank) => {
                    self.watch(&rank.pidfd, u64::from(number))?;
                    let pid = u32::try_from(rank.pid.as_raw()).unwrap_or(0);
                    work.processes.add(number, rank);
                    self.send(&Up::Started { rank: number, pid })?;
                }
                Err(Refusal { status, why }) => {
                    self.send(&Up::Refused { status, why })?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Tells the launcher what there is to tell.
    fn report(&mut self) -> Result<(), Refusal> {
        let Some(work) = &mut self.work else { return Ok(()) };
        if work.host_relay.timeout().is_some() {
            work.host_relay.turn();
        }
        let mut reports: Vec<Report> = std::iter::from_fn(|| work.host_relay.report()).collect();
        work.processes.reap_orphans();
        let have_ended = work.begun && !work.processes.any_run();
        if have_ended {
            // What ranks have left behind may hold the pipes of their output.
            sweep::sweep(&[]);
        }
        // Ranks that may be started again are waited for until the launcher says that the job is over.
        let may_be_done =
            work.survival.as_ref().is_none_or(|survival| survival.is_finished && !survival.is_done);
        let is_done = have_ended && work.printing.is_none() && may_be_done;
        if self.is_orphan() {
            reports.clear(); // no launcher knows these ranks
        }
        for report in reports {
            if let Report::Exited(_, exit) = report
                && self.oom_kills.may_explain(exit.shell_status(), OomKills::until_now)
            {
                self.forget_frames();
                self.send(&Up::OutOfMemory)?;
            }
            if let Report::Exited(rank, _) = report {
                self.tell_what_is_printed(rank)?;
            }
            self.send(&Up::Report(report))?;
        }
        if is_done {
            self.send(&Up::Done)?;
            match self.survival() {
                Some(survival) => survival.is_done = true,
                None => self.over = true,
            }
        }
        if have_ended { self.survivors_have_ended() } else { Ok(()) }
    }

    /// Somebody signals this agent, not the launcher: its ranks are meant. Without its front it ends.
    fn take_orders(&mut self) {
        loop {
            match (self.orders.next(), &self.work) {
                (FrontNews::Nothing, _) => return,
                (FrontNews::Order(order), Some(work)) => work.processes.signal(order.signal),
                (FrontNews::Order(_), None) => {}
                (FrontNews::FrontGone, _) => {
                    self.uplink.cut();
                    self.over = true;
                    return;
                }
            }
        }
    }
}

/// Whether that says that nobody is at the other end of a pipe, or of a socket whose last bytes nobody has
/// read.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Where both streams go.
fn outputs(uplink: &Arc<Uplink>, done: File) -> io::Result<[Output; 2]> {
    let other = done.try_clone()?;
    let output = |stream, done| Output::new(Arc::clone(uplink), stream, done);
    Ok([output(Stream::Out, done), output(Stream::Err, other)])
}

/// Has the epoll tell when there is room again in the way to the launcher.
fn watch_room(epoll: &Epoll, pipe: &File) -> Result<(), Refusal> {
    let event = EpollEvent::new(EpollFlags::EPOLLOUT | EpollFlags::EPOLLET, ROOM);
    epoll.add(pipe, event).map_err(failed(NO_PIPE))
}

fn failed(what: &'static str) -> impl Fn(Errno) -> Refusal {
    move |error| Refusal::new(status::LAUNCHER, format!("{what}: {error}"))
}

fn trouble(error: &io::Error) -> Refusal {
    Refusal::new(status::LAUNCHER, format!("serving the launcher: {error}"))
}
