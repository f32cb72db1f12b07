//! What a program is, and how it is run, timed and checked, whatever its mode.

use std::ops::Range;
use std::time::Instant;

use crate::crew::{Solo, Who, Worker, run_threads};
use crate::memory::{Private, Shared};
use crate::options::{Mode, Options};
use crate::report::{Report, Timing};
use crate::{Error, Result};

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
    unsafe fn compute(&self, worker: &mut impl Worker, arrays: &[Shared]) -> Result<()>;
}

/// Neighbouring elements of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where they are.
    pub range: Range<usize>,
    /// Where the first of them is if a single worker computes the result.
    pub reference: usize,
}

/// Runs the program as the options say.
///
/// # Errors
/// If there is not enough memory, or the mode is not to be had.
pub fn run<P: Program>(program: &P, options: &Options) -> Result<Report> {
    let reference = if options.check { Some(Reference::compute(program)?) } else { None };
    let reference = reference.as_ref();
    let repeat = options.repeat.get();
    match options.mode() {
        Mode::Sequential => {
            let mut memory = allocate(program)?;
            let arrays: Vec<Shared> = memory.iter_mut().map(Private::share).collect();
            // SAFETY: a single worker has the arrays to itself, and `memory` lives on.
            let timings = unsafe { work(program, &mut Solo, &arrays, repeat, reference) }?;
            Ok(Report::of_one_process(P::NAME, "sequential", &[timings]))
        }
        Mode::Threads(count) => {
            let mut memory = allocate(program)?;
            let arrays: Vec<Shared> = memory.iter_mut().map(Private::share).collect();
            let timings = run_threads(count.get(), options.pin, |worker| {
                // SAFETY: the threads made here are the workers, nobody else knows the arrays, and `memory` lives on.
                unsafe { work(program, worker, &arrays, repeat, reference) }
            })?;
            Ok(Report::of_one_process(P::NAME, "threads", &timings))
        }
        Mode::Dsm => Err(Error::NoLauncher { program: P::NAME }),
    }
}

/// Memory of this process for the program's arrays.
fn allocate(program: &impl Program) -> Result<Vec<Private>> {
    program.arrays()?.into_iter().map(Private::zeroed).collect()
}

/// One worker's share of all repetitions: only the computation is timed, and each result is checked by its owners.
///
/// # Safety
/// As for [`Program::compute`].
unsafe fn work<P: Program>(
    program: &P,
    worker: &mut impl Worker,
    arrays: &[Shared],
    repeat: usize,
    reference: Option<&Reference>,
) -> Result<Vec<Timing>> {
    let mut timings = Vec::with_capacity(repeat);
    for _ in 0..repeat {
        // SAFETY: the caller's promise.
        unsafe { program.initialise(worker.who(), arrays) };
        worker.barrier()?;
        let start = Instant::now();
        // SAFETY: the caller's promise.
        unsafe { program.compute(worker, arrays) }?;
        let seconds = start.elapsed().as_secs_f64();
        let equal = reference.map(|reference| {
            let owned = program.owned(worker.who());
            // SAFETY: after the barrier that ended the computation, only the owner writes to these runs: we.
            unsafe { reference.equals(arrays[program.result()], &owned) }
        });
        timings.push(Timing { seconds, equal });
    }
    Ok(timings)
}

/// The result of the sequential program.
struct Reference(Private);

impl Reference {
    fn compute(program: &impl Program) -> Result<Self> {
        let mut memory = allocate(program)?;
        let arrays: Vec<Shared> = memory.iter_mut().map(Private::share).collect();
        // SAFETY: a single worker has the arrays to itself, and `memory` lives on.
        unsafe { work(program, &mut Solo, &arrays, 1, None) }?;
        Ok(Self(memory.swap_remove(program.result())))
    }

    /// Whether the `runs` of `result` have the same bits as here.
    ///
    /// # Safety
    /// The array is there, and nobody writes to these runs meanwhile.
    unsafe fn equals(&self, result: Shared, runs: &[Run]) -> bool {
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
