//! Who owns a block, and where it is.

use std::ops::Range;

/// How a matrix lies in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MatrixLayout {
    /// Block by block, those of an owner together, as in SPLASH-2's program with contiguous blocks.
    #[default]
    Blocks,
    /// Row by row, as in the other one: pages have parts of blocks of several owners.
    Rows,
}

/// Where the blocks of a square matrix are in one array.
///
/// A grid of workers is laid over the blocks: the one in grid row `i % rows` and grid column `j % columns`
/// owns block (i, j). The blocks of an owner follow one another, column by column, and the owners too. So the
/// first touch of an owner's blocks makes all their pages its own, and who reads the owner's part of a column
/// walks forward.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Blocks in a row or column of the matrix.
    blocks: usize,
    /// Elements of a block.
    len: usize,
    /// Elements of a row of a block, if the matrix lies row by row.
    row: Option<usize>,
    /// Rows of the grid of workers.
    rows: usize,
    /// Columns of the grid of workers.
    columns: usize,
    /// Where each worker's blocks start, counted in blocks.
    starts: Vec<usize>,
}

impl Layout {
    /// The layout of `blocks × blocks` blocks of `len` elements for that many workers.
    pub(super) fn new(blocks: usize, len: usize, workers: usize) -> Self {
        let rows = (1..=workers.isqrt()).rev().find(|rows| workers.is_multiple_of(*rows)).unwrap_or(1);
        let mut layout = Self {
            blocks,
            len,
            row: None,
            rows,
            columns: workers / rows,
            starts: Vec::with_capacity(workers),
        };
        let mut start = 0;
        for worker in 0..workers {
            layout.starts.push(start);
            start += layout.height(worker) * share(blocks, worker / rows, layout.columns);
        }
        layout
    }

    /// The same blocks of `b × b` elements, of a matrix that lies row by row.
    pub(super) fn by_rows(self, b: usize) -> Self {
        Self { row: Some(b), ..self }
    }

    /// Whether the matrix lies row by row.
    pub(super) fn is_by_rows(&self) -> bool {
        self.row.is_some()
    }

    /// The elements of block (i, j), run by run: all, or a row each.
    pub(super) fn runs(&self, i: usize, j: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let (first, count, len, stride) = match self.row {
            None => (self.block(i, j).start, 1, self.len, 0),
            Some(b) => (i * b * b * self.blocks + j * b, b, b, b * self.blocks),
        };
        (0..count).map(move |row| first + row * stride).map(move |start| start..start + len)
    }

    /// Who owns block (i, j).
    pub(super) fn owner(&self, i: usize, j: usize) -> usize {
        i % self.rows + j % self.columns * self.rows
    }

    /// The elements of block (i, j).
    pub(super) fn block(&self, i: usize, j: usize) -> Range<usize> {
        let owner = self.owner(i, j);
        let place = self.starts[owner] + j / self.columns * self.height(owner) + i / self.rows;
        place * self.len..(place + 1) * self.len
    }

    /// The blocks of a worker, in the order in which they are in memory.
    pub(super) fn owned(&self, worker: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let Self { blocks, rows, columns, .. } = *self;
        let (row, column) = (worker % rows, worker / rows);
        (column..blocks).step_by(columns).flat_map(move |j| (row..blocks).step_by(rows).map(move |i| (i, j)))
    }

    /// How many blocks of one column of the matrix the worker owns, if any.
    fn height(&self, worker: usize) -> usize {
        share(self.blocks, worker % self.rows, self.rows)
    }
}

/// How many of `0..count` are `place` modulo `places`.
fn share(count: usize, place: usize, places: usize) -> usize {
    (count + places - 1 - place) / places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_a_place_of_its_own_and_owners_have_theirs_together() {
        for (blocks, workers) in [(1, 1), (4, 1), (5, 2), (7, 4), (6, 6), (2, 7), (32, 12), (1, 9)] {
            let layout = Layout::new(blocks, 10, workers);
            let places = (0..workers).flat_map(|worker| layout.owned(worker).map(move |at| (worker, at)));
            let mut next = 0;
            for (worker, (i, j)) in places {
                assert_eq!(layout.owner(i, j), worker);
                assert_eq!(layout.block(i, j), next..next + 10);
                next += 10;
            }
            assert_eq!(next, blocks * blocks * 10, "{blocks} blocks, {workers} workers");
        }
    }

    #[test]
    fn the_grid_of_workers_is_as_square_as_possible() {
        let grid = |workers| {
            let layout = Layout::new(1, 1, workers);
            (layout.rows, layout.columns)
        };
        assert_eq!(
            [1, 2, 4, 6, 7, 12, 64].map(grid),
            [(1, 1), (1, 2), (2, 2), (2, 3), (1, 7), (3, 4), (8, 8)]
        );
    }
}
