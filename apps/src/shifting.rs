//! SHIFTING: smoothing of a row of numbers whose parts change hands.
//!
//! An iteration sets every number to the mean of itself and its two neighbours in a ring. It reads one array
//! and writes another; then they change roles.
//!
//! **Who owns what, and for how long:** each worker has a part of both arrays, as in LAPLACE; but after every
//! few iterations it goes on with the part behind its own. Whatever was learnt of who reads and writes a
//! page, and where it lies best, is wrong from then on: this is a program for those who want to see what that
//! costs.

use std::ops::Range;

use serde::Serialize;

use crate::crew::{Worker, WorkerNumber};
use crate::memory::Memory;
use crate::owned::{Array, Division};
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

/// What the workers share.
pub struct Rows {
    /// An iteration reads one and writes the other, then they change roles.
    rows: [Array<f64>; 2],
    /// Nobody owns anything.
    read: Division,
    workers: usize,
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
    fn part(&self, who: WorkerNumber, iteration: usize) -> Range<usize> {
        let index = (who.index + iteration / self.period) % who.count;
        WorkerNumber { index, ..who }.part(self.size)
    }

    /// All parts of an iteration.
    fn parts(&self, workers: usize, iteration: usize) -> Result<Division> {
        let who = |index| WorkerNumber { index, count: workers };
        Ok(Division::new(self.size, workers, |index| [self.part(who(index), iteration)])?)
    }
}

impl Program for Shifting {
    const NAME: &'static str = "shifting";
    type Arrays = Rows;
    type Element = f64;

    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Self::Arrays> {
        let rows = [memory.array(self.size)?, memory.array(self.size)?];
        Ok(Rows { rows, read: Division::read_by_all(self.size, workers), workers })
    }

    fn result<'a>(&self, arrays: &'a Self::Arrays) -> &'a Array<Self::Element> {
        &arrays.rows[self.iterations % 2]
    }

    fn result_mut<'a>(&self, arrays: &'a mut Self::Arrays) -> &'a mut Array<Self::Element> {
        &mut arrays.rows[self.iterations % 2]
    }

    fn initialise(&self, worker: &mut Worker<'_>, arrays: &Rows) -> Result<()> {
        let Rows { rows: [first, second], read, workers } = arrays;
        let parts = self.parts(*workers, 0)?;
        worker.turn(&[first.to(&parts), second.to(&parts)])?;
        second.mine(worker).fill(0.0);
        worker.who().part(self.size).zip(first.mine(worker)).for_each(|(at, x)| *x = unit(at));
        worker.turn(&[first.to(read)])
    }

    fn compute(&self, worker: &mut Worker<'_>, arrays: &Rows) -> Result<()> {
        let Rows { rows, read, workers } = arrays;
        let mut parts = self.parts(*workers, 0)?;
        for iteration in 0..self.iterations {
            let (from, to) = (&rows[iteration % 2], &rows[1 - iteration % 2]);
            let old = from.get(worker, 0..self.size);
            for (at, x) in self.part(worker.who(), iteration).zip(to.mine(worker)) {
                let [left, right] = [at.checked_sub(1).unwrap_or(self.size - 1), (at + 1) % self.size];
                *x = (old[left] + old[at] + old[right]) / 3.0;
            }
            if (iteration + 1).is_multiple_of(self.period) {
                parts = self.parts(*workers, iteration + 1)?;
            }
            worker.turn(&[to.to(read), from.to(&parts)])?;
        }
        // Without an iteration, this is the barrier that ends the computation.
        worker.barrier()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repetitions::tests::{agrees_on_any_number_of_threads, result_of};

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
