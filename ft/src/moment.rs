//! Moments, as processes of one host tell them to each other.

use nix::time::{ClockId, clock_gettime};
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// A moment by the clock that nobody sets, from the start of the system on. As text, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// Now.
    pub fn now() -> Moment {
        // Every Linux has the clock.
        Moment(clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from))
    }

    /// What this process knows as an [`Instant`], and others do not.
    pub fn of(instant: Instant) -> Moment {
        Moment(Moment::now().0.saturating_sub(instant.elapsed()))
    }

    /// How much time lies between an earlier moment and this one.
    pub fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_nanos().fmt(f)
    }
}

impl FromStr for Moment {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Moment, Self::Err> {
        text.parse().map(Duration::from_nanos).map(Moment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_reads_the_moment_that_was_meant() {
        let instant = Instant::now();
        let before = Moment::of(instant);
        let told: Moment = before.to_string().parse().unwrap();
        assert_eq!(told, before);
        assert!(told <= Moment::now() && told.since(Moment::now()) == Duration::ZERO);
        // So long ago was it, and no later.
        let after = Moment::now();
        while Moment::now() == after {}
        assert!(Moment::of(instant) <= after);
        assert!("now".parse::<Moment>().is_err() && "-1".parse::<Moment>().is_err());
    }
}
