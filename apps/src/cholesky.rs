//! CHOLESKY: a sparse symmetric matrix becomes `L·Lᵀ`. It is that of a grid whose neighbours are connected.
//!
//! The points are eliminated in the order of a nested dissection, a *front* of them at a time (the method is
//! called multifrontal). A front is a small dense matrix of its columns and of the rows that they change. It
//! takes over what the fronts below have changed, eliminates its columns, and keeps what it has changed for
//! the front above.
//!
//! **Who owns what:** a front belongs to who has its lock: one of its own, or one that it shares with others
//! (`--locks`). The fronts that have all they need wait in a queue, behind a lock too, and a semaphore counts
//! them. The worker that takes one computes in memory of its own, and stores the result. The last of the
//! fronts below another one puts that into the queue.
//!
//! **The same bits on any number of workers**: a front is the sum of what comes from below in a fixed order,
//! whichever was ready first.
//!
//! **Work for few in the end**: the last fronts are the largest, and each waits for those below. One barrier
//! ends the factorisation.

mod front;
mod order;

use std::ops::Range;

use serde::Serialize;

use crate::crew::Worker;
use crate::memory::Memory;
use crate::owned::{Array, Division};
use crate::program::Program;
use crate::runs::LockedRuns;
use crate::semaphore::Semaphore;
use crate::{Error, Result};
use front::Dense;
use order::Order;

/// The program, with its parameters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cholesky {
    size: usize,
    locks: usize,
}

/// What the workers share, and the order, which each process has for itself.
pub struct Arrays {
    order: Order,
    /// Of each front, what is kept of it.
    fronts: LockedRuns<f64>,
    /// One run: see [`Queue`].
    queue: LockedRuns<usize>,
    /// How many fronts the queue has.
    ready: Semaphore,
    /// Each worker owns a part of the fronts; nobody owns anything.
    own: Division,
    read: Division,
}

/// Rows and columns of the largest grid.
pub const MOST_SIZE: usize = 1024;

impl Cholesky {
    /// Factors the matrix of a grid of `size × size` points. Fronts share so many locks.
    ///
    /// # Errors
    /// If there are no points, or more than [`MOST_SIZE`] in a row; if there are no locks.
    pub fn new(size: usize, locks: usize) -> Result<Self> {
        match (size, locks) {
            (0, _) => Err(Error::Empty("--size")),
            (_, 0) => Err(Error::Empty("--locks")),
            (1..=MOST_SIZE, _) => Ok(Self { size, locks }),
            _ => Err(Error::TooLargeGrid { size, most: MOST_SIZE }),
        }
    }
}

/// What is behind the queue's lock: how many fronts wait, how many are done, for each front how many of
/// those below are not, and the fronts that wait.
struct Queue<'a> {
    waiting: &'a mut usize,
    done: &'a mut usize,
    missing: &'a mut [usize],
    fronts: &'a mut [usize],
}

impl<'a> Queue<'a> {
    /// Words of a queue for so many fronts.
    fn words(fronts: usize) -> usize {
        2 + 2 * fronts
    }

    fn of(words: &'a mut [usize]) -> Self {
        let (counts, lists) = words.split_at_mut(2);
        let [waiting, done] = counts else { unreachable!("two were split off") };
        let (missing, fronts) = lists.split_at_mut(lists.len() / 2);
        Self { waiting, done, missing, fronts }
    }

    fn put(&mut self, front: usize) {
        self.fronts[*self.waiting] = front;
        *self.waiting += 1;
    }

    /// The front that was put in last: what it needs was used most recently.
    fn take(&mut self) -> Option<usize> {
        *self.waiting = self.waiting.checked_sub(1)?;
        Some(self.fronts[*self.waiting])
    }
}

impl Program for Cholesky {
    const NAME: &'static str = "cholesky";
    type Arrays = Arrays;
    type Element = f64;

    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Arrays> {
        let order = Order::of_grid(self.size);
        let (runs, len) = runs(&order);
        let count = runs.len();
        let words = Queue::words(count);
        let fronts = Division::new(len, count, |front| [runs[front].clone()])?;
        let queue = Division::even(words, 1);
        Ok(Arrays {
            order,
            fronts: LockedRuns::new(memory.array(len)?, fronts, memory.locks(self.locks.min(count))?),
            queue: LockedRuns::new(memory.array(words)?, queue, memory.locks(1)?),
            ready: memory.semaphore()?,
            own: Division::even(len, workers),
            read: Division::read_by_all(len, workers),
        })
    }

    fn result<'a>(&self, arrays: &'a Self::Arrays) -> &'a Array<Self::Element> {
        arrays.fronts.array()
    }

    fn result_mut<'a>(&self, arrays: &'a mut Self::Arrays) -> &'a mut Array<Self::Element> {
        arrays.fronts.array_mut()
    }

    fn initialise(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let Arrays { order, fronts, queue, ready, own, .. } = arrays;
        worker.turn(&[fronts.array().to(own), queue.to_holders()])?;
        fronts.array().mine(worker).fill(0.0);
        if worker.who().index == 0 {
            let mut words = queue.lock(worker, 0)?;
            let mut queue = Queue::of(&mut words);
            (*queue.waiting, *queue.done) = (0, 0);
            for (number, front) in order.fronts.iter().enumerate() {
                queue.missing[number] = front.below.len();
                if front.below.is_empty() {
                    queue.put(number);
                }
            }
            ready.add(*queue.waiting)?;
        }
        worker.turn(&[fronts.to_holders()])
    }

    fn compute(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let mut front = Dense::new(arrays.order.len());
        loop {
            arrays.ready.take()?;
            // A guard that is not named is dropped, and its lock given back, at the end of the statement.
            let Some(number) = Queue::of(&mut arrays.queue.lock(worker, 0)?).take() else { break };
            front.gather(&arrays.order, number, |below| arrays.fronts.lock(worker, below))?;
            front.eliminate();
            front.store(&mut arrays.fronts.lock(worker, number)?);
            finish(worker, arrays, number)?;
        }
        worker.turn(&[arrays.fronts.array().to(&arrays.read)])
    }
}

/// What is kept of each front, and the length of all.
fn runs(order: &Order) -> (Vec<Range<usize>>, usize) {
    let mut end = 0;
    let run = |front: &order::Front| {
        let start = end;
        end += front.kept();
        start..end
    };
    (order.fronts.iter().map(run).collect(), end)
}

/// A front is done: the one above may be ready now. When all are done, all workers find nothing in the queue.
fn finish(worker: &Worker<'_>, arrays: &Arrays, number: usize) -> Result<()> {
    let mut words = arrays.queue.lock(worker, 0)?;
    let mut queue = Queue::of(&mut words);
    *queue.done += 1;
    let Some(above) = arrays.order.fronts[number].above else {
        return arrays.ready.add(worker.who().count);
    };
    queue.missing[above] -= 1;
    if queue.missing[above] == 0 {
        queue.put(above);
        arrays.ready.add(1)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
