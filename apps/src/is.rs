//! IS, the integer sort of the NAS Parallel Benchmarks: ranks of keys, by counting.
//!
//! Keys are sums of four random numbers, so their values crowd around the middle. Ten times, two keys are
//! changed, and for each value there is, the number of keys up to that value is counted: which says where
//! every key goes.
//!
//! **Who owns what:** each worker owns a part of the keys, a row of counts for all values, and a part of the
//! ranks. It counts its keys; then it adds up all workers' counts, but only for its values. So every worker
//! reads what every other wrote. All counts are written in each iteration, but few become others than they
//! were.
//!
//! **Three barriers an iteration**: before the counts are read, before the sums over each part of the values
//! are, and before the ranks are. All numbers are integers: they are the same on any number of workers.

pub(crate) mod class;

use std::ops::Range;

use serde::Serialize;

use crate::Result;
use crate::crew::{Worker, WorkerNumber};
use crate::memory::{Memory, product};
use crate::npb::{Class, Random};
use crate::owned::{Array, Division};
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
    keys: Array<u32>,
    /// For each worker, how many of its keys have each value.
    counts: Array<u32>,
    /// For each value, how many keys are not greater.
    ranks: Array<u32>,
    /// For each worker, how many keys have one of its values.
    sums: Array<u32>,
    /// For each worker, how many tests its keys have passed.
    passed: Array<usize>,
    own: Divisions,
    read: Divisions,
}

/// Who owns what of the arrays.
struct Divisions {
    keys: Division,
    counts: Division,
    ranks: Division,
    /// Of the sums, and of the tests that were passed.
    one_each: Division,
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

    /// Changes the two keys that are due in this iteration, as far as they are the worker's, and counts its
    /// keys.
    fn count(&self, who: WorkerNumber, own: &mut [u32], iteration: u32, counts: &mut [u32]) {
        let part = who.part(self.parameters.keys);
        for (at, key) in self.parameters.changes(iteration, ITERATIONS) {
            if part.contains(&at) {
                own[at - part.start] = key;
            }
        }
        counts.fill(0);
        for &key in &*own {
            counts[key as usize] += 1;
        }
    }

    /// Adds all counts up, for the worker's values: each rank counts the keys that have one of these values.
    fn add_up(&self, worker: &Worker<'_>, arrays: &Arrays) {
        let (who, values) = (worker.who(), self.parameters.values());
        let part = who.part(values);
        let (ranks, all) = (arrays.ranks.mine(worker), arrays.counts.unowned(worker));
        ranks.fill(0);
        for row in 0..who.count {
            let counts = all.get(row * values + part.start..row * values + part.end);
            for (rank, count) in ranks.iter_mut().zip(counts) {
                *rank += count;
            }
        }
        let mut sum = 0;
        for rank in ranks {
            sum += *rank;
            *rank = sum;
        }
        arrays.sums.mine(worker).fill(sum);
    }

    /// Adds the keys with smaller values than the worker's to its ranks.
    fn complete(worker: &Worker<'_>, arrays: &Arrays) {
        let before: u32 = arrays.sums.get(worker, 0..worker.who().index).iter().sum();
        for rank in arrays.ranks.mine(worker) {
            *rank += before;
        }
    }

    /// NPB's partial verification: how many of the worker's keys among those to be tested have the published
    /// ranks.
    fn test(&self, keys: &[u32], who: WorkerNumber, iteration: u32, ranks: &[u32]) -> usize {
        let part = who.part(self.parameters.keys);
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
        let counts = product(&[workers, values])?;
        let read = |len| Division::read_by_all(len, workers);
        Ok(Arrays {
            keys: memory.array(keys)?,
            counts: memory.array(counts)?,
            ranks: memory.array(values)?,
            sums: memory.array(workers)?,
            passed: memory.array(workers)?,
            own: Divisions {
                keys: Division::even(keys, workers),
                counts: Division::rows(workers, values, workers),
                ranks: Division::even(values, workers),
                one_each: Division::even(workers, workers),
            },
            read: Divisions {
                keys: read(keys),
                counts: read(counts),
                ranks: read(values),
                one_each: read(workers),
            },
        })
    }

    fn result<'a>(&self, arrays: &'a Self::Arrays) -> &'a Array<Self::Element> {
        &arrays.ranks
    }

    fn result_mut<'a>(&self, arrays: &'a mut Self::Arrays) -> &'a mut Array<Self::Element> {
        &mut arrays.ranks
    }

    fn initialise(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let Arrays { keys, counts, ranks, sums, passed, own, .. } = arrays;
        worker.turn(&[
            keys.to(&own.keys),
            counts.to(&own.counts),
            ranks.to(&own.ranks),
            sums.to(&own.one_each),
            passed.to(&own.one_each),
        ])?;
        let part = worker.who().part(self.parameters.keys);
        keys.mine(worker).iter_mut().zip(self.initial_keys(part)).for_each(|(to, key)| *to = key);
        counts.mine(worker).fill(0);
        ranks.mine(worker).fill(0);
        worker.barrier()
    }

    fn compute(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let Arrays { keys, counts, ranks, sums, own, read, .. } = arrays;
        let (who, values, mut result) = (worker.who(), self.parameters.values(), 0);
        for iteration in 1..=ITERATIONS {
            let keys = keys.mine(worker);
            if iteration > 1 {
                // Before a key that is tested changes.
                result += self.test(keys, who, iteration - 1, ranks.get(worker, 0..values));
            }
            self.count(who, keys, iteration, counts.mine(worker));
            worker.turn(&[counts.to(&read.counts), ranks.to(&own.ranks), sums.to(&own.one_each)])?;
            self.add_up(worker, arrays);
            worker.turn(&[counts.to(&own.counts), sums.to(&read.one_each)])?;
            Self::complete(worker, arrays);
            worker.turn(&[ranks.to(&read.ranks)])?;
        }
        result += self.test(keys.mine(worker), who, ITERATIONS, ranks.get(worker, 0..values));
        arrays.passed.mine(worker).fill(result);
        worker.turn(&[arrays.passed.to(&read.one_each), keys.to(&read.keys)])
    }

    fn verify(&self, arrays: &mut Arrays) -> Option<bool> {
        let passed: usize = arrays.passed.whole().iter().sum();
        let sorts = ranks_sort(arrays.ranks.whole(), arrays.keys.whole());
        Some(passed == ITERATIONS as usize * TESTS && sorts)
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
