//! Arrays whose runs are dealt out to whoever asks next.

use crate::Result;
use crate::counter::{Counter, CounterKind};
use crate::crew::Worker;
use crate::memory::Memory;
use crate::owned::{Array, Division};
use crate::shared::Element;
use crate::turn::Turn;

/// An array that is cut into runs. In some intervals each run belongs to the worker that has taken it, which
/// a counter decides; in others, elements have owners as those of any [`Array`].
///
/// **Why this is sound.** The counter gives a number once, until it begins again. It does so only in an
/// interval in which nothing is dealt out, and so the slices of an earlier one are gone.
pub struct Dealt<T> {
    array: Array<T>,
    /// The runs, as those of as many owners.
    runs: Division,
    counter: Counter,
}

impl<T: Element> Dealt<T> {
    /// The array, to be dealt out in the runs of a division.
    ///
    /// # Errors
    /// If there is no memory, or no lock.
    ///
    /// # Panics
    /// If the division is one of another length.
    pub fn new(array: Array<T>, runs: Division, kind: CounterKind, memory: &mut impl Memory) -> Result<Self> {
        assert_eq!(array.len(), runs.len(), "runs of the array");
        Ok(Self { array, runs, counter: Counter::new(kind, memory)? })
    }

    /// The array, for intervals in which elements have owners.
    pub fn array(&self) -> &Array<T> {
        &self.array
    }

    /// The same, to read as a whole.
    pub fn array_mut(&mut self) -> &mut Array<T> {
        &mut self.array
    }

    /// From now on, runs belong to those who take them: for [`Worker::turn`].
    pub fn to_takers(&self) -> Turn<'_> {
        Turn::new(&self.array, None)
    }

    /// The runs are dealt out from the first one on again, after the next turn. One worker makes the call.
    ///
    /// # Errors
    /// A rank is gone.
    ///
    /// # Panics
    /// If they are being dealt out.
    pub fn begin_again(&self, worker: &Worker<'_>) -> Result<()> {
        // Only what has owners has unowned elements.
        let _ = self.array.unowned(worker);
        self.counter.begin_again()
    }

    /// Takes the next run, and says which one it is, if there is one.
    ///
    /// # Errors
    /// A rank is gone.
    ///
    /// # Panics
    /// If elements have owners.
    #[expect(clippy::mut_from_ref, reason = "the counter gives each run to one worker")]
    pub fn take<'a>(&'a self, worker: &'a Worker<'_>) -> Result<Option<(usize, &'a mut [T])>> {
        self.array.check_held(worker);
        let number = self.counter.next()?;
        if number >= self.runs.owners() {
            return Ok(None);
        }
        let slice = |run: &std::ops::Range<usize>| {
            // SAFETY: nobody else is given the number before the next turn, for which the worker is borrowed
            // mutably; and runs of a division are disjoint.
            unsafe { self.array.raw().get_mut(run.clone()) }
        };
        Ok(Some((number, self.runs.of(number).first().map(slice).unwrap_or_default())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crew::tests::within_a_minute;
    use crate::crew::{Sequential, run_crew};
    use crate::memory::Heap;

    #[test]
    fn every_run_is_dealt_once_each_time() {
        within_a_minute(|| {
            let runs = Division::new(7, 4, |run| Some(2 * run..(2 * run + 2).min(7))).unwrap();
            let dealt = Dealt::new(Heap.array(7).unwrap(), runs, CounterKind::Atomic, &mut Heap).unwrap();
            let own = Division::even(7, 3);
            run_crew(&Sequential, 3, false, |worker| {
                worker.turn(&[dealt.array().to(&own)])?;
                dealt.array().mine(worker).fill(0usize);
                for _ in 0..5 {
                    if worker.who().index == 1 {
                        dealt.begin_again(worker)?;
                    }
                    worker.turn(&[dealt.to_takers()])?;
                    while let Some((number, run)) = dealt.take(worker)? {
                        run.iter_mut().for_each(|x| *x += number + 1);
                    }
                    worker.turn(&[dealt.array().to(&own)])?;
                }
                worker.turn(&[dealt.array().to(&Division::read_by_all(7, 3))])?;
                assert_eq!(dealt.array().get(worker, 0..7), [5, 5, 10, 10, 15, 15, 20]);
                Ok(())
            })
            .unwrap();
        });
    }

    #[test]
    #[should_panic(expected = "without their locks")]
    fn a_counter_does_not_begin_again_while_runs_are_taken() {
        let runs = Division::even(4, 2);
        let dealt = Dealt::<u32>::new(Heap.array(4).unwrap(), runs, CounterKind::Lock, &mut Heap).unwrap();
        let _ = run_crew(&Sequential, 1, false, |worker| {
            worker.turn(&[dealt.to_takers()])?;
            dealt.begin_again(worker)
        });
    }
}
