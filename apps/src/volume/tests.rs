use super::*;
use crate::repetitions::tests::{agrees_on_any_number_of_threads, result_of};
use crate::vector::Vector;

fn volume(size: usize, image: usize, frames: usize, tile: usize) -> Volume {
    Volume::new(size, image, frames, tile).unwrap()
}

#[test]
fn threads_compute_what_one_worker_does_whatever_the_sizes_and_whoever_steals() {
    let (lock, atomic) = (CounterKind::Lock, CounterKind::Atomic);
    for (size, image, frames, tile, steal, queue) in [
        (2, 1, 1, 1, Stealing::On, lock),
        (5, 7, 3, 9, Stealing::Off, atomic),
        (20, 16, 2, 4, Stealing::On, atomic),
        (33, 30, 3, 7, Stealing::On, lock),
        (33, 30, 1, 7, Stealing::Off, lock),
    ] {
        agrees_on_any_number_of_threads(volume(size, image, frames, tile).queued(steal, queue));
    }
}

#[test]
fn pixels_are_the_same_whatever_the_tiles_and_others_from_another_side() {
    let by_row = |tile: usize| {
        let (volume, pixels) = (volume(24, 23, 2, tile), result_of(&volume(24, 23, 2, tile)));
        let of_frame = |frame: &[u32]| volume.tiles().pixels_by_row().map(|at| frame[at]).collect::<Vec<_>>();
        pixels.chunks(23 * 23).map(of_frame).collect::<Vec<_>>()
    };
    let pictures = by_row(23);
    for tile in [1, 4, 7, 22] {
        assert_eq!(by_row(tile), pictures);
    }
    assert_ne!(pictures[0], pictures[1]);
    for mut colours in pictures {
        colours.sort_unstable();
        colours.dedup();
        assert!(colours.len() > 100, "there is something to be seen");
    }
}

fn byte(x: usize) -> u8 {
    u8::try_from(x).unwrap()
}

/// A volume, and the pyramid over it.
struct Whole {
    side: usize,
    voxels: Vec<u8>,
    levels: Vec<Level>,
    blocks: Vec<u8>,
}

impl Whole {
    fn of(side: usize, voxel: impl Fn([usize; 3]) -> u8) -> Self {
        let at = |index| [index % side, index / side % side, index / side / side];
        let voxels: Vec<u8> = (0..side * side * side).map(|index| voxel(at(index))).collect();
        let levels = pyramid::levels(side);
        let mut blocks = vec![0; levels.last().unwrap().blocks().end];
        let mut below = Grid { values: &voxels, side };
        let mut rest = &mut blocks[..];
        for level in &levels {
            let (own, above) = rest.split_at_mut(level.blocks().len());
            level.make(WorkerNumber::ALONE, own, below);
            (below, rest) = (level.grid(own), above);
        }
        Self { side, voxels, levels, blocks }
    }

    fn of_clouds(side: usize) -> Self {
        let clouds = voxels::clouds();
        Self::of(side, |at| voxels::voxel(&clouds, at.map(|at| at as f64 / (side - 1) as f64)))
    }

    fn grid(&self) -> Grid<'_> {
        Grid { values: &self.voxels, side: self.side }
    }

    /// What the pixels of some pictures show.
    fn pictures(&self, levels: &[Level]) -> Vec<Vector> {
        let scene = Scene::new(self.grid(), levels, &self.blocks);
        let places = |count: usize| (0..count).map(move |at| 2.0 * at as f64 / (count - 1) as f64 - 1.0);
        // Rays in four of these directions run along faces of blocks.
        let cameras = (0..8).map(|frame| Camera::new(frame, 8, self.side));
        let pixels = cameras.flat_map(|camera| {
            places(31).flat_map(move |down| places(31).map(move |right| camera.ray([right, down])))
        });
        pixels.map(|ray| scene.seen(&ray)).collect()
    }
}

#[test]
fn a_picture_has_the_same_bits_where_empty_space_is_not_passed_over() {
    for side in [2, 3, 9, 40, 65] {
        let whole = Whole::of_clouds(side);
        assert_eq!(whole.pictures(&whole.levels), whole.pictures(&[]), "{side} voxels");
    }
    // Blocks that all but reach what can be seen, beside some that do.
    let whole = Whole::of(21, |at| if at[0] / 4 % 2 == at[1] / 4 % 2 { 39 } else { byte(40 + at[2]) });
    assert_eq!(whole.pictures(&whole.levels), whole.pictures(&[]));
    assert!(whole.pictures(&[]).iter().any(|&colour| colour != [0.0; 3]));
}

#[test]
fn each_block_has_the_largest_of_the_voxels_around_its_cells() {
    for side in [2, 3, 5, 6, 9, 18, 34] {
        let whole = Whole::of(side, |[x, y, z]| byte((z * 97 + y * 59 + x * 31) % 251));
        let cells = side - 1;
        for level in &whole.levels {
            for cell in (0..cells).flat_map(|x| [[x, 0, cells - 1], [0, cells / 2, x], [x, x, x]]) {
                let [columns, rows, layers] = cell.map(|at| level.cells(at));
                let inside = |at: usize, cells: &Range<usize>| (cells.start..=cells.end).contains(&at);
                let voxels = whole.voxels.iter().enumerate().filter(|(index, _)| {
                    inside(index % side, &columns)
                        && inside(index / side % side, &rows)
                        && inside(index / side / side, &layers)
                });
                let largest = voxels.map(|(_, voxel)| *voxel).max().unwrap();
                assert_eq!(whole.blocks[level.block(cell)], largest, "{side} voxels, {level:?}, {cell:?}");
            }
        }
        assert_eq!(whole.blocks.last(), whole.voxels.iter().max());
    }
}

#[test]
fn workers_own_all_blocks_of_a_level_once() {
    for level in pyramid::levels(70) {
        for workers in [1, 2, 3, 7, 40] {
            let own = WorkerNumber::all(workers).flat_map(|who| level.own(who));
            assert!(own.eq(level.blocks()), "{workers} workers, {level:?}");
        }
    }
}

#[test]
fn volumes_and_pictures_that_make_no_sense_are_refused() {
    for [size, image, frames, tile] in [
        [0, 9, 1, 1],
        [1, 9, 1, 1],
        [MOST_SIZE + 1, 9, 1, 1],
        [9, 0, 1, 1],
        [9, MOST_IMAGE + 1, 1, 1],
        [9, 9, 0, 1],
        [9, 9, usize::MAX, 1],
        [9, 9, 1, 0],
    ] {
        assert!(matches!(Volume::new(size, image, frames, tile), Err(Error::OutOfRange { .. })));
    }
}
