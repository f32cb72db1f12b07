//! A ray through the volume, and what it shows.

use std::f64::consts::TAU;
use std::ops::Range;

use super::pyramid::{Grid, Level};
use crate::vector::{Vector, dot, length_1, plus};

/// How far one sample is from the next, in voxels.
const STEP: f64 = 0.5;
/// What is less dense than this is clear.
const VISIBLE: u8 = 40;
/// Which part of what lies behind the densest sample is hidden by it.
const DENSEST: f64 = 0.3;
/// Light that is weaker than this is not seen.
const FAINTEST: f64 = 1.0 / 256.0;
/// Where the light comes from: a direction of length 1 that the volume keeps.
const LIGHT: Vector = [-0.48, -0.6, -0.64];
/// Which part of a colour is seen where no light falls.
const AMBIENT: f64 = 0.4;
/// How steeply rays go down.
const STEEP: f64 = 0.4;
/// How wide a picture is, in sides of the volume.
const WIDE: f64 = 1.25;
/// The colours of thin and of dense cloud.
const THIN: Vector = [0.9, 0.45, 0.3];
const DENSE: Vector = [1.0, 0.95, 0.85];

/// From where a picture is taken.
#[derive(Clone, Copy)]
pub(super) struct Camera {
    /// Where rays go, and two directions that are at right angles to it: all of length 1.
    way: Vector,
    right: Vector,
    down: Vector,
    /// Half of the side of the volume, in cells.
    half: f64,
}

impl Camera {
    /// That of a picture: they go once around a volume of so many voxels along a side.
    pub(super) fn new(frame: usize, frames: usize, voxels: usize) -> Self {
        let (sin, cos) = (TAU * frame as f64 / frames as f64).sin_cos();
        let way = length_1([sin, STEEP, cos]);
        let right = [cos, 0.0, -sin];
        let down = [way[1] * right[2], way[2] * right[0] - way[0] * right[2], -way[1] * right[0]];
        Self { way, right, down, half: (voxels - 1) as f64 / 2.0 }
    }

    /// The ray of a pixel, whose coordinates are from -1 to 1, to the right and down. It begins in front of
    /// the volume.
    pub(super) fn ray(&self, [right, down]: [f64; 2]) -> Ray {
        let (radius, wide) = (3f64.sqrt() * self.half, WIDE * self.half);
        let ahead = plus([self.half; 3], self.way, -radius);
        Ray { from: plus(plus(ahead, self.right, wide * right), self.down, wide * down), way: self.way }
    }
}

/// A ray.
pub(super) struct Ray {
    /// Where it begins, in cells from a corner of the volume.
    from: Vector,
    /// Of length 1.
    way: Vector,
}

impl Ray {
    /// How far it is to where the ray enters a block, of which these are the cells along each axis, and to
    /// where it leaves it.
    fn crosses(&self, cells: [Range<usize>; 3]) -> [f64; 2] {
        let (mut near, mut far) = (0.0f64, f64::INFINITY);
        for (axis, Range { start, end }) in cells.into_iter().enumerate() {
            let (from, way) = (self.from[axis], self.way[axis]);
            if way != 0.0 {
                let [first, second] = [start, end].map(|face| (face as f64 - from) / way);
                (near, far) = (near.max(first.min(second)), far.min(first.max(second)));
            } else if !(start as f64..=end as f64).contains(&from) {
                far = f64::NEG_INFINITY;
            }
        }
        [near, far]
    }
}

/// What rays go through.
pub(super) struct Scene<'a> {
    voxels: Grid<'a>,
    /// The pyramid; without levels, no space is passed over.
    levels: &'a [Level],
    blocks: &'a [u8],
}

impl<'a> Scene<'a> {
    pub(super) fn new(voxels: Grid<'a>, levels: &'a [Level], blocks: &'a [u8]) -> Self {
        Self { voxels, levels, blocks }
    }

    /// What a ray shows.
    pub(super) fn seen(&self, ray: &Ray) -> Vector {
        let cells = self.voxels.side - 1;
        let (mut colour, mut clear) = ([0.0; 3], 1.0);
        // The numbers of samples.
        let [near, far] = ray.crosses([0, 1, 2].map(|_| 0..cells)).map(|far| far / STEP);
        let (mut next, last) = (near.ceil(), far.floor());
        while next <= last && clear >= FAINTEST {
            let at = plus(ray.from, ray.way, next * STEP).map(|x| x.clamp(0.0, cells as f64));
            let cell = at.map(|x| whole(x).min(cells - 1));
            next += 1.0;
            if let Some(far) = self.clear_until(ray, cell) {
                next = next.max((far / STEP).ceil());
                continue;
            }
            let within = [0, 1, 2].map(|axis| at[axis] - cell[axis] as f64);
            let (hides, shows) = Sample { corners: self.corners(cell), within }.shows();
            colour = plus(colour, shows, clear * hides);
            clear *= 1.0 - hides;
        }
        colour
    }

    /// How far it is to where the ray leaves the largest block around the cell in which nothing is to be
    /// seen, if there is one.
    ///
    /// Rounding does not matter. A sample just beside the block that counts as one in it is hardly denser
    /// than the block's face. No voxel there reaches [`VISIBLE`], and they are whole numbers: a sample stays
    /// well below it.
    fn clear_until(&self, ray: &Ray, cell: [usize; 3]) -> Option<f64> {
        let is_clear = |level: &&Level| self.blocks[level.block(cell)] < VISIBLE;
        let largest = self.levels.iter().take_while(is_clear).last()?;
        Some(ray.crosses(cell.map(|at| largest.cells(at)))[1])
    }

    /// The voxels at the corners of a cell.
    fn corners(&self, cell: [usize; 3]) -> [f64; 8] {
        let Grid { values, side } = self.voxels;
        let first = self.voxels.index(cell);
        let [row, layer] = [side, side * side];
        [0, 1, row, row + 1, layer, layer + 1, layer + row, layer + row + 1]
            .map(|corner| f64::from(values[first + corner]))
    }
}

/// A number without its fraction.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in the volume")]
fn whole(x: f64) -> usize {
    x as usize
}

/// A place in a cell.
struct Sample {
    corners: [f64; 8],
    /// From 0 to 1 along each axis.
    within: Vector,
}

impl Sample {
    /// Which part of what is behind it is hidden, and the colour that is seen instead.
    fn shows(&self) -> (f64, Vector) {
        let visible = f64::from(VISIBLE);
        let dense = (self.density(self.within) - visible) / (255.0 - visible);
        if dense <= 0.0 {
            return (0.0, [0.0; 3]);
        }
        let colour = plus(THIN, plus(DENSE, THIN, -1.0), dense);
        let light = AMBIENT + (1.0 - AMBIENT) * self.faces_light();
        (DENSEST * dense, colour.map(|x| light * x))
    }

    /// How dense it is at a place in the cell.
    fn density(&self, [x, y, z]: Vector) -> f64 {
        let between = |a: f64, b: f64, at: f64| a + (b - a) * at;
        let c = &self.corners;
        let rows = [0, 2, 4, 6].map(|row| between(c[row], c[row + 1], x));
        between(between(rows[0], rows[1], y), between(rows[2], rows[3], y), z)
    }

    /// How much the cloud's surface is turned to the light, from 0 to 1: it is where the cloud thins out.
    fn faces_light(&self) -> f64 {
        let slope = [0, 1, 2].map(|axis| {
            // The density changes evenly along an axis.
            let at = |x: f64| {
                let mut at = self.within;
                at[axis] = x;
                self.density(at)
            };
            at(0.0) - at(1.0)
        });
        let steepness = dot(slope, slope).sqrt();
        if steepness > 0.0 { (dot(slope, LIGHT) / steepness).max(0.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::pyramid::levels;

    #[test]
    fn a_sample_lies_between_its_corners() {
        // Each axis adds something of its own.
        let corners = [10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0];
        for at in [[0, 0, 0], [4, 0, 4], [1, 2, 3], [3, 4, 0], [4, 4, 4]] {
            let within = at.map(|x| x as f64 / 4.0);
            let expected = 10.0 + within[0] + 2.0 * within[1] + 4.0 * within[2];
            assert_eq!(Sample { corners, within }.density(within), expected);
        }
    }

    #[test]
    fn light_falls_on_what_thins_out_towards_it() {
        let light = |factor: f64| {
            let corner = |at: usize| {
                dot([at % 2, at / 2 % 2, at / 4].map(|x| x as f64), LIGHT.map(|x| 10.0 * factor * x))
            };
            Sample { corners: [0, 1, 2, 3, 4, 5, 6, 7].map(corner), within: [0.3, 0.5, 0.9] }.faces_light()
        };
        assert!((light(-1.0) - 1.0).abs() < 1e-9 && light(1.0) == 0.0 && light(0.0) == 0.0);
    }

    #[test]
    fn what_is_behind_dense_cloud_is_not_sampled() {
        // Rays of the first picture go to the voxels that are last.
        let voxels = |behind: u8| -> Vec<u8> {
            (0..20 * 20 * 20).map(|index| if index < 20 * 20 * 16 { 255 } else { behind }).collect()
        };
        let seen = |behind: u8, camera: &Camera| {
            let grid = Grid { values: &voxels(behind), side: 20 };
            Scene::new(grid, &[], &[]).seen(&camera.ray([0.1, 0.0]))
        };
        let front = Camera::new(0, 2, 20);
        assert_eq!(seen(0, &front), seen(255, &front));
        let back = Camera::new(1, 2, 20);
        assert_ne!(seen(0, &back), seen(100, &back));
    }

    #[test]
    fn a_ray_passes_over_the_largest_clear_block_up_to_its_far_face() {
        let (levels, ray) = (levels(17), Ray { from: [-3.0, 1.5, 1.5], way: [1.0, 0.0, 0.0] });
        let voxels = vec![0; 17 * 17 * 17];
        let mut blocks = vec![0; levels.last().unwrap().blocks().end];
        let clear = |blocks: &[u8], cell| {
            Scene::new(Grid { values: &voxels, side: 17 }, &levels, blocks).clear_until(&ray, cell)
        };
        assert_eq!(clear(&blocks, [5, 1, 1]), Some(19.0), "nothing is to be seen anywhere");
        // Something in the last cells.
        levels.iter().for_each(|level| blocks[level.block([15; 3])] = VISIBLE);
        assert_eq!(clear(&blocks, [5, 1, 1]), Some(11.0), "half of the volume");
        levels.iter().for_each(|level| blocks[level.block([0; 3])] = VISIBLE);
        assert_eq!(clear(&blocks, [5, 1, 1]), Some(11.0), "one of the smallest blocks");
        assert_eq!(clear(&blocks, [3, 1, 1]), None);
    }

    #[test]
    fn rays_beside_the_volume_show_nothing() {
        let values = &[255; 8][..];
        let scene = Scene::new(Grid { values, side: 2 }, &[], &[]);
        let way = [1.0, 0.0, 0.0];
        for (y, is_seen) in [(-0.1, false), (0.0, true), (0.5, true), (1.0, true), (1.1, false)] {
            let colour = scene.seen(&Ray { from: [-2.0, y, 0.5], way });
            assert_eq!(colour != [0.0; 3], is_seen, "{y}");
        }
        assert_eq!(scene.seen(&Ray { from: [2.0, 0.5, 0.5], way }), [0.0; 3], "it is behind");
    }
}
