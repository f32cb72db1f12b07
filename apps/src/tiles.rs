//! Square pictures that are cut into tiles. The pixels of a tile lie together in memory.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::Path;

use crate::vector::{Vector, pixel};
use crate::{Error, Result};

/// How a picture is cut.
#[derive(Clone, Copy, Debug)]
pub struct Tiles {
    /// Rows and columns of the picture.
    side: usize,
    /// Rows and columns of a tile.
    tile: usize,
}

impl Tiles {
    /// A picture of `side × side` pixels, in tiles of `tile × tile`. There is a pixel in each.
    pub fn new(side: usize, tile: usize) -> Self {
        Self { side, tile: tile.min(side) }
    }

    /// Tiles along a side of the picture.
    fn along_side(&self) -> usize {
        self.side.div_ceil(self.tile)
    }

    /// How many tiles there are.
    pub fn count(&self) -> usize {
        self.along_side() * self.along_side()
    }

    /// The rows and the columns of a tile. Those at the edges may have fewer.
    fn tile(&self, number: usize) -> [Range<usize>; 2] {
        [number / self.along_side(), number % self.along_side()].map(|at| {
            let start = at * self.tile;
            start..(start + self.tile).min(self.side)
        })
    }

    /// Where the pixels of a tile are.
    pub fn run(&self, number: usize) -> Range<usize> {
        let [rows, columns] = self.tile(number);
        let start = rows.start * self.side + rows.len() * columns.start;
        start..start + rows.len() * columns.len()
    }

    /// Where the pixels of neighbouring tiles are.
    pub fn run_of(&self, numbers: Range<usize>) -> Range<usize> {
        let end = |numbers: Range<usize>| numbers.last().map_or(0, |last| self.run(last).end);
        end(0..numbers.start)..end(0..numbers.end)
    }

    /// Gives each pixel of a tile the colour that is there, by its coordinates from -1 to 1, to the right and
    /// down.
    pub fn paint(&self, number: usize, pixels: &mut [u32], colour: impl Fn([f64; 2]) -> Vector) {
        let [rows, columns] = self.tile(number);
        for (row, pixels) in rows.zip(pixels.chunks_exact_mut(columns.len())) {
            for (column, painted) in columns.clone().zip(pixels) {
                *painted = pixel(colour([column, row].map(|at| self.along(at))));
            }
        }
    }

    /// Where the middle of a pixel is along a side of the picture, from -1 to 1.
    fn along(&self, at: usize) -> f64 {
        (2.0 * at as f64 + 1.0) / self.side as f64 - 1.0
    }

    /// Writes pictures to a file, one after the other, row by row, each as a "portable pixmap".
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, pixels: &[u32], path: &Path) -> Result<()> {
        let write = || -> std::io::Result<()> {
            let mut file = BufWriter::new(File::create(path)?);
            for picture in pixels.chunks_exact(self.side * self.side) {
                writeln!(file, "P6 {0} {0} 255", self.side)?;
                for at in self.pixels_by_row() {
                    let [_, red, green, blue] = picture[at].to_be_bytes();
                    file.write_all(&[red, green, blue])?;
                }
            }
            file.flush()
        };
        write().map_err(|reason| Error::Picture { path: path.to_owned(), reason })
    }

    /// Where the pixels of each row are, one row after the other.
    pub(crate) fn pixels_by_row(&self) -> impl Iterator<Item = usize> {
        (0..self.side * self.side).map(|at| {
            let (row, column) = (at / self.side, at % self.side);
            let number = row / self.tile * self.along_side() + column / self.tile;
            let [rows, columns] = self.tile(number);
            self.run(number).start + (row - rows.start) * columns.len() + column - columns.start
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runs_of_tiles_follow_one_another_and_have_all_pixels() {
        for (side, tile) in [(1, 1), (5, 9), (9, 4), (16, 4), (7, 1)] {
            let tiles = Tiles::new(side, tile);
            let mut end = 0;
            for number in 0..tiles.count() {
                let run = tiles.run(number);
                assert_eq!((run.start, tiles.run_of(number..number)), (end, end..end));
                assert_eq!(tiles.run_of(0..number + 1), 0..run.end);
                end = run.end;
            }
            assert_eq!(end, side * side);
            let mut pixels: Vec<usize> = tiles.pixels_by_row().collect();
            pixels.sort_unstable();
            assert!(pixels.into_iter().eq(0..side * side));
        }
    }

    #[test]
    fn pictures_are_written_to_a_file_as_rows_of_pixels() {
        let path = std::env::temp_dir().join(format!("tiles-{}.ppm", std::process::id()));
        // Tiles of four pixels, of two, of two, and of one.
        let by_tile = [1, 2, 4, 5, 3, 6, 7, 8, 9u32];
        Tiles::new(3, 2).write(&[by_tile, by_tile.map(|x| x << 16)].concat(), &path).unwrap();
        let file = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let (first, second) = file.split_at(file.len() / 2);
        for (picture, colour) in [(first, 2), (second, 0)] {
            let (head, bytes) = picture.split_at(11);
            assert_eq!(head, b"P6 3 3 255\n");
            let expected = (1..=9).flat_map(|x| [0, 1, 2].map(|which| if which == colour { x } else { 0 }));
            assert!(expected.eq(bytes.iter().copied()));
        }
    }
}
