//! A worker's repetitions of a program, whatever its mode: they are timed, and their results are checked.

use std::ops::Range;
use std::time::Instant;

use crate::Result;
use crate::crew::{Sequential, Worker, run_crew};
use crate::memory::Heap;
use crate::program::{Program, ResultRun};
use crate::report::Timing;
use crate::shared::Element;

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
        run_crew(&Sequential, 1, false, |worker| work(program, worker, &arrays, 1, None))?;
        Ok(Self(program.result_mut(&mut arrays).whole().to_vec()))
    }

    /// The result.
    pub(crate) fn as_slice(&self) -> &[T] {
        &self.0
    }

    /// Whether the `runs` of a result have the same bits as here.
    pub(crate) fn equals<'a>(&self, result: impl Fn(Range<usize>) -> &'a [T], runs: &[ResultRun]) -> bool
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
