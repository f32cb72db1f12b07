//! Samples, and the few figures that stand for them.

use serde::Serialize;

/// What was measured, again and again. There is at least one sample, all are numbers, and they are in ascending order.
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

/// How many times as fast as `base` something is: round by round, of those rounds in which both were measured. Times
/// may drift from round to round; within a round they are neighbours.
pub fn speed(base: &[Option<f64>], times: &[Option<f64>]) -> Option<Spread> {
    let ratios = base.iter().zip(times).filter_map(|(base, time)| Some((*base)? / (*time)?));
    Some(Samples::new(ratios.collect())?.spread())
}

/// The median of those rounds in which there was something to measure.
pub fn median(rounds: &[Option<f64>]) -> Option<f64> {
    Some(Samples::new(rounds.iter().copied().flatten().collect())?.median())
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
