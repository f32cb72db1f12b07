//! RADIX: a parallel radix sort of random 32-bit keys, from the lowest digit to the highest.
//!
//! A pass sorts by one digit of eight bits, and keeps the order of keys that have the same. Each worker counts the
//! digits of its part of the keys; from all counts it knows where its keys with each digit go, and moves them there.
//!
//! **Who owns what:** each worker owns a part of the keys, and a row of counts. What it moves keys to belongs to others:
//! for each digit a run of its own, but many workers' runs share a page. No two write the same byte between barriers, and
//! that is all a DSM with multiple writers asks for.
//!
//! **Two barriers a pass**: one before the counts are read, one before the moved keys are.

use serde::Serialize;

use crate::crew::{Who, Worker};
use crate::memory::{Memory, Shared, product};
use crate::program::Program;
use crate::random::mix;
use crate::{Error, Result};

/// The program, with its parameters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Radix {
    size: usize,
}

/// What the workers share.
pub struct Arrays {
    /// A pass reads one and writes the other, then they change roles.
    keys: [Shared<u32>; 2],
    /// For each worker, how many of its keys have each digit.
    counts: Shared<usize>,
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
    /// # Safety
    /// All workers are between the pass's barriers: they only read `from`, and write what this method writes in `to`.
    unsafe fn scatter(&self, who: Who, pass: u32, counts: &[usize], [from, to]: [Shared<u32>; 2]) {
        let mut start = 0;
        let mut runs = Vec::with_capacity(DIGITS);
        for digit in 0..DIGITS {
            for (worker, counts) in counts.chunks_exact(DIGITS).enumerate() {
                let run = start..start + counts[digit];
                start = run.end;
                if worker == who.index {
                    // SAFETY: the run is for this worker's keys with this digit, and no other run reaches into it.
                    runs.push(unsafe { to.get_mut(run) }.iter_mut());
                }
            }
        }
        // SAFETY: the caller's promise.
        for &key in unsafe { from.get(who.part(self.size)) } {
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
        Ok(Arrays { keys, counts: memory.array(product(&[workers, DIGITS])?)? })
    }

    fn result(&self, arrays: &Arrays) -> Shared<u32> {
        arrays.keys[0]
    }

    unsafe fn initialise(&self, who: Who, arrays: &Arrays) {
        let part = who.part(self.size);
        // SAFETY: until the next barrier, the worker has its part to itself.
        unsafe { arrays.keys[1].get_mut(part.clone()) }.fill(0);
        // SAFETY: as above.
        let keys = unsafe { arrays.keys[0].get_mut(part.clone()) };
        for (at, key) in part.zip(keys) {
            *key = Self::key(at);
        }
    }

    unsafe fn compute(&self, worker: &Worker<'_>, arrays: &Arrays) -> Result<()> {
        let who = worker.who();
        let [mut from, mut to] = arrays.keys;
        for pass in 0..PASSES {
            // SAFETY: keys move to the other array only.
            let keys = unsafe { from.get(who.part(self.size)) };
            // SAFETY: until the next barrier, the worker has its row to itself.
            let own = unsafe { arrays.counts.get_mut(who.index * DIGITS..(who.index + 1) * DIGITS) };
            own.fill(0);
            for &key in keys {
                own[digit(key, pass)] += 1;
            }
            worker.barrier()?;
            // SAFETY: until the next barrier, everybody only reads the counts.
            let counts = unsafe { arrays.counts.get(0..arrays.counts.len()) };
            // SAFETY: this is the time between the pass's barriers.
            unsafe { self.scatter(who, pass, counts, [from, to]) };
            worker.barrier()?;
            std::mem::swap(&mut from, &mut to);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Heap;
    use crate::program::tests::{agrees_on_any_number_of_threads, result_of};

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
        assert!(matches!(huge.allocate(1, &mut Heap::default()), Err(Error::TooLarge)));
    }
}
