//! What happens to a job, as a value: exits, failures, orders and time go in; what to say and whom to signal
//! come out.
//!
//! ```text
//!             failure (1 s) / Ctrl-C (2 s) /            1 s after
//!             time limit (at once)                      SIGTERM
//!   Running ─────────────────────────────▶ Terminate ─────────────▶ Kill
//!      │   \____ second Ctrl-C, or the front is dead ______________▶ │
//!      ▼                                                             ▼
//!   all ranks have ended: the verdict is the exit status
//! ```
//!
//! The **verdict** is set by what went wrong first, and never changes: ranks that end because they were told
//! to do not count.
//!
//! Where ranks may die ([`recovery`](super::recovery)), they may be started again while there is no verdict
//! and nobody has asked for an end. Until then all of them count as running.

use super::front::{INTERRUPTS, SignalOrder, WORD_OF_FRONT};
use super::output::OutputError;
use super::status;
use nix::sys::signal::Signal;
use scash_join::boot::JobFailure;
use std::time::{Duration, Instant};

/// How long the other ranks may take to end by themselves after one has failed: they have been told.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// How long ranks may take to end by themselves after Ctrl-C: they may have something to save.
const AFTER_INTERRUPT: Duration = Duration::from_secs(2);
/// How long ranks may take to end after SIGTERM.
const AFTER_TERMINATE: Duration = Duration::from_secs(1);
/// A second Ctrl-C within this time is the first one, delivered in two ways (`timeout` signals a process and
/// its group).
const SAME_INTERRUPT: Duration = Duration::from_millis(200);
/// How long the end of a rank that exited by itself waits for the news of what it may have exited for, the
/// death of another rank or of its host: ranks notice that at once, and the launcher by another way.
pub(super) const WORD_OF_OTHERS: Duration = Duration::from_millis(100);

/// What the launcher must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Tell the user.
    Say(String),
    /// Send this to all ranks that run.
    Signal(Signal),
    /// Tell ranks that wait for others that the job ends.
    Abandon(String),
}

/// The next step towards the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escalation {
    Terminate,
    Kill,
}

/// The course of a job.
#[derive(Debug)]
pub(super) struct Supervisor {
    running: u32,
    /// The exit status, once something has gone wrong.
    verdict: Option<u8>,
    /// When the time limit is over.
    limit: Option<(Instant, Duration)>,
    /// What comes next, and when.
    next: Option<(Instant, Escalation)>,
    /// The first signal by which the user asked for an end, and when.
    interrupt: Option<(Signal, Instant)>,
    /// Whether the front is dead.
    front_gone: bool,
    /// Whether nobody has read all the output.
    is_unread: bool,
    /// What is to be said, unless the front explains it before this time.
    held_back: Option<(Instant, String)>,
    /// Whether the user has stopped the job (Ctrl-Z).
    is_stopped: bool,
}

impl Supervisor {
    /// A job of `ranks` ranks that starts `now`.
    pub(super) fn new(ranks: u32, timeout: Option<Duration>, now: Instant) -> Supervisor {
        let limit = timeout.and_then(|timeout| Some((now.checked_add(timeout)?, timeout)));
        Supervisor {
            running: ranks,
            verdict: None,
            limit,
            next: None,
            interrupt: None,
            front_gone: false,
            is_unread: false,
            held_back: None,
            is_stopped: false,
        }
    }

    /// Whether all ranks have ended, and all is said.
    pub(super) fn is_over(&self) -> bool {
        self.running == 0 && self.held_back.is_none()
    }

    /// Whether the user has asked for an end, or is gone.
    pub(super) fn is_hurried(&self) -> bool {
        self.interrupt.is_some() || self.front_gone
    }

    /// The exit status of the command.
    pub(super) fn verdict(&self) -> u8 {
        self.verdict.unwrap_or(if self.is_unread { status_of(Signal::SIGPIPE) } else { 0 })
    }

    /// When [`tick`](Self::tick) is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        // Ranks that have ended may be started again after all: the time that there is stays so.
        let limit = self.limit.filter(|_| self.running > 0).map(|(at, _)| at);
        let next = self.next.map(|(at, _)| at);
        let held_back = self.held_back.as_ref().map(|(at, _)| *at);
        [limit, next, held_back].into_iter().flatten().min()
    }

    /// A rank's process has ended. If that is a failure, [`failed`](Self::failed) is called too.
    pub(super) fn exited(&mut self) {
        self.running = self.running.checked_sub(1).expect("a rank exits once");
    }

    /// Whether ranks that were lost may be started again: nobody wants the job to end.
    pub(super) fn may_go_on(&self) -> bool {
        self.verdict.is_none() && !self.is_hurried()
    }

    /// Whether the user has stopped the job, so that nothing should be started now.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// So many ranks run, or will: they are all started again, and were not told of when they ended.
    pub(super) fn recovering(&mut self, ranks: u32) {
        self.running = ranks;
    }

    /// They will not: no rank runs. If the front is dead, they have ended for that, and not well.
    pub(super) fn gone(&mut self) {
        self.running = 0;
        self.blame_the_interrupt();
        if self.front_gone {
            self.verdict.get_or_insert(status_of(Signal::SIGKILL));
        }
    }

    /// No rank runs any more, as another launcher knew, with this exit status of the job.
    pub(super) fn had_ended(&mut self, status: u8) {
        self.running = 0;
        self.verdict = Some(status).filter(|status| *status != 0);
    }

    /// Something went wrong. `place` says for people where the failure's rank ran.
    pub(super) fn failed(&mut self, failure: &JobFailure, place: Option<&str>, now: Instant) -> Vec<Action> {
        if self.verdict.is_some() {
            return Vec::new();
        }
        self.verdict = Some(failure.status);
        if self.is_hurried() {
            return Vec::new(); // the user knows why ranks end, and the steps are under way
        }
        self.terminate_at(now + AFTER_FAILURE);
        let others = if self.running > 0 { "; ending the other ranks" } else { "" };
        let words = match (failure.rank, place) {
            (Some(rank), Some(place)) => format!("rank {rank} ({place}) {}{others}", failure.why),
            (Some(rank), None) => format!("rank {rank} {}{others}", failure.why),
            _ => failure.why.clone(),
        };
        if INTERRUPTS.iter().any(|signal| status_of(*signal) == failure.status) {
            self.held_back = Some((now + WORD_OF_FRONT, words));
            return Vec::new();
        }
        vec![Action::Say(words)]
    }

    /// Output could not be written. Without a reader ranks end as in any pipeline, or go on; a job whose
    /// output is lost otherwise ends.
    pub(super) fn unwritten(&mut self, trouble: OutputError, now: Instant) -> Vec<Action> {
        if trouble.is_unread() {
            self.is_unread = true;
            return Vec::new();
        }
        let why = trouble.to_string();
        if self.verdict.is_some() || self.is_hurried() {
            self.verdict.get_or_insert(status::LAUNCHER);
            return vec![Action::Say(why)];
        }
        self.verdict = Some(status::LAUNCHER);
        self.terminate_at(now + AFTER_FAILURE);
        let then = if self.running > 0 { "; ending all ranks" } else { "" };
        vec![Action::Say(format!("{why}{then}")), Action::Abandon(why)]
    }

    /// Nobody reads the output of ranks that cannot notice it: the job ends as any in a pipeline.
    pub(super) fn end_unread(&mut self, now: Instant) -> Vec<Action> {
        if !self.may_go_on() {
            return Vec::new();
        }
        self.verdict = Some(status_of(Signal::SIGPIPE));
        self.terminate(now)
    }

    /// The front passed on a signal.
    pub(super) fn ordered(&mut self, order: SignalOrder, now: Instant) -> Vec<Action> {
        let SignalOrder { signal, from_terminal } = order;
        let mut actions = Vec::new();
        if !from_terminal {
            actions.push(Action::Signal(signal));
        }
        match signal {
            Signal::SIGTSTP => self.is_stopped = true,
            Signal::SIGCONT => self.is_stopped = false,
            _ => {}
        }
        if !INTERRUPTS.contains(&signal) {
            return actions;
        }
        self.held_back = None; // the user knows
        match self.interrupt {
            None => {
                self.interrupt = Some((signal, now));
                self.terminate_at(now + AFTER_INTERRUPT);
            }
            Some((_, first)) if now < first + SAME_INTERRUPT => {}
            Some(_) => actions.extend(self.kill()),
        }
        actions
    }

    /// Nobody is left to report to.
    pub(super) fn front_gone(&mut self) -> Vec<Action> {
        self.front_gone = true;
        self.held_back = None;
        self.kill()
    }

    /// A rank could not be started.
    pub(super) fn not_started(&mut self, missing: u32, status: u8) -> Vec<Action> {
        self.running -= missing;
        self.verdict.get_or_insert(status.max(1));
        self.kill()
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Instant) -> Vec<Action> {
        if self.running == 0 {
            self.next = None;
        }
        if let Some((_, words)) = self.held_back.take_if(|(at, _)| *at <= now) {
            return vec![Action::Say(words)]; // what else is due comes with the next tick
        }
        let any_run = self.running > 0;
        if let Some((_, limit)) = self.limit.take_if(|(at, _)| any_run && *at <= now) {
            return self.out_of_time(limit, now);
        }
        match self.next.take_if(|(at, _)| *at <= now) {
            Some((_, Escalation::Terminate)) => self.terminate(now),
            Some((_, Escalation::Kill)) => self.kill(),
            None => Vec::new(),
        }
    }

    fn out_of_time(&mut self, limit: Duration, now: Instant) -> Vec<Action> {
        if self.verdict.is_some() || self.interrupt.is_some() {
            return Vec::new(); // it is ending already
        }
        self.verdict = Some(status::TIMEOUT);
        let why = format!("the job has run for {} s, its time limit", limit.as_secs_f64());
        let mut actions = vec![Action::Say(format!("{why}; ending all ranks")), Action::Abandon(why)];
        actions.extend(self.terminate(now));
        actions
    }

    fn terminate(&mut self, now: Instant) -> Vec<Action> {
        self.blame_the_interrupt();
        self.next = Some((now + AFTER_TERMINATE, Escalation::Kill));
        // A stopped process acts on signals when it is continued.
        vec![Action::Signal(Signal::SIGTERM), Action::Signal(Signal::SIGCONT)]
    }

    fn kill(&mut self) -> Vec<Action> {
        self.blame_the_interrupt();
        self.limit = None;
        self.next = None;
        vec![Action::Signal(Signal::SIGKILL)]
    }

    /// Ranks that must be forced to end after Ctrl-C ended by it.
    fn blame_the_interrupt(&mut self) {
        if let (None, Some((signal, _))) = (self.verdict, self.interrupt) {
            self.verdict = Some(status_of(signal));
        }
    }

    /// Sets SIGTERM as the next step, unless it is due earlier or has been sent.
    fn terminate_at(&mut self, at: Instant) {
        if self.next.is_none_or(|(planned, step)| step == Escalation::Terminate && at < planned) {
            self.next = Some((at, Escalation::Terminate));
        }
    }
}

/// The status by which a shell reports that a signal ended a process.
fn status_of(signal: Signal) -> u8 {
    u8::try_from(128 + signal as i32).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests;
