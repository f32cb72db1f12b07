//! TSP: the shortest tour through all cities, by branch and bound.
//!
//! A partial tour is a way from the first city on. It branches into one for each city that is not on it, and
//! is given up as soon as the best tour that is known, the *bound*, is no longer than any that it could
//! become.
//!
//! **What the workers share:** the distances, which all read; a queue of partial tours, behind a lock; and
//! the best tour, behind another. A worker takes a partial tour of some cities from the queue and searches
//! alone for what it becomes: so it takes a lock a few times in thousands of steps. A worker that has the
//! queue also branches the short ones in it. Thus an empty queue stays empty, and nobody need wait for work
//! that others might still bring.
//!
//! **The same length on any number of workers**: who finds which tour when, and how much the bound saves,
//! differs from run to run. The length of the shortest tour does not.
//!
//! **The bound is read under its lock**, once for each partial tour. To look at it without, while others
//! write it, would be a data race, and nothing would say when a rank sees a newer one.

use serde::Serialize;

use crate::crew::Worker;
use crate::lock::Mutex;
use crate::memory::Memory;
use crate::owned::{Array, Division};
use crate::program::Program;
use crate::random::unit;
use crate::shared::Element;
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
    distances: Array<u32>,
    queue: Mutex<Queue>,
    /// The shortest tour that anybody has found.
    best: Mutex<Tour>,
    /// Its length, once all have searched.
    length: Array<u32>,
    /// Who owns what of the distances and the length, and where nobody owns anything.
    own: [Division; 2],
    read: [Division; 2],
}

/// Most cities: more would take years, whatever the bound saves.
pub const MOST_CITIES: usize = 24;

/// Cities of a partial tour that one worker searches alone. Few enough that there are some for all, and many
/// enough that the workers do not all wait for the queue.
const PREFIX: usize = 4;

/// Partial tours that wait to be taken. The last one is taken first: as its branches take its place, no more
/// than one city's branches of each length wait.
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

    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Arrays> {
        Ok(Arrays {
            own: [Division::rows(self.cities, self.cities, workers), Division::even(1, workers)],
            read: [self.cities * self.cities, 1].map(|len| Division::read_by_all(len, workers)),
            distances: memory.array(self.cities * self.cities)?,
            queue: memory.mutex()?,
            best: memory.mutex()?,
            length: memory.array(1)?,
        })
    }

    fn result<'a>(&self, arrays: &'a Self::Arrays) -> &'a Array<Self::Element> {
        &arrays.length
    }

    fn result_mut<'a>(&self, arrays: &'a mut Self::Arrays) -> &'a mut Array<Self::Element> {
        &mut arrays.length
    }

    fn initialise(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let Arrays { distances, queue, best, length, own, read } = arrays;
        worker.turn(&[distances.to(&own[0]), length.to(&own[1])])?;
        let who = worker.who();
        for (from, row) in who.part(self.cities).zip(distances.mine(worker).chunks_exact_mut(self.cities)) {
            row.iter_mut().enumerate().for_each(|(to, distance)| *distance = Self::distance(from, to));
        }
        if who.index == 0 {
            let mut queue = queue.lock()?;
            queue.count = 0;
            queue.push(Tour::FIRST_CITY);
            *best.lock()? = Tour::NONE;
        }
        worker.turn(&[distances.to(&read[0])])
    }

    fn compute(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let map = Map::new(arrays.distances.get(worker, 0..arrays.distances.len()), self.cities);
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
        // One worker has the length, the others nothing of it.
        for length in arrays.length.mine(worker) {
            *length = arrays.best.lock()?.length();
        }
        worker.turn(&[arrays.length.to(&arrays.read[1])])
    }
}

#[cfg(test)]
mod tests;
