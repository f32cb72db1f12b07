//! RADIX: a parallel radix sort of random 32-bit keys, from the lowest digit to the highest.
//!
//! A pass sorts by one digit of eight bits, and keeps the order of keys that have the same. Each worker
//! counts the digits of its part of the keys; from all counts it knows where its keys with each digit go, and
//! moves them there.
//!
//! **Who owns what:** each worker owns a part of the keys, and a row of counts. What it moves keys to belongs
//! to others: for each digit a run of its own, but many workers' runs share a page. No two write the same
//! byte between barriers, and that is all a DSM with multiple writers asks for.
//!
//! **Two barriers a pass**: one before the counts are read, one before the moved keys are.

use serde::Serialize;

use crate::crew::{Worker, WorkerNumber};
use crate::memory::{Memory, product};
use crate::owned::{Array, Division};
use crate::program::Program;
use crate::random::mix;
use crate::shared::Shared;
use crate::{Error, Result};

/// The program, with its parameters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Radix {
    size: usize,
}

/// What the workers share.
pub struct Arrays {
    /// A pass reads one and writes the other, then they change roles.
    keys: [Array<u32>; 2],
    /// For each worker, how many of its keys have each digit.
    counts: Array<usize>,
    /// Who owns what of keys and counts, and where nobody owns anything.
    own: [Division; 2],
    read: [Division; 2],
}

/// Bits of a digit.
const BITS: u32 = 8;
/// How many digits there are to tell apart.
const DIGITS: usize = 1 << BITS;
/// Digits of a key. They are even in number, so the first array has the keys in the end.
const PASSES: u32 = u32::BITS / BITS;

impl Radix {
    /// Sorts that many keys.
    ///
    /// # Errors
    /// If there are none.
    pub fn new(size: usize) -> Result<Self> {
        if size == 0 {
            return Err(Error::Empty("--size"));
        }
        Ok(Self { size })
    }

    /// The key that is at this place in the beginning.
    fn key(at: usize) -> u32 {
        (mix(at as u64) >> 32) as u32
    }

    /// Moves the worker's keys to where the digits of this pass and all `counts` say.
    ///
    /// Where they go is known when the pass's first barrier has brought the counts of all. To agree on it, as
    /// a turn does, would take one more: so these slices are the method's own word.
    ///
    /// # Safety
    /// All workers are between the pass's barriers: they only read `from`, and write what this method writes
    /// in `to`.
    unsafe fn scatter(&self, who: WorkerNumber, pass: u32, counts: &[usize], from: &[u32], to: Shared<u32>) {
        let mut start = 0;
        let mut runs = Vec::with_capacity(DIGITS);
        for digit in 0..DIGITS {
            for (worker, counts) in counts.chunks_exact(DIGITS).enumerate() {
                let run = start..start + counts[digit];
                start = run.end;
                if worker == who.index {
                    // SAFETY: the run is for this worker's keys with this digit, and no other run reaches
                    // into it.
                    runs.push(unsafe { to.get_mut(run) }.iter_mut());
                }
            }
        }
        for &key in from {
            let place = runs[digit(key, pass)].next();
            *place.expect("a run is as long as the worker has counted") = key;
        }
    }
}

/// The digit by which the pass sorts.
fn digit(key: u32, pass: u32) -> usize {
    (key >> (pass * BITS)) as usize % DIGITS
}

impl Program for Radix {
    const NAME: &'static str = "radix";
    type Arrays = Arrays;
    type Element = u32;

    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Arrays> {
        let keys = [memory.array(self.size)?, memory.array(self.size)?];
        let counts = product(&[workers, DIGITS])?;
        Ok(Arrays {
            keys,
            counts: memory.array(counts)?,
            own: [Division::even(self.size, workers), Division::rows(workers, DIGITS, workers)],
            read: [self.size, counts].map(|len| Division::read_by_all(len, workers)),
        })
    }

    fn result<'a>(&self, arrays: &'a Self::Arrays) -> &'a Array<Self::Element> {
        &arrays.keys[0]
    }

    fn result_mut<'a>(&self, arrays: &'a mut Self::Arrays) -> &'a mut Array<Self::Element> {
        &mut arrays.keys[0]
    }

    fn initialise(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let Arrays { keys: [from, to], counts, own, read } = arrays;
        worker.turn(&[from.to(&own[0]), to.to(&own[0]), counts.to(&own[1])])?;
        to.mine(worker).fill(0);
        for (at, key) in worker.who().part(self.size).zip(from.mine(worker)) {
            *key = Self::key(at);
        }
        worker.turn(&[from.to(&read[0]), to.to(&read[0])])
    }

    fn compute(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let who = worker.who();
        let Arrays { keys: [first, second], counts, own, read } = arrays;
        let (mut from, mut to) = (first, second);
        for pass in 0..PASSES {
            let digits = counts.mine(worker);
            digits.fill(0);
            for &key in from.get(worker, who.part(self.size)) {
                digits[digit(key, pass)] += 1;
            }
            worker.turn(&[counts.to(&read[1])])?;
            let all = counts.get(worker, 0..counts.len());
            let keys = from.get(worker, who.part(self.size));
            // SAFETY: this is the time between the pass's barriers, and nothing here reads what keys move to.
            unsafe { self.scatter(who, pass, all, keys, to.raw()) };
            worker.turn(&[counts.to(&own[1])])?;
            std::mem::swap(&mut from, &mut to);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Heap;
    use crate::repetitions::tests::{agrees_on_any_number_of_threads, result_of};

    #[test]
    fn threads_compute_what_one_worker_does_whatever_the_sizes() {
        for size in [1, 2, 8, 100, 5000] {
            agrees_on_any_number_of_threads(Radix::new(size).unwrap());
        }
    }

    #[test]
    fn the_keys_are_sorted_and_none_is_lost() {
        for size in [1, 2, 300, 70_000] {
            let mut keys: Vec<u32> = (0..size).map(Radix::key).collect();
            keys.sort_unstable();
            assert_eq!(result_of(&Radix::new(size).unwrap()), keys);
        }
    }

    #[test]
    fn keys_that_no_address_space_holds_are_refused() {
        assert!(matches!(Radix::new(0), Err(Error::Empty("--size"))));
        let huge = Radix::new(usize::MAX).unwrap();
        assert!(matches!(huge.allocate(1, &mut Heap), Err(Error::TooLarge)));
    }
}
