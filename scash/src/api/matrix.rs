//! A shared matrix of which each session owns rows, or a block of rows and columns, with a present state and
//! a next one as a [`Partition`](crate::Partition) has.

use crate::api::partition::States;
use crate::api::session::{Session, part};
use crate::api::shared::{Plain, SharedSlice};
use crate::error::{Error, Result};
use std::marker::PhantomData;
use std::ops::Range;

/// A matrix of `T`, row after row, of which each session (a rank, or a [`Worker`](crate::Worker) if workers
/// have made it) owns a block.
///
/// In an interval each session writes its block of the next state, and reads anything of the present one; at
/// [`publish`](Self::publish) the two change roles. A step of a five-point stencil:
///
/// ```no_run
/// # fn step(dsm: &mut scash::Dsm, plate: &mut scash::Matrix<f64>) -> scash::Result<()> {
/// let (rows, columns) = (plate.rows(), plate.columns());
/// let parts = plate.parts(dsm);
/// for (i, mine) in parts.mine {
///     if i == 0 || i + 1 == rows {
///         mine.copy_from_slice(&parts.present.row(i)[parts.columns.clone()]); // the plate's edge
///         continue;
///     }
///     let [above, here, below] = [i - 1, i, i + 1].map(|i| parts.present.row(i));
///     for (j, x) in parts.columns.clone().zip(mine) {
///         let edge = j == 0 || j + 1 == columns;
///         *x = if edge { here[j] } else { 0.25 * (above[j] + below[j] + here[j - 1] + here[j + 1]) };
///     }
/// }
/// plate.publish(dsm) // the memory barrier
/// # }
/// ```
///
/// No row outlives the interval in which it was borrowed:
///
/// ```compile_fail,E0502
/// # fn f(dsm: &mut scash::Dsm, plate: &mut scash::Matrix<f64>) -> scash::Result<()> {
/// let parts = plate.parts(dsm);
/// plate.publish(dsm)?; // error: `parts` still borrows both
/// for (_, row) in parts.mine {
///     row.fill(0.0);
/// }
/// # Ok(()) }
/// ```
///
/// A publication that fails ends it, as for a [`Partition`](crate::Partition).
#[derive(Debug)]
pub struct Matrix<T: Plain> {
    states: States<T>,
    shape: Shape,
    block: Block,
}

#[derive(Clone, Copy, Debug, Hash)]
struct Shape {
    rows: usize,
    columns: usize,
}

/// The rows and columns of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    rows: Range<usize>,
    columns: Range<usize>,
}

impl Block {
    /// The block of a session in a grid of sessions, row by row, which has `high × wide` of them.
    fn of(shape: Shape, index: usize, [high, wide]: [usize; 2]) -> Block {
        let (rows, columns) = (part(shape.rows, index / wide, high), part(shape.columns, index % wide, wide));
        Block { rows, columns }
    }
}

/// The grid of so many sessions that is as square as can be, and not higher than wide.
fn grid(count: usize) -> [usize; 2] {
    let high = (1..=count.isqrt()).rev().find(|high| count.is_multiple_of(*high)).unwrap_or(1);
    [high, count / high]
}

/// One interval's view of a [`Matrix`].
#[derive(Debug)]
pub struct MatrixParts<'a, T> {
    /// The rows of this session's block of the next state, to be written. They hold what this session wrote
    /// two publications ago.
    pub mine: Rows<'a, T>,
    /// The columns of the block.
    pub columns: Range<usize>,
    /// The whole present state.
    pub present: Present<'a, T>,
}

/// The rows of a block, with their numbers in the whole matrix: the block's columns of each.
#[derive(Debug)]
pub struct Rows<'a, T> {
    state: SharedSlice<T>,
    block: Block,
    /// Columns of the matrix.
    width: usize,
    _interval: PhantomData<&'a mut [T]>,
}

impl<'a, T: Plain> Rows<'a, T> {
    /// Which rows are still to come.
    pub fn numbers(&self) -> Range<usize> {
        self.block.rows.clone()
    }

    /// All of them as one slice, for blocks as wide as the matrix; `None` for others.
    pub fn into_slice(self) -> Option<&'a mut [T]> {
        let Block { rows, columns } = self.block;
        if columns != (0..self.width) {
            return None;
        }
        // SAFETY: rows of this session's block that were not handed out; see `next`.
        Some(unsafe { self.state.part_mut(rows.start * self.width..rows.end * self.width) })
    }
}

impl<'a, T: Plain> Iterator for Rows<'a, T> {
    type Item = (usize, &'a mut [T]);

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.block.rows.next()?;
        let Range { start, end } = self.block.columns;
        // SAFETY: these columns of this row of the next state are this session's alone until the next
        // publication, each row is handed out once, and while it is used the handle is borrowed mutably, and
        // a session.
        let mine = unsafe { self.state.part_mut(row * self.width + start..row * self.width + end) };
        Some((row, mine))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.block.rows.size_hint()
    }
}

impl<T: Plain> ExactSizeIterator for Rows<'_, T> {}

/// The present state of a [`Matrix`], which nobody writes in the interval.
#[derive(Clone, Copy, Debug)]
pub struct Present<'a, T> {
    all: &'a [T],
    width: usize,
}

impl<'a, T> Present<'a, T> {
    /// A row.
    ///
    /// # Panics
    /// There is no such row.
    pub fn row(&self, row: usize) -> &'a [T] {
        &self.all[row * self.width..][..self.width]
    }

    /// All elements, row after row.
    pub fn all(&self) -> &'a [T] {
        self.all
    }
}

impl<T: Plain> Matrix<T> {
    pub(crate) fn by_rows<S: Session + ?Sized>(session: &mut S, rows: usize, columns: usize) -> Result<Self> {
        let count = session.count();
        Self::new(session, Shape { rows, columns }, [count, 1])
    }

    pub(crate) fn in_blocks<S: Session + ?Sized>(
        session: &mut S,
        rows: usize,
        columns: usize,
    ) -> Result<Self> {
        let grid = grid(session.count());
        Self::new(session, Shape { rows, columns }, grid)
    }

    fn new<S: Session + ?Sized>(session: &mut S, shape: Shape, grid: [usize; 2]) -> Result<Self> {
        let Shape { rows, columns } = shape;
        let Some(len) = rows.checked_mul(columns) else {
            return Err(Error::Argument(format!("a matrix of {rows} × {columns}: no memory is as large")));
        };
        let states = States::new(session, len, (shape, grid))?;
        Ok(Matrix { states, shape, block: Block::of(shape, session.index(), grid) })
    }

    /// Rows of the matrix.
    pub fn rows(&self) -> usize {
        self.shape.rows
    }

    /// Columns of the matrix.
    pub fn columns(&self) -> usize {
        self.shape.columns
    }

    /// The rows and the columns of this session's block.
    pub fn block(&self) -> (Range<usize>, Range<usize>) {
        (self.block.rows.clone(), self.block.columns.clone())
    }

    /// The two states for this interval: write one's own block of the next one, read all of the present one.
    ///
    /// # Panics
    /// If a publication has failed, or the matrix was freed.
    pub fn parts<'a, S: Session + ?Sized>(&'a mut self, _session: &'a S) -> MatrixParts<'a, T> {
        let [present, next] = self.states.now();
        // SAFETY: the present state is written by nobody before the next publication, which a session is
        // borrowed to keep away.
        let all = unsafe { present.part(0..present.len()) };
        let (width, block) = (self.shape.columns, self.block.clone());
        let columns = block.columns.clone();
        let mine = Rows { state: next, block, width, _interval: PhantomData };
        MatrixParts { mine, columns, present: Present { all, width } }
    }

    /// The whole present state.
    ///
    /// # Panics
    /// As [`parts`](Self::parts).
    pub fn present<'a, S: Session + ?Sized>(&'a self, _session: &'a S) -> Present<'a, T> {
        let [present, _] = self.states.now();
        // SAFETY: as in `parts`.
        Present { all: unsafe { present.part(0..present.len()) }, width: self.shape.columns }
    }

    /// Makes what every session wrote the present state. Collective: this is a memory barrier.
    ///
    /// # Errors
    /// As those of [`Partition::publish`](crate::Partition::publish).
    pub fn publish<S: Session + ?Sized>(&mut self, session: &mut S) -> Result<()> {
        self.states.publish(session)
    }

    /// Frees the matrix. Collective.
    ///
    /// # Errors
    /// As those of [`Dsm::free`](crate::Dsm::free).
    pub fn free<S: Session + ?Sized>(self, session: &mut S) -> Result<()> {
        self.states.free(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_the_matrix_and_none_overlaps_another() {
        for count in 1..=12 {
            for (rows, columns) in [(1, 1), (5, 7), (12, 3), (2, 40)] {
                let shape = Shape { rows, columns };
                for grid in [grid(count), [count, 1]] {
                    let mut owners = vec![0; rows * columns];
                    for index in 0..count {
                        let Block { rows, columns: own } = Block::of(shape, index, grid);
                        for (i, j) in rows.flat_map(|i| own.clone().map(move |j| (i, j))) {
                            owners[i * columns + j] += 1;
                        }
                    }
                    assert!(owners.iter().all(|&owners| owners == 1), "{count} sessions, {rows} × {columns}");
                }
            }
        }
    }

    #[test]
    fn grids_are_as_square_as_can_be() {
        assert_eq!([1, 2, 4, 6, 7, 12].map(grid), [[1, 1], [1, 2], [2, 2], [2, 3], [1, 7], [3, 4]]);
    }
}
