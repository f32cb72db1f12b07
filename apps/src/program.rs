//! What a program is, and how it is run, timed and checked, whatever its mode.

use std::ops::Range;
use std::time::Instant;

use crate::Result;
use crate::crew::{Alone, Who, Worker, run_crew};
use crate::dsm;
use crate::memory::{Element, Heap, Memory};
use crate::options::{Mode, Options};
use crate::owned::Array;
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
    fn result<'a>(&self, arrays: &'a Self::Arrays) -> &'a Array<Self::Element>;

    /// The same, to read as a whole.
    fn result_mut<'a>(&self, arrays: &'a mut Self::Arrays) -> &'a mut Array<Self::Element>;

    /// The runs of the result, of `len` elements, that a worker owns. Together, the workers own everything.
    fn owned(&self, who: Who, len: usize) -> Vec<Run> {
        vec![Run::in_place(who.part(len))]
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

    /// Holds the last result to values that are published, for programs that have such.
    fn verify(&self, _arrays: &mut Self::Arrays) -> Option<bool> {
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
    let mut arrays = program.allocate(threads, &mut Heap)?;
    let timings = run_crew(&Alone, threads, options.pin, |worker| {
        work(program, worker, &arrays, options.repeat.get(), reference.as_ref())
    })?;
    let setting = Setting { program: P::NAME, mode, threads, provider: None, engine: None };
    let verified = program.verify(&mut arrays);
    Ok(Some(Report::new(setting, &[Timing::merge(&timings)], verified)))
}

/// One worker's share of all repetitions: only the computation is timed, and each result is checked by its
/// owners.
pub(crate) fn work<P: Program>(
    program: &P,
    worker: &mut Worker<'_>,
    arrays: &P::Arrays,
    repeat: usize,
    reference: Option<&Reference<P::Element>>,
) -> Result<Vec<Timing>> {
    let mut timings = Vec::new();
    for _ in 0..repeat {
        program.initialise(worker, arrays)?;
        let cost = worker.cost();
        let start = Instant::now();
        program.compute(worker, arrays)?;
        let seconds = start.elapsed().as_secs_f64();
        let cost = worker.cost().since(cost);
        let equal = reference.map(|reference| {
            let result = program.result(arrays).unowned(worker);
            let owned = program.owned(worker.who(), program.result(arrays).len());
            reference.equals(|run| result.get(run), &owned)
        });
        timings.push(Timing { seconds, equal, cost });
    }
    Ok(timings)
}

/// The result of the sequential program.
pub(crate) struct Reference<T>(Vec<T>);

impl<T: Element> Reference<T> {
    pub(crate) fn compute(program: &impl Program<Element = T>) -> Result<Self> {
        let mut arrays = program.allocate(1, &mut Heap)?;
        run_crew(&Alone, 1, false, |worker| work(program, worker, &arrays, 1, None))?;
        Ok(Self(program.result_mut(&mut arrays).whole().to_vec()))
    }

    /// The result.
    pub(crate) fn as_slice(&self) -> &[T] {
        &self.0
    }

    /// Whether the `runs` of a result have the same bits as here.
    pub(crate) fn equals<'a>(&self, result: impl Fn(Range<usize>) -> &'a [T], runs: &[Run]) -> bool
    where
        T: 'a,
    {
        runs.iter().all(|run| {
            let expected = &self.as_slice()[run.reference..][..run.range.len()];
            result(run.range.clone()).iter().zip(expected).all(|(a, b)| a.same_bits(b))
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
