//! What a rank asks at each point.

use super::{Injection, Point, When};
use crate::Incarnation;
use crate::random::SplitMix64;
use crate::time;
use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

/// What happens to a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedAction {
    /// It dies of SIGKILL.
    Kill,
    /// It stops by SIGSTOP, and goes on after so long.
    Stop(Duration),
    /// The thread that reached the point sleeps so long.
    Delay(Duration),
}

impl InjectedAction {
    pub(super) fn verb(self) -> &'static str {
        match self {
            InjectedAction::Kill => "kill",
            InjectedAction::Stop(_) => "stop",
            InjectedAction::Delay(_) => "delay",
        }
    }

    pub(super) fn write_time(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, time) = match self {
            InjectedAction::Kill => return Ok(()),
            InjectedAction::Stop(time) => (" for ", time),
            InjectedAction::Delay(time) => (" by ", time),
        };
        f.write_str(word)?;
        time::write(f, time)
    }

    /// Of two things at a time, the graver happens.
    fn gravity(self) -> u8 {
        match self {
            InjectedAction::Kill => 2,
            InjectedAction::Stop(_) => 1,
            InjectedAction::Delay(_) => 0,
        }
    }
}

/// The injections of one rank in one incarnation, and how often it has passed their points.
#[derive(Clone, Debug, Default)]
pub struct Injector {
    scheduled: Vec<ScheduledInjection>,
}

#[derive(Clone, Debug)]
struct ScheduledInjection {
    point: Point,
    act: InjectedAction,
    trigger: Trigger,
}

#[derive(Clone, Debug)]
enum Trigger {
    /// How often the point is passed before and including the time that is meant; none when that is over.
    Countdown(Option<NonZeroU64>),
    Chance(f64, SplitMix64),
}

impl Trigger {
    /// Counts one time that the point is passed.
    fn fires(&mut self) -> bool {
        match self {
            Trigger::Countdown(left) => {
                let was_last = *left == Some(NonZeroU64::MIN);
                *left = left.and_then(|number| NonZeroU64::new(number.get() - 1));
                was_last
            }
            Trigger::Chance(probability, random) => random.happens(*probability),
        }
    }
}

impl Injector {
    /// Those of the job's injections that are meant for a rank in an incarnation.
    pub fn new(injections: &[Injection], rank: u32, incarnation: Incarnation) -> Injector {
        let meant = |of: &Injection| {
            of.rank.is_none_or(|named| named == rank)
                && of.incarnation.is_none_or(|named| named == incarnation)
        };
        let schedule = |(number, of): (u64, &Injection)| {
            let trigger = match of.when {
                When::Time(number) => Trigger::Countdown(Some(number)),
                When::Randomly { probability, seed } => {
                    let uses = [number, u64::from(rank), incarnation.0];
                    Trigger::Chance(probability, SplitMix64::of(seed, &uses))
                }
            };
            ScheduledInjection { point: of.point, act: of.act, trigger }
        };
        Injector { scheduled: (0..).zip(injections).filter(|(_, of)| meant(of)).map(schedule).collect() }
    }

    /// Whether nothing can happen to this rank.
    pub fn is_empty(&self) -> bool {
        self.scheduled.is_empty()
    }

    /// The rank is at a point. What happens to it there, if anything.
    pub fn at(&mut self, point: Point) -> Option<InjectedAction> {
        let here = self.scheduled.iter_mut().filter(|scheduled| scheduled.point == point);
        let due = here.filter_map(|scheduled| scheduled.trigger.fires().then_some(scheduled.act));
        due.reduce(|one, other| if other.gravity() > one.gravity() { other } else { one })
    }
}
