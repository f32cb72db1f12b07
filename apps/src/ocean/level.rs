//! One of the grids, from the finest to the coarsest, and what a worker does with its rows of it from one
//! barrier to the next.

use std::ops::Range;

use crate::Result;
use crate::crew::{Worker, WorkerNumber};
use crate::memory::{Memory, product};
use crate::owned::{Array, Division, Unowned, View};

/// The colours, in the order in which they are relaxed. In row i, columns `i % 2`, `i % 2 + 2`, … are red.
pub(super) const COLOURS: [usize; 2] = [RED, BLACK];
pub(super) const RED: usize = 0;
pub(super) const BLACK: usize = 1;

/// Where the points of a grid are in an array: each colour has a half of it, where rows follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// In a row and in a column, an even number; points are one more, with the coast.
    pub(super) cells: usize,
    /// How many times the finest grid has been made coarser.
    depth: u32,
}

/// A grid, and what the workers share of it.
pub(super) struct Level {
    pub(super) layout: Layout,
    /// What is solved for. Zero on the coast.
    pub(super) solution: Array<f64>,
    /// The right-hand side; the coast has none.
    pub(super) rhs: Array<f64>,
    /// Each worker owns its rows of one colour,
    pub(super) colours: [Division; 2],
    /// of both,
    pub(super) both: Division,
    /// of both, with those of the coast;
    pub(super) all: Division,
    /// or nobody owns anything.
    pub(super) read: Division,
}

impl Layout {
    /// The finest grid.
    pub(super) fn finest(cells: usize) -> Self {
        Self { cells, depth: 0 }
    }

    /// This grid and all that are coarser, down to the one with a single point off the coast.
    pub(super) fn all(self) -> impl Iterator<Item = Self> {
        (0..self.cells.ilog2()).map(move |depth| Self { cells: self.cells >> depth, depth })
    }

    /// Elements of one colour in a row. In every second row the last one is no point.
    pub(super) fn width(self) -> usize {
        self.cells / 2 + 1
    }

    /// Elements of both halves.
    fn len(self) -> Result<usize> {
        product(&[2, self.cells + 1, self.width()])
    }

    /// Where these rows are in the half of that colour.
    pub(super) fn elements(self, colour: usize, rows: Range<usize>) -> Range<usize> {
        let start = colour * (self.cells + 1);
        (start + rows.start) * self.width()..(start + rows.end) * self.width()
    }

    /// Those of a row's elements of one colour that are off the coast.
    pub(super) fn inner(self, row: usize, colour: usize) -> Range<usize> {
        1 - (row + colour) % 2..self.cells / 2
    }

    /// The column of an element of such a row.
    pub(super) fn column(self, row: usize, colour: usize, element: usize) -> usize {
        2 * element + (row + colour) % 2
    }

    /// The rows that a worker owns, without those of the coast. Of the finest grid these are neighbouring
    /// ones, as many for each worker as for the others; of a coarser grid those that lie in them.
    pub(super) fn rows(self, who: WorkerNumber) -> Range<usize> {
        let part = who.part((self.cells << self.depth) - 1);
        (part.start + 1).div_ceil(1 << self.depth)..(part.end + 1).div_ceil(1 << self.depth)
    }

    /// The same, with those of the coast: the first and the last worker own one of them each.
    pub(super) fn all_rows(self, who: WorkerNumber) -> Range<usize> {
        let Range { start, end } = self.rows(who);
        let top = if who.index == 0 { 0 } else { start };
        let bottom = if who.index + 1 == who.count { self.cells + 1 } else { end };
        top..bottom
    }

    /// The square of the distance between two points; the coast is a square of side 1.
    pub(super) fn square(self) -> f64 {
        ((self.cells * self.cells) as f64).recip()
    }
}

impl Level {
    /// Takes the arrays from `memory`, for that many workers.
    pub(super) fn allocate(layout: Layout, workers: usize, memory: &mut impl Memory) -> Result<Self> {
        let len = layout.len()?;
        let (solution, rhs) = (memory.array(len)?, memory.array(len)?);
        let who = |index| WorkerNumber { index, count: workers };
        let own = |colour, index| layout.elements(colour, layout.rows(who(index)));
        let all = |index| COLOURS.map(|colour| layout.elements(colour, layout.all_rows(who(index))));
        Ok(Self {
            layout,
            solution,
            rhs,
            colours: [
                Division::new(len, workers, |index| [own(RED, index)])?,
                Division::new(len, workers, |index| [own(BLACK, index)])?,
            ],
            both: Division::new(len, workers, |index| COLOURS.map(|colour| own(colour, index)))?,
            all: Division::new(len, workers, all)?,
            read: Division::read_by_all(len, workers),
        })
    }

    /// Gives each point of the worker's rows of one colour, which it owns, the value that its equation asks
    /// for. It owns both colours of the right-hand side.
    pub(super) fn relax(&self, worker: &Worker<'_>, colour: usize) {
        let (layout, rows) = (self.layout, self.layout.rows(worker.who()));
        let View { mine, unowned } = self.solution.view(worker);
        let other = Rows::of(&unowned, layout, 1 - colour, rows.start - 1..rows.end + 1);
        let rhs = self.rhs.view(worker).mine;
        let own = mine.into_iter().flat_map(|own| own.chunks_exact_mut(layout.width()));
        for ((i, row), rhs) in rows.zip(own).zip(rhs[colour].chunks_exact(layout.width())) {
            let inner = layout.inner(i, colour);
            let points = row[inner.clone()].iter_mut().zip(&rhs[inner.clone()]);
            for ((x, f), sum) in points.zip(sums(other.around(i), &inner)) {
                *x = 0.25 * (sum - layout.square() * f);
            }
        }
    }

    /// Makes the residual of this grid the right-hand side of the coarser one, of which the worker owns its
    /// rows, and lets its solution start from zero: of that, it owns the black points. Returns the largest
    /// residual that it has met.
    ///
    /// A coarser point has a quarter of the residual at its place, an eighth of each of its four neighbours',
    /// which are black and have none, and a sixteenth of each of those at the corners.
    pub(super) fn restrict(&self, worker: &Worker<'_>, coarser: &Self) -> f64 {
        let rows = coarser.layout.rows(worker.who());
        if rows.is_empty() {
            return 0.0;
        }
        let residuals = Residuals::new(self, worker, 2 * rows.start - 1..2 * rows.end);
        let [mut above, mut beside, mut below] = [0; 3].map(|_| vec![0.0; self.layout.width()]);
        let mut largest = residuals.compute(2 * rows.start - 1, &mut above);
        coarser.solution.mine(worker).fill(0.0);
        let mut rhs = coarser.rhs.view(worker).mine;
        let width = coarser.layout.width();
        for (at, i) in rows.enumerate() {
            largest = largest.max(residuals.compute(2 * i, &mut beside));
            largest = largest.max(residuals.compute(2 * i + 1, &mut below));
            for (colour, own) in COLOURS.into_iter().zip(&mut rhs) {
                let row = &mut own[at * width..][..width];
                for element in coarser.layout.inner(i, colour) {
                    let j = coarser.layout.column(i, colour, element);
                    let corners = above[j - 1] + above[j] + below[j - 1] + below[j];
                    row[element] = 0.25 * beside[j] + 0.0625 * corners;
                }
            }
            std::mem::swap(&mut above, &mut below);
        }
        largest
    }

    /// Adds the solution of the coarser grid to this one's black points, which the worker owns: each has two
    /// points of the coarser grid at its sides, and gets their mean.
    pub(super) fn correct(&self, worker: &Worker<'_>, coarser: &Self) {
        let rows = self.layout.rows(worker.who());
        let around = rows.start / 2..rows.end / 2 + 1;
        let corrections = coarser.solution.unowned(worker);
        let halves = COLOURS.map(|colour| Rows::of(&corrections, coarser.layout, colour, around.clone()));
        let at = |i: usize, j: usize| halves[(i + j) % 2].row(i)[j / 2];
        let own = self.solution.mine(worker).chunks_exact_mut(self.layout.width());
        for (i, row) in rows.zip(own) {
            for element in self.layout.inner(i, BLACK) {
                let j = self.layout.column(i, BLACK, element);
                row[element] += 0.5 * (at(i / 2, j / 2) + at(i.div_ceil(2), j.div_ceil(2)));
            }
        }
    }
}

/// The residuals of a grid, which nobody owns: how far red points are from what their equations ask for.
struct Residuals<'a> {
    layout: Layout,
    red: Rows<'a>,
    black: Rows<'a>,
    rhs: Rows<'a>,
}

impl<'a> Residuals<'a> {
    /// Of these rows.
    fn new(level: &'a Level, worker: &'a Worker<'_>, rows: Range<usize>) -> Self {
        let (layout, around) = (level.layout, rows.start - 1..rows.end + 1);
        let solution = level.solution.unowned(worker);
        Self {
            layout,
            red: Rows::of(&solution, layout, RED, rows.clone()),
            black: Rows::of(&solution, layout, BLACK, around),
            rhs: Rows::of(&level.rhs.unowned(worker), layout, RED, rows),
        }
    }

    /// Computes those of row i, but for the coast's. Returns the largest one.
    fn compute(&self, i: usize, out: &mut [f64]) -> f64 {
        let inner = self.layout.inner(i, RED);
        let points = self.red.row(i)[inner.clone()].iter().zip(&self.rhs.row(i)[inner.clone()]);
        let sums = sums(self.black.around(i), &inner);
        let mut largest = 0.0f64;
        for (out, ((x, f), sum)) in out[inner].iter_mut().zip(points.zip(sums)) {
            *out = f - (sum - 4.0 * x) / self.layout.square();
            largest = largest.max(out.abs());
        }
        largest
    }
}

/// Neighbouring rows of one colour.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    elements: &'a [f64],
    width: usize,
    first: usize,
}

impl<'a> Rows<'a> {
    /// These rows of an array in which nobody owns them.
    pub(super) fn of(array: &Unowned<'a, f64>, layout: Layout, colour: usize, rows: Range<usize>) -> Self {
        let first = rows.start;
        Self { elements: array.get(layout.elements(colour, rows)), width: layout.width(), first }
    }

    /// One of them.
    pub(super) fn row(self, row: usize) -> &'a [f64] {
        &self.elements[(row - self.first) * self.width..][..self.width]
    }

    /// A row, and the ones above and below: where the neighbours of the other colour's points are.
    pub(super) fn around(self, row: usize) -> [&'a [f64]; 3] {
        [self.row(row - 1), self.row(row), self.row(row + 1)]
    }
}

/// The sums of the four neighbours of a row's points, whose elements `inner` has.
fn sums<'a>(
    [above, beside, below]: [&'a [f64]; 3],
    inner: &Range<usize>,
) -> impl Iterator<Item = f64> + use<'a> {
    let vertical = above[inner.clone()].iter().zip(&below[inner.clone()]);
    let horizontal = beside.iter().zip(&beside[1..]);
    vertical.zip(horizontal).map(|((above, below), (left, right))| above + below + left + right)
}
