//! RAYTRACE: a picture of balls that mirror each other, ray by ray.
//!
//! A ray goes from the eye through each pixel. Where it meets a ball or the floor, another one goes to the
//! light, which may be hidden, and, if that mirrors, one goes on where it is thrown.
//!
//! **Who owns what:** nobody writes the scene, which all read. Of the picture, each tile belongs to the
//! worker that takes it, next after those that are taken, as a counter says: behind a lock, or by an atomic
//! operation (`--queue`). How long a tile takes depends on what is to be seen there, so some workers take
//! more tiles. The pixels of a tile lie together in memory.
//!
//! **The same bits on any number of workers**: a pixel is a matter of the scene alone.
//!
//! **One barrier**: it ends the picture.

mod scene;

use std::path::PathBuf;

use serde::Serialize;

use crate::counter::CounterKind;
use crate::crew::Worker;
use crate::dealt::Dealt;
use crate::memory::{Memory, product};
use crate::owned::{Array, Division};
use crate::program::Program;
use crate::queues::Queues;
use crate::tiles::Tiles;
use crate::{Error, Result};
use scene::{BALLS, Ball, Scene};

/// The program, with its parameters.
#[derive(Clone, Debug, Serialize)]
pub struct Raytrace {
    size: usize,
    depth: usize,
    tile: usize,
    queue: CounterKind,
    #[serde(skip)]
    out: Option<PathBuf>,
}

/// What the workers share.
pub struct Arrays {
    balls: Array<Ball>,
    /// Red, green and blue of each pixel, tile by tile.
    picture: Dealt<u32>,
    /// Who owns what of balls and picture, and where nobody owns anything.
    own: [Division; 2],
    read: [Division; 2],
}

impl Raytrace {
    /// A picture of `size × size` pixels, in tiles of `tile × tile`, which a counter of that kind deals out.
    /// A ray is thrown `depth` times at most.
    ///
    /// # Errors
    /// If there are no pixels in the picture, or in a tile.
    pub fn new(size: usize, depth: usize, tile: usize, queue: CounterKind) -> Result<Self> {
        match (size, tile) {
            (0, _) => Err(Error::Empty("--size")),
            (_, 0) => Err(Error::Empty("--tile")),
            _ => Ok(Self { size, depth, tile: tile.min(size), queue, out: None }),
        }
    }

    /// The same picture, which is also written to a file, as a "portable pixmap".
    #[must_use]
    pub fn written_to(self, out: Option<PathBuf>) -> Self {
        Self { out, ..self }
    }

    fn tiles(&self) -> Tiles {
        Tiles::new(self.size, self.tile)
    }
}

impl Program for Raytrace {
    const NAME: &'static str = "raytrace";
    type Arrays = Arrays;
    type Element = u32;

    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Arrays> {
        let pixels = product(&[self.size, self.size])?;
        let picture = memory.array(pixels)?;
        let tiles = self.tiles();
        let runs = Division::new(pixels, tiles.count(), |number| [tiles.run(number)])?;
        let queue = Queues::one(tiles.count(), self.queue, memory)?;
        Ok(Arrays {
            balls: memory.array(BALLS)?,
            picture: Dealt::new(picture, runs, queue),
            own: [BALLS, pixels].map(|len| Division::even(len, workers)),
            read: [BALLS, pixels].map(|len| Division::read_by_all(len, workers)),
        })
    }

    fn result<'a>(&self, arrays: &'a Self::Arrays) -> &'a Array<Self::Element> {
        arrays.picture.array()
    }

    fn result_mut<'a>(&self, arrays: &'a mut Self::Arrays) -> &'a mut Array<Self::Element> {
        arrays.picture.array_mut()
    }

    fn initialise(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let Arrays { balls, picture, own, read } = arrays;
        worker.turn(&[balls.to(&own[0]), picture.array().to(&own[1])])?;
        for (number, ball) in worker.who().part(BALLS).zip(balls.mine(worker)) {
            *ball = scene::ball(number);
        }
        picture.array().mine(worker).fill(0);
        picture.begin_again(worker)?;
        worker.turn(&[balls.to(&read[0]), picture.to_takers()])
    }

    fn compute(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let Arrays { balls, picture, read, .. } = arrays;
        let scene = Scene::of(balls.get(worker, 0..BALLS));
        for taken in picture.take(worker, 0) {
            let (number, pixels) = taken?;
            self.tiles().paint(number, pixels, |at| scene.pixel(at, self.depth));
        }
        worker.turn(&[picture.array().to(&read[1])])
    }

    fn finish(&self, arrays: &mut Arrays) -> Result<()> {
        let Some(path) = &self.out else { return Ok(()) };
        self.tiles().write(arrays.picture.array_mut().whole(), path)
    }
}

#[cfg(test)]
mod tests;
