//! Samples, and the few figures that stand for them.

use serde::Serialize;

/// What was measured, again and again. There is at least one sample, all are numbers, and they are in
/// ascending order.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples(Vec<f64>);

/// The middle of some samples, and how far they reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// As many are less as are more.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Samples {
    /// Nothing if there are no samples, or one is not a finite number: then there is nothing to say of them.
    pub fn new(mut samples: Vec<f64>) -> Option<Self> {
        let sound = !samples.is_empty() && samples.iter().all(|sample| sample.is_finite());
        samples.sort_by(f64::total_cmp);
        sound.then_some(Self(samples))
    }

    /// As many are less as are more; of an even number of samples, the mean of the two in the middle.
    pub fn median(&self) -> f64 {
        let (low, high) = (self.0[(self.0.len() - 1) / 2], self.0[self.0.len() / 2]);
        f64::midpoint(low, high)
    }

    /// The least: what remains when nothing else disturbed.
    pub fn min(&self) -> f64 {
        self.0[0]
    }

    /// The greatest.
    pub fn max(&self) -> f64 {
        self.0[self.0.len() - 1]
    }

    /// All three.
    pub fn spread(&self) -> Spread {
        Spread { median: self.median(), min: self.min(), max: self.max() }
    }
}

/// How many times as fast as `base` something is: round by round, of those rounds in which both were
/// measured. Times may drift from round to round; within a round they are neighbours.
pub fn speed(base: &[Option<f64>], times: &[Option<f64>]) -> Option<Spread> {
    let ratios = base.iter().zip(times).filter_map(|(base, time)| Some((*base)? / (*time)?));
    Some(Samples::new(ratios.collect())?.spread())
}

/// The median of those rounds in which there was something to measure.
pub fn median(rounds: &[Option<f64>]) -> Option<f64> {
    Some(Samples::new(rounds.iter().copied().flatten().collect())?.median())
}

/// The half-bandwidth point of a curve of lengths and rates: the length from which on messages have half of
/// the greatest rate (Hockney's n½, as in CLUMP's Table 4). Between two lengths that were measured, rates are
/// taken to lie on a line.
pub fn half_bandwidth(curve: &[(f64, f64)]) -> Option<f64> {
    let half = curve.iter().map(|(_, rate)| *rate).reduce(f64::max)? / 2.0;
    let at = curve.iter().position(|(_, rate)| *rate >= half)?;
    let (len, rate) = curve[at];
    // A message of no bytes has no rate.
    let (shorter, less) = if at == 0 { (0.0, 0.0) } else { curve[at - 1] };
    (rate > less).then(|| shorter + (half - less) / (rate - less) * (len - shorter))
}

/// The whole number nearest to one that is not negative; the greatest there is, if that is less.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "such casts saturate")]
pub fn count(number: f64) -> u64 {
    number.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_has_as_many_samples_on_either_side() {
        let median = |samples: &[f64]| Samples::new(samples.to_vec()).unwrap().median();
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 100.0]), 3.0);
    }

    #[test]
    fn half_the_bandwidth_is_had_between_the_lengths_around_it() {
        // The rates of a link of 1,000 bytes a unit of time with a start-up of 4: n½ is 4,000.
        let curve: Vec<_> =
            [1e3, 2e3, 3e3, 4e3, 5e3, 1e5, 1e7].map(|len: f64| (len, len / (4.0 + len / 1e3))).into();
        let half = half_bandwidth(&curve).unwrap();
        assert!((3_900.0..4_100.0).contains(&half), "{half}");
        assert_eq!(half_bandwidth(&[(8.0, 100.0), (16.0, 50.0)]), Some(4.0));
        assert_eq!((half_bandwidth(&[]), half_bandwidth(&[(8.0, 0.0)])), (None, None));
    }

    #[test]
    fn counts_are_the_nearest_whole_numbers() {
        assert_eq!([0.4, 2.5, 1e30, -1.0].map(count), [0, 3, u64::MAX, 0]);
    }

    #[test]
    fn what_is_no_number_or_nothing_has_no_figures() {
        assert_eq!(Samples::new(vec![]), None);
        assert_eq!(Samples::new(vec![1.0, f64::NAN]), None);
        assert_eq!(Samples::new(vec![f64::INFINITY]), None);
        assert_eq!(median(&[None, None]), None);
    }

    #[test]
    fn speeds_are_compared_within_a_round_so_a_drifting_machine_does_not_count() {
        let base = [Some(10.0), Some(20.0), Some(40.0)];
        let times = [Some(5.0), Some(10.0), Some(20.0)];
        assert_eq!(speed(&base, &times), Some(Spread { median: 2.0, min: 2.0, max: 2.0 }));
    }

    #[test]
    fn a_round_that_lacks_one_of_the_two_is_left_out() {
        let base = [Some(10.0), None, Some(30.0)];
        let times = [Some(5.0), Some(1.0), None];
        assert_eq!(speed(&base, &times), Some(Spread { median: 2.0, min: 2.0, max: 2.0 }));
        assert_eq!(speed(&base, &[None, None, None]), None);
    }
}
