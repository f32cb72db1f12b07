//! Calls: reductions, and those that change where pages live and how they are kept.

use super::RandomProgram;
use crate::program::Op;
use scash_proto::{Pages, Protocol, Rank};

impl RandomProgram {
    /// The numbers of the interval's reductions, by reduction and rank.
    pub(super) fn reductions(&mut self) -> Vec<Vec<u64>> {
        let count = if self.rng.below(1000) < self.reduces { self.rng.between(1, 4) } else { 0 };
        (0..count).map(|_| (0..self.size).map(|_| self.rng.bits()).collect()).collect()
    }

    /// Lets a thread come to the interval's reductions, in their order, at any time at which it is in no
    /// critical section. `first`: before all else, because others may wait for what it does then.
    pub(super) fn reduce(&mut self, rank: usize, reductions: &[Vec<u64>], first: bool, thread: &mut Vec<Op>) {
        let mut from = 0;
        for numbers in reductions {
            let mut held = thread[..from].iter().fold(0i32, |n, op| n + holds(op));
            let last = if first { from } else { thread.len() };
            let free = (from..=last).filter(|&at| {
                let free = held == 0;
                held += thread.get(at).map_or(0, holds);
                free
            });
            let places: Vec<usize> = free.collect();
            let at = places[self.rng.below(u32::try_from(places.len()).unwrap_or(1)) as usize];
            let sum = numbers.iter().fold(0u64, |a, &b| a.wrapping_add(b));
            thread.insert(at, Op::Reduce(numbers[rank], sum));
            from = at + 1;
        }
    }

    /// Calls that change where pages live and how they are kept.
    pub(super) fn calls(&mut self, work: &mut [Vec<Vec<Op>>]) {
        for area in 0..self.areas.len() {
            if self.rng.below(1000) >= self.calls {
                continue;
            }
            let some = self.some_pages(area);
            let first = some.first;
            let op = match self.rng.below(6) {
                0 => Op::SetHome(some, Rank(self.rng.below(self.size))),
                1 => {
                    let protocol =
                        self.rng.pick(&[Protocol::Adaptive, Protocol::Update, Protocol::Invalidate]);
                    // Usually all ranks make the call; nothing breaks if they differ.
                    if self.rng.chance(70) {
                        let op = Op::SetProtocol(first, protocol);
                        work.iter_mut().for_each(|threads| threads[0].push(op));
                        continue;
                    }
                    Op::SetProtocol(first, protocol)
                }
                2 | 3 => Op::WriteBack(some),
                _ => Op::ReadHome(some),
            };
            let (rank, thread) = (self.rng.below(self.size) as usize, self.rng.below(self.threads) as usize);
            let length = u32::try_from(work[rank][thread].len()).unwrap_or(0);
            let at = self.rng.below(length + 1) as usize;
            work[rank][thread].insert(at, op);
            self.write_again(&mut work[rank][thread]);
        }
    }

    /// What a thread has written is written back, and written again.
    fn write_again(&mut self, thread: &mut Vec<Op>) {
        let writes = |(at, op): (usize, &Op)| match *op {
            Op::Write(span, _) => Some((at, span)),
            _ => None,
        };
        let written: Vec<_> = thread.iter().enumerate().filter_map(writes).collect();
        if written.is_empty() || self.rng.chance(50) {
            return;
        }
        let (at, span) = self.rng.pick(&written);
        let again = [Op::WriteBack(Pages::one(span.page)), Op::Write(span, self.rng.bits().to_le_bytes()[0])];
        thread.splice(at + 1..at + 1, again);
    }
}

/// How many locks and the like more a thread has after an operation of a critical section.
fn holds(op: &Op) -> i32 {
    match op {
        Op::Lock(_) | Op::TryLock(_) | Op::Request(..) => 1,
        Op::Unlock(_) | Op::Signal(..) => -1,
        _ => 0,
    }
}
