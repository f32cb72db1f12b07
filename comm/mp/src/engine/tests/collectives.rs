//! Collective operations of a game: which ones, with which numbers, and what comes of them.

use crate::collective::{Collective, Element, Op, Reduction};

/// How many kinds there are.
pub(super) const KINDS: usize = 8;
/// Elements of each rank's part: what travels at once, is pushed, and is offered.
const COUNTS: [usize; 3] = [2, 40, 300];

/// The `number`-th operation of a game among `n` ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Played {
    pub(super) number: usize,
    pub(super) kind: usize,
    pub(super) n: usize,
}

impl Played {
    fn count(self) -> usize {
        COUNTS[self.number % COUNTS.len()]
    }

    fn root(self) -> usize {
        self.number % self.n
    }

    /// Elements that a rank has at first.
    fn values(self, rank: usize, len: usize) -> Vec<u64> {
        (0..len).map(|at| (rank + 1) as u64 * 1_000_003 + (self.number * 1009 + at * 7) as u64).collect()
    }

    pub(super) fn collective(self) -> Collective {
        let (count, len, root) = (self.count(), 8 * self.count(), self.root() as u32);
        let reduction = Reduction::new(Element::U64, Op::Sum).unwrap();
        match self.kind {
            0 => Collective::Barrier,
            1 => Collective::Broadcast { root, len },
            2 => Collective::Reduce { root, count, reduction },
            3 => Collective::AllReduce { count, reduction },
            4 => Collective::Gather { root, len },
            5 => Collective::AllGather { lens: (0..self.n).map(|rank| 8 * (count + rank)).collect() },
            6 => Collective::AllToAll { to: vec![len; self.n], from: vec![len; self.n] },
            _ => Collective::ReduceScatter { counts: vec![count; self.n], reduction },
        }
    }

    /// A rank's input, and what is in its output at first.
    pub(super) fn begin(self, rank: usize) -> (Vec<u64>, Vec<u64>) {
        let collective = self.collective();
        let (input, output) =
            (collective.input_len(rank as u32) / 8, collective.output_len(rank as u32, self.n as u32) / 8);
        let is_sender = matches!(collective, Collective::Broadcast { .. }) && rank == self.root();
        let first = if is_sender { self.values(rank, output) } else { vec![0; output] };
        (self.values(rank, input), first)
    }

    /// A rank's output at the end.
    pub(super) fn end(self, me: usize) -> Vec<u64> {
        let (count, all) = (self.count(), 0..self.n);
        let sums = |len: usize| -> Vec<u64> {
            let of = |at: usize| all.clone().map(|rank| self.values(rank, len)[at]).sum();
            (0..len).map(of).collect()
        };
        let part = |values: Vec<u64>, rank: usize| values[rank * count..(rank + 1) * count].to_vec();
        let is_root = me == self.root();
        match self.kind {
            1 => self.values(self.root(), count),
            2 if is_root => sums(count),
            3 => sums(count),
            4 if is_root => all.flat_map(|rank| self.values(rank, count)).collect(),
            5 => all.flat_map(|rank| self.values(rank, count + rank)).collect(),
            6 => all.flat_map(|rank| part(self.values(rank, count * self.n), me)).collect(),
            7 => part(sums(count * self.n), me),
            _ => Vec::new(),
        }
    }
}
