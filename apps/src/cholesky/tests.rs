use super::front::{diagonal, element};
use super::*;
use crate::memory::Heap;
use crate::repetitions::tests::{agrees_on_any_number_of_threads, result_of};

#[test]
fn threads_compute_what_one_worker_does_whatever_the_sizes() {
    for (size, locks) in [(1, 1), (2, 9), (5, 2), (9, 1), (24, 7), (33, 1000)] {
        agrees_on_any_number_of_threads(Cholesky::new(size, locks).unwrap());
    }
}

/// The matrix of a grid, dense, in the order of the elimination.
fn matrix(order: &Order) -> Vec<Vec<f64>> {
    let mut matrix = vec![vec![0.0; order.len()]; order.len()];
    for (place, row) in matrix.iter_mut().enumerate() {
        row[place] = diagonal(order, place);
        for other in order.neighbours(place) {
            row[other] = element(order.point(place), order.point(other));
        }
    }
    matrix
}

/// `L`, dense, from what is kept of the fronts.
fn factor(order: &Order, kept: &[f64]) -> Vec<Vec<f64>> {
    let mut factor = vec![vec![0.0; order.len()]; order.len()];
    for (front, run) in order.fronts.iter().zip(runs(order).0) {
        let places: Vec<usize> = front.columns.clone().chain(front.rows.iter().copied()).collect();
        for (at, (column, values)) in front.columns.clone().zip(kept[run].chunks(front.side())).enumerate() {
            for (&row, &value) in places[at..].iter().zip(&values[at..]) {
                factor[row][column] = value;
            }
        }
    }
    factor
}

#[test]
fn the_product_of_the_factors_is_the_matrix() {
    for size in [1, 2, 4, 5, 9, 17] {
        let order = Order::of_grid(size);
        let factor = factor(&order, &result_of(&Cholesky::new(size, 3).unwrap()));
        for (i, row) in matrix(&order).iter().enumerate() {
            for (j, &expected) in row.iter().enumerate() {
                let product: f64 = factor[i].iter().zip(&factor[j]).map(|(a, b)| a * b).sum();
                assert!((product - expected).abs() < 1e-12, "{size}: ({i}, {j}) is {product}");
            }
        }
    }
}

#[test]
fn fronts_have_all_points_once_and_their_rows_come_after_them() {
    for size in [1, 3, 4, 5, 8, 20, 31] {
        let order = Order::of_grid(size);
        let mut points: Vec<usize> = (0..order.len()).map(|place| order.point(place)).collect();
        points.sort_unstable();
        assert!(points.into_iter().eq(0..size * size));
        let mut next = 0;
        for (number, front) in order.fronts.iter().enumerate() {
            assert_eq!(front.columns.start, next);
            next = front.columns.end;
            assert!(front.rows.iter().all(|&row| row >= next) && front.rows.is_sorted());
            assert!(front.above.is_none_or(|above| above > number));
            assert!(front.below.iter().all(|&below| order.fronts[below].above == Some(number)));
            assert_eq!(front.above.is_none(), number + 1 == order.fronts.len());
        }
        assert!(order.fronts.last().unwrap().rows.is_empty());
    }
}

#[test]
fn the_order_leaves_most_of_the_factor_empty() {
    let order = Order::of_grid(63);
    let kept: usize = order.fronts.iter().map(|front| front.columns.len() * front.side()).sum();
    assert!(kept < 63 * 63 * 63, "{kept}: fewer than if row came after row");
}

#[test]
fn grids_that_make_no_sense_are_refused() {
    assert!(matches!(Cholesky::new(0, 1), Err(Error::Empty("--size"))));
    assert!(matches!(Cholesky::new(1, 0), Err(Error::Empty("--locks"))));
    assert!(matches!(Cholesky::new(MOST_SIZE + 1, 1), Err(Error::TooLargeGrid { .. })));
    assert!(Cholesky::new(1, 1).unwrap().allocate(9, &mut Heap).is_ok());
}
