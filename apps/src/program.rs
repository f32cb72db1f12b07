//! What a program is.

use std::ops::Range;

use crate::Result;
use crate::crew::{Worker, WorkerNumber};
use crate::memory::Memory;
use crate::owned::Array;
use crate::shared::Element;

/// A computation on shared arrays that any number of workers divide between them.
pub trait Program: Sync {
    /// Its name in reports.
    const NAME: &'static str;

    /// The arrays that its workers share.
    type Arrays: Sync;

    /// What the result consists of.
    type Element: Element;

    /// Takes the arrays from `memory`, for that many workers.
    ///
    /// # Errors
    /// If they are more than an address space, or the memory, holds.
    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Self::Arrays>;

    /// The array that has the result. It is as long for any number of workers.
    fn result<'a>(&self, arrays: &'a Self::Arrays) -> &'a Array<Self::Element>;

    /// The same, to read as a whole.
    fn result_mut<'a>(&self, arrays: &'a mut Self::Arrays) -> &'a mut Array<Self::Element>;

    /// The runs of the result, of `len` elements, that a worker owns. Together, the workers own everything.
    fn owned(&self, who: WorkerNumber, len: usize) -> Vec<ResultRun> {
        vec![ResultRun::in_place(who.part(len))]
    }

    /// Writes the initial values of all that the worker owns, in all arrays. All workers make the call; it
    /// begins and ends with a barrier.
    ///
    /// # Errors
    /// If a barrier fails.
    fn initialise(&self, worker: &mut Worker<'_>, arrays: &Self::Arrays) -> Result<()>;

    /// Does the worker's part of the computation, after all initialised theirs. All workers make the call; it
    /// ends with a barrier, after which nobody owns the result.
    ///
    /// # Errors
    /// If a barrier fails.
    fn compute(&self, worker: &mut Worker<'_>, arrays: &Self::Arrays) -> Result<()>;

    /// Does what is left to do with the last result, in the process that reports.
    ///
    /// # Errors
    /// If that cannot be done.
    fn finish(&self, _arrays: &mut Self::Arrays) -> Result<()> {
        Ok(())
    }

    /// Holds the last result to values that are published, for programs that have such.
    fn verify(&self, _arrays: &mut Self::Arrays) -> Option<bool> {
        None
    }
}

/// Neighbouring elements of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultRun {
    /// Where they are.
    pub range: Range<usize>,
    /// Where the first of them is if a single worker computes the result.
    pub reference: usize,
}

impl ResultRun {
    /// Elements that are at the same place if a single worker computes the result.
    pub fn in_place(range: Range<usize>) -> Self {
        Self { reference: range.start, range }
    }
}
