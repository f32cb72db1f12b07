use super::*;
use crate::repetitions::tests::{agrees_on_any_number_of_threads, result_of};

fn picture(size: usize, tile: usize) -> Raytrace {
    Raytrace::new(size, 3, tile, CounterKind::Lock).unwrap()
}

#[test]
fn threads_compute_what_one_worker_does_whatever_the_sizes() {
    for (size, depth, tile, queue) in [
        (1, 0, 1, CounterKind::Lock),
        (2, 3, 5, CounterKind::Atomic),
        (17, 1, 4, CounterKind::Lock),
        (40, 4, 7, CounterKind::Atomic),
    ] {
        agrees_on_any_number_of_threads(Raytrace::new(size, depth, tile, queue).unwrap());
    }
}

#[test]
fn pixels_are_the_same_whatever_the_tiles() {
    let by_row = |tile: usize| {
        let (raytrace, pixels) = (picture(23, tile), result_of(&picture(23, tile)));
        raytrace.tiles().pixels_by_row().map(|at| pixels[at]).collect::<Vec<_>>()
    };
    let pixels = by_row(23);
    assert_eq!(pixels, result_of(&picture(23, 23)), "one tile is row by row");
    for tile in [1, 4, 7, 22] {
        assert_eq!(by_row(tile), pixels);
    }
    let mut colours = pixels;
    colours.sort_unstable();
    colours.dedup();
    assert!(colours.len() > 100, "there is something to be seen");
}

#[test]
fn pictures_without_pixels_are_refused() {
    assert!(matches!(Raytrace::new(0, 1, 1, CounterKind::Lock), Err(Error::Empty("--size"))));
    assert!(matches!(Raytrace::new(9, 1, 0, CounterKind::Lock), Err(Error::Empty("--tile"))));
}
