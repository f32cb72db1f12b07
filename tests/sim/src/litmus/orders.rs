//! Who sees which of several stores. Such a program has several right outcomes and a wrong one. Without its
//! locks the wrong one must be seen, too, or the program would show nothing.
//!
//! A program has rounds: an interval in which each rank gets a copy of what it loads last, and one with the
//! stores and loads.

use super::{Job, Run, load, section, store};
use crate::program::Op;
use crate::report::Report;
use crate::world::Failure;
use scash_proto::Sharing;
use scash_proto::node::ObjectKind;
use std::collections::{BTreeMap, BTreeSet};

/// Rounds of a program.
const ROUNDS: u64 = 8;

/// What the loads of a round found, in the order of ranks and of each rank's loads: this round's store, or
/// what was there before.
pub type Outcome = Vec<bool>;

/// An access to a variable, by the variable's number.
#[derive(Clone, Copy, Debug)]
enum Act {
    Store(u32),
    Load(u32),
}
use Act::{Load, Store};

/// What ranks do in a round: at most one of them stores to a variable.
#[derive(Clone, Copy, Debug)]
pub struct Order(&'static [&'static [Act]]);

/// Who sees a flag sees the data that were written before it.
pub const MESSAGE_PASSING: Order = Order(&[&[Store(0), Store(1)], &[Load(1), Load(0)]]);

/// Of two that each store and then load what the other one stores, one at least sees the other.
pub const STORE_BUFFERING: Order = Order(&[&[Store(0), Load(1)], &[Store(1), Load(0)]]);

/// Independent reads of independent writes (IRIW): two readers agree on which of two stores came first.
pub const INDEPENDENT_READS: Order =
    Order(&[&[Store(0)], &[Store(1)], &[Load(0), Load(1)], &[Load(1), Load(0)]]);

/// Who sees what another one stored after it had seen a store sees that store, too.
pub const CAUSALITY: Order = Order(&[&[Store(0)], &[Load(0), Store(1)], &[Load(1), Load(0)]]);

impl Order {
    /// Runs the program, with each access in a critical section of its variable's lock, or without locks.
    /// There is a rank more that does nothing but to manage locks and to be the home of pages.
    ///
    /// # Errors
    /// What went wrong.
    pub fn run(self, seed: u64, locked: bool, sharing: Sharing, trace: bool) -> Result<Report, Failure> {
        let ranks = u32::try_from(self.0.len() + 1).unwrap_or(u32::MAX);
        Run { seed, ranks, racy: !locked, sharing, trace }.of(|job| self.write(job, locked))
    }

    fn write(self, job: &mut Job, locked: bool) {
        let variables = 2;
        let words = job.words(variables);
        let locks = if locked { job.objects(ObjectKind::Lock, variables) } else { 0 };
        let guard = |n: u32, op: Op| if locked { section(locks + n, [op]) } else { vec![op] };
        let of = |rank: u32| self.0.get(rank as usize).copied().unwrap_or_default();
        for round in 1..=ROUNDS {
            job.interval(|rank| match of(rank).last() {
                Some(&Load(n)) => vec![Op::Read(words[n as usize].span())],
                _ => Vec::new(),
            });
            let act = |&act: &Act| match act {
                Store(n) => guard(n, store(words[n as usize], round)),
                Load(n) => guard(n, load(words[n as usize])),
            };
            job.interval(|rank| of(rank).iter().flat_map(act).collect());
        }
    }

    /// The outcomes of all rounds of a run.
    pub fn seen(self, report: &Report) -> BTreeSet<Outcome> {
        let mut rounds: BTreeMap<u32, Vec<(u32, u64)>> = BTreeMap::new();
        report.seen.iter().for_each(|s| rounds.entry(s.interval).or_default().push((s.rank, s.value)));
        let outcome = |(round, mut loads): (u64, Vec<(u32, u64)>)| {
            loads.sort_by_key(|&(rank, _)| rank);
            loads.into_iter().map(|(_, value)| value == round).collect()
        };
        (1..).zip(rounds.into_values()).map(outcome).collect()
    }

    /// The outcomes that sequential consistency permits: those of all interleavings.
    pub fn possible(self) -> BTreeSet<Outcome> {
        let mut all = BTreeSet::new();
        interleave(self.0, &mut vec![0; self.0.len()], 0, &mut BTreeMap::new(), &mut all);
        all
    }
}

/// Adds the outcomes of all interleavings of what is left: each rank is at its act number `at`, and the
/// variables in the set `stored` have their new values.
fn interleave(
    acts: &[&[Act]],
    at: &mut Vec<usize>,
    stored: u32,
    found: &mut BTreeMap<(usize, usize), bool>,
    all: &mut BTreeSet<Outcome>,
) {
    let mut over = true;
    for rank in 0..acts.len() {
        let Some(&act) = acts[rank].get(at[rank]) else { continue };
        over = false;
        let place = (rank, at[rank]);
        let after = match act {
            Store(n) => stored | 1 << n,
            Load(n) => {
                found.insert(place, stored >> n & 1 == 1);
                stored
            }
        };
        at[rank] += 1;
        interleave(acts, at, after, found, all);
        at[rank] -= 1;
    }
    if over {
        all.insert(found.values().copied().collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_order_has_one_outcome_that_is_not_sequentially_consistent() {
        let (yes, no) = (true, false);
        let forbidden = [
            (MESSAGE_PASSING, vec![yes, no]),
            (STORE_BUFFERING, vec![no, no]),
            (INDEPENDENT_READS, vec![yes, no, yes, no]),
            (CAUSALITY, vec![yes, yes, no]),
        ];
        for (order, outcome) in forbidden {
            let possible = order.possible();
            assert_eq!(possible.len() + 1, 1 << outcome.len(), "{order:?}");
            assert!(!possible.contains(&outcome), "{order:?}");
        }
    }
}
