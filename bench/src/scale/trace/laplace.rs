//! LAPLACE: Jacobi iterations on two grids that change roles. Each rank owns neighbouring rows of both, and
//! reads one more above and below.

use super::{Op, Trace};
use crate::scale::machine::Arithmetic;
use std::ops::Range;

/// Bytes of an element.
const ELEMENT: u64 = 8;

/// The program, for a number of ranks.
#[derive(Clone, Copy, Debug)]
pub struct Laplace {
    /// Inner rows.
    pub rows: u64,
    /// Inner elements of a row.
    pub columns: u64,
    /// Iterations, those that are not timed included.
    pub iterations: u32,
    /// Iterations that belong to the untimed part.
    pub warm_up: u32,
    /// Ranks.
    pub ranks: u32,
}

impl Laplace {
    /// `iterations` on `size × size` inner elements, all of them timed.
    pub fn square(size: u64, iterations: u32, ranks: u32) -> Self {
        Laplace { rows: size, columns: size, iterations, warm_up: 0, ranks }
    }

    fn width(&self) -> u64 {
        self.columns + 2
    }

    /// The rows that a rank owns; the frame's are 0 and `rows + 1`.
    fn owned(&self, rank: u32) -> Range<u64> {
        let cut = |rank: u32| 1 + self.rows * u64::from(rank) / u64::from(self.ranks);
        let start = if rank == 0 { 0 } else { cut(rank) };
        let end = if rank + 1 == self.ranks { self.rows + 2 } else { cut(rank + 1) };
        start..end
    }

    /// The bytes of whole rows.
    fn bytes(&self, rows: Range<u64>) -> Range<u64> {
        rows.start * self.width() * ELEMENT..rows.end * self.width() * ELEMENT
    }

    /// The frame's rows are zeros.
    fn initialise(&self, rank: u32, grid: usize, ops: &mut Vec<Op>) {
        let owned = self.owned(rank);
        let inner = owned.start.max(1)..owned.end.min(self.rows + 1);
        let rows = |rows: Range<u64>| Some(self.bytes(rows)).filter(|bytes| !bytes.is_empty());
        ops.extend(rows(owned.start..inner.start).map(|bytes| Op::Clear(grid, bytes)));
        ops.extend(rows(inner.clone()).map(|bytes| Op::Write(grid, bytes)));
        ops.extend(rows(inner.end..owned.end).map(|bytes| Op::Clear(grid, bytes)));
    }

    /// Row by row: the rows above, below and at it of one grid are read, and it is written in the other, but
    /// for the two elements that belong to the frame.
    fn iterate(&self, rank: u32, iteration: u32, ops: &mut Vec<Op>) {
        let owned = self.owned(rank);
        let inner = owned.start.max(1)..owned.end.min(self.rows + 1);
        let (old, new) = if iteration.is_multiple_of(2) { (0, 1) } else { (1, 0) };
        for row in inner.clone() {
            let first_read = if row == inner.start { row - 1 } else { row + 1 };
            ops.push(Op::Read(old, self.bytes(first_read..row + 2)));
            let whole = self.bytes(row..row + 1);
            ops.push(Op::Write(new, whole.start + ELEMENT..whole.end - ELEMENT));
            ops.push(Op::Compute(Arithmetic::Cells(self.columns)));
        }
    }
}

impl Trace for Laplace {
    fn arrays(&self) -> Vec<u64> {
        vec![self.bytes(0..self.rows + 2).end; 2]
    }

    fn untimed(&self) -> u32 {
        1 + self.warm_up
    }

    fn timed(&self) -> u32 {
        self.iterations - self.warm_up
    }

    fn work(&self, rank: u32, interval: u32, ops: &mut Vec<Op>) {
        let Some(iteration) = interval.checked_sub(1) else {
            (0..2).for_each(|grid| self.initialise(rank, grid, ops));
            return;
        };
        self.iterate(rank, iteration, ops);
    }
}
