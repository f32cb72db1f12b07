//! Numbers that the workers of a program take from queues, each of them once.
//!
//! Of so many numbers each queue has neighbouring ones, as equal as can be. Its worker takes them from the
//! front, and a worker whose own queue is empty steals from the back of others: so the two come to the same
//! numbers, and what belongs to them, last of all.
//!
//! A queue is a [`Counter`]: how many were asked for in front and at the back, in the two halves of its
//! number. Who adds to a half is told what both were before, and has got something if they were less than the
//! queue had. From then on they are never less, so an empty queue stays empty.

use crate::Result;
use crate::counter::{Counter, CounterKind};
use crate::crew::WorkerNumber;
use crate::memory::Memory;

/// Whether workers whose own queue is empty take from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stealing {
    /// They do.
    #[default]
    On,
    /// They are done.
    Off,
}

/// The queues.
pub struct Queues {
    /// How many numbers they have together.
    len: usize,
    counters: Vec<Counter>,
    stealing: Stealing,
}

/// What is added to a counter by who takes from the front, and from the back.
const FRONT: usize = 1;
const BACK: usize = 1 << 32;

/// Most numbers: half of what fits in a half, so that those who ask an empty queue do not fill it.
const MOST: usize = 1 << 31;

impl Queues {
    /// A queue that all take from.
    ///
    /// # Errors
    /// If there is no memory, or no lock; if there are too many numbers.
    pub fn one(len: usize, kind: CounterKind, memory: &mut impl Memory) -> Result<Self> {
        Self::of_each(len, 1, Stealing::Off, kind, memory)
    }

    /// A queue for each worker. With a DSM, all ranks ask for them.
    ///
    /// # Errors
    /// As those of [`one`](Self::one).
    pub fn of_each(
        len: usize,
        workers: usize,
        stealing: Stealing,
        kind: CounterKind,
        memory: &mut impl Memory,
    ) -> Result<Self> {
        if len > MOST {
            return Err(crate::Error::TooLarge);
        }
        let counters = (0..workers).map(|_| Counter::new(kind, memory)).collect::<Result<_>>()?;
        Ok(Self { len, counters, stealing })
    }

    /// How many numbers they have together.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether they have none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills the worker's queue again, if it has one of its own. All workers make the call, while nobody
    /// takes anything.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn refill(&self, who: WorkerNumber) -> Result<()> {
        self.counters.get(who.index).map_or(Ok(()), Counter::begin_again)
    }

    /// Takes a number, if there is one. The worker has found so many queues `empty`, from its own on.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn take(&self, who: WorkerNumber, empty: &mut usize) -> Result<Option<usize>> {
        let count = self.counters.len();
        let reach = match self.stealing {
            Stealing::On => count,
            Stealing::Off => 1,
        };
        while *empty < reach {
            let queue = WorkerNumber { index: (who.index + *empty) % count, count };
            let (part, own) = (queue.part(self.len), *empty == 0);
            let before = self.counters[queue.index].add(if own { FRONT } else { BACK })?;
            let (front, back) = (before % BACK, before / BACK);
            if front + back < part.len() {
                return Ok(Some(if own { part.start + front } else { part.end - 1 - back }));
            }
            *empty += 1;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crew::tests::within_a_minute;
    use crate::crew::{Sequential, run_crew};
    use crate::memory::Heap;

    fn queues(len: usize, workers: usize, stealing: Stealing) -> Queues {
        Queues::of_each(len, workers, stealing, CounterKind::Lock, &mut Heap).unwrap()
    }

    /// What a worker takes, to the end.
    fn taken(queues: &Queues, who: WorkerNumber) -> Vec<usize> {
        let mut empty = 0;
        std::iter::from_fn(|| queues.take(who, &mut empty).unwrap()).collect()
    }

    #[test]
    fn each_number_is_taken_once_each_time_whoever_steals_from_whom() {
        within_a_minute(|| {
            for (kind, workers, len) in [CounterKind::Lock, CounterKind::Atomic]
                .into_iter()
                .flat_map(|kind| [(1, 5), (2, 900), (4, 3), (4, 2000), (7, 0)].map(|(w, len)| (kind, w, len)))
            {
                let queues = Queues::of_each(len, workers, Stealing::On, kind, &mut Heap).unwrap();
                let rounds = run_crew(&Sequential, workers, false, |worker| {
                    let mut rounds = Vec::new();
                    for _ in 0..20 {
                        worker.barrier()?;
                        queues.refill(worker.who())?;
                        worker.barrier()?;
                        // Those who come late find that others have stolen from them.
                        if worker.who().index % 2 == 1 {
                            std::thread::yield_now();
                        }
                        rounds.push(taken(&queues, worker.who()));
                    }
                    Ok(rounds)
                });
                let rounds = rounds.unwrap();
                for round in 0..20 {
                    let mut all: Vec<usize> = rounds.iter().flat_map(|of| of[round].clone()).collect();
                    all.sort_unstable();
                    assert!(all.into_iter().eq(0..len), "{kind:?}, {workers} workers, {len} numbers");
                }
            }
        });
    }

    #[test]
    fn a_worker_takes_its_own_in_order_and_those_of_others_from_the_back() {
        let queues = queues(9, 3, Stealing::On);
        let [first, second, third] = [0, 1, 2].map(|index| WorkerNumber { index, count: 3 });
        assert_eq!(queues.take(third, &mut 0).unwrap(), Some(6));
        assert_eq!(taken(&queues, second), [3, 4, 5, 8, 7, 2, 1, 0]);
        assert_eq!([taken(&queues, first), taken(&queues, third)], [[]; 2].map(Vec::<usize>::from));
        queues.refill(first).unwrap();
        assert_eq!(taken(&queues, third), [2, 1, 0], "only the first queue is full again");
    }

    #[test]
    fn where_nobody_steals_each_has_its_own_numbers() {
        let queues = queues(8, 3, Stealing::Off);
        let all = WorkerNumber::all(3).map(|who| taken(&queues, who));
        assert!(all.eq([vec![0, 1, 2], vec![3, 4, 5], vec![6, 7]]));
    }

    #[test]
    fn more_numbers_than_a_half_of_a_counter_holds_are_refused() {
        let queues = Queues::one(MOST + 1, CounterKind::Atomic, &mut Heap);
        assert!(matches!(queues, Err(crate::Error::TooLarge)));
    }
}
