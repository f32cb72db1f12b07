//! EP, the embarrassingly parallel program of the NAS Parallel Benchmarks: pairs of random numbers with
//! Gaussian deviates, added up and counted.
//!
//! Two uniform numbers become a point in a square around the origin. If it lies in the unit circle, it gives
//! two independent Gaussian deviates (Marsaglia's polar method). Their sums are asked for, and how many pairs
//! lie in each of ten square annuli.
//!
//! **Who owns what:** the pairs are cut into batches of 2¹⁶. Each worker owns neighbouring batches, and their
//! sums. One adds these up in the order of the batches: so all bits are the same on any number of workers.
//!
//! **Two barriers**: one before the sums are added up, one at the end.

use serde::Serialize;

use crate::crew::Worker;
use crate::memory::Memory;
use crate::npb::{Class, Random};
use crate::owned::{Array, Division};
use crate::program::Program;
use crate::{Error, Result};

/// The program, with its parameters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ep {
    class: Class,
    batches: usize,
}

/// What the workers share.
pub struct Arrays {
    batches: Array<Sums>,
    /// One element: all batches added up.
    total: Array<Sums>,
    /// Who owns what of both, and where nobody owns anything.
    own: [Division; 2],
    read: [Division; 2],
}

/// The sums of both deviates, and the numbers of pairs in annuli.
pub(crate) type Sums = [f64; 2 + ANNULI];

const ANNULI: usize = 10;
/// Pairs of a batch: NPB's number, on which the last bits of the sums depend.
pub(crate) const BATCH: u64 = 1 << 16;
const SEED: u64 = 271_828_183;
/// How far the sums may be from the published ones, relative to them.
pub(crate) const TOLERANCE: f64 = 1e-8;

impl Ep {
    /// The program for problems of that class, or for another number of batches.
    ///
    /// # Errors
    /// If there are no batches.
    pub fn new(class: Class, batches: Option<usize>) -> Result<Self> {
        match batches.unwrap_or_else(|| batches_of(class)) {
            0 => Err(Error::Empty("--batches")),
            batches => Ok(Self { class, batches }),
        }
    }
}

/// The sums of the deviates that NPB publishes.
pub(crate) fn published(class: Class) -> [f64; 2] {
    match class {
        Class::S => [-3.247_834_652_034_74e3, -6.958_407_078_382_297e3],
        Class::W => [-2.863_319_731_645_753e3, -6.320_053_679_109_499e3],
        Class::A => [-4.295_875_165_629_892e3, -1.580_732_573_678_431e4],
    }
}

/// How many batches problems of that class have.
pub(crate) fn batches_of(class: Class) -> usize {
    match class {
        Class::S => 1 << 8,
        Class::W => 1 << 9,
        Class::A => 1 << 12,
    }
}

/// The sums of one batch.
#[expect(clippy::cast_possible_truncation, reason = "the annulus is the whole part")]
pub(crate) fn sums(batch: usize) -> Sums {
    let mut random = Random::after(SEED, 2 * BATCH * batch as u64);
    let mut sums = [0.0; 2 + ANNULI];
    for _ in 0..BATCH {
        let [x, y] = [random.number(), random.number()].map(|number| 2.0 * number - 1.0);
        let square = x * x + y * y;
        if square <= 1.0 {
            let stretch = (-2.0 * square.ln() / square).sqrt();
            let [x, y] = [x * stretch, y * stretch];
            sums[0] += x;
            sums[1] += y;
            // No class has a pair beyond the last annulus; of more batches it would take those too.
            let annulus = x.abs().max(y.abs()) as usize;
            sums[2 + annulus.min(ANNULI - 1)] += 1.0;
        }
    }
    sums
}

impl Program for Ep {
    const NAME: &'static str = "ep";
    type Arrays = Arrays;
    type Element = Sums;

    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Arrays> {
        Ok(Arrays {
            batches: memory.array(self.batches)?,
            total: memory.array(1)?,
            own: [self.batches, 1].map(|len| Division::even(len, workers)),
            read: [self.batches, 1].map(|len| Division::read_by_all(len, workers)),
        })
    }

    fn result<'a>(&self, arrays: &'a Self::Arrays) -> &'a Array<Self::Element> {
        &arrays.total
    }

    fn result_mut<'a>(&self, arrays: &'a mut Self::Arrays) -> &'a mut Array<Self::Element> {
        &mut arrays.total
    }

    fn initialise(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let Arrays { batches, total, own, .. } = arrays;
        worker.turn(&[batches.to(&own[0]), total.to(&own[1])])?;
        for array in [batches, total] {
            array.mine(worker).fill([0.0; 2 + ANNULI]);
        }
        worker.barrier()
    }

    fn compute(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let Arrays { batches, total, read, .. } = arrays;
        let part = worker.who().part(self.batches);
        for (batch, own) in part.zip(batches.mine(worker)) {
            *own = sums(batch);
        }
        worker.turn(&[batches.to(&read[0])])?;
        let batches = batches.get(worker, 0..self.batches);
        // One worker has the total, the others nothing of it.
        for total in total.mine(worker) {
            for (place, total) in total.iter_mut().enumerate() {
                *total = batches.iter().fold(0.0, |total, sums| total + sums[place]);
            }
        }
        worker.turn(&[total.to(&read[1])])
    }

    fn verify(&self, arrays: &mut Arrays) -> Option<bool> {
        if self.batches != batches_of(self.class) {
            return None;
        }
        let total = arrays.total.whole()[0];
        let close = |(sum, published): (&f64, f64)| ((sum - published) / published).abs() <= TOLERANCE;
        Some(total.iter().zip(published(self.class)).all(close))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crew::{Sequential, run_crew};
    use crate::memory::Heap;
    use crate::repetitions::tests::{agrees_on_any_number_of_threads, result_of};

    #[test]
    fn threads_compute_what_one_worker_does_whatever_the_number_of_batches() {
        for batches in [1, 2, 11] {
            agrees_on_any_number_of_threads(Ep::new(Class::A, Some(batches)).unwrap());
        }
    }

    #[test]
    fn only_what_is_published_is_verified() {
        for (batches, sums, outcome) in [
            (None, published(Class::W), Some(true)),
            (None, [1.0, 2.0], Some(false)),
            (Some(3), [1.0, 2.0], None),
        ] {
            let ep = Ep::new(Class::W, batches).unwrap();
            let mut arrays = ep.allocate(1, &mut Heap).unwrap();
            run_crew(&Sequential, 1, false, |worker| {
                worker.turn(&[arrays.total.to(&arrays.own[1])])?;
                arrays.total.mine(worker)[0][..2].copy_from_slice(&sums);
                worker.turn(&[arrays.total.to(&arrays.read[1])])
            })
            .unwrap();
            assert_eq!(ep.verify(&mut arrays), outcome);
        }
    }

    #[test]
    fn batches_that_make_no_sense_are_refused() {
        assert!(matches!(Ep::new(Class::S, Some(0)), Err(Error::Empty("--batches"))));
        let huge = Ep::new(Class::S, Some(usize::MAX)).unwrap();
        assert!(matches!(huge.allocate(1, &mut Heap), Err(Error::TooLarge)));
    }

    #[test]
    fn class_s_has_the_published_sums_and_counts() {
        let ep = Ep::new(Class::S, None).unwrap();
        let [total] = result_of(&ep)[..] else { panic!("there is one total") };
        for (sum, published) in total.iter().zip(published(Class::S)) {
            assert!(((sum - published) / published).abs() < 1e-12, "{sum} for {published}");
        }
        assert_eq!(
            total[2..],
            [6_140_517.0, 5_865_300.0, 1_100_361.0, 68_546.0, 1648.0, 17.0, 0.0, 0.0, 0.0, 0.0]
        );
    }
}
