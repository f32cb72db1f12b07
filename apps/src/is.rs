//! IS, the integer sort of the NAS Parallel Benchmarks: ranks of keys, by counting.
//!
//! Keys are sums of four random numbers, so their values crowd around the middle. Ten times, two keys are changed, and
//! for each value there is, the number of keys up to that value is counted: which says where every key goes.
//!
//! **Who owns what:** each worker owns a part of the keys, a row of counts for all values, and a part of the ranks. It
//! counts its keys; then it adds up all workers' counts, but only for its values. So every worker reads what every other
//! wrote. All counts are written in each iteration, but few become others than they were.
//!
//! **Three barriers an iteration**: before the counts are read, before the sums over each part of the values are, and
//! before the ranks are. All numbers are integers: they are the same on any number of workers.

pub(crate) mod class;

use std::ops::Range;

use serde::Serialize;

use crate::Result;
use crate::crew::{Who, Worker};
use crate::memory::{Memory, Shared, product};
use crate::npb::{Class, Random};
use crate::program::Program;
use class::{Parameters, TESTS};

/// The program, with its parameters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Is {
    class: Class,
    #[serde(skip)]
    parameters: Parameters,
}

/// What the workers share.
pub struct Arrays {
    keys: Shared<u32>,
    /// For each worker, how many of its keys have each value.
    counts: Shared<u32>,
    /// For each value, how many keys are not greater.
    ranks: Shared<u32>,
    /// For each worker, how many keys have one of its values.
    sums: Shared<u32>,
    /// For each worker, how many tests its keys have passed.
    passed: Shared<usize>,
}

pub(crate) const ITERATIONS: u32 = 10;
const SEED: u64 = 314_159_265;

impl Is {
    /// The program for problems of that class.
    pub fn new(class: Class) -> Self {
        Self { class, parameters: Parameters::of(class) }
    }

    /// The sizes of its class.
    pub(crate) fn parameters(&self) -> Parameters {
        self.parameters
    }

    /// The keys of the worker's part as they are in the beginning.
    #[expect(clippy::cast_possible_truncation, reason = "the key is the whole part")]
    pub(crate) fn initial_keys(&self, part: Range<usize>) -> impl Iterator<Item = u32> {
        let mut random = Random::after(SEED, 4 * part.start as u64);
        let quarter = f64::from(self.parameters.values / 4);
        part.map(move |_| {
            let sum: f64 = (0..4).map(|_| random.number()).sum();
            (quarter * sum) as u32
        })
    }

    /// Changes the two keys that are due in this iteration, as far as they are the worker's, and counts its keys.
    ///
    /// # Safety
    /// The worker alone uses its part of the keys and its row of counts.
    unsafe fn count(&self, who: Who, iteration: u32, arrays: &Arrays) {
        let (keys, values) = (self.parameters.keys, self.parameters.values());
        let part = who.part(keys);
        // SAFETY: the caller's promise.
        let own = unsafe { arrays.keys.get_mut(part.clone()) };
        for (at, key) in self.parameters.changes(iteration, ITERATIONS) {
            if part.contains(&at) {
                own[at - part.start] = key;
            }
        }
        // SAFETY: the caller's promise.
        let counts = unsafe { arrays.counts.get_mut(who.index * values..(who.index + 1) * values) };
        counts.fill(0);
        for &key in &*own {
            counts[key as usize] += 1;
        }
    }

    /// Adds all counts up, for the worker's values: each rank counts the keys that have one of these values.
    ///
    /// # Safety
    /// Nobody writes counts, and the worker alone uses its part of the ranks, and its sum.
    unsafe fn add_up(&self, who: Who, arrays: &Arrays) {
        let part = who.part(self.parameters.values());
        // SAFETY: the caller's promise.
        let ranks = unsafe { arrays.ranks.get_mut(part.clone()) };
        ranks.fill(0);
        for row in 0..who.count {
            let first = row * self.parameters.values();
            // SAFETY: the caller's promise.
            let counts = unsafe { arrays.counts.get(first + part.start..first + part.end) };
            for (rank, count) in ranks.iter_mut().zip(counts) {
                *rank += count;
            }
        }
        let mut sum = 0;
        for rank in ranks {
            sum += *rank;
            *rank = sum;
        }
        // SAFETY: the caller's promise.
        unsafe { arrays.sums.get_mut(who.index..who.index + 1) }.fill(sum);
    }

    /// Adds the keys with smaller values than the worker's to its ranks.
    ///
    /// # Safety
    /// Nobody writes sums, and the worker alone uses its part of the ranks.
    unsafe fn complete(&self, who: Who, arrays: &Arrays) {
        // SAFETY: the caller's promise.
        let before: u32 = unsafe { arrays.sums.get(0..who.index) }.iter().sum();
        // SAFETY: the caller's promise.
        for rank in unsafe { arrays.ranks.get_mut(who.part(self.parameters.values())) } {
            *rank += before;
        }
    }

    /// NPB's partial verification: how many of the worker's keys among those to be tested have the published ranks.
    ///
    /// # Safety
    /// Nobody writes ranks, or keys of the worker's part.
    unsafe fn test(&self, who: Who, iteration: u32, arrays: &Arrays) -> usize {
        let part = who.part(self.parameters.keys);
        // SAFETY: the caller's promise.
        let keys = unsafe { arrays.keys.get(part.clone()) };
        // SAFETY: the caller's promise.
        let ranks = unsafe { arrays.ranks.get(0..self.parameters.values()) };
        let passes = |&(at, rank): &(usize, u32)| {
            let key = part.contains(&at).then(|| keys[at - part.start] as usize);
            // A key's rank is the number of smaller keys.
            key.is_some_and(|key| key > 0 && ranks[key - 1] == rank)
        };
        self.parameters.tests(iteration).iter().filter(|test| passes(test)).count()
    }
}

impl Program for Is {
    const NAME: &'static str = "is";
    type Arrays = Arrays;
    type Element = u32;

    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Arrays> {
        let (keys, values) = (self.parameters.keys, self.parameters.values());
        Ok(Arrays {
            keys: memory.array(keys)?,
            counts: memory.array(product(&[workers, values])?)?,
            ranks: memory.array(values)?,
            sums: memory.array(workers)?,
            passed: memory.array(workers)?,
        })
    }

    fn result(&self, arrays: &Arrays) -> Shared<u32> {
        arrays.ranks
    }

    unsafe fn initialise(&self, who: Who, arrays: &Arrays) {
        let part = who.part(self.parameters.keys);
        // SAFETY: until the next barrier, the worker has its part to itself.
        let keys = unsafe { arrays.keys.get_mut(part.clone()) };
        keys.iter_mut().zip(self.initial_keys(part)).for_each(|(to, key)| *to = key);
        for array in [arrays.counts, arrays.ranks] {
            // SAFETY: as above.
            unsafe { array.get_mut(who.part(array.len())) }.fill(0);
        }
    }

    unsafe fn compute(&self, worker: &Worker<'_>, arrays: &Arrays) -> Result<()> {
        let who = worker.who();
        let mut passed = 0;
        for iteration in 1..=ITERATIONS {
            // SAFETY: until the next barrier, others only test their own keys, and read ranks.
            unsafe { self.count(who, iteration, arrays) };
            worker.barrier()?;
            // SAFETY: until the next barrier, all workers read counts, and each writes its own ranks and sum.
            unsafe { self.add_up(who, arrays) };
            worker.barrier()?;
            // SAFETY: until the next barrier, all workers read sums, and each writes its own ranks.
            unsafe { self.complete(who, arrays) };
            worker.barrier()?;
            // SAFETY: until the next barrier, nobody writes ranks, and each worker only its own keys.
            passed += unsafe { self.test(who, iteration, arrays) };
        }
        // SAFETY: until the next barrier, the worker has its place to itself.
        unsafe { arrays.passed.get_mut(who.index..who.index + 1) }.fill(passed);
        worker.barrier()
    }

    unsafe fn verify(&self, arrays: &Arrays) -> Option<bool> {
        // SAFETY: the caller's promise.
        let passed: usize = unsafe { arrays.passed.get(0..arrays.passed.len()) }.iter().sum();
        // SAFETY: the caller's promise.
        let keys = unsafe { arrays.keys.get(0..arrays.keys.len()) };
        // SAFETY: the caller's promise.
        let ranks = unsafe { arrays.ranks.get(0..arrays.ranks.len()) };
        Some(passed == ITERATIONS as usize * TESTS && ranks_sort(ranks, keys))
    }
}

/// NPB's full verification: whether each key has a place of its own by its rank, and they are sorted there.
pub(crate) fn ranks_sort(ranks: &[u32], keys: &[u32]) -> bool {
    let mut next = ranks.to_vec();
    let mut sorted = vec![None; keys.len()];
    for &key in keys {
        let place = next[key as usize].checked_sub(1);
        let Some(to) = place.and_then(|place| sorted.get_mut(place as usize)) else { return false };
        *to = Some(key);
        next[key as usize] -= 1;
    }
    sorted.iter().all(Option::is_some) && sorted.is_sorted()
}

#[cfg(test)]
mod tests;
