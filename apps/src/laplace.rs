//! LAPLACE: Jacobi iterations on a square grid.
//!
//! `size × size` inner elements, with a frame of zeros around them, start as a smooth function. In each iteration
//! every inner element becomes the mean of its four neighbours. There are two grids: an iteration reads one and writes
//! the other, then they change roles.
//!
//! **Who owns what:** each worker owns neighbouring rows, the same in both grids, and the first and last worker a row
//! of the frame too. It writes those alone, and reads one more row above and below.
//!
//! **One barrier per iteration** is enough. Before it, nobody writes the grid that is read; after it, the roles have
//! changed, so what was written is only read.

use std::f64::consts::PI;
use std::ops::Range;

use serde::Serialize;

use crate::crew::{Who, Worker};
use crate::kernels::stencil::relax;
use crate::memory::{Memory, Shared, product};
use crate::program::{Program, Run};
use crate::{Error, Result};

/// The program, with its parameters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Laplace {
    size: usize,
    iterations: usize,
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
    fn rows(&self, who: Who) -> Range<usize> {
        let cut = |worker| 1 + self.size * worker / who.count;
        let start = if who.index == 0 { 0 } else { cut(who.index) };
        let end = if who.index + 1 == who.count { self.width() } else { cut(who.index + 1) };
        start..end
    }

    /// Where these rows are in a grid.
    fn elements(&self, rows: Range<usize>) -> Range<usize> {
        rows.start * self.width()..rows.end * self.width()
    }
}

impl Program for Laplace {
    const NAME: &'static str = "laplace";

    type Arrays = [Shared<f64>; 2];
    type Element = f64;

    fn allocate(&self, _workers: usize, memory: &mut impl Memory) -> Result<[Shared<f64>; 2]> {
        let width = self.size.checked_add(2).ok_or(Error::TooLarge)?;
        let grid = product(&[width, width])?;
        Ok([memory.array(grid)?, memory.array(grid)?])
    }

    fn result(&self, grids: &[Shared<f64>; 2]) -> Shared<f64> {
        grids[self.iterations % 2]
    }

    fn owned(&self, who: Who, _len: usize) -> Vec<Run> {
        vec![Run::in_place(self.elements(self.rows(who)))]
    }

    unsafe fn initialise(&self, who: Who, grids: &[Shared<f64>; 2]) {
        let phase = |i: usize| PI * i as f64 / self.width() as f64;
        let columns: Vec<f64> = (1..=self.size).map(|j| phase(j).cos()).collect();
        let rows = self.rows(who);
        for grid in grids {
            // SAFETY: until the next barrier, the worker has its rows to itself.
            let own = unsafe { grid.get_mut(self.elements(rows.clone())) };
            for (i, row) in rows.clone().zip(own.chunks_exact_mut(self.width())) {
                row.fill(0.0);
                if (1..=self.size).contains(&i) {
                    let sine = phase(i).sin();
                    for (x, cosine) in row[1..].iter_mut().zip(&columns) {
                        *x = sine + cosine;
                    }
                }
            }
        }
    }

    unsafe fn compute(&self, worker: &Worker<'_>, grids: &[Shared<f64>; 2]) -> Result<()> {
        let rows = self.rows(worker.who());
        let inner = rows.start.max(1)..rows.end.min(self.size + 1);
        let [mut old, mut new] = *grids;
        for _ in 0..self.iterations {
            if !inner.is_empty() {
                // SAFETY: until the next barrier, everybody only reads the old grid.
                let around = unsafe { old.get(self.elements(inner.start - 1..inner.end + 1)) };
                // SAFETY: until the next barrier, the worker has its rows of the new grid to itself.
                let own = unsafe { new.get_mut(self.elements(inner.clone())) };
                relax(around, own, self.width());
            }
            worker.barrier()?;
            std::mem::swap(&mut old, &mut new);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
