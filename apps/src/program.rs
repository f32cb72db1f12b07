//! What a program is, and how it is run, timed and checked, whatever its mode.

use std::ops::Range;
use std::time::Instant;

use crate::Result;
use crate::crew::{Alone, Who, Worker, run_crew};
use crate::dsm;
use crate::memory::{Private, Shared};
use crate::options::{Mode, Options};
use crate::report::{Report, Setting, Timing};

/// A computation on shared arrays that any number of workers divide between them.
pub trait Program: Sync {
    /// Its name in reports.
    const NAME: &'static str;

    /// How many elements each of its arrays has. The last arguments of the methods below have the same order.
    ///
    /// # Errors
    /// If they are more than an address space holds.
    fn arrays(&self) -> Result<Vec<usize>>;

    /// Which array has the result.
    fn result(&self) -> usize;

    /// The runs of the result that a worker owns: it alone writes to them. Together, the workers own everything.
    fn owned(&self, who: Who) -> Vec<Run>;

    /// Writes the initial values of all that the worker owns, in all arrays.
    ///
    /// # Safety
    /// The arrays are those of [`Program::arrays`], and from the last barrier to the next, nobody but the
    /// [`Program`]'s workers, each with its own `who`, uses them.
    unsafe fn initialise(&self, who: Who, arrays: &[Shared]);

    /// Does the worker's part of the computation, after all initialised theirs and met. Ends with a barrier.
    ///
    /// # Safety
    /// As for [`Program::initialise`], until the call returns; and all workers make the call.
    ///
    /// # Errors
    /// If a barrier fails.
    unsafe fn compute(&self, worker: &Worker<'_>, arrays: &[Shared]) -> Result<()>;
}

/// Neighbouring elements of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where they are.
    pub range: Range<usize>,
    /// Where the first of them is if a single worker computes the result.
    pub reference: usize,
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
    let mut memory = allocate(program)?;
    let arrays: Vec<Shared> = memory.iter_mut().map(Private::share).collect();
    let timings = run_crew(&Alone, threads, options.pin, |worker| {
        // SAFETY: the threads made here are all workers, nobody else knows the arrays, and `memory` lives on.
        unsafe { work(program, worker, &arrays, options.repeat.get(), reference.as_ref()) }
    })?;
    let setting = Setting { program: P::NAME, mode, threads, provider: None, engine: None };
    Ok(Some(Report::new(setting, &[Timing::merge(&timings)])))
}

/// Memory of this process for the program's arrays.
fn allocate(program: &impl Program) -> Result<Vec<Private>> {
    program.arrays()?.into_iter().map(Private::zeroed).collect()
}

/// One worker's share of all repetitions: only the computation is timed, and each result is checked by its owners.
///
/// # Safety
/// As for [`Program::compute`].
pub(crate) unsafe fn work<P: Program>(
    program: &P,
    worker: &Worker<'_>,
    arrays: &[Shared],
    repeat: usize,
    reference: Option<&Reference>,
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
            let owned = program.owned(worker.who());
            // SAFETY: after the barrier that ended the computation, only the owner writes to these runs: we.
            unsafe { reference.equals(arrays[program.result()], &owned) }
        });
        timings.push(Timing { seconds, equal, cost });
    }
    Ok(timings)
}

/// The result of the sequential program.
pub(crate) struct Reference(Private);

impl Reference {
    pub(crate) fn compute(program: &impl Program) -> Result<Self> {
        let mut memory = allocate(program)?;
        let arrays: Vec<Shared> = memory.iter_mut().map(Private::share).collect();
        run_crew(&Alone, 1, false, |worker| {
            // SAFETY: a single worker has the arrays to itself, and `memory` lives on.
            unsafe { work(program, worker, &arrays, 1, None) }
        })?;
        Ok(Self(memory.swap_remove(program.result())))
    }

    /// Whether the `runs` of `result` have the same bits as here.
    ///
    /// # Safety
    /// The array is there, and nobody writes to these runs meanwhile.
    pub(crate) unsafe fn equals(&self, result: Shared, runs: &[Run]) -> bool {
        runs.iter().all(|run| {
            let expected = &self.0.as_slice()[run.reference..][..run.range.len()];
            // SAFETY: the caller's promise.
            let actual = unsafe { result.get(run.range.clone()) };
            actual.iter().zip(expected).all(|(a, b)| a.to_bits() == b.to_bits())
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
