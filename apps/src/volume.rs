//! VOLUME: pictures of clouds that light goes through, from all around, after VOLREND in SPLASH-2.
//!
//! The clouds are a *volume*: a cube of voxels, numbers that say how dense it is there. A ray goes through it
//! from each pixel, front to back, all rays of a picture in the same direction, and samples it in steps of
//! equal length. Each sample hides a part of what comes behind, and the ray ends when nearly all is hidden.
//!
//! **Empty space is passed over.** A pyramid has the largest voxel of each block of the volume, then of each
//! block of twice its side, and so on. Where a ray is in a block with nothing to be seen, it goes on where it
//! leaves the largest such block. Samples lie where they would otherwise, so the picture is the same.
//!
//! **Who owns what:** workers make neighbouring layers of the volume, and then of each level of the pyramid,
//! of which the last ones leave some without work. From then on all read both, and nobody writes them. The
//! tiles of a picture wait in queues, one for each worker, which has neighbouring tiles in it. How long a
//! tile takes depends on what is to be seen there. So a worker whose queue is empty steals from others, if it
//! may (`--steal`).
//!
//! **The same bits on any number of workers**: a pixel is a matter of the volume and its ray alone.
//!
//! **The barriers**: one after the volume and after each level of the pyramid, from which the next one is
//! made. For each picture, one after the queues are filled, and one that ends it.

mod pyramid;
mod ray;
mod voxels;

use std::ops::Range;
use std::path::PathBuf;

use serde::Serialize;

use crate::counter::CounterKind;
use crate::crew::{Worker, WorkerNumber};
use crate::dealt::Dealt;
use crate::memory::{Memory, product};
use crate::owned::{Array, Division, View};
use crate::program::{Program, ResultRun};
use crate::queues::{Queues, Stealing};
use crate::tiles::Tiles;
use crate::{Error, Result};
use pyramid::{Grid, Level};
use ray::{Camera, Scene};

/// The program, with its parameters.
#[derive(Clone, Debug, Serialize)]
pub struct Volume {
    size: usize,
    image: usize,
    frames: usize,
    tile: usize,
    steal: Stealing,
    queue: CounterKind,
    #[serde(skip)]
    out: Option<PathBuf>,
}

/// What the workers share.
pub struct Arrays {
    voxels: Array<u8>,
    /// The largest voxel of each block, level by level.
    blocks: Array<u8>,
    levels: Vec<Level>,
    /// Red, green and blue of each pixel of all pictures, tile by tile.
    pictures: Dealt<u32>,
    owners: Owners,
    /// Nobody owns anything of voxels, blocks and pictures.
    read: [Division; 3],
}

/// Who owns what of the arrays.
struct Owners {
    voxels: Division,
    /// For each level.
    blocks: Vec<Division>,
    pictures: Division,
}

/// Most voxels along a side, most pixels along a side of a picture, and most pictures.
const MOST_SIZE: usize = 1024;
const MOST_IMAGE: usize = 4096;
const MOST_FRAMES: usize = 1024;

impl Volume {
    /// So many pictures of `image × image` pixels, in tiles of `tile × tile`, of a volume of `size` voxels
    /// along a side.
    ///
    /// # Errors
    /// If there is nothing to be seen, or too much.
    pub fn new(size: usize, image: usize, frames: usize, tile: usize) -> Result<Self> {
        for (option, value, least, most) in [
            ("--size", size, 2, MOST_SIZE),
            ("--image", image, 1, MOST_IMAGE),
            ("--frames", frames, 1, MOST_FRAMES),
            ("--tile", tile, 1, MOST_IMAGE),
        ] {
            if !(least..=most).contains(&value) {
                return Err(Error::OutOfRange { option, value, least, most });
            }
        }
        let (steal, queue) = (Stealing::default(), CounterKind::default());
        Ok(Self { size, image, frames, tile, steal, queue, out: None })
    }

    /// The same pictures, whose tiles wait in queues of that kind.
    #[must_use]
    pub fn queued(self, steal: Stealing, queue: CounterKind) -> Self {
        Self { steal, queue, ..self }
    }

    /// The same pictures, which are also written to a file, as "portable pixmaps".
    #[must_use]
    pub fn written_to(self, out: Option<PathBuf>) -> Self {
        Self { out, ..self }
    }

    fn tiles(&self) -> Tiles {
        Tiles::new(self.image, self.tile)
    }
}

impl Program for Volume {
    const NAME: &'static str = "volume";
    type Arrays = Arrays;
    type Element = u32;

    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Arrays> {
        let (tiles, levels) = (self.tiles(), pyramid::levels(self.size));
        let voxels = product(&[self.size, self.size, self.size])?;
        let blocks = levels.last().map_or(0, |last| last.blocks().end);
        let frame = product(&[self.image, self.image])?;
        let pictures = product(&[self.frames, frame])?;
        let runs = Division::new(frame, tiles.count(), |number| [tiles.run(number)])?;
        let queues = Queues::of_each(tiles.count(), workers, self.steal, self.queue, memory)?;
        let who = |index| WorkerNumber { index, count: workers };
        let of_level = |level: &Level| Division::new(blocks, workers, |index| [level.own(who(index))]);
        Ok(Arrays {
            voxels: memory.array(voxels)?,
            blocks: memory.array(blocks)?,
            pictures: Dealt::new(memory.array(pictures)?, runs, queues),
            owners: Owners {
                voxels: Division::rows(self.size, self.size * self.size, workers),
                blocks: levels.iter().map(of_level).collect::<scash::Result<_>>()?,
                pictures: Division::new(pictures, workers, |index| self.own(who(index)))?,
            },
            read: [voxels, blocks, pictures].map(|len| Division::read_by_all(len, workers)),
            levels,
        })
    }

    fn result<'a>(&self, arrays: &'a Self::Arrays) -> &'a Array<Self::Element> {
        arrays.pictures.array()
    }

    fn result_mut<'a>(&self, arrays: &'a mut Self::Arrays) -> &'a mut Array<Self::Element> {
        arrays.pictures.array_mut()
    }

    fn owned(&self, who: WorkerNumber, _len: usize) -> Vec<ResultRun> {
        self.own(who).map(ResultRun::in_place).collect()
    }

    fn initialise(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let Arrays { voxels, blocks, pictures, owners, read, .. } = arrays;
        worker.turn(&[voxels.to(&owners.voxels), pictures.array().to(&owners.pictures)])?;
        let clouds = voxels::clouds();
        let rows = worker.who().part(self.size).flat_map(|z| (0..self.size).map(move |y| (y, z)));
        for (row, (y, z)) in voxels.mine(worker).chunks_exact_mut(self.size).zip(rows) {
            for (x, voxel) in row.iter_mut().enumerate() {
                *voxel = voxels::voxel(&clouds, [x, y, z].map(|at| at as f64 / (self.size - 1) as f64));
            }
        }
        pictures.array().view(worker).mine.into_iter().for_each(|own| own.fill(0));
        worker.turn(&[voxels.to(&read[0]), blocks.to(&owners.blocks[0])])
    }

    fn compute(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let Arrays { pictures, read, .. } = arrays;
        self.build(worker, arrays)?;
        for frame in 0..self.frames {
            pictures.begin_again(worker)?;
            worker.turn(&[pictures.to_takers()])?;
            self.draw(worker, arrays, frame)?;
            worker.turn(&[pictures.array().to(&read[2])])?;
        }
        Ok(())
    }

    fn finish(&self, arrays: &mut Arrays) -> Result<()> {
        let Some(path) = &self.out else { return Ok(()) };
        self.tiles().write(arrays.pictures.array_mut().whole(), path)
    }
}

impl Volume {
    /// Where the pixels of a worker's own tiles are, in each picture.
    fn own(&self, who: WorkerNumber) -> impl Iterator<Item = Range<usize>> {
        let tiles = self.tiles();
        let Range { start, end } = tiles.run_of(who.part(tiles.count()));
        let pixels = self.image * self.image;
        (0..self.frames).map(move |frame| frame * pixels + start..frame * pixels + end)
    }

    /// All voxels, which nobody owns.
    fn voxels<'a>(&self, worker: &'a Worker<'_>, arrays: &'a Arrays) -> Grid<'a> {
        Grid { values: arrays.voxels.get(worker, 0..arrays.voxels.len()), side: self.size }
    }

    /// Makes the pyramid. In the beginning each worker owns its blocks of the first level, and nobody owns
    /// any in the end.
    fn build(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let Arrays { blocks, levels, owners, read, .. } = arrays;
        let next = owners.blocks[1..].iter().chain([&read[1]]);
        for ((number, level), next) in levels.iter().enumerate().zip(next) {
            let View { mine, unowned } = blocks.view(worker);
            let below = match number.checked_sub(1).map(|below| &levels[below]) {
                Some(below) => below.grid(unowned.get(below.blocks())),
                None => self.voxels(worker, arrays),
            };
            mine.into_iter().for_each(|own| level.make(worker.who(), own, below));
            worker.turn(&[blocks.to(next)])?;
        }
        Ok(())
    }

    /// Draws those tiles of a picture that the worker takes.
    fn draw(&self, worker: &Worker<'_>, arrays: &Arrays, frame: usize) -> Result<()> {
        let Arrays { blocks, levels, pictures, .. } = arrays;
        let voxels = self.voxels(worker, arrays);
        let scene = Scene::new(voxels, levels, blocks.get(worker, 0..blocks.len()));
        let camera = Camera::new(frame, self.frames, self.size);
        for taken in pictures.take(worker, frame) {
            let (number, pixels) = taken?;
            self.tiles().paint(number, pixels, |at| scene.seen(&camera.ray(at)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
