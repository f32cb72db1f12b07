//! LU: SPLASH-2's blocked LU factorisation without pivoting, with contiguous blocks, or with a matrix that
//! lies row by row (`--layout rows`).
//!
//! A dense `size × size` matrix, cut into square blocks, becomes `L·U` in place. Step k factors the diagonal
//! block (k, k), solves with it for the perimeter (the blocks below and right of it), and subtracts the
//! products of perimeter blocks from all blocks below and right of those.
//!
//! **Who owns what:** the workers form a grid, as square as possible, that is laid over the blocks again and
//! again; who lies on a block owns it and alone writes to it. The blocks of an owner lie together in memory,
//! or else a block is a part of each of its rows, and is copied together before it is worked on.
//!
//! **One barrier per step.** The straightforward program has two: perimeter blocks wait for the factored
//! diagonal block, and the blocks inside for the perimeter. Here each worker that owns perimeter blocks
//! factors the diagonal block itself, in a private copy, which costs less than to wait for it. For that it
//! needs the block as step k-2 left it, and subtracts the product of step k-1 in its copy too. So between
//! barriers k-1 and k a worker
//!
//! 1. brings its copy of block (k, k) up to step k-1, and factors it;
//! 2. brings its blocks of perimeter k up to step k-1, and solves for them;
//! 3. brings its blocks inside up to step k-1.
//!
//! Others may read block (k, k) until barrier k, so its owner keeps the factors back and stores them after
//! that barrier, when nobody reads the block again. An element undergoes the same operations in the same
//! order, whatever the number of workers: the result is the same bit for bit.

mod layout;

use serde::Serialize;

use crate::crew::{Worker, WorkerNumber};
use crate::kernels::block::{LANES, Line, bdiv, bmod, bmodd, lines, locate, lu0};
use crate::memory::{Memory, product};
use crate::owned::{Array, Division};
use crate::program::{Program, ResultRun};
use crate::random::unit;
use crate::shared::{Private, Shared};
use crate::{Error, Result};
use layout::Layout;
pub use layout::MatrixLayout;

/// The program, with its parameters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Lu {
    size: usize,
    block: usize,
    layout: MatrixLayout,
}

impl Lu {
    /// Factors a matrix of `size × size` elements in blocks of `block × block`.
    ///
    /// # Errors
    /// If the matrix is empty, or `size` not a multiple of `block`.
    pub fn new(size: usize, block: usize) -> Result<Self> {
        if size == 0 {
            return Err(Error::Empty("--size"));
        }
        if block == 0 || !size.is_multiple_of(block) {
            return Err(Error::NotAMultiple { size, block });
        }
        Ok(Self { size, block, layout: MatrixLayout::default() })
    }

    /// The same matrix, which lies so in memory.
    #[must_use]
    pub fn laid_out(self, layout: MatrixLayout) -> Self {
        Self { layout, ..self }
    }

    /// Blocks in a row, and in a column, of the matrix.
    fn blocks(&self) -> usize {
        self.size / self.block
    }

    fn layout(&self, workers: usize) -> Layout {
        let layout = Layout::new(self.blocks(), lines(self.block) * LANES, workers);
        match self.layout {
            MatrixLayout::Blocks => layout,
            MatrixLayout::Rows => layout.by_rows(self.block),
        }
    }

    /// Elements of the array, and of a worker's copy of a block.
    fn lengths(&self) -> Result<[usize; 2]> {
        if self.layout == MatrixLayout::Rows {
            return Ok([product(&[self.size, self.size])?, lines(self.block) * LANES]);
        }
        let width = self.block.checked_next_multiple_of(LANES).ok_or(Error::TooLarge)?;
        Ok([product(&[width, self.block, self.blocks(), self.blocks()])?, 0])
    }

    /// Element (i, j) of the matrix to factor: between 0 and 1, but larger on the diagonal than its row's
    /// sum, so that no pivot comes near zero.
    fn element(&self, i: usize, j: usize) -> f64 {
        let random = unit(i * self.size + j);
        if i == j { random + self.size as f64 } else { random }
    }
}

/// What the workers share.
pub struct Blocks {
    elements: Array<f64>,
    /// Each worker owns its blocks; nobody owns anything.
    own: Division,
    read: Division,
}

/// The blocks of the shared matrix.
struct Matrix {
    elements: Shared<f64>,
    layout: Layout,
    b: usize,
}

impl Matrix {
    /// Block (i, j), to read: where it is, or together in `copy`.
    ///
    /// # Safety
    /// Its owner does not write to it while the slice lives.
    unsafe fn get<'a>(&self, i: usize, j: usize, copy: &'a mut [Line]) -> &'a [Line] {
        if !self.layout.is_by_rows() {
            // SAFETY: the caller's promise.
            return unsafe { self.elements.get(self.layout.block(i, j)) }.as_chunks().0;
        }
        for (row, run) in self.layout.runs(i, j).enumerate() {
            // SAFETY: the caller's promise.
            let run: &[f64] = unsafe { self.elements.get(run) };
            for (panel, part) in run.chunks(LANES).enumerate() {
                copy[panel * self.b + row][..part.len()].copy_from_slice(part);
            }
        }
        copy
    }

    /// Has `change` work on block (i, j), where it is, or in `copy`.
    ///
    /// # Safety
    /// The caller owns it, and nobody reads it meanwhile.
    unsafe fn change(&self, i: usize, j: usize, copy: &mut [Line], change: impl FnOnce(&mut [Line])) {
        if !self.layout.is_by_rows() {
            // SAFETY: the caller's promise.
            return change(unsafe { self.elements.get_mut(self.layout.block(i, j)) }.as_chunks_mut().0);
        }
        // SAFETY: the caller's promise.
        unsafe { self.get(i, j, copy) };
        change(copy);
        for (row, run) in self.layout.runs(i, j).enumerate() {
            // SAFETY: the caller's promise.
            let run = unsafe { self.elements.get_mut(run) };
            for (panel, part) in run.chunks_mut(LANES).enumerate() {
                part.copy_from_slice(&copy[panel * self.b + row][..part.len()]);
            }
        }
    }

    /// Subtracts the product of step k-1 from `block`, which is block (i, j) or a copy of it.
    ///
    /// # Safety
    /// Nobody writes to the blocks of perimeter k-1.
    unsafe fn update(&self, k: usize, i: usize, j: usize, block: &mut [Line], copies: [&mut [Line]; 2]) {
        if let Some(before) = k.checked_sub(1) {
            let [left, above] = copies;
            // SAFETY: the caller's promise.
            let left = unsafe { self.get(i, before, left) };
            // SAFETY: the caller's promise.
            let above = unsafe { self.get(before, j, above) };
            bmod(left, above, block, self.b);
        }
    }
}

impl Program for Lu {
    const NAME: &'static str = "lu";

    type Arrays = Blocks;
    type Element = f64;

    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Blocks> {
        let [len, _] = self.lengths()?;
        let elements = memory.array(len)?;
        let layout = self.layout(workers);
        let runs = |worker| layout.owned(worker).flat_map(|(i, j)| layout.runs(i, j));
        let own = Division::new(len, workers, runs)?;
        Ok(Blocks { elements, own, read: Division::read_by_all(len, workers) })
    }

    fn result<'a>(&self, arrays: &'a Self::Arrays) -> &'a Array<Self::Element> {
        &arrays.elements
    }

    fn result_mut<'a>(&self, arrays: &'a mut Self::Arrays) -> &'a mut Array<Self::Element> {
        &mut arrays.elements
    }

    fn owned(&self, who: WorkerNumber, _len: usize) -> Vec<ResultRun> {
        let (here, alone) = (self.layout(who.count), self.layout(1));
        let blocks = here.owned(who.index);
        let runs = blocks.flat_map(|(i, j)| here.runs(i, j).zip(alone.runs(i, j)));
        runs.map(|(range, reference)| ResultRun { range, reference: reference.start }).collect()
    }

    fn initialise(&self, worker: &mut Worker<'_>, arrays: &Blocks) -> Result<()> {
        let Blocks { elements, own, read } = arrays;
        worker.turn(&[elements.to(own)])?;
        let (b, layout) = (self.block, self.layout(worker.who().count));
        let mut runs = elements.view(worker).mine.into_iter();
        for (i, j) in layout.owned(worker.who().index) {
            let element = |row: usize, column: usize| self.element(i * b + row, j * b + column);
            if layout.is_by_rows() {
                for (row, run) in runs.by_ref().take(b).enumerate() {
                    run.iter_mut().enumerate().for_each(|(column, x)| *x = element(row, column));
                }
                continue;
            }
            let block: &mut [Line] = runs.next().unwrap_or_default().as_chunks_mut().0;
            for (row, column) in (0..b).flat_map(|row| (0..b).map(move |column| (row, column))) {
                let (line, lane) = locate(b, row, column);
                block[line][lane] = element(row, column);
            }
        }
        worker.turn(&[elements.to(read)])
    }

    fn compute(&self, worker: &mut Worker<'_>, arrays: &Blocks) -> Result<()> {
        let who = worker.who();
        let [_, copy] = self.lengths()?;
        let mut diagonal = Private::zeroed(lines(self.block) * LANES)?;
        let mut copies = [Private::zeroed(copy)?, Private::zeroed(copy)?, Private::zeroed(copy)?];
        let (elements, layout) = (arrays.elements.raw(), self.layout(who.count));
        let mut task = Task {
            matrix: Matrix { elements, layout, b: self.block },
            worker: who.index,
            blocks: self.blocks(),
            diagonal: diagonal.as_mut_slice().as_chunks_mut().0,
            copies: copies.each_mut().map(|copy| copy.as_mut_slice().as_chunks_mut().0),
        };
        for k in 0..task.blocks {
            // SAFETY: this is the time between barriers k-1 and k, and nothing here takes slices of the array
            // by its owners.
            unsafe { task.step(k) };
            if k + 1 < task.blocks {
                worker.barrier()?;
            }
            // SAFETY: barrier k is over; the last block, which has no perimeter, is read by its owner alone.
            unsafe { task.store_diagonal(k) };
        }
        worker.barrier()
    }
}

/// What a worker works with.
struct Task<'a> {
    matrix: Matrix,
    worker: usize,
    blocks: usize,
    /// The worker's copy of the step's diagonal block.
    diagonal: &'a mut [Line],
    /// Of a matrix that lies row by row: copies of the block that is worked on, and of two that are read.
    copies: [&'a mut [Line]; 3],
}

impl Task<'_> {
    /// All that the worker does between barriers k-1 and k.
    ///
    /// # Safety
    /// All workers are between these barriers. So each writes none but own blocks on and inside perimeter k,
    /// and reads others' blocks only on perimeter k-1 and at (k, k).
    unsafe fn step(&mut self, k: usize) {
        let (inside, b) = (k + 1..self.blocks, self.matrix.b);
        let below: Vec<usize> = inside.clone().filter(|&i| self.owns(i, k)).collect();
        let right: Vec<usize> = inside.clone().filter(|&j| self.owns(k, j)).collect();
        if self.owns(k, k) || !below.is_empty() || !right.is_empty() {
            let Task { matrix, diagonal, copies: [copy, left, above], .. } = self;
            // SAFETY: nobody writes block (k, k) before barrier k.
            diagonal.copy_from_slice(unsafe { matrix.get(k, k, copy) });
            // SAFETY: the caller's promise.
            unsafe { matrix.update(k, k, k, diagonal, [left, above]) };
            lu0(diagonal, b);
        }
        for i in below {
            // SAFETY: the caller's promise; the block is an own one.
            unsafe { self.advance(k, i, k, |diagonal, block| bdiv(diagonal, block, b)) };
        }
        for j in right {
            // SAFETY: the caller's promise; the block is an own one.
            unsafe { self.advance(k, k, j, |diagonal, block| bmodd(diagonal, block, b)) };
        }
        for j in inside.clone() {
            for i in inside.clone() {
                if self.owns(i, j) {
                    // SAFETY: the caller's promise; the block is an own one.
                    unsafe { self.advance(k, i, j, |_, _| ()) };
                }
            }
        }
    }

    /// Stores the factors of block (k, k), if the worker owns it.
    ///
    /// # Safety
    /// All workers have done step k, and step k+1 does not read the block.
    unsafe fn store_diagonal(&mut self, k: usize) {
        if self.owns(k, k) {
            let Task { matrix, diagonal, copies: [copy, ..], .. } = self;
            // SAFETY: the caller's promise, and the owner alone writes the block.
            unsafe { matrix.change(k, k, copy, |block| block.copy_from_slice(diagonal)) };
        }
    }

    /// Brings the own block (i, j) up to step k-1, and then does something with it and the diagonal block.
    ///
    /// # Safety
    /// As for [`Task::step`]; and the worker has no slice of the block.
    unsafe fn advance(&mut self, k: usize, i: usize, j: usize, then: impl FnOnce(&[Line], &mut [Line])) {
        let Task { matrix, diagonal, copies: [copy, left, above], .. } = self;
        let change = |block: &mut [Line]| {
            // SAFETY: the caller's promise.
            unsafe { matrix.update(k, i, j, block, [left, above]) };
            then(diagonal, block);
        };
        // SAFETY: the caller's promise.
        unsafe { matrix.change(i, j, copy, change) };
    }

    fn owns(&self, i: usize, j: usize) -> bool {
        self.matrix.layout.owner(i, j) == self.worker
    }
}

#[cfg(test)]
mod tests;
