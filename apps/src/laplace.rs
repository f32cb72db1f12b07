//! LAPLACE: Jacobi iterations on a square grid.
//!
//! `size × size` inner elements, with a frame of zeros around them, start as a smooth function. In each
//! iteration every inner element becomes the mean of its four neighbours. There are two grids: an iteration
//! reads one and writes the other, then they change roles.
//!
//! **Who owns what:** each worker owns neighbouring rows, the same in both grids, and the first and last
//! worker a row of the frame too. It writes those alone, and reads one more row above and below.
//!
//! **One barrier per iteration** is enough. Before it, nobody writes the grid that is read; after it, the
//! roles have changed, so what was written is only read.

use std::f64::consts::PI;
use std::ops::Range;

use serde::Serialize;

use crate::crew::{Worker, WorkerNumber};
use crate::kernels::stencil::relax;
use crate::memory::{Memory, product};
use crate::owned::{Array, Division};
use crate::program::{Program, ResultRun};
use crate::{Error, Result};

/// The program, with its parameters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Laplace {
    size: usize,
    iterations: usize,
}

/// What the workers share.
pub struct Grids {
    /// An iteration reads one and writes the other, then they change roles.
    grids: [Array<f64>; 2],
    /// Each worker owns its rows, those of the frame among them, or its inner rows.
    rows: Division,
    inner: Division,
    /// Nobody owns anything.
    read: Division,
}

impl Laplace {
    /// `iterations` on a grid of `size × size` inner elements.
    ///
    /// # Errors
    /// If the grid is empty.
    pub fn new(size: usize, iterations: usize) -> Result<Self> {
        if size == 0 {
            return Err(Error::Empty("--size"));
        }
        Ok(Self { size, iterations })
    }

    /// Elements of a row, and rows of a grid.
    fn width(&self) -> usize {
        self.size + 2
    }

    /// The rows that a worker owns; the frame's are 0 and `size + 1`.
    fn rows(&self, who: WorkerNumber) -> Range<usize> {
        let cut = |worker| 1 + self.size * worker / who.count;
        let start = if who.index == 0 { 0 } else { cut(who.index) };
        let end = if who.index + 1 == who.count { self.width() } else { cut(who.index + 1) };
        start..end
    }

    /// Those of them that are no frame.
    fn inner(&self, who: WorkerNumber) -> Range<usize> {
        let rows = self.rows(who);
        rows.start.max(1)..rows.end.min(self.size + 1)
    }

    /// Where these rows are in a grid.
    fn elements(&self, rows: Range<usize>) -> Range<usize> {
        rows.start * self.width()..rows.end * self.width()
    }
}

impl Program for Laplace {
    const NAME: &'static str = "laplace";

    type Arrays = Grids;
    type Element = f64;

    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Grids> {
        let width = self.size.checked_add(2).ok_or(Error::TooLarge)?;
        let grid = product(&[width, width])?;
        let grids = [memory.array(grid)?, memory.array(grid)?];
        let who = |index| WorkerNumber { index, count: workers };
        let rows = Division::new(grid, workers, |index| [self.elements(self.rows(who(index)))])?;
        let inner = Division::new(grid, workers, |index| [self.elements(self.inner(who(index)))])?;
        Ok(Grids { grids, rows, inner, read: Division::read_by_all(grid, workers) })
    }

    fn result<'a>(&self, arrays: &'a Self::Arrays) -> &'a Array<Self::Element> {
        &arrays.grids[self.iterations % 2]
    }

    fn result_mut<'a>(&self, arrays: &'a mut Self::Arrays) -> &'a mut Array<Self::Element> {
        &mut arrays.grids[self.iterations % 2]
    }

    fn owned(&self, who: WorkerNumber, _len: usize) -> Vec<ResultRun> {
        vec![ResultRun::in_place(self.elements(self.rows(who)))]
    }

    fn initialise(&self, worker: &mut Worker<'_>, arrays: &Grids) -> Result<()> {
        let Grids { grids, rows, inner, read } = arrays;
        worker.turn(&[grids[0].to(rows), grids[1].to(rows)])?;
        let phase = |i: usize| PI * i as f64 / self.width() as f64;
        let columns: Vec<f64> = (1..=self.size).map(|j| phase(j).cos()).collect();
        for grid in grids {
            let own = grid.mine(worker).chunks_exact_mut(self.width());
            for (i, row) in self.rows(worker.who()).zip(own) {
                row.fill(0.0);
                if (1..=self.size).contains(&i) {
                    let sine = phase(i).sin();
                    for (x, cosine) in row[1..].iter_mut().zip(&columns) {
                        *x = sine + cosine;
                    }
                }
            }
        }
        worker.turn(&[grids[0].to(read), grids[1].to(inner)])
    }

    fn compute(&self, worker: &mut Worker<'_>, arrays: &Grids) -> Result<()> {
        let rows = self.inner(worker.who());
        let Grids { grids: [first, second], inner, read, .. } = arrays;
        let (mut old, mut new) = (first, second);
        for _ in 0..self.iterations {
            if !rows.is_empty() {
                let around = old.get(worker, self.elements(rows.start - 1..rows.end + 1));
                relax(around, new.mine(worker), self.width());
            }
            worker.turn(&[new.to(read), old.to(inner)])?;
            std::mem::swap(&mut old, &mut new);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
