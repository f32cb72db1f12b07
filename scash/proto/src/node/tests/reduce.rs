//! Reductions, and ranks of which some came for something else.

use super::*;
use crate::wire::reduce::{Combine, Direction, NumberKind, Reduction};
use crate::wire::{Purpose, ReduceMessage};
use std::collections::{BTreeMap, VecDeque};

/// What a rank comes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Barrier,
    Make,
    Destroy,
    Reduce(Combine),
}

/// Ranks that make calls, come and take messages in an order that the seed decides.
struct Crowd {
    job: Job,
    calls: Vec<VecDeque<Call>>,
    /// Whether a rank is in a call.
    busy: Vec<bool>,
    told: Vec<Vec<Outcome>>,
    links: BTreeMap<(u32, u32), VecDeque<Input>>,
    seed: u64,
}

impl Crowd {
    fn new(seed: u64, calls: Vec<Vec<Call>>) -> Crowd {
        let size = u32::try_from(calls.len()).unwrap();
        Crowd {
            job: Job::new(size),
            busy: vec![false; calls.len()],
            told: vec![Vec::new(); calls.len()],
            calls: calls.into_iter().map(VecDeque::from).collect(),
            links: BTreeMap::new(),
            seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    fn below(&mut self, n: usize) -> usize {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        usize::try_from(self.seed >> 33).unwrap() % n
    }

    /// Lets things happen until nothing can.
    fn run(mut self) -> Vec<Vec<Outcome>> {
        loop {
            let mut able: Vec<(u32, u32)> = self.links.keys().copied().collect();
            let ranks = 0..u32::try_from(self.busy.len()).unwrap();
            able.extend(ranks.filter(|&r| self.may_come(r as usize)).map(|r| (r, r)));
            if able.is_empty() {
                return self.told;
            }
            let (from, to) = able[self.below(able.len())];
            if from == to {
                self.come(to);
            } else if let Some(input) = self.links.get_mut(&(from, to)).and_then(VecDeque::pop_front) {
                self.job.give(to, input);
                self.links.retain(|_, queue| !queue.is_empty());
            }
            self.settle(to);
        }
    }

    fn may_come(&self, rank: usize) -> bool {
        let stopped = self.told[rank].iter().any(|told| matches!(told, Outcome::Mismatch(_)));
        !self.busy[rank] && !stopped && !self.calls[rank].is_empty()
    }

    fn come(&mut self, rank: u32) {
        let Some(call) = self.calls[rank as usize].pop_front() else { return };
        self.busy[rank as usize] = true;
        self.job.give(
            rank,
            match call {
                Call::Barrier => Input::Arrive(Collective::Barrier),
                Call::Make => Input::Arrive(Collective::Make(ObjectKind::Lock, 2)),
                Call::Destroy => {
                    Input::Arrive(Collective::Destroy { kind: ObjectKind::Lock, first: 0, count: 2 })
                }
                Call::Reduce(c) => {
                    Input::Reduce(Reduction::All(c, NumberKind::U64), vec![u64::from(rank), 7])
                }
            },
        );
    }

    /// Carries out what a rank orders.
    fn settle(&mut self, rank: u32) {
        let from = Rank(rank);
        while let Some(order) = self.job.nodes[rank as usize].poll_output() {
            let (to, input) = match order {
                Output::Token(to, token) => (to, Input::Token(from, token)),
                Output::Control(to, meeting, c) => (to, Input::Control(from, meeting, c)),
                Output::Reduce(to, message) => (to, Input::Reducing(from, message)),
                Output::Flushed => {
                    self.job.give(rank, Input::Flushed);
                    continue;
                }
                Output::Closed { .. } => {
                    self.job.give(rank, Input::Closed { behind: false });
                    continue;
                }
                Output::Done(outcome) => {
                    self.end(rank, outcome);
                    continue;
                }
                _ => continue,
            };
            self.links.entry((rank, to.0)).or_default().push_back(input);
        }
        if let Some(outcome) = self.job.nodes[rank as usize].take_reduced() {
            self.end(rank, outcome);
        }
    }

    fn end(&mut self, rank: u32, outcome: Outcome) {
        assert!(std::mem::take(&mut self.busy[rank as usize]), "rank {rank} is told {outcome:?} unasked");
        self.told[rank as usize].push(outcome);
    }
}

const SUM: Call = Call::Reduce(Combine::Sum);
const MAX: Call = Call::Reduce(Combine::Max);

#[test]
fn all_ranks_get_the_same_values_among_memory_barriers() {
    for seed in 0..if cfg!(miri) { 1 } else { 300 } {
        let size = 1 + seed % 11;
        let calls = [SUM, Call::Make, MAX, Call::Destroy, SUM, Call::Barrier, MAX];
        let told = Crowd::new(seed, vec![calls.to_vec(); usize::try_from(size).unwrap()]).run();
        let sum = Outcome::Reduced(vec![size * (size - 1) / 2, 7 * size]);
        let max = Outcome::Reduced(vec![size - 1, 7]);
        let (made, done) = (Outcome::Made(0), Outcome::Done);
        let want = [sum.clone(), made, max.clone(), done.clone(), sum, done, max];
        assert!(told.iter().all(|all| all[..] == want), "seed {seed}: {told:?}");
    }
}

#[test]
fn whoever_comes_for_something_else_all_ranks_are_told() {
    for seed in 0..if cfg!(miri) { 1 } else { 4000u64 } {
        let size = 2 + seed % 7;
        let pairs = [
            (SUM, MAX),
            (SUM, Call::Barrier),
            (Call::Barrier, SUM),
            (Call::Destroy, Call::Barrier),
            (Call::Barrier, Call::Destroy),
            (Call::Destroy, SUM),
        ];
        let (one, other) = pairs[usize::try_from(seed / 7 % 6).unwrap()];
        // Any ranks but none or all.
        let who = 1 + seed.wrapping_mul(0x9e37_79b9) % ((1 << size) - 2);
        let befores = [&[][..], &[SUM], &[Call::Make, MAX, SUM], &[Call::Make, Call::Destroy]];
        let before = befores[usize::try_from(seed / 42 % 4).unwrap()];
        let calls = (0..size).map(|rank| {
            let call = if who >> rank & 1 == 1 { other } else { one };
            [before, &[call, SUM]].concat()
        });
        let told = Crowd::new(seed, calls.collect()).run();
        for (rank, all) in told.iter().enumerate() {
            // A rank that was slow in a call before may be told there.
            assert!(all.len() <= before.len() + 1, "seed {seed}: rank {rank} was told {told:?}");
            let Some(Outcome::Mismatch([a, b])) = all.last() else {
                panic!("seed {seed}: rank {rank} was told {told:?}");
            };
            assert_ne!(a.purpose, b.purpose, "seed {seed}");
        }
    }
}

#[test]
fn values_that_nobody_waits_for_are_refused() {
    let message = |direction, epoch, number| {
        let me = Attendance { purpose: Purpose([16, 0, 0, 1]), rank: Rank(2) };
        ReduceMessage { epoch, number, direction, span: [me; 2], values: vec![1] }
    };
    let mut job = Job::new(4);
    let mut refused = |to: usize, from, message| {
        assert!(job.nodes[to].handle(Input::Reducing(Rank(from), message)).is_err());
    };
    refused(0, 3, message(Direction::Up, 0, 0));
    refused(0, 2, message(Direction::Up, 1, 0));
    refused(0, 2, message(Direction::Up, 0, 1));
    refused(0, 9, message(Direction::Up, 0, 0));
    refused(1, 0, message(Direction::Down, 0, 0));
    job.give(0, Input::Reducing(Rank(2), message(Direction::Up, 0, 0)));
    assert!(job.nodes[0].handle(Input::Reducing(Rank(2), message(Direction::Up, 0, 0))).is_err());
}

/// Who is still in the call before is told how that one went, and of the disagreement with the next.
#[test]
fn a_call_that_all_have_come_to_goes_well_although_they_disagree_on_the_next_one() {
    let (sum, max) = (Call::Reduce(Combine::Sum), Call::Reduce(Combine::Max));
    for first in [sum, Call::Barrier] {
        for (most, last) in [(Call::Barrier, sum), (sum, Call::Barrier), (sum, max)] {
            for seed in 0..if cfg!(miri) { 1 } else { 500 } {
                let calls = (0..5).map(|rank| vec![first, if rank == 4 { last } else { most }]);
                for (rank, told) in Crowd::new(seed, calls.collect()).run().into_iter().enumerate() {
                    let [before, after] = &told[..] else { panic!("seed {seed}, rank {rank}: {told:?}") };
                    let went_well = matches!(before, Outcome::Done | Outcome::Reduced(_));
                    let is_told = matches!(after, Outcome::Mismatch(_));
                    assert!(went_well && is_told, "seed {seed}, rank {rank}: {told:?}");
                }
            }
        }
    }
}
