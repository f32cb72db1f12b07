//! FMM: particles in the plane that attract each other, by the fast multipole method of Greengard and
//! Rokhlin, as in SPLASH-2.
//!
//! A step puts all particles into a tree of boxes: squares, each of which is cut into four if it has more
//! particles than a box holds (`--per-box`). What pulls at a particle is the *field* of all others. Far from
//! a box, a few numbers give the field of its particles, however many they are: the terms of an expansion
//! (`--terms`). What comes from boxes that are far away is added up as such expansions, and what is near
//! particle by particle.
//!
//! **Up the tree, and down.** On the way up, each box gets an expansion of the field of its own particles. It
//! is made of the particles, or of the expansions of the four boxes that it is cut into. On the way down, it
//! gets one of the field that comes from outside: the box takes over that of the box around it, and adds what
//! comes from boxes that are apart from itself and were not apart from that one. They need not be equally
//! large. Of two that are not apart from each other the larger one is cut, until they are, or neither can be.
//!
//! **Who owns what:** each worker owns neighbouring particles, which it moves; in the beginning they are
//! those of some clusters. The tree belongs to nobody. All workers put their particles in at the same time.
//! Four boxes that one is cut into are a *cell*, and each cell is behind a lock: one of its own, or one that
//! it shares with others (`--locks`). A worker never waits for one lock while it has another. It puts all
//! that it has for a cell in at once.
//!
//! On the way up, the owner of a box's first particle makes the box's expansion, and stores it with those of
//! the cell, behind the same lock. Whoever stores the last one of a cell makes that of the box around it. On
//! the way down, each worker goes where its own particles are, by itself: few boxes have particles of
//! several workers, and to make their expansions twice costs less than the locks that sharing would take.
//!
//! **The same bits on any number of workers**: who puts particles in first decides what numbers cells have,
//! but not which boxes there are. Nothing that is computed depends on the numbers. The particles of a box are
//! in the order of theirs, and all sums are made in a fixed order.
//!
//! **Three barriers a step**: one before the tree is read, one before the expansions are, and one before the
//! new places are. How far from 0 particles are is a number behind a lock, and all workers make it as large
//! as theirs ask for. There are two of these, in turns: while one is in use, the other begins at zero.

mod expansion;
mod field;
mod plane;
mod tree;

use std::f64::consts::TAU;
use std::ops::Range;

use serde::Serialize;

use crate::crew::Worker;
use crate::lock::Mutex;
use crate::memory::{Memory, product};
use crate::owned::{Array, Division};
use crate::program::Program;
use crate::random::unit;
use crate::runs::LockedRuns;
use crate::{Error, Result};
use expansion::{Binomials, Complex, MOST_TERMS};
use field::{Downward, Scene, Upward};
use plane::{Key, NUMBER_BITS, Plane};
use tree::{Builder, Layout, ROOTS, Tree};

/// The program, with its parameters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Fmm {
    particles: usize,
    steps: usize,
    terms: usize,
    #[serde(rename = "per-box")]
    per_box: usize,
    locks: usize,
}

/// What the workers share.
pub struct Arrays {
    /// Where each particle is. A step reads one and writes the other, then they change roles.
    places: [Array<Complex>; 2],
    velocities: Array<Complex>,
    /// While a tree is built, who has a cell's lock may change it.
    cells: LockedRuns<u32>,
    /// How many cells have been used.
    used: Mutex<usize>,
    /// The expansions of each cell's boxes: on the way up, who has the cell's lock may add one.
    kept: LockedRuns<Complex>,
    /// How far from 0 coordinates are: in this step, and in the next one.
    reaches: [Mutex<f64>; 2],
    /// Each worker owns its particles.
    own: Division,
    /// Nobody owns anything of particles, cells and expansions.
    read: [Division; 3],
}

/// Most particles, and most of them that a box holds.
const MOST_PARTICLES: usize = 1 << NUMBER_BITS;
const MOST_PER_BOX: usize = 1024;

/// How much time a step is.
const STEP: f64 = 1.0 / 128.0;
/// Clusters of particles in the beginning, around the point 0.
const CLUSTERS: usize = 8;
/// How far a particle may be from 0 in the beginning.
const START_REACH: f64 = 1.0;
/// How fast all turn around 0 then, in units of angle.
const SPIN: f64 = 0.5;

impl Fmm {
    /// Moves that many particles that many times, by expansions of so many terms. Boxes hold `per_box`
    /// particles, and share so many locks.
    ///
    /// # Errors
    /// If there is none of something, or too much.
    pub fn new(particles: usize, steps: usize, terms: usize, per_box: usize, locks: usize) -> Result<Self> {
        for (option, value, most) in [
            ("--particles", particles, MOST_PARTICLES),
            ("--terms", terms, MOST_TERMS),
            ("--per-box", per_box, MOST_PER_BOX),
        ] {
            if !(1..=most).contains(&value) {
                return Err(Error::OutOfRange { option, value, least: 1, most });
            }
        }
        if locks == 0 {
            return Err(Error::Empty("--locks"));
        }
        Ok(Self { particles, steps, terms, per_box, locks })
    }

    /// Where a particle is in the beginning, and how it moves. A cluster's particles lie the closer together
    /// the closer they are to its centre; those of neighbouring numbers, in about one direction from there.
    fn start(&self, number: usize) -> (Complex, Complex) {
        let turned = |turns: f64, distance: f64| {
            let (sin, cos) = (TAU * turns).sin_cos();
            [distance * cos, distance * sin]
        };
        let at = (number * CLUSTERS) as f64 / self.particles as f64;
        let cluster = number * CLUSTERS / self.particles;
        let centre = turned(cluster as f64 / CLUSTERS as f64, 0.4 + 0.3 * unit(cluster));
        let radius = 0.05 + 0.2 * unit(CLUSTERS + cluster);
        let place =
            expansion::plus(centre, turned(at - cluster as f64, radius * unit(self.random(number, 0))));
        (place, [-SPIN * place[1], SPIN * place[0]])
    }

    /// How much a particle pulls. All together pull as much as one of strength 1, or nearly so.
    fn strength(&self, number: usize) -> f64 {
        (0.5 + unit(self.random(number, 1))) / self.particles as f64
    }

    /// The index of a particle's first or second random number, after those of the clusters.
    fn random(&self, number: usize, which: usize) -> usize {
        2 * CLUSTERS + 2 * number + which
    }

    fn layout(&self) -> Layout {
        Layout { per_box: self.per_box, terms: self.terms }
    }
}

impl Program for Fmm {
    const NAME: &'static str = "fmm";
    type Arrays = Arrays;
    type Element = Complex;

    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Arrays> {
        let layout = self.layout();
        let cells = layout.most_cells(self.particles, workers)?;
        let (words, kept) = (product(&[cells, layout.words()])?, product(&[cells, layout.kept()])?);
        let locks = memory.locks(self.locks.min(cells))?;
        let runs = |len: usize| Division::even(len, cells);
        Ok(Arrays {
            places: [memory.array(self.particles)?, memory.array(self.particles)?],
            velocities: memory.array(self.particles)?,
            cells: LockedRuns::new(memory.array(words)?, runs(words), locks.clone()),
            used: memory.mutex()?,
            kept: LockedRuns::new(memory.array(kept)?, runs(kept), locks),
            reaches: [memory.mutex()?, memory.mutex()?],
            own: Division::even(self.particles, workers),
            read: [self.particles, words, kept].map(|len| Division::read_by_all(len, workers)),
        })
    }

    fn result<'a>(&self, arrays: &'a Self::Arrays) -> &'a Array<Self::Element> {
        &arrays.places[self.steps % 2]
    }

    fn result_mut<'a>(&self, arrays: &'a mut Self::Arrays) -> &'a mut Array<Self::Element> {
        &mut arrays.places[self.steps % 2]
    }

    fn initialise(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let Arrays { places: [present, next], velocities, cells, used, kept, own, read, .. } = arrays;
        worker.turn(&[
            present.to(own),
            next.to(own),
            velocities.to(own),
            cells.to_holders(),
            kept.to_holders(),
        ])?;
        let who = worker.who();
        let moving = present.mine(worker).iter_mut().zip(velocities.mine(worker));
        for (number, (place, velocity)) in who.part(self.particles).zip(moving) {
            (*place, *velocity) = self.start(number);
        }
        if who.index == 0 {
            tree::empty(&mut cells.lock(worker, 0)?);
            *used.lock()? = ROOTS;
        }
        worker.turn(&[present.to(&read[0])])
    }

    fn compute(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let Arrays { places, cells, kept, own, read, .. } = arrays;
        let binomials = Binomials::new(self.terms);
        for number in 0..self.steps {
            let reach = if number == 0 { START_REACH } else { *arrays.reaches[number % 2].lock()? };
            let [present, next] = [number, number + 1].map(|number| &places[number % 2]);
            let step = Step { number, reach, present, binomials: &binomials };
            let keys = self.build(worker, arrays, &step)?;
            worker.turn(&[cells.array().to(&read[1])])?;
            self.expand(worker, arrays, &step, &keys)?;
            worker.turn(&[kept.array().to(&read[2])])?;
            self.advance(worker, arrays, &step, &keys, next)?;
            worker.turn(&[present.to(own), next.to(&read[0]), cells.to_holders(), kept.to_holders()])?;
        }
        // Without a step, this is the barrier that ends the computation.
        worker.barrier()
    }
}

/// What a worker knows of a step in the beginning.
struct Step<'a> {
    number: usize,
    /// How far from 0 coordinates are.
    reach: f64,
    /// Where each particle is.
    present: &'a Array<Complex>,
    binomials: &'a Binomials,
}

impl Step<'_> {
    fn plane<'a>(&'a self, worker: &'a Worker<'_>) -> Plane<'a> {
        Plane::new(self.present.get(worker, 0..self.present.len()), self.reach)
    }

    /// The cell that the tree begins with.
    fn root(&self) -> usize {
        self.number % ROOTS
    }
}

impl Fmm {
    /// Puts the worker's particles into the step's tree, and returns their keys, ascending. Cells are roots
    /// in turns: the first worker empties the one that is the next step's.
    fn build(&self, worker: &Worker<'_>, arrays: &Arrays, step: &Step<'_>) -> Result<Vec<Key>> {
        let Arrays { cells, used, .. } = arrays;
        if worker.who().index == 0 {
            tree::empty(&mut cells.lock(worker, (step.number + 1) % ROOTS)?);
        }
        let plane = step.plane(worker);
        let mut keys: Vec<Key> = self.own(worker).map(|number| plane.key(number)).collect();
        keys.sort_unstable();
        let mut builder = Builder { worker, cells, used, plane, layout: self.layout(), spares: Vec::new() };
        builder.put(step.root(), &keys)?;
        Ok(keys)
    }

    /// Makes the worker's part of the expansions.
    fn expand(&self, worker: &Worker<'_>, arrays: &Arrays, step: &Step<'_>, keys: &[Key]) -> Result<()> {
        if worker.who().index == 0 {
            *arrays.reaches[(step.number + 1) % 2].lock()? = 0.0;
        }
        Upward::new(self.scene(worker, arrays, step), worker, &arrays.kept).make(keys)
    }

    /// Moves the worker's particles by the field at each.
    fn advance(
        &self,
        worker: &Worker<'_>,
        arrays: &Arrays,
        step: &Step<'_>,
        keys: &[Key],
        next: &Array<Complex>,
    ) -> Result<()> {
        let Arrays { velocities, used, reaches, .. } = arrays;
        let (first, places) = (self.own(worker).start, step.plane(worker));
        let (next, velocities) = (next.mine(worker), velocities.mine(worker));
        let mut reach = 0.0f64;
        self.tell_fields(worker, arrays, step, keys, |number, [x, y]| {
            let velocity = &mut velocities[number - first];
            // Where the field is `1 / (x - z)`, what pulls has the direction of `z - x`.
            *velocity = expansion::plus(*velocity, [-STEP * x, STEP * y]);
            let place = expansion::plus(places.place(number), expansion::scaled(STEP, *velocity));
            reach = place.iter().fold(reach, |reach, x| reach.max(x.abs()));
            next[number - first] = place;
        });
        {
            let mut largest = reaches[(step.number + 1) % 2].lock()?;
            *largest = largest.max(reach);
        }
        if worker.who().index == 0 {
            *used.lock()? = ROOTS;
        }
        Ok(())
    }

    /// Tells the number of each of the worker's particles, and the field there.
    fn tell_fields(
        &self,
        worker: &Worker<'_>,
        arrays: &Arrays,
        step: &Step<'_>,
        keys: &[Key],
        tell: impl FnMut(usize, Complex),
    ) {
        let kept = arrays.kept.array();
        let kept = kept.get(worker, 0..kept.len());
        Downward { scene: self.scene(worker, arrays, step), kept, tell }.go(keys);
    }

    /// The step's tree, which nobody changes any more.
    fn scene<'a>(&'a self, worker: &'a Worker<'_>, arrays: &'a Arrays, step: &'a Step<'_>) -> Scene<'a> {
        let cells = arrays.cells.array();
        let tree = Tree { words: cells.get(worker, 0..cells.len()), layout: self.layout() };
        Scene { fmm: self, binomials: step.binomials, plane: step.plane(worker), tree, root: step.root() }
    }

    /// The worker's particles.
    fn own(&self, worker: &Worker<'_>) -> Range<usize> {
        worker.who().part(self.particles)
    }
}

#[cfg(test)]
mod tests;
