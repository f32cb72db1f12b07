//! SHIFTING: smoothing of a row of numbers whose parts change hands.
//!
//! An iteration sets every number to the mean of itself and its two neighbours in a ring. It reads one array and writes
//! another; then they change roles.
//!
//! **Who owns what, and for how long:** each worker has a part of both arrays, as in LAPLACE; but after every few
//! iterations it goes on with the part behind its own. Whatever was learnt of who reads and writes a page, and where it
//! lies best, is wrong from then on: this is a program for those who want to see what that costs.

use std::ops::Range;

use serde::Serialize;

use crate::crew::{Who, Worker};
use crate::memory::{Memory, Shared};
use crate::program::Program;
use crate::random::unit;
use crate::{Error, Result};

/// The program, with its parameters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Shifting {
    /// How many numbers.
    size: usize,
    iterations: usize,
    /// Iterations until the parts change hands.
    period: usize,
}

impl Shifting {
    /// Smooths that many numbers that many times.
    ///
    /// # Errors
    /// If there are no numbers, or the parts would change hands after every 0 iterations.
    pub fn new(size: usize, iterations: usize, period: usize) -> Result<Self> {
        for (option, value) in [("--size", size), ("--period", period)] {
            if value == 0 {
                return Err(Error::Empty(option));
            }
        }
        Ok(Self { size, iterations, period })
    }

    /// The part that a worker has in an iteration.
    fn part(&self, who: Who, iteration: usize) -> Range<usize> {
        let index = (who.index + iteration / self.period) % who.count;
        Who { index, ..who }.part(self.size)
    }
}

impl Program for Shifting {
    const NAME: &'static str = "shifting";
    type Arrays = [Shared<f64>; 2];
    type Element = f64;

    fn allocate(&self, _workers: usize, memory: &mut impl Memory) -> Result<Self::Arrays> {
        Ok([memory.array(self.size)?, memory.array(self.size)?])
    }

    fn result(&self, arrays: &Self::Arrays) -> Shared<f64> {
        arrays[self.iterations % 2]
    }

    unsafe fn initialise(&self, who: Who, arrays: &Self::Arrays) {
        let part = who.part(self.size);
        // SAFETY: until the next barrier, the worker has its part to itself.
        unsafe { arrays[1].get_mut(part.clone()) }.fill(0.0);
        // SAFETY: as above.
        let own = unsafe { arrays[0].get_mut(part.clone()) };
        part.zip(own).for_each(|(at, x)| *x = unit(at));
    }

    unsafe fn compute(&self, worker: &Worker<'_>, arrays: &Self::Arrays) -> Result<()> {
        for iteration in 0..self.iterations {
            let (from, to) = (arrays[iteration % 2], arrays[1 - iteration % 2]);
            let part = self.part(worker.who(), iteration);
            // SAFETY: until the next barrier, everybody only reads this array.
            let old = unsafe { from.get(0..self.size) };
            // SAFETY: until the next barrier, the worker has its part of that one to itself.
            let new = unsafe { to.get_mut(part.clone()) };
            for (at, x) in part.zip(new) {
                let [left, right] = [at.checked_sub(1).unwrap_or(self.size - 1), (at + 1) % self.size];
                *x = (old[left] + old[at] + old[right]) / 3.0;
            }
            worker.barrier()?;
        }
        // Without an iteration, this is the barrier that ends the computation.
        worker.barrier()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::tests::{agrees_on_any_number_of_threads, result_of};

    #[test]
    fn threads_compute_what_one_worker_does_whatever_the_sizes() {
        for (size, iterations, period) in [(1, 0, 1), (1, 3, 1), (2, 5, 2), (100, 7, 3), (1000, 20, 4)] {
            agrees_on_any_number_of_threads(Shifting::new(size, iterations, period).unwrap());
        }
    }

    #[test]
    fn smoothing_brings_all_numbers_to_their_mean() {
        let numbers = result_of(&Shifting::new(9, 500, 2).unwrap());
        let mean = (0..9).map(unit).sum::<f64>() / 9.0;
        assert!(numbers.iter().all(|x| (x - mean).abs() < 1e-12), "{numbers:?}, {mean}");
    }

    #[test]
    fn nothing_to_smooth_and_parts_that_never_rest_are_refused() {
        assert!(matches!(Shifting::new(0, 1, 1), Err(Error::Empty("--size"))));
        assert!(matches!(Shifting::new(1, 1, 0), Err(Error::Empty("--period"))));
    }
}
