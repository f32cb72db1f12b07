//! The pyramid: levels of blocks, each of which has the largest voxel in it.
//!
//! A *cell* is the cube between eight neighbouring voxels, in which a sample is interpolated from them.
//! Blocks consist of cells. So blocks that touch have the voxels in common that lie there.

use std::ops::Range;

use crate::crew::WorkerNumber;

/// Cells along a side of the smallest blocks.
const LEAST: usize = 4;

/// Values that stand in a cube, row by row and layer by layer.
#[derive(Clone, Copy)]
pub(super) struct Grid<'a> {
    pub(super) values: &'a [u8],
    /// How many there are along a side.
    pub(super) side: usize,
}

impl Grid<'_> {
    /// Where the value at a place is.
    pub(super) fn index(&self, at: [usize; 3]) -> usize {
        index(self.side, at)
    }

    /// The largest value in a cube of `len` along a side, or in the part of it that there is.
    fn largest(&self, from: [usize; 3], len: usize) -> u8 {
        let [columns, rows, layers] = from.map(|start| start..(start + len).min(self.side));
        let rows = layers.flat_map(|z| rows.clone().map(move |y| self.index([columns.start, y, z])));
        rows.flat_map(|start| &self.values[start..start + columns.len()]).copied().max().unwrap_or(0)
    }
}

/// Where a value is in a cube of `side` along a side.
fn index(side: usize, [x, y, z]: [usize; 3]) -> usize {
    (z * side + y) * side + x
}

/// A level of the pyramid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    /// Where its first block is, of those of all levels.
    start: usize,
    /// Blocks along a side.
    side: usize,
    /// Cells along a side of a block.
    cells: usize,
    /// Along a side of a block, how many values it is made from, and how many of them are not the next one's.
    reach: usize,
    stride: usize,
}

/// The levels over so many voxels along a side, that of the smallest blocks first. The last one is a single
/// block.
pub(super) fn levels(voxels: usize) -> Vec<Level> {
    let side = (voxels - 1).div_ceil(LEAST);
    let mut level = Level { start: 0, side, cells: LEAST, reach: LEAST + 1, stride: LEAST };
    let mut levels = vec![level];
    while level.side > 1 {
        let (start, side) = (level.blocks().end, level.side.div_ceil(2));
        level = Level { start, side, cells: 2 * level.cells, reach: 2, stride: 2 };
        levels.push(level);
    }
    levels
}

impl Level {
    /// Where its blocks are.
    pub(super) fn blocks(&self) -> Range<usize> {
        self.start..self.start + self.side * self.side * self.side
    }

    /// Its blocks, which are these.
    pub(super) fn grid<'a>(&self, values: &'a [u8]) -> Grid<'a> {
        Grid { values, side: self.side }
    }

    /// Where the blocks of a worker are, which are neighbouring layers.
    pub(super) fn own(&self, who: WorkerNumber) -> Range<usize> {
        let Range { start, end } = who.part(self.side);
        let layer = self.side * self.side;
        self.start + start * layer..self.start + end * layer
    }

    /// Makes the blocks of a worker from those of the level below, or from the voxels.
    pub(super) fn make(&self, who: WorkerNumber, own: &mut [u8], below: Grid<'_>) {
        let rows = who.part(self.side).flat_map(|z| (0..self.side).map(move |y| (y, z)));
        for (row, (y, z)) in own.chunks_exact_mut(self.side).zip(rows) {
            for (x, block) in row.iter_mut().enumerate() {
                *block = below.largest([x, y, z].map(|at| self.stride * at), self.reach);
            }
        }
    }

    /// Where the block of a cell is, of those of all levels.
    pub(super) fn block(&self, cell: [usize; 3]) -> usize {
        self.start + index(self.side, cell.map(|at| at / self.cells))
    }

    /// The cells of the block of a cell, along an axis.
    pub(super) fn cells(&self, cell: usize) -> Range<usize> {
        let start = cell / self.cells * self.cells;
        start..start + self.cells
    }
}
