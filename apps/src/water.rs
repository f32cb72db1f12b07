//! WATER: molecules that attract and repel each other, after the program of that name in SPLASH.
//!
//! A step computes the force between each two molecules, and moves every molecule by the sum of the forces on
//! it. The molecules lie in a box whose opposite sides are one: what leaves it on the right comes back on the
//! left.
//!
//! **Who owns what:** each worker owns neighbouring molecules, which it moves. Of the pairs it has those of
//! its molecules and the half of all others that follow (the *half shell*, in a circle): so each pair has one
//! worker, and all have as many. The forces on half of all molecules come from other workers too. A worker
//! adds its own up alone, and then, with the lock of each molecule in turn, to the molecule's sum.
//!
//! **The same bits on any number of workers**: who has which lock first differs from run to run, and sums of
//! floating-point numbers depend on the order. So forces are added as whole multiples of a quantum, whose
//! sums do not.
//!
//! **Two barriers a step**: one before the sums are read, one before the new places are.

use std::ops::Range;

use serde::Serialize;

use crate::crew::Worker;
use crate::memory::{Memory, product};
use crate::owned::{Array, Division, Locked};
use crate::program::Program;
use crate::random::unit;
use crate::{Error, Result};

/// The program, with its parameters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Water {
    /// How many molecules.
    size: usize,
    steps: usize,
}

/// What the workers share.
pub struct Arrays {
    /// Where each molecule is.
    places: Array<[f64; 3]>,
    velocities: Array<[f64; 3]>,
    /// The force on each molecule, in quanta: who has its lock may add to it.
    forces: Locked<[i64; 3]>,
    /// Each worker owns its molecules; nobody owns anything.
    own: Division,
    read: Division,
}

/// The least force that counts.
const QUANTUM: f64 = 1.0 / (1u64 << 40) as f64;
/// How much time a step is.
const STEP: f64 = 1.0 / 256.0;
/// Molecules are no closer than this when the force between them is computed: it would have no bounds.
const NEAREST: f64 = 0.8;

impl Water {
    /// Moves that many molecules that many times.
    ///
    /// # Errors
    /// If there are none.
    pub fn new(size: usize, steps: usize) -> Result<Self> {
        if size == 0 {
            return Err(Error::Empty("--size"));
        }
        Ok(Self { size, steps })
    }

    /// Molecules along a side of the box, which have one unit of length each.
    fn side(&self) -> usize {
        (1..).find(|side: &usize| side.pow(3) >= self.size).unwrap_or(1)
    }

    /// Where a molecule is in the beginning: near its point of a grid.
    fn start(&self, molecule: usize) -> [f64; 3] {
        let side = self.side();
        let grid = [molecule % side, molecule / side % side, molecule / (side * side)];
        [0, 1, 2].map(|axis| grid[axis] as f64 + 0.25 * unit(3 * molecule + axis))
    }

    /// The second molecules of the pairs that belong to this one.
    fn half_shell(&self, first: usize) -> impl Iterator<Item = usize> + use<> {
        let count = self.size;
        // Of an even number, the two that are opposite are a pair of the lower one.
        let opposite = count.is_multiple_of(2) && first >= count / 2;
        let last = count / 2 - usize::from(opposite);
        (1..=last).map(move |distance| (first + distance) % count)
    }

    /// Adds the forces of all pairs of some molecules up, for each molecule.
    fn add_up(&self, own: Range<usize>, places: &[[f64; 3]]) -> Vec<[i64; 3]> {
        let side = self.side() as f64;
        let mut sums = vec![[0; 3]; self.size];
        for first in own {
            for second in self.half_shell(first) {
                let force = force(places[first], places[second], side);
                add(&mut sums[first], force);
                add(&mut sums[second], force.map(i64::wrapping_neg));
            }
        }
        sums
    }

    /// Moves a molecule by the force on it.
    fn advance(&self, place: &mut [f64; 3], velocity: &mut [f64; 3], force: [i64; 3]) {
        for ((x, v), force) in place.iter_mut().zip(velocity).zip(force) {
            *v += STEP * QUANTUM * force as f64;
            *x = (*x + STEP * *v).rem_euclid(self.side() as f64);
        }
    }
}

/// Adds a force to a sum.
fn add(sum: &mut [i64; 3], force: [i64; 3]) {
    for (sum, force) in sum.iter_mut().zip(force) {
        *sum = sum.wrapping_add(force);
    }
}

/// The force on a molecule from another one, in quanta: that of Lennard-Jones' potential, on the shortest way
/// around a box of that side.
#[expect(clippy::cast_possible_truncation, reason = "NEAREST keeps forces far below the largest number")]
fn force(on: [f64; 3], from: [f64; 3], side: f64) -> [i64; 3] {
    let way = [0, 1, 2].map(|axis| {
        let way = on[axis] - from[axis];
        way - side * (way / side).round()
    });
    let square = way.iter().map(|x| x * x).sum::<f64>().max(NEAREST * NEAREST);
    let cube = (square * square * square).recip();
    let strength = 24.0 * cube * (2.0 * cube - 1.0) / square;
    way.map(|x| (x * strength / QUANTUM).round() as i64)
}

impl Program for Water {
    const NAME: &'static str = "water";
    type Arrays = Arrays;
    type Element = [f64; 3];

    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Arrays> {
        // As many numbers as the coordinates of all must have a place before each has a lock.
        product(&[self.size, size_of::<[f64; 3]>()])?;
        Ok(Arrays {
            places: memory.array(self.size)?,
            velocities: memory.array(self.size)?,
            forces: memory.locked(self.size)?,
            own: Division::even(self.size, workers),
            read: Division::read_by_all(self.size, workers),
        })
    }

    fn result<'a>(&self, arrays: &'a Self::Arrays) -> &'a Array<Self::Element> {
        &arrays.places
    }

    fn result_mut<'a>(&self, arrays: &'a mut Self::Arrays) -> &'a mut Array<Self::Element> {
        &mut arrays.places
    }

    fn initialise(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let Arrays { places, velocities, forces, own, read } = arrays;
        worker.turn(&[places.to(own), velocities.to(own), forces.array().to(own)])?;
        velocities.mine(worker).fill([0.0; 3]);
        forces.array().mine(worker).fill([0; 3]);
        for (molecule, place) in worker.who().part(self.size).zip(places.mine(worker)) {
            *place = self.start(molecule);
        }
        worker.turn(&[places.to(read), forces.to_holders()])
    }

    fn compute(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let part = worker.who().part(self.size);
        let Arrays { places, velocities, forces, own, read } = arrays;
        for _ in 0..self.steps {
            let sums = self.add_up(part.clone(), places.get(worker, 0..self.size));
            // Each worker begins with its own molecules, so that they do not all want the same locks.
            for molecule in (part.start..self.size).chain(0..part.start) {
                if sums[molecule] != [0; 3] {
                    add(&mut *forces.lock(worker, molecule)?, sums[molecule]);
                }
            }
            worker.turn(&[places.to(own), forces.array().to(own)])?;
            let molecules = places.mine(worker).iter_mut().zip(velocities.mine(worker));
            for ((place, velocity), force) in molecules.zip(forces.array().mine(worker)) {
                self.advance(place, velocity, std::mem::take(force));
            }
            worker.turn(&[places.to(read), forces.to_holders()])?;
        }
        // Without a step, this is the barrier that ends the computation.
        worker.barrier()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Heap;
    use crate::repetitions::tests::{agrees_on_any_number_of_threads, result_of};

    #[test]
    fn threads_compute_what_one_worker_does_whatever_the_sizes() {
        for (molecules, steps) in [(1, 3), (2, 2), (7, 0), (8, 5), (65, 4)] {
            agrees_on_any_number_of_threads(Water::new(molecules, steps).unwrap());
        }
    }

    #[test]
    fn each_two_molecules_are_a_pair_of_one_of_them() {
        for molecules in 1..=9 {
            let water = Water::new(molecules, 1).unwrap();
            let ordered = |(a, b): (usize, usize)| (a.min(b), a.max(b));
            let pairs =
                (0..molecules).flat_map(|first| water.half_shell(first).map(move |second| (first, second)));
            let mut pairs: Vec<_> = pairs.map(ordered).collect();
            pairs.sort_unstable();
            assert!(
                pairs.into_iter().eq((0..molecules).flat_map(|a| (a + 1..molecules).map(move |b| (a, b))))
            );
        }
    }

    #[test]
    fn the_half_shells_hold_what_the_forces_of_all_on_each_do() {
        let water = Water::new(30, 9).unwrap();
        let mut places: Vec<_> = (0..30).map(|molecule| water.start(molecule)).collect();
        let mut velocities = vec![[0.0; 3]; 30];
        for _ in 0..9 {
            let before = places.clone();
            for (molecule, place) in places.iter_mut().enumerate() {
                let mut sum = [0; 3];
                for other in (0..30).filter(|&other| other != molecule) {
                    // Both of a pair must feel the same force: it is computed for the one whose pair it is.
                    let own = water.half_shell(molecule).any(|second| second == other);
                    let sign = if own { 1 } else { -1 };
                    let pair = if own { (molecule, other) } else { (other, molecule) };
                    add(
                        &mut sum,
                        force(before[pair.0], before[pair.1], water.side() as f64).map(|x| sign * x),
                    );
                }
                water.advance(place, &mut velocities[molecule], sum);
            }
        }
        assert_eq!(result_of(&water), places);
    }

    #[test]
    fn forces_leave_the_centre_where_it_is_to_the_last_bit() {
        let water = Water::new(40, 0).unwrap();
        let sums = water.add_up(0..40, &result_of(&water));
        assert!(sums.iter().any(|&sum| sum != [0; 3]), "there are forces");
        let mut all = [0; 3];
        sums.into_iter().for_each(|sum| add(&mut all, sum));
        assert_eq!(all, [0; 3]);
    }

    #[test]
    fn molecules_that_no_address_space_holds_are_refused() {
        assert!(matches!(Water::new(0, 1), Err(Error::Empty("--size"))));
        let huge = Water::new(usize::MAX, 1).unwrap();
        assert!(matches!(huge.allocate(1, &mut Heap), Err(Error::TooLarge)));
    }
}
