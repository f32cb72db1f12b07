//! The tree of boxes: how particles are put in, and how it is read.
//!
//! A box is a square of the plane. One with more particles than a box holds is cut into four, which are
//! a *cell*: a run of words that has, of each of the four, a [`Content`] and room for a list of particles.

use std::ops::Range;

use super::expansion::Complex;
use super::plane::{DIGITS, Key, Plane, Square, quartered};
use crate::crew::Worker;
use crate::lock::Mutex;
use crate::runs::LockedRuns;
use crate::{Error, Result};

/// The first cells are the largest box, cut, in turns: while a tree begins with one, the other is emptied.
pub(super) const ROOTS: usize = 2;

/// Cells that a worker takes at a time: at least as many as there are boxes in one.
const BATCH: usize = 4;

/// How the runs of a cell are laid out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// How many particles a box holds.
    pub(super) per_box: usize,
    pub(super) terms: usize,
}

impl Layout {
    /// Cells enough for a tree, and for the workers' last batches. Of particles that are not all close
    /// together, there are fewer.
    pub(super) fn most_cells(self, particles: usize, workers: usize) -> Result<usize> {
        let batches = workers.checked_mul(2 * BATCH).ok_or(Error::TooLarge)?;
        let cells = ROOTS + DIGITS as usize + 4 * particles.div_ceil(self.per_box);
        let cells = cells.checked_add(batches).ok_or(Error::TooLarge)?;
        if cells > (CELL / 2) as usize { Err(Error::TooLarge) } else { Ok(cells) }
    }

    /// Words of a cell.
    pub(super) fn words(self) -> usize {
        4 + 4 * self.per_box
    }

    /// Where a cell's words have the list of a box.
    fn list(self, quarter: usize) -> Range<usize> {
        let start = 4 + quarter * self.per_box;
        start..start + self.per_box
    }

    /// Numbers that are kept of a cell's expansions: how many are there, and then those of the four boxes.
    pub(super) fn kept(self) -> usize {
        1 + 4 * self.terms
    }

    /// Where they have the expansion of a box.
    pub(super) fn expansion(self, quarter: usize) -> Range<usize> {
        let start = 1 + quarter * self.terms;
        start..start + self.terms
    }
}

/// What is in a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// So many particles, maybe none, which its list has, ascending.
    Particles(usize),
    /// The four boxes of the cell of that number: more particles than a box holds.
    Cell(usize),
}

/// What tells a cell's number from a number of particles.
const CELL: u32 = 1 << 31;

impl Content {
    fn of(word: u32) -> Self {
        let number = (word & !CELL) as usize;
        if word & CELL == 0 { Self::Particles(number) } else { Self::Cell(number) }
    }

    #[expect(clippy::cast_possible_truncation, reason = "most_cells, and what a box holds, are less")]
    fn word(self) -> u32 {
        match self {
            Self::Particles(count) => count as u32,
            Self::Cell(number) => CELL | number as u32,
        }
    }
}

/// What a worker puts particles into a tree with.
pub(super) struct Builder<'a> {
    pub(super) worker: &'a Worker<'a>,
    pub(super) cells: &'a LockedRuns<u32>,
    /// How many cells have been used.
    pub(super) used: &'a Mutex<usize>,
    pub(super) plane: Plane<'a>,
    pub(super) layout: Layout,
    /// Empty cells that the worker has taken and not yet used.
    pub(super) spares: Vec<usize>,
}

/// Particles to be put into the cell of that number.
type Errand = (usize, Vec<Key>);

impl Builder<'_> {
    /// Puts particles, whose keys ascend, into the tree with that root.
    pub(super) fn put(&mut self, root: usize, keys: &[Key]) -> Result<()> {
        self.put_into(root, 0, keys)
    }

    /// Puts particles into a cell of that depth, and those below. The worker has one lock at a time: what is
    /// to be done below waits until it has given the cell's lock back.
    fn put_into(&mut self, cell: usize, depth: u32, keys: &[Key]) -> Result<()> {
        self.take_spares()?;
        let mut below = Vec::new();
        {
            let mut words = self.cells.lock(self.worker, cell)?;
            for (quarter, keys) in quartered(keys, depth).into_iter().enumerate() {
                if !keys.is_empty() {
                    below.extend(self.put_into_box(&mut words, quarter, keys)?);
                }
            }
        }
        below.into_iter().try_for_each(|(cell, keys)| self.put_into(cell, depth + 1, &keys))
    }

    /// Puts particles into a box of a cell, if it holds them. Otherwise they are to be put into the cell
    /// below; with those that were in the box, if it had to be cut.
    fn put_into_box(&mut self, words: &mut [u32], quarter: usize, keys: &[Key]) -> Result<Option<Errand>> {
        let count = match Content::of(words[quarter]) {
            Content::Particles(count) => count,
            Content::Cell(below) => return Ok(Some((below, keys.to_vec()))),
        };
        let list = &mut words[self.layout.list(quarter)];
        let sum = count + keys.len();
        if sum > self.layout.per_box {
            let below = self.spares.pop().ok_or(Error::TooDense)?;
            let before = list[..count].iter().map(|&number| self.plane.key(number as usize));
            let mut keys: Vec<Key> = before.chain(keys.iter().copied()).collect();
            keys.sort_unstable();
            words[quarter] = Content::Cell(below).word();
            return Ok(Some((below, keys)));
        }
        for (place, key) in list[count..].iter_mut().zip(keys) {
            *place = key.number();
        }
        list[..sum].sort_unstable();
        words[quarter] = Content::Particles(sum).word();
        Ok(None)
    }

    /// Has a cell at hand for each box that may have to be cut, as far as there are any.
    fn take_spares(&mut self) -> Result<()> {
        if self.spares.len() >= 4 {
            return Ok(());
        }
        let batch = {
            let mut used = self.used.lock()?;
            let end = (*used + BATCH).min(self.cells.array().len() / self.layout.words());
            std::mem::replace(&mut *used, end)..end
        };
        for cell in batch {
            empty(&mut self.cells.lock(self.worker, cell)?);
            self.spares.push(cell);
        }
        Ok(())
    }
}

/// Makes nothing of what a cell has.
pub(super) fn empty(words: &mut [u32]) {
    words[..4].fill(Content::Particles(0).word());
}

/// A box: which of a cell's four, what is in it, and where it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quarter {
    pub(super) cell: usize,
    pub(super) index: usize,
    pub(super) content: Content,
    pub(super) square: Square,
}

/// A whole tree, as a worker reads it.
#[derive(Clone, Copy)]
pub(super) struct Tree<'a> {
    pub(super) words: &'a [u32],
    pub(super) layout: Layout,
}

impl<'a> Tree<'a> {
    fn cell(&self, cell: usize) -> &'a [u32] {
        let words = self.layout.words();
        &self.words[cell * words..][..words]
    }

    /// Those boxes of a cell in which there is something. The cell is a box of that square, cut.
    pub(super) fn quarters(&self, cell: usize, square: Square) -> impl Iterator<Item = Quarter> + use<'a> {
        let contents = self.cell(cell)[..4].iter().map(|&word| Content::of(word)).enumerate();
        contents
            .filter(|&(_, content)| content != Content::Particles(0))
            .map(move |(index, content)| Quarter { cell, index, content, square: square.quarter(index) })
    }

    /// In how many boxes of a cell there is something.
    pub(super) fn filled(&self, cell: usize) -> usize {
        self.cell(cell)[..4].iter().filter(|&&word| Content::of(word) != Content::Particles(0)).count()
    }

    /// The particles of a box that is not cut, ascending.
    pub(super) fn particles(&self, quarter: Quarter) -> impl Iterator<Item = usize> + use<'a> {
        let count = match quarter.content {
            Content::Particles(count) => count,
            Content::Cell(_) => 0,
        };
        self.cell(quarter.cell)[self.layout.list(quarter.index)][..count]
            .iter()
            .map(|&number| number as usize)
    }

    /// The expansion of a box, among those that are kept of all.
    pub(super) fn expansion(&self, kept: &'a [Complex], quarter: Quarter) -> &'a [Complex] {
        &kept[quarter.cell * self.layout.kept()..][self.layout.expansion(quarter.index)]
    }
}
