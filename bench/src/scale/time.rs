//! Simulated time.

use serde::{Serialize, Serializer};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};

/// A point in simulated time, or how long something takes, in picoseconds: whole numbers, so that a run is
/// the same everywhere, and small enough for a byte on a fast network. There is room for half a year.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(u64);

impl Time {
    /// The beginning, and no time at all.
    pub const ZERO: Time = Time(0);

    /// So many picoseconds.
    pub const fn picoseconds(count: u64) -> Time {
        Time(count)
    }

    /// So many nanoseconds.
    pub const fn nanoseconds(count: u64) -> Time {
        Time(count * 1_000)
    }

    /// So many seconds; what is less than nothing, or no number, is no time.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "such a cast saturates, and takes what is no number for 0"
    )]
    pub fn seconds(count: f64) -> Time {
        Time((count * 1e12).round() as u64)
    }

    /// As a number of seconds.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 * 1e-12
    }

    /// This part of the time: `count` of `whole`.
    pub fn share(self, count: u64, whole: u64) -> Time {
        Time(self.0 * count / whole)
    }
}

impl Add for Time {
    type Output = Time;

    fn add(self, other: Time) -> Time {
        Time(self.0 + other.0)
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        *self = *self + other;
    }
}

/// What lies between two points; nothing if the first is not the later one.
impl Sub for Time {
    type Output = Time;

    fn sub(self, other: Time) -> Time {
        Time(self.0.saturating_sub(other.0))
    }
}

impl Mul<u64> for Time {
    type Output = Time;

    fn mul(self, count: u64) -> Time {
        Time(self.0 * count)
    }
}

impl Sum for Time {
    fn sum<I: Iterator<Item = Time>>(times: I) -> Time {
        times.fold(Time::ZERO, Add::add)
    }
}

/// In seconds.
impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_seconds())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_time_is_none() {
        assert_eq!(Time::seconds(-1.0), Time::ZERO);
        assert_eq!(Time::seconds(f64::NAN), Time::ZERO);
        assert_eq!(Time::nanoseconds(1) - Time::nanoseconds(2), Time::ZERO);
        assert_eq!(Time::seconds(1e-9), Time::nanoseconds(1));
    }
}
