//! LU: SPLASH-2's blocked LU factorisation without pivoting, with contiguous blocks.
//!
//! A dense `size × size` matrix, cut into square blocks, becomes `L·U` in place. Step k factors the diagonal
//! block (k, k), solves with it for the perimeter (the blocks below and right of it), and subtracts the
//! products of perimeter blocks from all blocks below and right of those.
//!
//! **Who owns what:** the workers form a grid, as square as possible, that is laid over the blocks again and
//! again; who lies on a block owns it and alone writes to it. The blocks of an owner lie together in memory.
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

/// The program, with its parameters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Lu {
    size: usize,
    block: usize,
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
        Ok(Self { size, block })
    }

    /// Blocks in a row, and in a column, of the matrix.
    fn blocks(&self) -> usize {
        self.size / self.block
    }

    fn matrix(&self, who: WorkerNumber, elements: Shared<f64>) -> Matrix {
        Matrix { elements, layout: Layout::new(self.blocks(), lines(self.block) * LANES, who.count) }
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
}

impl Matrix {
    /// Block (i, j), to read.
    ///
    /// # Safety
    /// Its owner does not write to it while the slice lives.
    unsafe fn get<'a>(&self, i: usize, j: usize) -> &'a [Line] {
        // SAFETY: the caller's promise.
        unsafe { self.elements.get(self.layout.block(i, j)) }.as_chunks().0
    }

    /// Subtracts the product of step k-1 from `block`, which is block (i, j) or a copy of it.
    ///
    /// # Safety
    /// Nobody writes to the blocks of perimeter k-1.
    unsafe fn update(&self, k: usize, i: usize, j: usize, block: &mut [Line], b: usize) {
        if let Some(before) = k.checked_sub(1) {
            // SAFETY: the caller's promise.
            let left = unsafe { self.get(i, before) };
            // SAFETY: the caller's promise.
            let above = unsafe { self.get(before, j) };
            bmod(left, above, block, b);
        }
    }

    /// Block (i, j), to write.
    ///
    /// # Safety
    /// The caller owns it, and nobody reads it while the slice lives.
    unsafe fn get_mut<'a>(&self, i: usize, j: usize) -> &'a mut [Line] {
        // SAFETY: the caller's promise.
        unsafe { self.elements.get_mut(self.layout.block(i, j)) }.as_chunks_mut().0
    }
}

impl Program for Lu {
    const NAME: &'static str = "lu";

    type Arrays = Blocks;
    type Element = f64;

    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Blocks> {
        let width = self.block.checked_next_multiple_of(LANES).ok_or(Error::TooLarge)?;
        let len = product(&[width, self.block, self.blocks(), self.blocks()])?;
        let elements = memory.array(len)?;
        let layout = Layout::new(self.blocks(), lines(self.block) * LANES, workers);
        let blocks = |worker| layout.owned(worker).map(|(i, j)| layout.block(i, j));
        let own = Division::new(len, workers, blocks)?;
        Ok(Blocks { elements, own, read: Division::read_by_all(len, workers) })
    }

    fn result<'a>(&self, arrays: &'a Self::Arrays) -> &'a Array<Self::Element> {
        &arrays.elements
    }

    fn result_mut<'a>(&self, arrays: &'a mut Self::Arrays) -> &'a mut Array<Self::Element> {
        &mut arrays.elements
    }

    fn owned(&self, who: WorkerNumber, _len: usize) -> Vec<ResultRun> {
        let here = Layout::new(self.blocks(), lines(self.block) * LANES, who.count);
        let alone = Layout::new(self.blocks(), lines(self.block) * LANES, 1);
        let runs = here.owned(who.index);
        runs.map(|(i, j)| ResultRun { range: here.block(i, j), reference: alone.block(i, j).start }).collect()
    }

    fn initialise(&self, worker: &mut Worker<'_>, arrays: &Blocks) -> Result<()> {
        let Blocks { elements, own, read } = arrays;
        worker.turn(&[elements.to(own)])?;
        let matrix = self.matrix(worker.who(), elements.raw());
        let (b, blocks) = (self.block, matrix.layout.owned(worker.who().index));
        for ((i, j), block) in blocks.zip(elements.view(worker).mine) {
            let block: &mut [Line] = block.as_chunks_mut().0;
            for row in 0..b {
                for column in 0..b {
                    let (line, lane) = locate(b, row, column);
                    block[line][lane] = self.element(i * b + row, j * b + column);
                }
            }
        }
        worker.turn(&[elements.to(read)])
    }

    fn compute(&self, worker: &mut Worker<'_>, arrays: &Blocks) -> Result<()> {
        let who = worker.who();
        let mut diagonal = Private::zeroed(lines(self.block) * LANES)?;
        let mut task = Task {
            matrix: self.matrix(who, arrays.elements.raw()),
            worker: who.index,
            blocks: self.blocks(),
            b: self.block,
            diagonal: diagonal.as_mut_slice().as_chunks_mut().0,
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
    b: usize,
    /// The worker's copy of the step's diagonal block.
    diagonal: &'a mut [Line],
}

impl Task<'_> {
    /// All that the worker does between barriers k-1 and k.
    ///
    /// # Safety
    /// All workers are between these barriers. So each writes none but own blocks on and inside perimeter k,
    /// and reads others' blocks only on perimeter k-1 and at (k, k).
    unsafe fn step(&mut self, k: usize) {
        let inside = k + 1..self.blocks;
        let below: Vec<usize> = inside.clone().filter(|&i| self.owns(i, k)).collect();
        let right: Vec<usize> = inside.clone().filter(|&j| self.owns(k, j)).collect();
        if self.owns(k, k) || !below.is_empty() || !right.is_empty() {
            // SAFETY: nobody writes block (k, k) before barrier k.
            self.diagonal.copy_from_slice(unsafe { self.matrix.get(k, k) });
            // SAFETY: the caller's promise.
            unsafe { self.matrix.update(k, k, k, self.diagonal, self.b) };
            lu0(self.diagonal, self.b);
        }
        for i in below {
            // SAFETY: the caller's promise; the block is an own one.
            bdiv(self.diagonal, unsafe { self.advance(k, i, k) }, self.b);
        }
        for j in right {
            // SAFETY: the caller's promise; the block is an own one.
            bmodd(self.diagonal, unsafe { self.advance(k, k, j) }, self.b);
        }
        for j in inside.clone() {
            for i in inside.clone().filter(|&i| self.owns(i, j)) {
                // SAFETY: the caller's promise; the block is an own one.
                unsafe { self.advance(k, i, j) };
            }
        }
    }

    /// Stores the factors of block (k, k), if the worker owns it.
    ///
    /// # Safety
    /// All workers have done step k, and step k+1 does not read the block.
    unsafe fn store_diagonal(&mut self, k: usize) {
        if self.owns(k, k) {
            // SAFETY: the caller's promise, and the owner alone writes the block.
            unsafe { self.matrix.get_mut(k, k) }.copy_from_slice(self.diagonal);
        }
    }

    /// Brings the own block (i, j) up to step k-1.
    ///
    /// # Safety
    /// As for [`Task::step`]; and the worker has no other slice of the block.
    unsafe fn advance<'b>(&self, k: usize, i: usize, j: usize) -> &'b mut [Line] {
        // SAFETY: the caller's promise.
        let block = unsafe { self.matrix.get_mut(i, j) };
        // SAFETY: the caller's promise.
        unsafe { self.matrix.update(k, i, j, block, self.b) };
        block
    }

    fn owns(&self, i: usize, j: usize) -> bool {
        self.matrix.layout.owner(i, j) == self.worker
    }
}

#[cfg(test)]
mod tests;
