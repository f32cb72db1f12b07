//! RELAY: a block of numbers that one worker writes and all read, until another one writes it.
//!
//! In each turn the *producer* sets every number of a block, and then each worker adds up those that it is
//! interested in, into a number of its own.
//!
//! **Who owns what, and for how long:** the block belongs to its producer, which is the next worker after
//! every few turns. Thus copies that all read come from elsewhere, and the worker whose writes were expected
//! writes no more.
//!
//! **Two barriers a turn**: one before the block is read, one before it is written again.

use serde::Serialize;

use crate::crew::Worker;
use crate::memory::Memory;
use crate::owned::{Array, Division};
use crate::program::Program;
use crate::random::unit;
use crate::{Error, Result};

/// The program, with its parameters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Relay {
    /// Numbers of the block.
    size: usize,
    turns: usize,
    /// Turns of a producer.
    period: usize,
}

/// What the workers share.
pub struct Arrays {
    block: Array<f64>,
    sums: Array<f64>,
    /// Who owns what of the sums, and where nobody owns anything of the block and of the sums.
    own: Division,
    read: [Division; 2],
    workers: usize,
}

/// Sums: each of every so many numbers of the block. They are divided among the workers.
const SUMS: usize = 64;

impl Relay {
    /// Hands a block of that many numbers round.
    ///
    /// # Errors
    /// If the block is empty, or a producer has no turns.
    pub fn new(size: usize, turns: usize, period: usize) -> Result<Self> {
        for (option, value) in [("--size", size), ("--period", period)] {
            if value == 0 {
                return Err(Error::Empty(option));
            }
        }
        Ok(Self { size, turns, period })
    }
}

impl Relay {
    /// The producer of a turn owns the block.
    fn producer(&self, workers: usize, turn: usize) -> Result<Division> {
        let producer = turn / self.period % workers;
        Ok(Division::new(self.size, workers, |index| (index == producer).then_some(0..self.size))?)
    }
}

impl Program for Relay {
    const NAME: &'static str = "relay";
    type Arrays = Arrays;
    type Element = f64;

    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Arrays> {
        Ok(Arrays {
            block: memory.array(self.size)?,
            sums: memory.array(SUMS)?,
            own: Division::even(SUMS, workers),
            read: [self.size, SUMS].map(|len| Division::read_by_all(len, workers)),
            workers,
        })
    }

    fn result<'a>(&self, arrays: &'a Self::Arrays) -> &'a Array<Self::Element> {
        &arrays.sums
    }

    fn result_mut<'a>(&self, arrays: &'a mut Self::Arrays) -> &'a mut Array<Self::Element> {
        &mut arrays.sums
    }

    fn initialise(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let Arrays { block, sums, own, workers, .. } = arrays;
        let parts = Division::even(self.size, *workers);
        worker.turn(&[block.to(&parts), sums.to(own)])?;
        block.mine(worker).fill(0.0);
        sums.mine(worker).fill(0.0);
        worker.turn(&[block.to(&self.producer(*workers, 0)?)])
    }

    fn compute(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let who = worker.who();
        let Arrays { block, sums, read, workers, .. } = arrays;
        for turn in 0..self.turns {
            block.mine(worker).iter_mut().enumerate().for_each(|(at, x)| *x = unit(turn ^ at));
            worker.turn(&[block.to(&read[0])])?;
            let all = block.get(worker, 0..self.size);
            for (first, sum) in who.part(SUMS).zip(sums.mine(worker)) {
                *sum += all.iter().skip(first).step_by(SUMS).sum::<f64>();
            }
            worker.turn(&[block.to(&self.producer(*workers, turn + 1)?)])?;
        }
        // Without a turn, this is the barrier that ends the computation.
        worker.turn(&[sums.to(&read[1])])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repetitions::tests::{agrees_on_any_number_of_threads, result_of};

    #[test]
    fn threads_compute_what_one_worker_does_whatever_the_sizes() {
        for (size, turns, period) in [(1, 0, 1), (1, 3, 1), (100, 5, 2), (1000, 13, 3)] {
            agrees_on_any_number_of_threads(Relay::new(size, turns, period).unwrap());
        }
    }

    #[test]
    fn each_sum_is_of_its_numbers_in_all_turns() {
        let of = |sum: usize| (0..2).map(|turn| unit(turn ^ sum) + unit(turn ^ (sum + SUMS))).sum::<f64>();
        let sums = result_of(&Relay::new(2 * SUMS, 2, 1).unwrap());
        assert!(sums.iter().enumerate().all(|(at, sum)| (sum - of(at)).abs() < 1e-12), "{sums:?}");
    }

    #[test]
    fn an_empty_block_and_producers_without_turns_are_refused() {
        assert!(matches!(Relay::new(0, 1, 1), Err(Error::Empty("--size"))));
        assert!(matches!(Relay::new(1, 1, 0), Err(Error::Empty("--period"))));
    }
}
