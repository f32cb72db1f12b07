//! Arrays whose runs are dealt out to whoever asks next.

use std::ops::Range;

use crate::Result;
use crate::crew::Worker;
use crate::owned::{Array, Division};
use crate::queues::Queues;
use crate::shared::Element;
use crate::turn::Turn;

/// An array that is cut into runs. In some intervals each run belongs to the worker that has taken it, which
/// [`Queues`] decide; in others, elements have owners as those of any [`Array`]. An array may have several
/// rounds of runs, one behind the other, which are dealt out in different intervals.
///
/// **Why this is sound.** The queues give a number once, until they are filled again. That is so only in an
/// interval in which nothing is dealt out, and so the slices of an earlier one are gone. Of two numbers, the
/// runs are disjoint, in whichever rounds.
pub struct Dealt<T> {
    array: Array<T>,
    /// The runs of a round, as those of as many owners.
    runs: Division,
    queues: Queues,
}

impl<T: Element> Dealt<T> {
    /// The array, to be dealt out in the runs of a division, as often as they fit in it.
    ///
    /// # Panics
    /// If they do not fit, or the queues have other numbers.
    pub fn new(array: Array<T>, runs: Division, queues: Queues) -> Self {
        assert!(!runs.is_empty() && array.len().is_multiple_of(runs.len()), "rounds of runs in the array");
        assert_eq!(runs.owners(), queues.len(), "a number for each run");
        Self { array, runs, queues }
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

    /// The runs are dealt out again, after the next turn. All workers make the call.
    ///
    /// # Errors
    /// A rank is gone.
    ///
    /// # Panics
    /// If they are being dealt out.
    pub fn begin_again(&self, worker: &Worker<'_>) -> Result<()> {
        // Only what has owners has unowned elements.
        let _ = self.array.unowned(worker);
        self.queues.refill(worker.who())
    }

    /// The runs of a round that the worker takes, until there are none.
    ///
    /// # Panics
    /// If elements have owners; if there is no such round.
    pub fn take<'a>(&'a self, worker: &'a Worker<'_>, round: usize) -> Taken<'a, T> {
        self.array.check_held(worker);
        assert!(round < self.array.len() / self.runs.len(), "round {round} of an array of fewer");
        Taken { dealt: self, worker, start: round * self.runs.len(), empty: 0 }
    }
}

/// Runs of an array, each of which is taken when it is asked for: its number, and its elements.
pub struct Taken<'a, T> {
    dealt: &'a Dealt<T>,
    worker: &'a Worker<'a>,
    /// Where the round begins.
    start: usize,
    /// Queues in which nothing is left.
    empty: usize,
}

impl<'a, T: Element> Iterator for Taken<'a, T> {
    type Item = Result<(usize, &'a mut [T])>;

    fn next(&mut self) -> Option<Self::Item> {
        let Dealt { array, runs, queues } = self.dealt;
        let slice = |run: &Range<usize>| {
            // SAFETY: nobody else is given the number before the next turn, for which the worker is borrowed
            // mutably; and runs of a division are disjoint, also if one is of another round.
            unsafe { array.raw().get_mut(self.start + run.start..self.start + run.end) }
        };
        let run = |number: usize| (number, runs.of(number).first().map(slice).unwrap_or_default());
        let taken = queues.take(self.worker.who(), &mut self.empty).transpose()?;
        Some(taken.map(run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counter::CounterKind;
    use crate::crew::tests::within_a_minute;
    use crate::crew::{Sequential, run_crew};
    use crate::memory::{Heap, Memory};
    use crate::queues::Stealing;

    #[test]
    fn every_run_is_dealt_once_each_time() {
        within_a_minute(|| {
            for stealing in [Stealing::On, Stealing::Off] {
                let runs = Division::new(7, 4, |run| Some(2 * run..(2 * run + 2).min(7))).unwrap();
                let queues = Queues::of_each(4, 3, stealing, CounterKind::Atomic, &mut Heap).unwrap();
                let dealt = Dealt::new(Heap.array(14).unwrap(), runs, queues);
                let own = Division::even(14, 3);
                run_crew(&Sequential, 3, false, |worker| {
                    worker.turn(&[dealt.array().to(&own)])?;
                    dealt.array().mine(worker).fill(0usize);
                    for time in 0..10 {
                        dealt.begin_again(worker)?;
                        worker.turn(&[dealt.to_takers()])?;
                        for taken in dealt.take(worker, time % 2) {
                            let (number, run) = taken?;
                            run.iter_mut().for_each(|x| *x += 10 * (time % 2) + number + 1);
                        }
                        worker.turn(&[dealt.array().to(&own)])?;
                    }
                    worker.turn(&[dealt.array().to(&Division::read_by_all(14, 3))])?;
                    let [first, second] = [0..7, 7..14].map(|round| dealt.array().get(worker, round));
                    assert_eq!(first, [5, 5, 10, 10, 15, 15, 20]);
                    assert_eq!(second, [55, 55, 60, 60, 65, 65, 70]);
                    Ok(())
                })
                .unwrap();
            }
        });
    }

    fn in_two_runs() -> Dealt<u32> {
        let queues = Queues::one(2, CounterKind::Lock, &mut Heap).unwrap();
        Dealt::new(Heap.array(4).unwrap(), Division::even(4, 2), queues)
    }

    #[test]
    #[should_panic(expected = "without their locks")]
    fn queues_are_not_filled_again_while_runs_are_taken() {
        let dealt = in_two_runs();
        let _ = run_crew(&Sequential, 1, false, |worker| {
            worker.turn(&[dealt.to_takers()])?;
            dealt.begin_again(worker)
        });
    }

    #[test]
    #[should_panic(expected = "round 1 of an array of fewer")]
    fn there_are_no_more_rounds_than_fit_in_the_array() {
        let dealt = in_two_runs();
        let _ = run_crew(&Sequential, 1, false, |worker| {
            worker.turn(&[dealt.to_takers()])?;
            Ok(dealt.take(worker, 1).count())
        });
    }
}
