//! Two protocols on a ladder of lengths, and the length at which one should give way to the other.

use scash_comm::Result;
use std::time::Duration;

/// Times that each protocol serves each length.
const TURNS: usize = 5;
/// Most that a length counts for: a ratio of 2.7.
const MOST: f64 = 1.0;

/// One of the two: the first is for short messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    First,
    Second,
}

/// A length, and the medians of what both protocols take for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    len: usize,
    first: Duration,
    second: Duration,
}

/// Measures both protocols in turns, length by length, until `time` gives nothing because there is no time
/// left.
///
/// # Errors
/// That of `time`.
pub(super) fn climb(
    lengths: impl Iterator<Item = usize>,
    mut time: impl FnMut(Which, usize) -> Result<Option<Duration>>,
) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for len in lengths {
        let (mut first, mut second) = ([Duration::ZERO; TURNS], [Duration::ZERO; TURNS]);
        for turn in 0..TURNS {
            let Some(one) = time(Which::First, len)? else { return Ok(steps) };
            let Some(other) = time(Which::Second, len)? else { return Ok(steps) };
            (first[turn], second[turn]) = (one, other);
        }
        steps.push(Step { len, first: median(first), second: median(second) });
    }
    Ok(steps)
}

fn median(mut times: [Duration; TURNS]) -> Duration {
    times.sort_unstable();
    times[TURNS / 2]
}

/// The longest message that the first protocol should serve; `None`: nothing was measured.
///
/// Of all splits of the ladder, it is the one that agrees best with the times: the least product of the times
/// that follow from it, in which no length counts for more than [`MOST`]. So one that was disturbed does not
/// decide, and there is one threshold, however often the curves cross. Where the first protocol is to serve
/// all that was measured, what is `said` of longer messages stands.
pub(super) fn split(steps: &[Step], said: usize) -> Option<usize> {
    let last = steps.last()?.len;
    // The threshold, and how much longer all takes with it than with the second protocol alone: logarithms of
    // products.
    let (mut best, mut least, mut longer) = (1, 0.0, 0.0);
    for step in steps {
        longer += step.longer();
        if longer <= least {
            (best, least) = (step.len, longer);
        }
    }
    Some(if best == last { last.max(said) } else { best })
}

impl Step {
    /// The same where a time of the first protocol counts for so many of the second.
    pub(super) fn with_first_counted(self, weight: f64) -> Self {
        Self { first: self.first.mul_f64(weight), ..self }
    }

    /// How much longer the first protocol takes: the logarithm of the ratio.
    fn longer(&self) -> f64 {
        // A clock may be too coarse to see a message pass.
        let logarithm = |time: Duration| time.as_secs_f64().max(1e-9).ln();
        (logarithm(self.first) - logarithm(self.second)).clamp(-MOST, MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn steps(times: &[(u64, u64)]) -> Vec<Step> {
        let step = |(at, &(first, second)): (usize, &(u64, u64))| Step {
            len: 256 << at,
            first: Duration::from_nanos(first),
            second: Duration::from_nanos(second),
        };
        times.iter().enumerate().map(step).collect()
    }

    #[test]
    fn the_first_protocol_serves_up_to_where_the_second_is_faster() {
        let crossing = steps(&[(10, 30), (12, 31), (20, 32), (40, 33), (80, 40), (160, 60)]);
        assert_eq!(split(&crossing, 4096), Some(1024));
        assert_eq!(split(&steps(&[(9, 3), (9, 4)]), 4096), Some(1), "never");
        assert_eq!(split(&[], 4096), None);
    }

    #[test]
    fn a_time_of_the_first_may_count_for_more() {
        let near = steps(&[(10, 13)]);
        let weighed = near.iter().map(|step| step.with_first_counted(1.4)).collect::<Vec<_>>();
        assert_eq!((split(&near, 4096), split(&weighed, 4096)), (Some(4096), Some(1)));
    }

    #[test]
    fn where_the_first_is_always_faster_what_was_said_of_longer_ones_stands() {
        let always = steps(&[(1, 2), (2, 3)]);
        assert_eq!(split(&always, 4096), Some(4096));
        assert_eq!(split(&always, 100), Some(512));
    }

    #[test]
    fn a_length_that_was_disturbed_does_not_decide() {
        let disturbed = steps(&[(10, 30), (90, 31), (15, 32), (22, 33), (80, 40), (60, 100), (900, 80)]);
        assert_eq!(split(&disturbed, 4096), Some(2048));
    }

    #[test]
    fn nothing_is_measured_when_there_is_no_time_left() {
        for calls in 0..40 {
            let mut left = calls;
            let measured = climb([1, 2, 3].into_iter(), |_, _| {
                assert_ne!(left, usize::MAX, "it was said that there is no time left");
                left = left.wrapping_sub(1);
                Ok((left != usize::MAX).then_some(Duration::from_nanos(1)))
            });
            assert_eq!(measured.unwrap().len(), (calls / (2 * TURNS)).min(3));
        }
    }

    #[test]
    fn the_median_of_the_turns_counts() {
        let mut turn = 0;
        let measured = climb([64].into_iter(), |which, _| {
            turn += 1;
            let time = if turn < 5 { 1_000_000 } else { turn };
            Ok(Some(Duration::from_nanos(if which == Which::First { time } else { 7 })))
        });
        assert_eq!(measured.unwrap(), [Step { len: 64, ..steps(&[(9, 7)])[0] }]);
    }

    proptest! {
        #[test]
        fn of_all_splits_the_best_one_is_found(times in prop::collection::vec((1..10_000u64, 1..10_000u64), 1..12)) {
            let steps = steps(&times);
            let cost = |served: usize| -> f64 { steps[..served].iter().map(Step::longer).sum() };
            let chosen = split(&steps, 0).unwrap();
            let served = steps.iter().filter(|step| step.len <= chosen).count();
            prop_assert!((0..=steps.len()).all(|other| cost(served) <= cost(other) + 1e-6));
        }
    }
}
