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

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::counter::CounterKind;
use crate::crew::Worker;
use crate::dealt::Dealt;
use crate::memory::{Memory, product};
use crate::owned::{Array, Division};
use crate::program::Program;
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

    /// Tiles along a side of the picture.
    fn tiles(&self) -> usize {
        self.size.div_ceil(self.tile)
    }

    /// The rows and the columns of a tile. Those at the edges may have fewer.
    fn tile(&self, number: usize) -> [Range<usize>; 2] {
        [number / self.tiles(), number % self.tiles()].map(|at| {
            let start = at * self.tile;
            start..(start + self.tile).min(self.size)
        })
    }

    /// Where the pixels of a tile are.
    fn run(&self, number: usize) -> Range<usize> {
        let [rows, columns] = self.tile(number);
        let start = rows.start * self.size + rows.len() * columns.start;
        start..start + rows.len() * columns.len()
    }

    /// Writes the picture to a file, row by row.
    fn write(&self, pixels: &[u32], path: &Path) -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        writeln!(file, "P6 {0} {0} 255", self.size)?;
        for at in self.pixels_by_row() {
            let [_, red, green, blue] = pixels[at].to_be_bytes();
            file.write_all(&[red, green, blue])?;
        }
        file.flush()
    }

    /// Where the pixels of each row are, one row after the other.
    fn pixels_by_row(&self) -> impl Iterator<Item = usize> {
        (0..self.size * self.size).map(|at| {
            let (row, column) = (at / self.size, at % self.size);
            let number = row / self.tile * self.tiles() + column / self.tile;
            let [rows, columns] = self.tile(number);
            self.run(number).start + (row - rows.start) * columns.len() + column - columns.start
        })
    }
}

impl Program for Raytrace {
    const NAME: &'static str = "raytrace";
    type Arrays = Arrays;
    type Element = u32;

    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Arrays> {
        let pixels = product(&[self.size, self.size])?;
        let picture = memory.array(pixels)?;
        let runs = Division::new(pixels, self.tiles() * self.tiles(), |number| [self.run(number)])?;
        Ok(Arrays {
            balls: memory.array(BALLS)?,
            picture: Dealt::new(picture, runs, self.queue, memory)?,
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
        let who = worker.who();
        for (number, ball) in who.part(BALLS).zip(balls.mine(worker)) {
            *ball = scene::ball(number);
        }
        picture.array().mine(worker).fill(0);
        if who.index == 0 {
            picture.begin_again(worker)?;
        }
        worker.turn(&[balls.to(&read[0]), picture.to_takers()])
    }

    fn compute(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let Arrays { balls, picture, read, .. } = arrays;
        let scene = Scene::of(balls.get(worker, 0..BALLS));
        while let Some((number, pixels)) = picture.take(worker)? {
            let [rows, columns] = self.tile(number);
            for (row, pixels) in rows.zip(pixels.chunks_exact_mut(columns.len())) {
                for (column, pixel) in columns.clone().zip(pixels) {
                    *pixel = scene.pixel([column, row].map(|at| self.along(at)), self.depth);
                }
            }
        }
        worker.turn(&[picture.array().to(&read[1])])
    }

    fn finish(&self, arrays: &mut Arrays) -> Result<()> {
        let Some(path) = &self.out else { return Ok(()) };
        let written = self.write(arrays.picture.array_mut().whole(), path);
        written.map_err(|reason| Error::Picture { path: path.clone(), reason })
    }
}

impl Raytrace {
    /// Where the middle of a pixel is along a side of the picture, from -1 to 1.
    fn along(&self, at: usize) -> f64 {
        (2.0 * at as f64 + 1.0) / self.size as f64 - 1.0
    }
}

#[cfg(test)]
mod tests;
