//! How a job goes on when ranks die (`--replicas`).
//!
//! Ranks cannot lose each other: when one is lost, **all** are killed and started again, as the next
//! *incarnation* of the job. Each restores its image of one *epoch* (the number of a checkpoint) from its
//! *store*, a file in memory that whoever has started it holds. This module decides, as a value without IO;
//! [`Kept`] is what outlives the ranks.
//!
//! ```text
//!                  a signal killed a rank                       no rank runs any more
//!   Together ─────────────────────────────────▶ Ending (kill) ────────────────────────▶ found: which epoch
//!    ▲     │                                     ▲   ▲     │                                │
//!    │     │ that may have been Ctrl-C           │   │     │ nobody wants a restart,        │ all start again
//!    │     └──────────▶ Doubtful ── 50 ms ───────┘   │     │ or there were too many         ▼
//!    │                     │ it was Ctrl-C           └─────│──────────────────────────── Joining
//!    │                     ▼                               ▼     a signal killed a rank     │
//!    │                 counts as in a job            the job ends                           │
//!    │                 without replicas                                                     │
//!    └──────────────────────────────────────────────────────────────────────────────────────┘
//!                                            all go on
//! ```
//!
//! - A rank that **a signal kills** is lost. A rank that exits has ended its program, well or not: that
//!   counts as in a job without replicas, and so does everything once the user has asked for an end, the
//!   time is over, or something has gone wrong. So does the death of a rank of Ctrl-C before the front has
//!   told of it.
//! - **Fencing** is the kill: the next incarnation starts when every process of the one before was waited
//!   for, and has a secret, a job page and lines of its own. A rank of the former one can reach nobody.
//! - Ranks that die again and again at one place end the job: restarts are counted, from the last new epoch
//!   on.

mod addresses;
mod describe;
mod directory;
mod epoch;
mod frames;
mod input;
mod keepers;
mod kept;
mod opened;
mod rank_setup;
mod user_messages;
mod withheld;

pub(crate) use describe::start_again;
pub(super) use describe::{Description, how_a_job_goes_on};
pub(super) use directory::{Directory, output_name, seen_name};
pub(super) use epoch::{MarkedEpoch, Rewound, RewoundPlace, StoreState, barrier, rounds};
pub(super) use keepers::{KeeperOptions, KeptRank, Refused, agree};
pub(super) use kept::{HeldStores, Kept};
pub(super) use rank_setup::RankSetup;
pub(super) use withheld::withhold_descriptors;

use super::Refusal;
use super::front::{WORD_OF_FRONT, is_interrupt};
use nix::sys::signal::Signal;
use scash_ft::Base;
use scash_ft::Epoch;
use scash_ft::recovery::{NoProgress, Restarts};
use scash_ft::store::vars;
use scash_join::boot::{self, Exit, JobFailure};
use std::time::Instant;

/// The environment variables that ranks have in such a job, and in no other.
pub(super) const VARIABLES: [&str; 12] = [
    vars::STORE,
    vars::FRAMES,
    vars::HELD,
    vars::INCARNATION,
    vars::EPOCH,
    vars::CHECKPOINT,
    vars::MTBF,
    vars::INJECT,
    vars::COMMITTED,
    vars::PRINTS,
    vars::LOST,
    boot::vars::SAYS,
];

/// Sets this process up as its ranks must be, so that they have their memory at the same addresses, in each
/// incarnation. Ranks inherit it.
pub(super) fn fix_addresses() -> Result<(), Refusal> {
    fix_addresses_with(stack_limit()?)
}

/// As [`fix_addresses`], with this [limit of stacks](stack_limit), which may be another host's.
pub(super) fn fix_addresses_with(stack: u64) -> Result<(), Refusal> {
    addresses::fix(stack)
}

/// The limit of stacks that ranks are to have, in bytes.
pub(super) fn stack_limit() -> Result<u64, Refusal> {
    addresses::stack()
}

/// What the launcher must do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LauncherAction {
    /// Kill all ranks that run.
    Kill,
    /// These ranks have ended so, which means what it means in a job without replicas.
    ReportExits(Vec<(u32, Exit)>),
    /// No rank runs any more: say which epoch there is ([`Recovery::found`]).
    Find,
    /// No rank runs any more, and none will.
    End,
}

/// A rank that a signal has killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) rank: u32,
    pub(super) exit: Exit,
    /// The host where it ran, if there are several.
    pub(super) host: Option<String>,
    /// What else there is to say of it.
    pub(super) hint: &'static str,
    /// If it was lost with its host: what became of that.
    pub(super) with_host: Option<String>,
}

impl Loss {
    /// How the rank ended, for people.
    fn how(&self) -> String {
        self.with_host.clone().unwrap_or_else(|| format!("{}{}", self.exit, self.hint))
    }

    /// The job ends by it. If a host was lost, not one of its ranks is to be named.
    fn failure(&self, why: String) -> JobFailure {
        let rank = self.with_host.is_none().then_some(self.rank);
        JobFailure { rank, why, status: self.exit.shell_status().max(1) }
    }
}

/// A recovery under way.
#[derive(Debug)]
struct OngoingRecovery {
    /// The newest loss.
    loss: Loss,
    /// When the first one was noticed.
    since: Instant,
    /// How many times ranks were started since then.
    starts: u32,
}

#[derive(Debug)]
enum State {
    /// Ranks compute.
    Together,
    /// A rank was killed as Ctrl-C kills all; until then the front may say that it was so. How it and others
    /// have ended meanwhile.
    Doubtful { course: OngoingRecovery, until: Instant, exits: Vec<(u32, Exit)> },
    /// All ranks were killed, and some have not ended yet.
    Ending { course: OngoingRecovery },
    /// All ranks had ended then. They were started, or will be, and do not all go on yet.
    Joining { course: OngoingRecovery, ended: Instant },
}

/// The course of a job whose ranks may die.
#[derive(Debug)]
pub(super) struct Recovery {
    ranks: u32,
    /// What ranks were started from, or will be.
    base: Base,
    /// The memory barrier of its epoch.
    barrier: u64,
    restarts: Restarts,
    state: State,
}

impl Recovery {
    /// A job of so many ranks, which are started from there.
    pub(super) fn new(ranks: u32, limit: u32, base: Base) -> Recovery {
        Recovery { ranks, base, barrier: 0, restarts: Restarts::new(limit), state: State::Together }
    }

    /// What ranks were started from, or will be.
    pub(super) fn base(&self) -> Base {
        self.base
    }

    /// Whether ranks end that are lost, or may be: what they say on their lines does not count.
    pub(super) fn is_ending(&self) -> bool {
        matches!(self.state, State::Ending { .. } | State::Doubtful { .. })
    }

    /// Ranks are being started. If that is again: when the first one was lost, and when all had ended.
    pub(super) fn starting(&mut self) -> Option<(Instant, Instant)> {
        let State::Joining { course, ended } = &mut self.state else { return None };
        course.starts = course.starts.saturating_add(1);
        // Whether there may be one more was asked when they were found.
        let _ = self.restarts.restart(self.base.epoch);
        Some((course.since, *ended))
    }

    /// Whether ranks were started again, and do not all go on yet.
    pub(super) fn awaits_joining(&self) -> bool {
        matches!(self.state, State::Joining { .. })
    }

    /// As [`awaits_joining`](Self::awaits_joining), or some of those ranks are lost, by which all are ended.
    pub(super) fn awaits_all(&self) -> bool {
        match &self.state {
            State::Joining { .. } => true,
            State::Doubtful { course, .. } | State::Ending { course } => course.starts > 0,
            State::Together => false,
        }
    }

    /// When [`tick`](Self::tick) is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Doubtful { until, .. } => Some(until),
            _ => None,
        }
    }

    /// The process of a rank has ended. `may_go_on`: nobody wants the job to end.
    pub(super) fn exited(&mut self, loss: Loss, may_go_on: bool, now: Instant) -> Option<LauncherAction> {
        let (rank, exit) = (loss.rank, loss.exit);
        let Exit::Signal(signal) = exit else {
            return match &mut self.state {
                State::Ending { .. } => None,
                State::Doubtful { exits, .. } => {
                    exits.push((rank, exit));
                    None
                }
                State::Together | State::Joining { .. } => {
                    Some(LauncherAction::ReportExits(vec![(rank, exit)]))
                }
            };
        };
        match std::mem::replace(&mut self.state, State::Together) {
            State::Ending { course } => {
                self.state = State::Ending { course };
                None
            }
            State::Doubtful { course, until, mut exits } if is_interrupt(signal) => {
                exits.push((rank, exit));
                self.state = State::Doubtful { course, until, exits };
                None
            }
            before if !may_go_on => {
                let (State::Doubtful { mut exits, .. }, exit) = (before, (rank, exit)) else {
                    return Some(LauncherAction::ReportExits(vec![(rank, exit)]));
                };
                exits.push(exit);
                Some(LauncherAction::ReportExits(exits))
            }
            before => self.lost(before, loss, is_interrupt(signal), now),
        }
    }

    /// A rank is lost, or may be.
    fn lost(&mut self, before: State, loss: Loss, is_doubtful: bool, now: Instant) -> Option<LauncherAction> {
        let exit = (loss.rank, loss.exit);
        let course = match before {
            State::Joining { course, .. } => OngoingRecovery { loss, ..course },
            _ => OngoingRecovery { loss, since: now, starts: 0 },
        };
        if is_doubtful {
            self.state = State::Doubtful { course, until: now + WORD_OF_FRONT, exits: vec![exit] };
            return None;
        }
        self.state = State::Ending { course };
        Some(LauncherAction::Kill)
    }

    /// A host is lost, and with it this rank and perhaps others, which may come back elsewhere.
    pub(super) fn lost_host(&mut self, loss: Loss, now: Instant) -> Option<LauncherAction> {
        match std::mem::replace(&mut self.state, State::Together) {
            State::Ending { course } => {
                self.state = State::Ending { course: OngoingRecovery { loss, ..course } };
                None
            }
            State::Doubtful { course, .. } => {
                self.state = State::Ending { course: OngoingRecovery { loss, ..course } };
                Some(LauncherAction::Kill)
            }
            before => self.lost(before, loss, false, now),
        }
    }

    /// Time has passed, or something has happened. `any_run`: some process of a rank has not ended.
    /// `may_start`: the user has not stopped the job.
    pub(super) fn tick(
        &mut self,
        any_run: bool,
        may_go_on: bool,
        may_start: bool,
        now: Instant,
    ) -> Option<LauncherAction> {
        match std::mem::replace(&mut self.state, State::Together) {
            State::Doubtful { exits, .. } if !may_go_on => Some(LauncherAction::ReportExits(exits)),
            State::Doubtful { course, until, .. } if until <= now => {
                self.state = State::Ending { course };
                Some(LauncherAction::Kill)
            }
            State::Ending { .. } if !any_run && !may_go_on => Some(LauncherAction::End),
            State::Ending { course } => {
                self.state = State::Ending { course };
                (!any_run && may_start).then_some(LauncherAction::Find)
            }
            state => {
                self.state = state;
                None
            }
        }
    }

    /// This is the newest epoch that all ranks have, and its memory barrier. Returns what to start them from,
    /// or why not.
    pub(super) fn found(&mut self, epoch: Epoch, barrier: u64, now: Instant) -> Result<Base, JobFailure> {
        self.planned(Base { incarnation: self.base.incarnation.next(), epoch }, barrier, now)
    }

    /// A plan says what to start ranks from, at this memory barrier. Returns that, or why not.
    pub(super) fn planned(&mut self, base: Base, barrier: u64, now: Instant) -> Result<Base, JobFailure> {
        let State::Ending { course } = std::mem::replace(&mut self.state, State::Together) else {
            return Ok(self.base); // nobody has died
        };
        self.restarts.clone().restart(base.epoch).map_err(|why| given_up(&course.loss, why))?;
        (self.base, self.barrier) = (base, barrier);
        self.state = State::Joining { course, ended: now };
        Ok(base)
    }

    /// What was found is of no use: the job ends.
    pub(super) fn nothing_found(&mut self, why: &str) -> JobFailure {
        match std::mem::replace(&mut self.state, State::Together) {
            State::Together => JobFailure { rank: None, why: why.to_owned(), status: 1 },
            State::Doubtful { course, .. } | State::Ending { course } | State::Joining { course, .. } => {
                course.loss.failure(format!("{}, and {why}", course.loss.how()))
            }
        }
    }

    /// Others see to what is under way.
    pub(super) fn left(&mut self) {
        self.state = State::Together;
    }

    /// All ranks go on. Returns what to say.
    pub(super) fn resumed(&mut self, now: Instant) -> Option<String> {
        self.take_joining().map(|(course, _)| self.news(&course, now))
    }

    /// All ranks have ended. If they had been started again and never joined, as programs that know nothing
    /// of scash, returns what to say of that.
    pub(super) fn over(&mut self) -> Option<String> {
        self.take_joining().map(|(course, ended)| self.news(&course, ended))
    }

    /// The job ends by an error, or because somebody wants that. If ranks had been started again and have not
    /// all joined, returns what there is to say of that: they do not go on.
    pub(super) fn cut_short(&mut self) -> Option<String> {
        let (OngoingRecovery { loss, .. }, _) = self.take_joining()?;
        let who = if self.ranks == 1 { "it was".into() } else { format!("all {} ranks were", self.ranks) };
        Some(format!("{}; {who} started again from {}", death(&loss), self.whence()))
    }

    fn take_joining(&mut self) -> Option<(OngoingRecovery, Instant)> {
        match std::mem::replace(&mut self.state, State::Together) {
            State::Joining { course, ended } => Some((course, ended)),
            state => {
                self.state = state;
                None
            }
        }
    }

    fn news(&self, course: &OngoingRecovery, now: Instant) -> String {
        let OngoingRecovery { loss, since, starts } = course;
        let who =
            if self.ranks == 1 { "it goes on".into() } else { format!("all {} ranks go on", self.ranks) };
        let after = now.saturating_duration_since(*since).as_secs_f64();
        let how_often = if *starts > 1 { format!(" and {starts} restarts") } else { String::new() };
        format!("{}; {who} from {} after {after:.2} s{how_often}", death(loss), self.whence())
    }

    /// That of which it was said that `before` had happened, is better told as `after`: as it came about.
    pub(super) fn retell(&mut self, before: &str, after: String) {
        let (State::Ending { course, .. } | State::Joining { course, .. }) = &mut self.state else { return };
        if course.loss.with_host.as_deref() == Some(before) {
            course.loss.with_host = Some(after);
        }
    }

    /// What ranks were started from, for people.
    fn whence(&self) -> String {
        let Base { incarnation, epoch } = self.base;
        if epoch == Epoch(0) {
            return format!("the beginning (incarnation {incarnation})");
        }
        format!("barrier {} (epoch {epoch}, incarnation {incarnation})", self.barrier)
    }
}

/// How a rank was lost, for people.
fn death(loss: &Loss) -> String {
    if let Some(what) = &loss.with_host {
        return what.clone();
    }
    let host = loss.host.as_ref().map_or_else(String::new, |host| format!(" on host {host}"));
    format!("rank {}{host} was killed by {}{}", loss.rank, name_of(loss.exit), loss.hint)
}

/// Why the job ends although ranks could be started again.
fn given_up(loss: &Loss, why: NoProgress) -> JobFailure {
    let NoProgress { restarts, epoch } = why;
    let whence = if epoch == Epoch(0) { "the beginning".into() } else { format!("epoch {epoch}") };
    let often = match restarts {
        0 => "and is not to be started again".to_owned(),
        1 => format!("after 1 restart from {whence} without a new checkpoint"),
        _ => format!("after {restarts} restarts from {whence} without a new checkpoint"),
    };
    loss.failure(format!("{}, {often} (--restarts)", loss.how()))
}

/// What people call a signal that has killed a rank.
fn name_of(exit: Exit) -> String {
    match exit {
        Exit::Signal(signal) => {
            let name = Signal::try_from(i32::from(signal)).map(Signal::as_str);
            name.map_or_else(|_| format!("signal {signal}"), str::to_owned)
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
