//! RELAY: a block of numbers that one worker writes and all read, until another one writes it.
//!
//! In each turn the *producer* sets every number of a block, and then each worker adds up those that it is interested
//! in, into a number of its own.
//!
//! **Who owns what, and for how long:** the block belongs to its producer, which is the next worker after every few
//! turns. Thus copies that all read come from elsewhere, and the worker whose writes were expected writes no more.
//!
//! **Two barriers a turn**: one before the block is read, one before it is written again.

use serde::Serialize;

use crate::crew::{Who, Worker};
use crate::memory::{Memory, Shared};
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
    block: Shared<f64>,
    sums: Shared<f64>,
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

impl Program for Relay {
    const NAME: &'static str = "relay";
    type Arrays = Arrays;
    type Element = f64;

    fn allocate(&self, _workers: usize, memory: &mut impl Memory) -> Result<Arrays> {
        Ok(Arrays { block: memory.array(self.size)?, sums: memory.array(SUMS)? })
    }

    fn result(&self, arrays: &Arrays) -> Shared<f64> {
        arrays.sums
    }

    unsafe fn initialise(&self, who: Who, arrays: &Arrays) {
        // SAFETY: until the next barrier, the worker has its part to itself.
        unsafe { arrays.block.get_mut(who.part(self.size)) }.fill(0.0);
        // SAFETY: as above.
        unsafe { arrays.sums.get_mut(who.part(SUMS)) }.fill(0.0);
    }

    unsafe fn compute(&self, worker: &Worker<'_>, arrays: &Arrays) -> Result<()> {
        let who = worker.who();
        // SAFETY: nobody else uses the worker's sums before the end.
        let sums = unsafe { arrays.sums.get_mut(who.part(SUMS)) };
        for turn in 0..self.turns {
            if turn / self.period % who.count == who.index {
                // SAFETY: until the next barrier, the producer has the block to itself.
                let block = unsafe { arrays.block.get_mut(0..self.size) };
                block.iter_mut().enumerate().for_each(|(at, x)| *x = unit(turn ^ at));
            }
            worker.barrier()?;
            // SAFETY: until the next barrier, everybody only reads the block.
            let block = unsafe { arrays.block.get(0..self.size) };
            for (first, sum) in who.part(SUMS).zip(sums.iter_mut()) {
                *sum += block.iter().skip(first).step_by(SUMS).sum::<f64>();
            }
            worker.barrier()?;
        }
        // Without a turn, this is the barrier that ends the computation.
        worker.barrier()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::tests::{agrees_on_any_number_of_threads, result_of};

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
