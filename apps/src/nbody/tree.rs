//! The tree of cubes: how bodies are put in, and how what pulls at one is added up.

use super::MOST_BODIES;
use crate::crew::Worker;
use crate::lock::Mutex;
use crate::owned::Locked;
use crate::{Error, Result};

/// What is in each eighth of a cube: a [`Child`] as a word.
pub(super) type Cell = [u32; 8];

/// A cell with nothing in it.
pub(super) const EMPTY: Cell = [0; 8];

/// The first cells are roots, in turns: while a tree has one, the other is emptied.
pub(super) const ROOTS: usize = 2;

/// Cells that a worker takes at a time.
const BATCH: usize = 32;

// Words have a bit to tell bodies from cells.
const _: () = assert!(MOST_BODIES < 1 << 28);

/// As many cells as a tree and the workers' last batches need. Of bodies that are not all close together,
/// there are fewer cells than bodies.
pub(super) fn most_cells(bodies: usize, workers: usize) -> Result<usize> {
    let batches = workers.checked_mul(2 * BATCH).ok_or(Error::TooLarge)?;
    let cells = (2 * bodies + ROOTS).checked_add(batches).ok_or(Error::TooLarge)?;
    if cells > (u32::MAX / 2) as usize { Err(Error::TooLarge) } else { Ok(cells) }
}

/// What is in a part of a cube.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Child {
    Nothing,
    /// The body of that number, alone.
    Body(usize),
    /// The cell of that number: two bodies at least. No root is in a cube.
    Cell(usize),
}

impl Child {
    pub(super) fn of(word: u32) -> Self {
        let number = (word / 2) as usize;
        match word {
            0 => Self::Nothing,
            _ if word % 2 == 1 => Self::Body(number),
            _ => Self::Cell(number),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "most_cells and MOST_BODIES are less")]
    fn word(self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Body(number) => 2 * number as u32 + 1,
            Self::Cell(number) => 2 * number as u32,
        }
    }
}

/// The bodies, and the cube around them, which is the root.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cube<'a> {
    places: &'a [[f64; 3]],
    lowest: [f64; 3],
    side: f64,
}

/// Which eighth of a cube a body is in, depends on the next bit of each coordinate, of so many. The next
/// bits of their numbers tell those apart that are closer together than that.
const BITS: u32 = 21;

impl<'a> Cube<'a> {
    /// The smallest cube around bodies that are there.
    pub(super) fn around(places: &'a [[f64; 3]]) -> Self {
        let mut extent = places[0].map(|x| (x, x));
        for place in places {
            for ((lowest, highest), &x) in extent.iter_mut().zip(place) {
                (*lowest, *highest) = (lowest.min(x), highest.max(x));
            }
        }
        let side = extent.iter().map(|(lowest, highest)| highest - lowest).fold(f64::MIN_POSITIVE, f64::max);
        Self { places, lowest: extent.map(|(lowest, _)| lowest), side }
    }

    /// Where a body is.
    pub(super) fn place(&self, body: usize) -> [f64; 3] {
        self.places[body]
    }

    fn key(&self, body: usize) -> Key {
        let cells = f64::from(1u32 << BITS);
        let coordinate = |axis: usize| (self.places[body][axis] - self.lowest[axis]) / self.side * cells;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is limited on purpose"
        )]
        let limited = |x: f64| (x as u32).min((1 << BITS) - 1);
        Key { coordinates: [0, 1, 2].map(|axis| limited(coordinate(axis))), body }
    }
}

/// What says in which cubes a body is.
#[derive(Clone, Copy, Debug)]
struct Key {
    coordinates: [u32; 3],
    body: usize,
}

impl Key {
    /// Which eighth of a cube the body is in. The root has depth 0.
    fn eighth(&self, depth: u32) -> usize {
        let Some(bit) = (BITS - 1).checked_sub(depth) else {
            // Those of all coordinates are used up.
            return self.body >> (3 * (depth - BITS)) & 7;
        };
        self.coordinates.iter().fold(0, |eighth, x| eighth << 1 | (x >> bit & 1) as usize)
    }
}

/// What a worker puts bodies into a tree with.
pub(super) struct Builder<'a> {
    worker: &'a Worker<'a>,
    cells: &'a Locked<Cell>,
    used: &'a Mutex<usize>,
    cube: Cube<'a>,
    /// Each cell as the worker saw it last. What is a cell in it stays one; all else may have changed.
    seen: Vec<Cell>,
    /// Cells that the worker has taken and not yet used.
    batch: std::ops::Range<usize>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        worker: &'a Worker<'_>,
        cells: &'a Locked<Cell>,
        used: &'a Mutex<usize>,
        cube: Cube<'a>,
    ) -> Self {
        Self { worker, cells, used, cube, seen: vec![EMPTY; cells.array().len()], batch: 0..0 }
    }

    /// Puts a body into the tree with that root.
    pub(super) fn put(&mut self, root: usize, body: usize) -> Result<()> {
        let key = self.cube.key(body);
        let (mut cell, mut depth) = (root, 0);
        loop {
            let eighth = key.eighth(depth);
            let child = match Child::of(self.seen[cell][eighth]) {
                Child::Cell(below) => Child::Cell(below),
                _ => self.put_if_free(cell, eighth, body)?,
            };
            match child {
                Child::Nothing => return Ok(()),
                Child::Body(other) => self.split(cell, eighth, depth, other)?,
                Child::Cell(below) => (cell, depth) = (below, depth + 1),
            }
        }
    }

    /// Puts a body into a part of a cell if there is nothing, and returns what there was.
    fn put_if_free(&mut self, cell: usize, eighth: usize, body: usize) -> Result<Child> {
        let mut guard = self.cells.lock(self.worker, cell)?;
        let child = Child::of(guard[eighth]);
        if child == Child::Nothing {
            guard[eighth] = Child::Body(body).word();
        }
        self.seen[cell] = *guard;
        Ok(child)
    }

    /// Makes a cell of a part with a body in it, unless another worker does. It may have the same lock: so
    /// the worker has one after the other.
    fn split(&mut self, cell: usize, eighth: usize, depth: u32, body: usize) -> Result<()> {
        let below = self.take()?;
        let mut new = EMPTY;
        new[self.cube.key(body).eighth(depth + 1)] = Child::Body(body).word();
        *self.cells.lock(self.worker, below)? = new;
        let mut guard = self.cells.lock(self.worker, cell)?;
        if guard[eighth] == Child::Body(body).word() {
            guard[eighth] = Child::Cell(below).word();
            self.seen[below] = new;
        } else {
            self.batch.start = below;
        }
        self.seen[cell] = *guard;
        Ok(())
    }

    /// The number of a cell that nobody uses.
    fn take(&mut self) -> Result<usize> {
        if self.batch.is_empty() {
            let mut used = self.used.lock()?;
            let end = (*used + BATCH).min(self.seen.len());
            self.batch = *used..end;
            *used = end;
        }
        self.batch.next().ok_or(Error::TooClose)
    }
}

/// Some bodies: how many, and the sum of their places.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mass {
    pub(super) count: f64,
    pub(super) places: [f64; 3],
}

impl Mass {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.places.iter_mut().zip(other.places).for_each(|(sum, x)| *sum += x);
    }
}

/// A whole tree, as a worker reads it.
pub(super) struct Sky<'a> {
    cells: &'a [Cell],
    root: usize,
    cube: Cube<'a>,
    theta: f64,
    /// What is in each cell of the tree.
    masses: Vec<Mass>,
}

/// No body comes closer than this, as far as what pulls at it is concerned: the square of the distance.
const NEAREST: f64 = 1e-3;

impl<'a> Sky<'a> {
    pub(super) fn new(cells: &'a [Cell], root: usize, cube: Cube<'a>, theta: f64) -> Self {
        let mut sky = Self { cells, root, cube, theta, masses: vec![Mass::default(); cells.len()] };
        sky.weigh(root);
        sky
    }

    /// Adds up what is in a cell, and in those below it.
    fn weigh(&mut self, cell: usize) -> Mass {
        let mut mass = Mass::default();
        for word in self.cells[cell] {
            match Child::of(word) {
                Child::Nothing => {}
                Child::Body(body) => mass.add(Mass { count: 1.0, places: self.cube.place(body) }),
                Child::Cell(below) => mass.add(self.weigh(below)),
            }
        }
        self.masses[cell] = mass;
        mass
    }

    /// How much all others pull at a body. All together weigh 1.
    pub(super) fn pull(&self, body: usize) -> [f64; 3] {
        let mut sum = [0.0; 3];
        self.add(body, self.root, self.cube.side / 2.0, &mut sum);
        sum.map(|x| x / self.cube.places.len() as f64)
    }

    /// Adds what pulls at a body in a cell whose parts have that side.
    fn add(&self, body: usize, cell: usize, side: f64, sum: &mut [f64; 3]) {
        let here = self.cube.place(body);
        for word in self.cells[cell] {
            match Child::of(word) {
                Child::Nothing => {}
                Child::Body(other) if other == body => {}
                Child::Body(other) => {
                    let way = between(here, self.cube.place(other));
                    pull(way, square(way), 1.0, sum);
                }
                Child::Cell(below) => {
                    let Mass { count, places } = self.masses[below];
                    let way = between(here, places.map(|x| x / count));
                    let distance = square(way);
                    if side * side < self.theta * self.theta * distance {
                        pull(way, distance, count, sum);
                    } else {
                        self.add(body, below, side / 2.0, sum);
                    }
                }
            }
        }
    }
}

fn between(here: [f64; 3], there: [f64; 3]) -> [f64; 3] {
    [0, 1, 2].map(|axis| there[axis] - here[axis])
}

fn square(way: [f64; 3]) -> f64 {
    way.iter().map(|x| x * x).sum()
}

/// Adds what pulls from some bodies, which lie so far away.
fn pull(way: [f64; 3], square: f64, bodies: f64, sum: &mut [f64; 3]) {
    let square = square + NEAREST;
    let strength = bodies / (square * square.sqrt());
    sum.iter_mut().zip(way).for_each(|(sum, x)| *sum += strength * x);
}
