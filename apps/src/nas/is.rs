//! IS: ranks of integer keys, by buckets.
//!
//! The keys are those of [`crate::is`], and so are the tests. In each iteration a rank counts how many of its
//! keys each bucket (a range of values) has; these counts are added up at all ranks, so that everybody knows
//! where to cut the values so that each rank gets about as many keys. All keys travel to the rank that has
//! their bucket, which counts them.

use scash_messages::Messages;
use scash_mp::Op;

use super::{Kernel, Outcome, all, me, rank, ranks, timed};
use crate::Result;
use crate::crew::WorkerNumber;
use crate::is::class::{Parameters, TESTS};
use crate::is::{ITERATIONS, Is, ranks_sort};
use crate::npb::Class;

/// The sizes of the buckets, and then the keys to be tested: these are sums with one term each.
const BUCKETS: usize = 1 << 10;
const TAG: u16 = 1;

/// A rank's part of the problem.
struct Sort<'a> {
    messages: &'a dyn Messages,
    who: WorkerNumber,
    parameters: Parameters,
    /// How far a value is shifted to have its bucket's number.
    shift: u32,
    keys: Vec<u32>,
    /// The same, bucket after bucket.
    sorted: Vec<u32>,
    /// The keys of this rank's buckets.
    mine: Vec<u32>,
    /// The smallest value of these buckets.
    first: u32,
    /// For each value of these buckets, how many of `mine` are not greater.
    upto: Vec<u32>,
    /// How many keys have smaller values than these buckets.
    before: u32,
    /// How many tests have been passed here.
    passed: u32,
}

/// Runs the kernel.
///
/// # Errors
/// More ranks than there are buckets, or one that is gone.
pub fn run(class: Class, messages: &dyn Messages) -> Result<Outcome> {
    let count = ranks(Kernel::Is, messages, |ranks| ranks <= BUCKETS, "1 to 1024 ranks")?;
    let mut sort = Sort::new(class, messages, WorkerNumber { index: me(messages), count });
    // Once untimed, as NPB does: it makes the buffers.
    sort.iterate(1)?;
    sort.passed = 0;
    let seconds = timed(messages, || {
        (1..=ITERATIONS).try_for_each(|iteration| {
            messages.checkpoint()?;
            sort.iterate(iteration)
        })
    })?;
    let operations = f64::from(ITERATIONS) * sort.parameters.keys as f64;
    Ok(Outcome { seconds, operations, verified: sort.is_right()? })
}

impl<'a> Sort<'a> {
    fn new(class: Class, messages: &'a dyn Messages, who: WorkerNumber) -> Self {
        let is = Is::new(class);
        let parameters = is.parameters();
        let keys: Vec<u32> = is.initial_keys(who.part(parameters.keys)).collect();
        let shift = parameters.values.trailing_zeros() - BUCKETS.trailing_zeros();
        Self {
            messages,
            who,
            parameters,
            shift,
            sorted: vec![0; keys.len()],
            keys,
            mine: Vec::new(),
            first: 0,
            upto: Vec::new(),
            before: 0,
            passed: 0,
        }
    }

    /// Ranks all keys, after changing the two that are due, and tests the ranks of some.
    fn iterate(&mut self, iteration: u32) -> Result<()> {
        self.change(iteration);
        let sizes = self.sizes(iteration);
        let mut total = vec![0; sizes.len()];
        self.messages.all_reduce(Op::Sum, &sizes, &mut total)?;
        let (total, tested) = total.split_at(BUCKETS);
        self.fill_buckets(&sizes[..BUCKETS]);
        let cuts = cuts(total, self.who.count);
        self.exchange(&sizes[..BUCKETS], &cuts)?;
        self.first = u32::try_from(cuts[self.who.index] << self.shift).expect("values are u32");
        let values = (cuts[self.who.index + 1] - cuts[self.who.index]) << self.shift;
        self.before = total[..cuts[self.who.index]].iter().sum();
        self.count(values);
        self.test(iteration, tested);
        Ok(())
    }

    fn change(&mut self, iteration: u32) {
        let part = self.who.part(self.parameters.keys);
        for (at, key) in self.parameters.changes(iteration, ITERATIONS) {
            if part.contains(&at) {
                self.keys[at - part.start] = key;
            }
        }
    }

    /// How many keys each bucket has here, and then the keys to be tested that are here.
    fn sizes(&self, iteration: u32) -> Vec<u32> {
        let mut sizes = vec![0; BUCKETS + TESTS];
        for key in &self.keys {
            sizes[(key >> self.shift) as usize] += 1;
        }
        let part = self.who.part(self.parameters.keys);
        let tests = self.parameters.tests(iteration);
        for (to, (at, _)) in sizes[BUCKETS..].iter_mut().zip(tests) {
            if part.contains(&at) {
                *to = self.keys[at - part.start];
            }
        }
        sizes
    }

    /// Brings the keys into the order of their buckets.
    fn fill_buckets(&mut self, sizes: &[u32]) {
        let begin = |end: &mut u32, size: &u32| {
            let begin = *end;
            *end += size;
            Some(begin)
        };
        let mut next: Vec<u32> = sizes.iter().scan(0, begin).collect();
        for &key in &self.keys {
            let next = &mut next[(key >> self.shift) as usize];
            self.sorted[*next as usize] = key;
            *next += 1;
        }
    }

    /// Brings all keys to the ranks that have their buckets.
    fn exchange(&mut self, sizes: &[u32], cuts: &[usize]) -> Result<()> {
        let to: Vec<u32> = cuts.windows(2).map(|cut| sizes[cut[0]..cut[1]].iter().sum()).collect();
        let mut from = vec![0; to.len()];
        self.messages.all_to_all(&to, &mut from)?;
        let [to, from] =
            [to, from].map(|counts| counts.iter().map(|&count| count as usize).collect::<Vec<_>>());
        self.mine.resize(from.iter().sum(), 0);
        self.messages.all_to_all_v(&self.sorted, &to, &mut self.mine, &from)?;
        Ok(())
    }

    /// Counts the keys that came, among so many values.
    fn count(&mut self, values: usize) {
        self.upto.clear();
        self.upto.resize(values, 0);
        for &key in &self.mine {
            // A key of somebody else's bucket counts nowhere, and no rank is right then.
            if let Some(count) = self.upto.get_mut(key.wrapping_sub(self.first) as usize) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for count in &mut self.upto {
            sum += *count;
            *count = sum;
        }
    }

    /// NPB's partial verification, of the keys that have their values here.
    fn test(&mut self, iteration: u32, tested: &[u32]) {
        for (key, (_, published)) in tested.iter().zip(self.parameters.tests(iteration)) {
            let place = key.wrapping_sub(self.first) as usize;
            if place < self.upto.len() {
                let smaller = place.checked_sub(1).map_or(0, |below| self.upto[below]);
                self.passed += u32::from(self.before + smaller == published);
            }
        }
    }

    /// Whether all tests were passed, and the last ranks bring all keys of all ranks into order.
    fn is_right(&self) -> Result<bool> {
        let [passed, keys] = self.messages.combined(Op::Sum, [self.passed, rank(self.mine.len())])?;
        let complete = passed == ITERATIONS * rank(TESTS) && keys as usize == self.parameters.keys;
        let own: Option<Vec<u32>> = self.mine.iter().map(|key| key.checked_sub(self.first)).collect();
        let in_order = own.is_some_and(|own| {
            own.iter().all(|&key| (key as usize) < self.upto.len()) && ranks_sort(&self.upto, &own)
        });
        let follows = self.follows_the_rank_before()?;
        all(self.messages, complete && in_order && follows)
    }

    /// Whether no key of the rank before is greater than one of this rank's, and this rank's places follow.
    fn follows_the_rank_before(&self) -> Result<bool> {
        let WorkerNumber { index, count } = self.who;
        let end =
            [self.mine.iter().max().copied().unwrap_or(self.first), self.before + rank(self.mine.len())];
        let mut last = [0; 2];
        let (next, before) = (rank((index + 1) % count), rank((index + count - 1) % count));
        self.messages.send_receive(TAG, next, &end, before, &mut last)?;
        let least = self.mine.iter().min().copied().unwrap_or(self.first);
        Ok(index == 0 || (last[0] <= least && last[1] == self.before))
    }
}

/// Cuts the buckets into one run for each rank, each with about as many keys: the first bucket of each, and
/// the end.
fn cuts(sizes: &[u32], ranks: usize) -> Vec<usize> {
    let total: u64 = sizes.iter().map(|&size| u64::from(size)).sum();
    let (mut sum, mut cuts) = (0, vec![0]);
    for (bucket, &size) in sizes.iter().enumerate() {
        sum += u64::from(size);
        // The rank whose share this bucket completes.
        if cuts.len() < ranks && sum * ranks as u64 >= total * cuts.len() as u64 {
            cuts.push(bucket + 1);
        }
    }
    cuts.resize(ranks, sizes.len());
    cuts.push(sizes.len());
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cut_into_a_run_for_each_rank() {
        assert_eq!(cuts(&[2, 2, 2, 2], 2), [0, 2, 4]);
        assert_eq!(cuts(&[2, 2, 2, 2], 1), [0, 4]);
        assert_eq!(cuts(&[8, 0, 0, 0], 2), [0, 1, 4]);
        assert_eq!(cuts(&[0, 0, 0, 8], 3), [0, 4, 4, 4]);
        assert_eq!(cuts(&[1, 1, 1, 1], 4), [0, 1, 2, 3, 4]);
    }
}
