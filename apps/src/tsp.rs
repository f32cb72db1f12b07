//! TSP: the shortest tour through all cities, by branch and bound.
//!
//! A partial tour is a way from the first city on. It branches into one for each city that is not on it, and is given
//! up as soon as the best tour that is known, the *bound*, is no longer than any that it could become.
//!
//! **What the workers share:** the distances, which all read; a queue of partial tours, behind a lock; and the best tour,
//! behind another. A worker takes a partial tour of some cities from the queue and searches alone for what it becomes:
//! so it takes a lock a few times in thousands of steps. Who has the queue also branches the short ones in it. Thus an
//! empty queue stays empty, and nobody need wait for work that others might still bring.
//!
//! **The same length on any number of workers**: who finds which tour when, and how much the bound saves, differs from
//! run to run. The length of the shortest tour does not.
//!
//! **The bound is read under its lock**, once for each partial tour. To look at it without, while others write it,
//! would be a data race, and nothing would say when a rank sees a newer one.

use serde::Serialize;

use crate::crew::{Who, Worker};
use crate::lock::Mutex;
use crate::memory::{Element, Memory, Shared};
use crate::program::Program;
use crate::random::unit;
use crate::{Error, Result};

mod search;

use search::{Map, Tour};

/// The program, with its parameter.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Tsp {
    cities: usize,
}

/// What the workers share.
pub struct Arrays {
    /// From each city to each.
    distances: Shared<u32>,
    queue: Mutex<Queue>,
    /// The shortest tour that anybody has found.
    best: Mutex<Tour>,
    /// Its length, once all have searched.
    length: Shared<u32>,
}

/// Most cities: more would take years, whatever the bound saves.
pub const MOST_CITIES: usize = 24;

/// Cities of a partial tour that one worker searches alone. Few enough that there are some for all, and many enough
/// that the workers do not all wait for the queue.
const PREFIX: usize = 4;

/// Partial tours that wait to be taken. The last one is taken first: as its branches take its place, no more than one
/// city's branches of each length wait.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Queue {
    count: usize,
    tours: [Tour; PREFIX * MOST_CITIES],
}

impl Element for Queue {
    fn same_bits(&self, other: &Self) -> bool {
        self == other
    }
}

impl Queue {
    fn push(&mut self, tour: Tour) {
        self.tours[self.count] = tour;
        self.count += 1;
    }

    fn pop(&mut self) -> Option<Tour> {
        self.count = self.count.checked_sub(1)?;
        Some(self.tours[self.count])
    }

    /// Takes the next partial tour to search, if one could become shorter than `bound`.
    fn next(&mut self, map: &Map<'_>, bound: u32) -> Option<Tour> {
        while let Some(tour) = self.pop() {
            if map.least(&tour) >= bound {
                continue;
            }
            if tour.len() == PREFIX.min(map.cities()) {
                return Some(tour);
            }
            // The nearest city last, so that it is taken first: good tours that are found early save most.
            map.branches(&tour).into_iter().rev().for_each(|branch| self.push(branch));
        }
        None
    }
}

impl Tsp {
    /// Looks for the shortest tour through that many cities.
    ///
    /// # Errors
    /// If there are none, or more than [`MOST_CITIES`].
    pub fn new(cities: usize) -> Result<Self> {
        match cities {
            0 => Err(Error::Empty("--cities")),
            1..=MOST_CITIES => Ok(Self { cities }),
            _ => Err(Error::TooManyCities { cities, most: MOST_CITIES }),
        }
    }

    /// How far it is from one city to another, in thousandths of the square in which they lie.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1415")]
    fn distance(from: usize, to: usize) -> u32 {
        let along = |axis: usize| unit(2 * from + axis) - unit(2 * to + axis);
        (1000.0 * along(0).hypot(along(1))).round() as u32
    }
}

impl Program for Tsp {
    const NAME: &'static str = "tsp";
    type Arrays = Arrays;
    type Element = u32;

    fn allocate(&self, _workers: usize, memory: &mut impl Memory) -> Result<Arrays> {
        Ok(Arrays {
            distances: memory.array(self.cities * self.cities)?,
            queue: memory.mutex()?,
            best: memory.mutex()?,
            length: memory.array(1)?,
        })
    }

    fn result(&self, arrays: &Arrays) -> Shared<u32> {
        arrays.length
    }

    unsafe fn initialise(&self, who: Who, arrays: &Arrays) {
        let rows = who.part(self.cities);
        // SAFETY: until the next barrier, the worker has its rows to itself.
        let own = unsafe { arrays.distances.get_mut(rows.start * self.cities..rows.end * self.cities) };
        for (from, row) in rows.zip(own.chunks_exact_mut(self.cities)) {
            row.iter_mut().enumerate().for_each(|(to, distance)| *distance = Self::distance(from, to));
        }
        if who.index == 0 {
            // SAFETY: until the next barrier, nobody else uses the queue.
            let queue = unsafe { arrays.queue.get_mut() };
            queue.count = 0;
            queue.push(Tour::FIRST_CITY);
            // SAFETY: nor the best tour.
            *unsafe { arrays.best.get_mut() } = Tour::NONE;
        }
    }

    unsafe fn compute(&self, worker: &Worker<'_>, arrays: &Arrays) -> Result<()> {
        // SAFETY: nobody writes to the distances before they are initialised again.
        let map = Map::new(unsafe { arrays.distances.get(0..arrays.distances.len()) }, self.cities);
        loop {
            // A guard that is not named is dropped, and its lock given back, at the end of the statement.
            let bound = arrays.best.lock()?.length();
            let Some(tour) = arrays.queue.lock()?.next(&map, bound) else { break };
            if let Some(found) = map.shortest(tour, bound) {
                let mut best = arrays.best.lock()?;
                // Others may have found a shorter one meanwhile.
                if found.length() < best.length() {
                    *best = found;
                }
            }
        }
        worker.barrier()?;
        if worker.who().index == 0 {
            // SAFETY: until the next barrier, nobody else uses the length.
            let length = unsafe { arrays.length.get_mut(0..1) };
            length[0] = arrays.best.lock()?.length();
        }
        worker.barrier()
    }
}

#[cfg(test)]
mod tests;
