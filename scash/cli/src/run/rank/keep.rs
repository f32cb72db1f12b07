//! Starts the rank, stays with it, and says how it has ended.

use crate::run::exits::reap;
use crate::run::oom::{self, OomKills};
use crate::run::output::{self, Printing, PrintingState};
use crate::run::plan::Task;
use crate::run::recovery::{self, KeptRank};
use crate::run::spawn::{Rank, Streams, spawn};
use crate::run::{Refusal, signals, status};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use scash_join::boot::Exit;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long output may take to come out when the job is to end.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Keeps a rank to its end; returns the exit status.
pub(super) fn keep(kept_rank: KeptRank, task: &Task) -> Result<u8, Refusal> {
    let mut keep = RankProcess::begin(kept_rank, task)?;
    while keep.exit.is_none() || keep.printing.is_some() {
        keep.step()?;
    }
    let status = keep.say_how();
    if status == 0 {
        // From here on nothing is lost by an end, and the launcher may wish for one.
        signals::unblock().map_err(failed("unblocking signals"))?;
        if let Some(news) = keep.kept_rank.ended_well() {
            crate::say(&news);
        }
        keep.kept_rank.leave()?;
    }
    Ok(status)
}

struct RankProcess {
    kept_rank: KeptRank,
    rank: Rank,
    signals: SignalFd,
    /// `None` when all output is out.
    printing: Option<Printing>,
    exit: Option<Exit>,
    /// A signal by which the launcher, or the user, has ended the rank.
    order: Option<Signal>,
    /// When that came, or the rank has ended behind it. Nobody waits long for output from then on.
    hurried_since: Option<Instant>,
    /// Whether it was not waited for.
    is_unread: bool,
    /// Whether rank 0's keeper is gone, before this one.
    is_left: bool,
    /// The status if output cannot be written.
    trouble: Option<u8>,
    oom_kills: OomKills,
}

impl RankProcess {
    fn begin(mut kept_rank: KeptRank, task: &Task) -> Result<RankProcess, Refusal> {
        let set = signals::block().map_err(failed("blocking signals"))?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let signals = SignalFd::with_flags(&set, flags).map_err(failed("making a signalfd"))?;
        let no_printing =
            |error: std::io::Error| Refusal::new(status::LAUNCHER, format!("printing: {error}"));
        let screens = output::open(false, 1, false).map_err(no_printing)?;
        let printing = Printing::start_saved(kept_rank.kept.output(), screens).map_err(no_printing)?;
        let number = kept_rank.keeper.rank();
        let setup = kept_rank.kept.setup(number, kept_rank.base, None);
        let setup = setup
            .map_err(|error| Refusal::new(status::LAUNCHER, format!("starting rank {number}: {error}")))?;
        let invitation =
            kept_rank.keeper.invitation().ok_or_else(|| scash_comm::Error::Invalid("it has no line".into()));
        let oom_kills = OomKills::until_now();
        recovery::withhold_descriptors();
        let streams = Streams { stdin: kept_rank.reads, setup };
        let rank = spawn(task, streams, invitation, number, None)?;
        Ok(RankProcess {
            kept_rank,
            rank,
            signals,
            printing: Some(printing),
            exit: None,
            order: None,
            hurried_since: None,
            is_unread: false,
            is_left: false,
            trouble: None,
            oom_kills,
        })
    }

    /// Waits for the next thing to happen, and acts on it.
    fn step(&mut self) -> Result<(), Refusal> {
        let (is_over, is_left) = (self.exit.is_some(), self.is_left);
        let mut all = vec![
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.kept_rank.kept.user_messages.as_fd(), PollFlags::POLLIN),
        ];
        all.extend(self.printing.iter().map(|printing| PollFd::new(printing.as_fd(), PollFlags::POLLIN)));
        if !is_over {
            all.push(PollFd::new(self.rank.pidfd.as_fd(), PollFlags::POLLIN));
            all.push(PollFd::new(self.kept_rank.kept.as_fd(), PollFlags::POLLIN));
        }
        all.extend(
            self.kept_rank
                .keeper
                .lead()
                .filter(|_| !is_left)
                .map(|lead| PollFd::new(lead, PollFlags::POLLIN)),
        );
        match poll(&mut all, self.timeout()) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(failed("waiting for the rank")(errno)),
        }
        self.take_signals();
        self.take_sayings();
        self.take_lead();
        self.take_printed();
        if !is_over {
            // That the rank goes on is no news for anybody here.
            let _ = self.kept_rank.kept.told();
            if let (Some(lengths), Some(printing)) =
                (self.kept_rank.kept.committed(self.kept_rank.base), &self.printing)
            {
                printing.commit(&lengths);
            }
            self.take_exit();
        }
        if self.until().is_some_and(|until| until <= Instant::now()) {
            self.is_unread = self.printing.take().is_some();
        }
        Ok(())
    }

    /// When nobody waits for output any more: the rank has ended, and somebody has asked for that.
    fn until(&self) -> Option<Instant> {
        let since = self.hurried_since.filter(|_| self.exit.is_some() && self.order.is_some());
        since.filter(|_| self.printing.is_some()).map(|since| since + LAST_LINES)
    }

    /// How long nothing may happen until something is due.
    fn timeout(&self) -> PollTimeout {
        let left = self.until().map(|until| until.saturating_duration_since(Instant::now()));
        // The kernel counts milliseconds; a fraction more is not too early.
        left.map_or(PollTimeout::NONE, |left| {
            PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        })
    }

    /// Passes on to the rank what this process is sent.
    fn take_signals(&mut self) {
        while let Ok(Some(info)) = self.signals.read_signal() {
            let number = i32::try_from(info.ssi_signo).unwrap_or(0);
            let Ok(signal) = Signal::try_from(number) else { continue };
            if signal == Signal::SIGCHLD {
                continue;
            }
            if matches!(signal, Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT) {
                self.order = Some(signal);
                self.hurried_since = Some(Instant::now());
                output::hurry();
            }
            self.signal(signal);
        }
    }

    fn signal(&self, signal: Signal) {
        if self.exit.is_none() {
            // It was not reaped yet, and keeps its number.
            let _ = kill(self.rank.pid, signal);
        }
    }

    /// Says what the rank has said that cannot wait for a checkpoint.
    fn take_sayings(&mut self) {
        while let Some(lines) = self.kept_rank.kept.user_messages.next() {
            output::say(&lines);
        }
    }

    /// The keeper of rank 0 is the last to end, if all goes well.
    fn take_lead(&mut self) {
        let Some(lead) = self.kept_rank.keeper.lead().filter(|_| !self.is_left) else { return };
        if matches!(poll(&mut [PollFd::new(lead, PollFlags::POLLIN)], PollTimeout::ZERO), Ok(1)) {
            self.is_left = true;
            self.signal(Signal::SIGKILL);
        }
    }

    fn take_printed(&mut self) {
        let Some(printing) = &mut self.printing else { return };
        match printing.word() {
            PrintingState::Nothing => {}
            PrintingState::Done => self.printing = None,
            PrintingState::Failed(trouble) => {
                if !trouble.is_unread() {
                    crate::say(&trouble.to_string());
                }
                // As a program ends whose output nobody reads.
                let status = if trouble.is_unread() { 128 + 13 } else { status::LAUNCHER };
                self.trouble = Some(status);
                self.signal(Signal::SIGKILL);
            }
        }
    }

    fn take_exit(&mut self) {
        let Some(exit) = reap(self.rank.pid) else { return };
        self.take_sayings();
        self.exit = Some(exit);
        self.hurried_since = self.order.map(|_| Instant::now());
        self.kept_rank.keeper.ended();
        if let Some(printing) = &self.printing {
            printing.finish();
        }
    }

    /// All is over: says what has gone wrong, and how the job can be gone on with. Returns the status.
    fn say_how(&mut self) -> u8 {
        let exit = self.exit.unwrap_or(Exit::Unseen);
        let mut status = self.trouble.unwrap_or_else(|| exit.shell_status());
        // The files have what nobody has read.
        if let Some(signal) = self.order.filter(|_| status == 0 && self.is_unread) {
            status = Exit::Signal(signal as u8).shell_status();
        }
        if status == 0 {
            return 0;
        }
        let rank = self.kept_rank.keeper.rank();
        let why = match self.order {
            _ if self.is_left => Some("the process that keeps rank 0 has ended".to_owned()),
            Some(signal) => Some(format!("ended by {signal}")),
            None if self.trouble.is_some() => None,
            None => {
                let is_starved = self.oom_kills.may_explain(exit.shell_status(), OomKills::until_now);
                let hint = if is_starved { oom::HINT } else { "" };
                Some(format!("rank {rank} (pid {}) {exit}{hint}", self.rank.pid))
            }
        };
        // What all ranks of a job hear at once, one says.
        let is_own = self.order.is_none() && !self.is_left;
        if !self.kept_rank.say_how_to_go_on(why.as_deref()) {
            why.filter(|_| is_own).iter().for_each(|why| crate::say(why));
        }
        status
    }
}

fn failed(what: &'static str) -> impl Fn(Errno) -> Refusal {
    move |error| Refusal::new(status::LAUNCHER, format!("{what}: {error}"))
}
