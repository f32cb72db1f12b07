//! LU: SPLASH-2's blocked factorisation, with one barrier a step, as the program in `apps` has it.
//!
//! Between barriers k-1 and k a rank that owns blocks of perimeter k brings a copy of block (k, k) up to step
//! k-1 and factors it, and then solves for these blocks; and everybody brings the own blocks inside up to
//! step k-1. The factors of block (k, k) are stored by its owner behind barrier k.

use super::grid::Grid;
use super::{Op, Trace};
use crate::scale::machine::Arithmetic;

/// Elements of a row of a block are padded to a multiple of so many.
const LANES: u64 = 8;
/// Bytes of an element.
const ELEMENT: u64 = 8;

/// The program, for a number of ranks.
#[derive(Clone, Debug)]
pub struct Lu {
    blocks: u64,
    /// Elements of a block's side.
    side: u64,
    grid: Grid,
}

impl Lu {
    /// Factors `size × size` elements in blocks of `block × block`; `size` is rounded up to whole blocks.
    pub fn new(size: u64, block: u64, ranks: u32) -> Self {
        let side = block.max(1);
        let blocks = size.div_ceil(side);
        Lu { blocks, side, grid: Grid::new(blocks, ranks) }
    }

    /// Bytes of a block.
    fn len(&self) -> u64 {
        self.side * self.side.next_multiple_of(LANES) * ELEMENT
    }

    fn read(&self, i: u64, j: u64) -> Op {
        let start = self.grid.place(i, j) * self.len();
        Op::Read(0, start..start + self.len())
    }

    fn write(&self, i: u64, j: u64) -> Op {
        let start = self.grid.place(i, j) * self.len();
        Op::Write(0, start..start + self.len())
    }

    /// So many thirds of b³ operations: a product of blocks takes six, a solution three, a factorisation two.
    fn compute(&self, thirds: u64) -> Op {
        Op::Compute(Arithmetic::Flops(self.side.pow(3) * thirds / 3))
    }

    /// Reads what block (i, j) needs to be brought up to step k-1.
    fn subtract(&self, k: u64, i: u64, j: u64, ops: &mut Vec<Op>) -> bool {
        let Some(before) = k.checked_sub(1) else { return false };
        ops.extend([self.read(i, before), self.read(before, j), self.compute(6)]);
        true
    }

    fn solve(&self, k: u64, i: u64, j: u64, ops: &mut Vec<Op>) {
        self.subtract(k, i, j, ops);
        ops.extend([self.write(i, j), self.compute(3)]);
    }

    fn step(&self, rank: u64, k: u64, ops: &mut Vec<Op>) {
        let below: Vec<u64> = self.grid.rows_of(rank, k, k + 1).collect();
        let right: Vec<u64> =
            self.grid.columns_of(rank, k + 1).filter(|&j| self.grid.owner(k, j) == rank).collect();
        if self.grid.owner(k, k) == rank || !below.is_empty() || !right.is_empty() {
            ops.push(self.read(k, k));
            self.subtract(k, k, k, ops);
            ops.push(self.compute(2));
        }
        below.into_iter().for_each(|i| self.solve(k, i, k, ops));
        right.into_iter().for_each(|j| self.solve(k, k, j, ops));
        for j in self.grid.columns_of(rank, k + 1) {
            for i in self.grid.rows_of(rank, j, k + 1) {
                if self.subtract(k, i, j, ops) {
                    ops.push(self.write(i, j));
                }
            }
        }
    }

    fn store_diagonal(&self, rank: u64, k: u64, ops: &mut Vec<Op>) {
        if self.grid.owner(k, k) == rank {
            ops.push(self.write(k, k));
        }
    }
}

impl Trace for Lu {
    fn arrays(&self) -> Vec<u64> {
        vec![self.blocks * self.blocks * self.len()]
    }

    fn untimed(&self) -> u32 {
        1
    }

    fn timed(&self) -> u32 {
        u32::try_from(self.blocks).unwrap_or(u32::MAX)
    }

    fn work(&self, rank: u32, interval: u32, ops: &mut Vec<Op>) {
        let (rank, last) = (u64::from(rank), self.blocks - 1);
        let Some(k) = u64::from(interval).checked_sub(1) else {
            for j in self.grid.columns_of(rank, 0) {
                ops.extend(self.grid.rows_of(rank, j, 0).map(|i| self.write(i, j)));
            }
            return;
        };
        if let Some(before) = k.checked_sub(1) {
            self.store_diagonal(rank, before, ops);
        }
        self.step(rank, k, ops);
        if k == last {
            self.store_diagonal(rank, k, ops);
        }
    }
}
