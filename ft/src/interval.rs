//! When a checkpoint is due: after so many barriers, after so many seconds, or when it pays.
//!
//! `auto` follows Young ("A first order approximation to the optimum checkpoint interval", CACM 1974) and
//! Daly ("A higher order estimate of the optimum checkpoint interval", FGCS 2006): from the cost C of a
//! checkpoint and the mean time M between failures, about √(2·C·M) should lie between two checkpoints. The
//! cost is measured, so the first checkpoint comes soon. Whatever the formula says, a checkpoint that took C
//! is followed by so long a time without one that C is at most 3 % of both together: on average over the job,
//! no more than that is paid.
//!
//! No clock is read here: time is what has passed since some start.

#![forbid(unsafe_code)]

use crate::time::{self, NoTime};
use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Under `auto`, the first checkpoint is due so long after the start.
pub const FIRST: Duration = Duration::from_millis(100);
/// Under `auto`, at least so much time lies between two checkpoints.
pub const SHORTEST: Duration = Duration::from_millis(10);
/// Under `auto`, at most so much time lies between two checkpoints, unless they would cost more than
/// [`LARGEST_SHARE`].
pub const LONGEST: Duration = Duration::from_secs(60);
/// Under `auto`, the largest share of the time that checkpoints take, in percent.
pub const LARGEST_SHARE: u32 = 3;
/// The mean time between failures of a job whose user knows none.
pub const DEFAULT_MTBF: Duration = Duration::from_secs(24 * 3600);

/// What the user asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntervalPolicy {
    /// After so many barriers.
    Barriers(NonZeroU64),
    /// At the first barrier after so much time.
    Time(Duration),
    /// When it pays.
    #[default]
    Auto,
}

/// A text that is no policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoPolicy {
    /// Nothing that is known.
    Unknown(String),
    /// `every=` without a number of barriers.
    Barriers(String),
    /// `seconds=` without a number of seconds.
    Seconds(String),
}

impl fmt::Display for NoPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoPolicy::Unknown(text) => write!(
                f,
                "'{text}' does not say how often to take a checkpoint: give every=N (barriers), seconds=S, or auto"
            ),
            NoPolicy::Barriers(text) => {
                write!(f, "every={text}: give a whole number of barriers from 1 on, as in every=100")
            }
            NoPolicy::Seconds(text) => {
                write!(f, "seconds={text}: give a number of seconds above 0, as in seconds=30 or seconds=0.5")
            }
        }
    }
}

impl std::error::Error for NoPolicy {}

impl FromStr for IntervalPolicy {
    type Err = NoPolicy;

    fn from_str(text: &str) -> Result<IntervalPolicy, NoPolicy> {
        match text.split_once('=') {
            None if text == "auto" => Ok(IntervalPolicy::Auto),
            Some(("every", number)) => number
                .parse()
                .map(IntervalPolicy::Barriers)
                .map_err(|_| NoPolicy::Barriers(number.to_owned())),
            Some(("seconds", number)) => time::scaled(number, 1_000_000_000)
                .filter(|time| !time.is_zero())
                .map(IntervalPolicy::Time)
                .ok_or_else(|| NoPolicy::Seconds(number.to_owned())),
            _ => Err(NoPolicy::Unknown(text.to_owned())),
        }
    }
}

impl fmt::Display for IntervalPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IntervalPolicy::Barriers(number) => write!(f, "every={number}"),
            IntervalPolicy::Time(time) => write!(f, "seconds={}", time.as_secs_f64()),
            IntervalPolicy::Auto => f.write_str("auto"),
        }
    }
}

/// A mean time between failures that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoMtbf {
    /// Not a length of time.
    NoTime(NoTime),
    /// Zero.
    Zero,
}

impl fmt::Display for NoMtbf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoMtbf::NoTime(error) => error.fmt(f),
            NoMtbf::Zero => f.write_str("the mean time between failures cannot be 0: give, say, 24h"),
        }
    }
}

impl std::error::Error for NoMtbf {}

/// Reads a mean time between failures, such as `90s`, `5m` or `24h`.
pub fn parse_mtbf(text: &str) -> Result<Duration, NoMtbf> {
    let time = time::parse(text).map_err(NoMtbf::NoTime)?;
    if time.is_zero() { Err(NoMtbf::Zero) } else { Ok(time) }
}

/// One rank's judgement of when a checkpoint is due. It suffices that one rank finds so.
#[derive(Clone, Debug)]
pub struct Interval {
    policy: IntervalPolicy,
    mtbf: Duration,
    /// When the newest checkpoint ended, or the job, or its newest incarnation, began.
    last: Duration,
    /// Barriers that had been held by then.
    last_barriers: u64,
    /// What the newest checkpoint took.
    newest_cost: Duration,
    cost: CheckpointCost,
}

/// What a checkpoint is expected to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckpointCost {
    Unknown,
    /// The first one saved all memory; the others will save what changed.
    First,
    Smoothed(Duration),
}

impl Interval {
    /// A job that begins.
    pub fn new(policy: IntervalPolicy, mtbf: Duration) -> Interval {
        Interval {
            policy,
            mtbf,
            last: Duration::ZERO,
            last_barriers: 0,
            newest_cost: Duration::ZERO,
            cost: CheckpointCost::Unknown,
        }
    }

    /// Whether a checkpoint is due now, when so many barriers have been held.
    pub fn due(&self, now: Duration, barriers: u64) -> bool {
        match self.policy {
            IntervalPolicy::Barriers(number) => barriers.saturating_sub(self.last_barriers) >= number.get(),
            IntervalPolicy::Time(time) => now.saturating_sub(self.last) >= time,
            IntervalPolicy::Auto => now.saturating_sub(self.last) >= self.between(),
        }
    }

    /// A checkpoint has ended now, when so many barriers had been held, and it took so long.
    pub fn took(&mut self, cost: Duration, now: Duration, barriers: u64) {
        self.cost = match self.cost {
            CheckpointCost::Unknown => CheckpointCost::First,
            CheckpointCost::First => CheckpointCost::Smoothed(cost),
            CheckpointCost::Smoothed(old) => {
                CheckpointCost::Smoothed((old.saturating_mul(3).saturating_add(cost)) / 4)
            }
        };
        self.newest_cost = cost;
        self.resumed(now, barriers);
    }

    /// A checkpoint was left out, or the rank was restored: the time to the next one begins now. A restored
    /// rank may count time from a new start.
    pub fn resumed(&mut self, now: Duration, barriers: u64) {
        self.last = now;
        self.last_barriers = barriers;
    }

    /// The time without a checkpoint after the newest one, under `auto`.
    fn between(&self) -> Duration {
        let wanted = match self.cost {
            CheckpointCost::Unknown | CheckpointCost::First => FIRST,
            CheckpointCost::Smoothed(cost) => daly(cost, self.mtbf).min(LONGEST),
        };
        let paid_off = self.newest_cost.saturating_mul(100 - LARGEST_SHARE) / LARGEST_SHARE;
        wanted.max(paid_off).max(SHORTEST)
    }
}

/// Daly's estimate of the best time between two checkpoints.
fn daly(cost: Duration, mtbf: Duration) -> Duration {
    let (c, m) = (cost.as_secs_f64(), mtbf.as_secs_f64());
    if c >= 2.0 * m {
        return mtbf;
    }
    let ratio = c / (2.0 * m);
    let best = (2.0 * c * m).sqrt() * (1.0 + ratio.sqrt() / 3.0 + ratio / 9.0) - c;
    Duration::try_from_secs_f64(best).unwrap_or(LONGEST)
}
