//! Arrays that are cut into runs of several lengths, each behind a lock.

use crate::Result;
use crate::crew::Worker;
use crate::lock::{Guard, Lock};
use crate::owned::{Array, Division};
use crate::shared::Element;
use crate::turn::Turn;

/// An array that is cut into runs. In some intervals whoever has a run's lock uses it, which may be the lock
/// of other runs too; in others, elements have owners as those of any [`Array`].
pub struct LockedRuns<T> {
    array: Array<T>,
    /// The runs, as those of as many owners.
    runs: Division,
    locks: Vec<Lock>,
}

impl<T: Element> LockedRuns<T> {
    /// The array, with the runs of a division, which have these locks in turns.
    ///
    /// # Panics
    /// If the division is one of another length; if there are runs and no locks.
    pub fn new(array: Array<T>, runs: Division, locks: Vec<Lock>) -> Self {
        assert_eq!(array.len(), runs.len(), "runs of the array");
        assert!(runs.owners() == 0 || !locks.is_empty(), "a lock for each run");
        Self { array, runs, locks }
    }

    /// The array, for intervals in which elements have owners.
    pub fn array(&self) -> &Array<T> {
        &self.array
    }

    /// The same, to read as a whole.
    pub fn array_mut(&mut self) -> &mut Array<T> {
        &mut self.array
    }

    /// From now on, whoever has a run's lock uses it: for [`Worker::turn`].
    pub fn to_holders(&self) -> Turn<'_> {
        Turn::new(&self.array, None)
    }

    /// Waits until no other worker has the run, nor another one with the same lock, and gives access to it. A
    /// worker that has the lock already waits for itself.
    ///
    /// # Errors
    /// A rank is gone.
    ///
    /// # Panics
    /// If this is no interval of locks, or there is no such run.
    pub fn lock<'a>(&'a self, worker: &'a Worker<'_>, number: usize) -> Result<Guard<'a, [T]>> {
        self.array.check_held(worker);
        let held = self.locks[number % self.locks.len()].hold()?;
        let slice = |run: &std::ops::Range<usize>| {
            // SAFETY: until the next turn, for which the worker is borrowed mutably, only who has the lock
            // uses the run; and runs of a division are disjoint.
            unsafe { self.array.raw().get_mut(run.clone()) }
        };
        Ok(Guard::new(self.runs.of(number).first().map(slice).unwrap_or_default(), held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crew::tests::within_a_minute;
    use crate::crew::{Sequential, run_crew};
    use crate::memory::{Heap, Memory};

    #[test]
    fn nothing_that_workers_add_to_a_run_is_lost() {
        within_a_minute(|| {
            let runs =
                Division::new(6, 3, |run| Some(run * (run + 1) / 2..(run + 1) * (run + 2) / 2)).unwrap();
            let locks = Heap.locks(2).unwrap();
            let mut all = LockedRuns::<usize>::new(Heap.array(6).unwrap(), runs, locks);
            run_crew(&Sequential, 4, false, |worker| {
                worker.turn(&[all.to_holders()])?;
                for number in (0..300).map(|at| at % 3) {
                    let mut run = all.lock(worker, number)?;
                    assert_eq!(run.len(), number + 1);
                    let before = run.to_vec();
                    std::thread::yield_now();
                    run.iter_mut().zip(before).for_each(|(x, before)| *x = before + 1);
                }
                worker.turn(&[all.array().to(&Division::read_by_all(6, 4))])
            })
            .unwrap();
            assert_eq!(all.array_mut().whole(), [400; 6]);
        });
    }
}
