use super::*;
use crate::memory::Heap;
use crate::repetitions::tests::{agrees_on_any_number_of_threads, result_of};

#[test]
fn threads_compute_what_one_worker_does_whatever_the_sizes() {
    for (size, iterations) in [(1, 0), (1, 1), (1, 4), (2, 3), (3, 3), (10, 7), (67, 5)] {
        agrees_on_any_number_of_threads(Laplace::new(size, iterations).unwrap());
    }
}

#[test]
fn every_iteration_takes_the_mean_of_the_one_before() {
    let (size, width) = (9, 11);
    let before = result_of(&Laplace::new(size, 3).unwrap());
    let after = result_of(&Laplace::new(size, 4).unwrap());
    for i in 0..width {
        for j in 0..width {
            let at = |i: usize, j: usize| before[i * width + j];
            let inner = (1..=size).contains(&i) && (1..=size).contains(&j);
            let expected =
                if inner { 0.25 * (at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1)) } else { 0.0 };
            assert_eq!(after[i * width + j], expected, "({i}, {j})");
        }
    }
}

#[test]
fn what_happens_at_one_edge_of_the_grid_reaches_the_other_workers() {
    let (size, width) = (8, 10);
    let (early, late) = (Laplace::new(size, 1).unwrap(), Laplace::new(size, 7).unwrap());
    let (early, late) = (result_of(&early), result_of(&late));
    let changed = |row: usize| early[row * width + 1..][..size] != late[row * width + 1..][..size];
    assert!((1..=size).all(changed));
}

#[test]
fn a_grid_that_no_address_space_holds_is_refused() {
    assert!(matches!(Laplace::new(0, 1), Err(Error::Empty("--size"))));
    let huge = Laplace::new(usize::MAX, 1).unwrap();
    assert!(matches!(huge.allocate(1, &mut Heap), Err(Error::TooLarge)));
}
