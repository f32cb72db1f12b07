//! What a program is, and how it is run, timed and checked, whatever its mode.

use std::ops::Range;
use std::time::Instant;

use crate::Result;
use crate::crew::{Alone, Who, Worker, run_crew};
use crate::dsm;
use crate::memory::{Element, Heap, Memory, Shared};
use crate::options::{Mode, Options};
use crate::report::{Report, Setting, Timing};

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
    fn result(&self, arrays: &Self::Arrays) -> Shared<Self::Element>;

    /// The runs of the result, of `len` elements, that a worker owns: after the computation nobody else writes to them
    /// before the next barrier. Together, the workers own everything.
    fn owned(&self, who: Who, len: usize) -> Vec<Run> {
        vec![Run::in_place(who.part(len))]
    }

    /// Writes the initial values of all that the worker owns, in all arrays.
    ///
    /// # Safety
    /// The arrays are those of [`Program::allocate`], and from the last barrier to the next, nobody but the
    /// [`Program`]'s workers, each with its own `who`, uses them.
    unsafe fn initialise(&self, who: Who, arrays: &Self::Arrays);

    /// Does the worker's part of the computation, after all initialised theirs and met. Ends with a barrier.
    ///
    /// # Safety
    /// As for [`Program::initialise`], until the call returns; and all workers make the call.
    ///
    /// # Errors
    /// If a barrier fails.
    unsafe fn compute(&self, worker: &Worker<'_>, arrays: &Self::Arrays) -> Result<()>;

    /// Holds the last result to values that are published, for programs that have such.
    ///
    /// # Safety
    /// The arrays are those of [`Program::allocate`], and nobody writes to them.
    unsafe fn verify(&self, _arrays: &Self::Arrays) -> Option<bool> {
        None
    }
}

/// Neighbouring elements of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where they are.
    pub range: Range<usize>,
    /// Where the first of them is if a single worker computes the result.
    pub reference: usize,
}

impl Run {
    /// Elements that are at the same place if a single worker computes the result.
    pub fn in_place(range: Range<usize>) -> Self {
        Self { reference: range.start, range }
    }
}

/// Runs the program as the options say. All ranks of a job but one have nothing to report.
///
/// # Errors
/// If there is not enough memory, or the mode is not to be had.
pub fn run<P: Program>(program: &P, options: &Options) -> Result<Option<Report>> {
    let (mode, threads) = match options.mode() {
        Mode::Dsm => return dsm::run(program, options),
        Mode::Sequential => ("sequential", 1),
        Mode::Threads(count) => ("threads", count.get()),
    };
    let reference = if options.check { Some(Reference::compute(program)?) } else { None };
    let mut heap = Heap::default();
    let arrays = program.allocate(threads, &mut heap)?;
    let timings = run_crew(&Alone, threads, options.pin, |worker| {
        // SAFETY: the threads made here are all workers, nobody else knows the arrays, and `heap` lives on.
        unsafe { work(program, worker, &arrays, options.repeat.get(), reference.as_ref()) }
    })?;
    let setting = Setting { program: P::NAME, mode, threads, provider: None, engine: None };
    // SAFETY: the workers are done.
    let verified = unsafe { program.verify(&arrays) };
    Ok(Some(Report::new(setting, &[Timing::merge(&timings)], verified)))
}

/// One worker's share of all repetitions: only the computation is timed, and each result is checked by its owners.
///
/// # Safety
/// As for [`Program::compute`].
pub(crate) unsafe fn work<P: Program>(
    program: &P,
    worker: &Worker<'_>,
    arrays: &P::Arrays,
    repeat: usize,
    reference: Option<&Reference<P::Element>>,
) -> Result<Vec<Timing>> {
    let mut timings = Vec::new();
    for _ in 0..repeat {
        // SAFETY: the caller's promise.
        unsafe { program.initialise(worker.who(), arrays) };
        worker.barrier()?;
        let cost = worker.cost();
        let start = Instant::now();
        // SAFETY: the caller's promise.
        unsafe { program.compute(worker, arrays) }?;
        let seconds = start.elapsed().as_secs_f64();
        let cost = worker.cost().since(cost);
        let equal = reference.map(|reference| {
            let result = program.result(arrays);
            let owned = program.owned(worker.who(), result.len());
            // SAFETY: after the barrier that ended the computation, only the owner writes to these runs: we.
            unsafe { reference.equals(result, &owned) }
        });
        timings.push(Timing { seconds, equal, cost });
    }
    Ok(timings)
}

/// The result of the sequential program.
pub(crate) struct Reference<T> {
    result: Shared<T>,
    /// Where the result is.
    _heap: Heap,
}

impl<T: Element> Reference<T> {
    pub(crate) fn compute(program: &impl Program<Element = T>) -> Result<Self> {
        let mut heap = Heap::default();
        let arrays = program.allocate(1, &mut heap)?;
        run_crew(&Alone, 1, false, |worker| {
            // SAFETY: a single worker has the arrays to itself, and `heap` lives on.
            unsafe { work(program, worker, &arrays, 1, None) }
        })?;
        Ok(Self { result: program.result(&arrays), _heap: heap })
    }

    /// The result.
    pub(crate) fn as_slice(&self) -> &[T] {
        // SAFETY: its only worker is done, and `_heap` is still there.
        unsafe { self.result.get(0..self.result.len()) }
    }

    /// Whether the `runs` of `result` have the same bits as here.
    ///
    /// # Safety
    /// The array is there, and nobody writes to these runs meanwhile.
    pub(crate) unsafe fn equals(&self, result: Shared<T>, runs: &[Run]) -> bool {
        runs.iter().all(|run| {
            let expected = &self.as_slice()[run.reference..][..run.range.len()];
            // SAFETY: the caller's promise.
            let actual = unsafe { result.get(run.range.clone()) };
            actual.iter().zip(expected).all(|(a, b)| a.same_bits(b))
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
