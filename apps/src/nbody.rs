//! NBODY: bodies that attract each other, by the method of Barnes and Hut, as in SPLASH.
//!
//! A step puts all bodies into a tree of cubes, each of which is cut into eight until no two bodies share
//! one. What pulls at a body is then added up from the root: a cube that looks small from there counts as one
//! body in its centre of mass, and a larger one is looked into.
//!
//! **Who owns what:** each worker owns neighbouring bodies, which it moves; in the beginning they lie in one
//! direction from the centre. The tree belongs to nobody. All workers put their bodies in at the same time,
//! each cell of the tree behind a lock: one of its own, or one that it shares with others (`--locks`). A
//! worker never waits for one lock while it has another. It remembers which cells lead to which, as that does
//! not change any more in a step, and takes the lock of none but the last cell on its way.
//!
//! **The same bits on any number of workers**: who puts a body in first decides what numbers cells have, but
//! not which cubes there are. Nothing that is computed depends on the numbers, and of a cube's eight parts
//! all sums are made in the same order.
//!
//! **Centres of mass are not shared**: each worker adds them up for itself. There are fewer cells than
//! bodies, so that costs less than the locks and the barrier that sharing would take.
//!
//! **Two barriers a step**: one before the tree is read, one before the new places are.

mod tree;

use serde::Serialize;

use crate::crew::Worker;
use crate::lock::Mutex;
use crate::memory::Memory;
use crate::owned::{Array, Division, Locked};
use crate::program::Program;
use crate::random::unit;
use crate::{Error, Result};
use tree::{Builder, Cell, Cube, ROOTS, Sky};

/// The program, with its parameters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Nbody {
    bodies: usize,
    steps: usize,
    theta: f64,
    locks: usize,
}

/// What the workers share.
pub struct Arrays {
    /// Where each body is. A step reads one and writes the other, then they change roles.
    places: [Array<[f64; 3]>; 2],
    velocities: Array<[f64; 3]>,
    /// While a tree is built, who has a cell's lock may change it.
    cells: Locked<Cell>,
    /// How many cells have been used.
    used: Mutex<usize>,
    /// Each worker owns its bodies; nobody owns anything of bodies and cells.
    own: Division,
    read: [Division; 2],
}

/// Most bodies.
pub const MOST_BODIES: usize = 1 << 20;

/// How much time a step is.
const STEP: f64 = 1.0 / 128.0;
/// The disc of bodies is as thick as this, and twice as wide as 1.
const THICKNESS: f64 = 0.1;
/// How far out the innermost bodies are: what pulls at them has no bounds in the centre.
const INNERMOST: f64 = 0.1;

impl Nbody {
    /// Moves that many bodies that many times. Cubes that look no larger than `theta` count as one body;
    /// cells share so many locks.
    ///
    /// # Errors
    /// If there are no bodies, or more than [`MOST_BODIES`]; if there are no locks; if `theta` is not from 0
    /// to 1.
    pub fn new(bodies: usize, steps: usize, theta: f64, locks: usize) -> Result<Self> {
        if bodies == 0 {
            return Err(Error::Empty("--bodies"));
        }
        if bodies > MOST_BODIES {
            return Err(Error::TooManyBodies { bodies, most: MOST_BODIES });
        }
        if locks == 0 {
            return Err(Error::Empty("--locks"));
        }
        if !(0.0..=1.0).contains(&theta) {
            return Err(Error::Theta(theta));
        }
        Ok(Self { bodies, steps, theta, locks })
    }

    /// Where a body is in the beginning, and how it moves: around the centre, in a disc.
    fn start(&self, body: usize) -> ([f64; 3], [f64; 3]) {
        let direction = std::f64::consts::TAU * body as f64 / self.bodies as f64;
        let (sin, cos) = direction.sin_cos();
        let distance = INNERMOST + (1.0 - INNERMOST) * unit(2 * body);
        let height = THICKNESS * (unit(2 * body + 1) - 0.5);
        // As many bodies as lie within a distance are proportional to it: all are as fast.
        ([distance * cos, distance * sin, height], [-sin, cos, 0.0])
    }
}

impl Program for Nbody {
    const NAME: &'static str = "nbody";
    type Arrays = Arrays;
    type Element = [f64; 3];

    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Arrays> {
        let cells = tree::most_cells(self.bodies, workers)?;
        Ok(Arrays {
            places: [memory.array(self.bodies)?, memory.array(self.bodies)?],
            velocities: memory.array(self.bodies)?,
            cells: memory.locked_in_groups(cells, self.locks)?,
            used: memory.mutex()?,
            own: Division::even(self.bodies, workers),
            read: [self.bodies, cells].map(|len| Division::read_by_all(len, workers)),
        })
    }

    fn result<'a>(&self, arrays: &'a Self::Arrays) -> &'a Array<Self::Element> {
        &arrays.places[self.steps % 2]
    }

    fn result_mut<'a>(&self, arrays: &'a mut Self::Arrays) -> &'a mut Array<Self::Element> {
        &mut arrays.places[self.steps % 2]
    }

    fn initialise(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let Arrays { places: [present, next], velocities, cells, used, own, read } = arrays;
        worker.turn(&[present.to(own), next.to(own), velocities.to(own), cells.to_holders()])?;
        let who = worker.who();
        let moving = present.mine(worker).iter_mut().zip(velocities.mine(worker));
        for (body, (place, velocity)) in who.part(self.bodies).zip(moving) {
            (*place, *velocity) = self.start(body);
        }
        if who.index == 0 {
            *cells.lock(worker, 0)? = tree::EMPTY;
            *used.lock()? = ROOTS;
        }
        worker.turn(&[present.to(&read[0])])
    }

    fn compute(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let Arrays { places, cells, own, read, .. } = arrays;
        for step in 0..self.steps {
            let (present, next) = (&places[step % 2], &places[(step + 1) % 2]);
            self.build(worker, arrays, step, present)?;
            worker.turn(&[cells.array().to(&read[1])])?;
            self.advance(worker, arrays, step, present, next)?;
            worker.turn(&[present.to(own), next.to(&read[0]), cells.to_holders()])?;
        }
        // Without a step, this is the barrier that ends the computation.
        worker.barrier()
    }
}

/// Where bodies are.
type Positions = Array<[f64; 3]>;

impl Nbody {
    /// Puts the worker's bodies into the step's tree. Cells are roots in turns: the first worker empties the
    /// one that is the next step's.
    fn build(&self, worker: &Worker<'_>, arrays: &Arrays, step: usize, present: &Positions) -> Result<()> {
        let Arrays { cells, used, .. } = arrays;
        if worker.who().index == 0 {
            *cells.lock(worker, (step + 1) % ROOTS)? = tree::EMPTY;
        }
        let cube = Cube::around(present.get(worker, 0..self.bodies));
        let mut builder = Builder::new(worker, cells, used, cube);
        worker.who().part(self.bodies).try_for_each(|body| builder.put(step % ROOTS, body))
    }

    /// Moves the worker's bodies by what the step's tree pulls at them.
    fn advance(
        &self,
        worker: &Worker<'_>,
        arrays: &Arrays,
        step: usize,
        present: &Positions,
        next: &Positions,
    ) -> Result<()> {
        let Arrays { velocities, cells, used, .. } = arrays;
        let cube = Cube::around(present.get(worker, 0..self.bodies));
        let cells = cells.array().get(worker, 0..cells.array().len());
        let sky = Sky::new(cells, step % ROOTS, cube, self.theta);
        let moving = next.mine(worker).iter_mut().zip(velocities.mine(worker));
        for (body, (place, velocity)) in worker.who().part(self.bodies).zip(moving) {
            let pull = sky.pull(body);
            for axis in 0..3 {
                velocity[axis] += STEP * pull[axis];
                place[axis] = cube.place(body)[axis] + STEP * velocity[axis];
            }
        }
        if worker.who().index == 0 {
            *used.lock()? = ROOTS;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
