//! Failure injection: ranks die, stop or are late at points that the user names.
//!
//! ```text
//! injection   = action "at" point [when] [incarnation]
//! action      = "kill" who | "stop" who "for" TIME | "delay" who "by" TIME
//! who         = "rank" NUMBER | "all ranks"
//! point       = what [NUMBER] ["after" moment]
//! what        = "barrier" | "checkpoint" | "lock" | "fetch" | "image" | "recovery"
//! when        = "with probability" P ["seed" NUMBER]
//! incarnation = "in incarnation" NUMBER | "in every incarnation"
//! ```
//!
//! | what | moments; the first is meant where none is named |
//! |---|---|
//! | `barrier` | `enter`, `flush`, `meet`, `done` |
//! | `checkpoint` | `due`, `stop`, `copy`, `fence`, `mark`, `meet`, `done` |
//! | `lock` | `asked`, `got`, `released` |
//! | `fetch` | – |
//! | `image` | `restored`, `thread`, `described`, `page`, `shared` |
//! | `recovery` | `joined`, `filled`, `copied`, `resumed` |
//!
//! So `kill rank 2 at barrier 17 after flush` ends rank 2 the 17th time that it has flushed on the way into
//! a barrier. `meet` is where it waits for others in the second meeting, which only some barriers have:
//! `barrier 3 after meet` is the third time that it waits there, and not in the third barrier. `image 2
//! after thread` is where a second thread of the rank was asked to stop: the first may have stopped, and a
//! third one runs, if there is one. `image 40 after page` is the fortieth page of private memory that was
//! found: some are in the store then, and others are not. `image 3 after shared` is likewise in the middle
//! of shared memory that is saved, `recovery 3 after filled` in the middle of frames that get back what they
//! had. A rank counts from 1, and from its newest start: a restored rank begins to count again. Without a
//! number, the first time is meant; with a probability, each time may be the one.
//!
//! In a job on several hosts, hosts fail, too, and the launcher ([`HostInjection`]):
//!
//! ```text
//! injection = action ("at" "checkpoint" NUMBER | "at" "recovery" [NUMBER] ["after" moment] | "after" TIME)
//! moment    = "recalled" | "ended" | "rewound" | "started"
//! action    = "kill" ("host" NAME | "agent" NAME | "launcher") | "stop" "host" NAME "for" TIME
//!           | "cut" ("host" NAME | "link" NAME-NAME) | "return" "host" NAME
//! ```
//!
//! At `recovery`, the launcher brings ranks back: those that were left have been killed, none runs any more,
//! one more store has been told from which epoch ranks go on, or one more rank was started (on several hosts:
//! one more host was told to write that in its stores, and all to start ranks). Moments are counted from the
//! beginning of the job.
//!
//! An injection with a probability holds in every incarnation. Any other holds in one: in incarnation 0, the
//! first, or, at `recovery` and after `restored`, which that one does not reach, in incarnation 1. Otherwise
//! the job would die at the same place for ever.

#![forbid(unsafe_code)]

use crate::Incarnation;
use std::fmt;
use std::num::NonZeroU64;

mod chaos;
mod hosts;
mod injector;
mod parse;
mod point;
#[cfg(test)]
mod tests;

pub use chaos::chaos;
pub use hosts::{HostAction, HostInjection, HostTrigger, RecoveryCounts, RecoveryMoment};
pub use injector::{InjectedAction, Injector};
pub use parse::{InvalidInjection, parse, parse_any, parse_list};
pub use point::Point;

/// One thing that is to go wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Injection {
    /// What happens.
    pub act: InjectedAction,
    /// The rank that it happens to; all ranks if none.
    pub rank: Option<u32>,
    /// Where.
    pub point: Point,
    /// Which time.
    pub when: When,
    /// In which incarnation; in every one if none.
    pub incarnation: Option<Incarnation>,
}

/// What is to go wrong in a job.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyInjection {
    /// With ranks, which see to it themselves.
    Rank(Injection),
    /// With hosts or the launcher.
    Host(HostInjection),
}

/// Which of the times that a rank passes a point are meant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// One, counted from 1.
    Time(NonZeroU64),
    /// Each, with a probability above 0, at most 1.
    Randomly {
        /// The probability.
        probability: f64,
        /// Of the random numbers. Ranks and incarnations draw different ones of a seed.
        seed: u64,
    },
}

impl When {
    /// The first time.
    pub const FIRST: When = When::Time(NonZeroU64::MIN);
}

/// An injection names a rank that the job does not have.
#[derive(Clone, Debug, PartialEq)]
pub struct NoSuchRank {
    injection: Injection,
    ranks: u32,
}

impl fmt::Display for NoSuchRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.ranks.saturating_sub(1);
        write!(f, "'{}': this job has {} ranks, the last is rank {last}", self.injection, self.ranks)
    }
}

impl std::error::Error for NoSuchRank {}

impl Injection {
    /// Whether a job of so many ranks has the rank that is named.
    pub fn check(&self, ranks: u32) -> Result<(), NoSuchRank> {
        match self.rank {
            Some(rank) if rank >= ranks => Err(NoSuchRank { injection: self.clone(), ranks }),
            _ => Ok(()),
        }
    }

    /// The incarnation that is meant where none is named.
    fn usual_incarnation(point: Point, when: When) -> Option<Incarnation> {
        match when {
            When::Randomly { .. } => None,
            When::Time(_) => Some(point.first_incarnation()),
        }
    }
}

/// The text that [`parse`] reads; what is meant anyway is left out.
impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.act.verb())?;
        match self.rank {
            Some(rank) => write!(f, " rank {rank}")?,
            None => f.write_str(" all ranks")?,
        }
        self.act.write_time(f)?;
        write!(f, " at {}", self.point.what())?;
        match self.when {
            When::Time(number) if number > NonZeroU64::MIN => write!(f, " {number}")?,
            _ => {}
        }
        if !self.point.is_first_moment() {
            write!(f, " after {}", self.point.moment())?;
        }
        if let When::Randomly { probability, seed } = self.when {
            write!(f, " with probability {probability} seed {seed}")?;
        }
        match self.incarnation {
            usual if usual == Injection::usual_incarnation(self.point, self.when) => Ok(()),
            Some(incarnation) => write!(f, " in incarnation {incarnation}"),
            None => f.write_str(" in every incarnation"),
        }
    }
}

/// The texts of several injections, as one that [`parse_list`] reads.
pub fn list(injections: &[Injection]) -> String {
    let texts: Vec<String> = injections.iter().map(Injection::to_string).collect();
    texts.join("; ")
}
