//! SOR: red-black successive over-relaxation on a square grid.
//!
//! `size × size` inner elements start as zeros. The frame around them is a plate's edge, with one hot side.
//! The elements are coloured as a chessboard is. An iteration moves every red element towards, and beyond,
//! the mean of its neighbours, which are all black; then every black one, with what became of the red ones.
//!
//! **One grid, two halves.** Each colour has a half of the array, so that what is written and what is read
//! meanwhile do not lie among each other: a worker's part of one half is a slice of its own. Row i of a half
//! has each second column of row i of the grid.
//!
//! **Who owns what:** each worker owns neighbouring rows of both halves, and the first and last worker a row
//! of the frame too. **One barrier per colour.**

use std::f64::consts::PI;
use std::ops::Range;

use serde::Serialize;

use crate::crew::{Worker, WorkerNumber};
use crate::memory::{Memory, product};
use crate::owned::{Array, Division, View};
use crate::program::{Program, ResultRun};
use crate::{Error, Result};

/// The program, with its parameters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sor {
    size: usize,
    iterations: usize,
}

/// What the workers share.
pub struct Grid {
    halves: Array<f64>,
    /// Each worker owns its rows of both halves, and of the frame.
    all: Division,
    /// Each owns its inner rows of the half of that colour.
    inner: [Division; 2],
    /// Nobody owns anything.
    read: Division,
}

/// The colours, in the order in which they are relaxed. In row i, columns `i % 2`, `i % 2 + 2`, … are red.
const COLOURS: [usize; 2] = [0, 1];

impl Sor {
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

    /// How far beyond the mean an element moves: what is best for this grid.
    fn factor(&self) -> f64 {
        2.0 / (1.0 + (PI / (self.size + 1) as f64).sin())
    }

    /// The inner rows that a worker owns.
    fn inner(&self, who: WorkerNumber) -> Range<usize> {
        let part = who.part(self.size);
        part.start + 1..part.end + 1
    }

    /// All rows that it owns; the frame's are 0 and `size + 1`.
    fn rows(&self, who: WorkerNumber) -> Range<usize> {
        let Range { start, end } = self.inner(who);
        let top = if who.index == 0 { 0 } else { start };
        let bottom = if who.index + 1 == who.count { self.size + 2 } else { end };
        top..bottom
    }

    /// Elements of one colour in a row. Of an odd number of columns, one colour leaves the last element out.
    fn width(&self) -> usize {
        (self.size + 2).div_ceil(2)
    }

    /// Where these rows are in the half of that colour.
    fn elements(&self, colour: usize, rows: Range<usize>) -> Range<usize> {
        let start = colour * (self.size + 2);
        (start + rows.start) * self.width()..(start + rows.end) * self.width()
    }

    /// Relaxes the inner elements of one row of a colour. `column` is the grid's column that the row begins
    /// with; the other colour's row then begins with the other column.
    fn relax(&self, own: &mut [f64], column: usize, [above, beside, below]: [&[f64]; 3], factor: f64) {
        let inner = 1 - column..(self.size - column) / 2 + 1;
        let vertical = above[inner.clone()].iter().zip(&below[inner.clone()]);
        let horizontal = beside.iter().zip(&beside[1..]);
        for ((x, (above, below)), (left, right)) in own[inner].iter_mut().zip(vertical).zip(horizontal) {
            let mean = 0.25 * (above + below + left + right);
            *x += factor * (mean - *x);
        }
    }
}

impl Program for Sor {
    const NAME: &'static str = "sor";
    type Arrays = Grid;
    type Element = f64;

    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Grid> {
        let rows = self.size.checked_add(2).ok_or(Error::TooLarge)?;
        let len = product(&[2, rows, self.width()])?;
        let halves = memory.array(len)?;
        let who = |index| WorkerNumber { index, count: workers };
        let all = |index| COLOURS.map(|colour| self.elements(colour, self.rows(who(index))));
        let [red, black] = COLOURS.map(|colour| {
            Division::new(len, workers, |index| [self.elements(colour, self.inner(who(index)))])
        });
        let read = Division::read_by_all(len, workers);
        Ok(Grid { halves, all: Division::new(len, workers, all)?, inner: [red?, black?], read })
    }

    fn result<'a>(&self, arrays: &'a Self::Arrays) -> &'a Array<Self::Element> {
        &arrays.halves
    }

    fn result_mut<'a>(&self, arrays: &'a mut Self::Arrays) -> &'a mut Array<Self::Element> {
        &mut arrays.halves
    }

    fn owned(&self, who: WorkerNumber, _len: usize) -> Vec<ResultRun> {
        COLOURS.map(|colour| ResultRun::in_place(self.elements(colour, self.rows(who)))).to_vec()
    }

    fn initialise(&self, worker: &mut Worker<'_>, grid: &Grid) -> Result<()> {
        worker.turn(&[grid.halves.to(&grid.all)])?;
        let rows = self.rows(worker.who());
        for half in grid.halves.view(worker).mine {
            for (i, row) in rows.clone().zip(half.chunks_exact_mut(self.width())) {
                row.fill(if i == 0 { 1.0 } else { 0.0 });
            }
        }
        let first = if self.iterations > 0 { &grid.inner[0] } else { &grid.read };
        worker.turn(&[grid.halves.to(first)])
    }

    fn compute(&self, worker: &mut Worker<'_>, grid: &Grid) -> Result<()> {
        let rows = self.inner(worker.who());
        let factor = self.factor();
        for iteration in 1..=self.iterations {
            for colour in COLOURS {
                let View { mine, unowned } = grid.halves.view(worker);
                let other = unowned.get(self.elements(1 - colour, rows.start - 1..rows.end + 1));
                let other: Vec<&[f64]> = other.chunks_exact(self.width()).collect();
                let own = mine.into_iter().flat_map(|own| own.chunks_exact_mut(self.width()));
                for ((i, row), around) in rows.clone().zip(own).zip(other.windows(3)) {
                    self.relax(row, (i + colour) % 2, [around[0], around[1], around[2]], factor);
                }
                let is_last = iteration == self.iterations && colour == 1;
                let next = if is_last { &grid.read } else { &grid.inner[1 - colour] };
                worker.turn(&[grid.halves.to(next)])?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Heap;
    use crate::repetitions::tests::{agrees_on_any_number_of_threads, result_of};

    /// The result, as the rows of a grid.
    fn grid_of(sor: &Sor) -> Vec<Vec<f64>> {
        let halves = result_of(sor);
        let at = |i, j| halves[sor.elements((i + j) % 2, i..i + 1).start + j / 2];
        (0..sor.size + 2).map(|i| (0..sor.size + 2).map(|j| at(i, j)).collect()).collect()
    }

    #[test]
    fn threads_compute_what_one_worker_does_whatever_the_sizes() {
        for (size, iterations) in [(1, 0), (1, 2), (2, 3), (3, 3), (10, 7), (67, 5)] {
            agrees_on_any_number_of_threads(Sor::new(size, iterations).unwrap());
        }
    }

    #[test]
    fn the_halves_hold_what_relaxation_in_one_grid_does() {
        for size in [1, 2, 3, 8, 9] {
            let sor = Sor::new(size, 6).unwrap();
            let mut grid = vec![vec![0.0; size + 2]; size + 2];
            grid[0].fill(1.0);
            for colour in [0, 1].repeat(6) {
                for i in 1..=size {
                    for j in (1..=size).filter(|j| (i + j) % 2 == colour) {
                        let mean = 0.25 * (grid[i - 1][j] + grid[i + 1][j] + grid[i][j - 1] + grid[i][j + 1]);
                        grid[i][j] += sor.factor() * (mean - grid[i][j]);
                    }
                }
            }
            assert_eq!(grid_of(&sor), grid, "size {size}");
        }
    }

    #[test]
    fn in_the_end_every_element_is_the_mean_of_its_neighbours() {
        let size = 20;
        let grid = grid_of(&Sor::new(size, 200).unwrap());
        for i in 1..=size {
            for j in 1..=size {
                let mean = 0.25 * (grid[i - 1][j] + grid[i + 1][j] + grid[i][j - 1] + grid[i][j + 1]);
                assert!((grid[i][j] - mean).abs() < 1e-14 && (0.0..1.0).contains(&mean), "({i}, {j})");
            }
        }
    }

    #[test]
    fn a_grid_that_no_address_space_holds_is_refused() {
        assert!(matches!(Sor::new(0, 1), Err(Error::Empty("--size"))));
        let huge = Sor::new(usize::MAX, 1).unwrap();
        assert!(matches!(huge.allocate(1, &mut Heap), Err(Error::TooLarge)));
    }
}
