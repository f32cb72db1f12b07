use super::*;
use crate::crew::{Sequential, run_crew};
use crate::memory::Heap;
use crate::repetitions::tests::{agrees_on_any_number_of_threads, result_of};

#[test]
fn threads_compute_what_one_worker_does_whatever_the_sizes() {
    for (size, steps, cycles) in [(5, 0, 1), (5, 2, 1), (5, 3, 20), (9, 2, 2), (17, 2, 20), (65, 2, 3)] {
        agrees_on_any_number_of_threads(Ocean::new(size, steps, cycles).unwrap());
    }
}

/// The result, as the rows of a grid.
fn grid_of(layout: Layout, halves: &[f64]) -> Vec<Vec<f64>> {
    let at = |i, j| halves[layout.elements((i + j) % 2, i..i + 1).start + j / 2];
    (0..=layout.cells).map(|i| (0..=layout.cells).map(|j| at(i, j)).collect()).collect()
}

/// The largest residual in so many cycles, and the solution, for a right-hand side that has the value of
/// `rhs` at each point.
fn solved(size: usize, cycles: usize, rhs: fn(f64, f64) -> f64) -> (f64, Vec<Vec<f64>>) {
    let ocean = Ocean::new(size, 0, cycles).unwrap();
    let mut sea = ocean.allocate(1, &mut Heap).unwrap();
    let layout = ocean.finest();
    let work = |worker: &mut Worker<'_>| {
        ocean.initialise(worker, &sea)?;
        let finest = &sea.levels[0];
        for (colour, own) in COLOURS.into_iter().zip(finest.rhs.view(worker).mine) {
            for (row, i) in own.chunks_exact_mut(layout.width()).zip(1..) {
                for element in layout.inner(i, colour) {
                    let [y, x] =
                        [i, layout.column(i, colour, element)].map(|at| at as f64 / layout.cells as f64);
                    row[element] = rhs(y, x);
                }
            }
        }
        worker.turn(&[finest.solution.to(&finest.colours[RED]), sea.largest.array().to(&sea.reset)])?;
        ocean.solve(worker, &sea)
    };
    let residual = run_crew(&Sequential, 1, false, work).unwrap()[0];
    (residual, grid_of(layout, ocean.result_mut(&mut sea).whole()))
}

/// Half a wave in each direction, and the right-hand side that it is the solution for.
fn wave(y: f64, x: f64) -> f64 {
    (PI * y).sin() * (PI * x).sin()
}

fn wave_rhs(y: f64, x: f64) -> f64 {
    -2.0 * PI * PI * wave(y, x)
}

#[test]
fn each_cycle_makes_the_residual_of_a_wave_smaller_whatever_the_size() {
    for size in [9, 17, 33, 65, 129] {
        let residuals: Vec<f64> = (1..=5).map(|cycles| solved(size, cycles, wave_rhs).0).collect();
        for two in residuals.windows(2) {
            assert!(two[1] < 0.1 * two[0], "size {size}: {residuals:?}");
        }
    }
}

#[test]
fn half_the_distance_between_points_has_a_quarter_of_the_error() {
    let error = |size: usize| {
        let (residual, grid) = solved(size, 20, wave_rhs);
        assert!(residual <= TOLERANCE);
        let cells = (size - 1) as f64;
        let points =
            grid.iter().enumerate().flat_map(|(i, row)| row.iter().enumerate().map(move |(j, x)| (i, j, x)));
        points.map(|(i, j, x)| (x - wave(i as f64 / cells, j as f64 / cells)).abs()).fold(0.0, f64::max)
    };
    for size in [9, 17, 33, 65] {
        let ratio = error(size) / error(2 * size - 1);
        assert!((3.8..4.2).contains(&ratio), "size {size}: {ratio}");
    }
}

#[test]
fn in_the_end_the_current_is_steady_and_strongest_in_the_west() {
    let ocean = Ocean::new(33, 600, 20).unwrap();
    let grid = grid_of(ocean.finest(), &result_of(&ocean));
    let mut northward = Vec::new();
    for i in 1..32 {
        for j in 1..32 {
            let sum = grid[i - 1][j] + grid[i + 1][j] + grid[i][j - 1] + grid[i][j + 1];
            let vorticity = (sum - 4.0 * grid[i][j]) / ocean.finest().square();
            let flow = 16.0 * (grid[i][j + 1] - grid[i][j - 1]);
            let balance = ocean.wind(i) - CURVATURE * flow - FRICTION * vorticity;
            assert!(balance.abs() < 1e-4, "({i}, {j}): {balance}");
            northward.push((flow, j));
        }
    }
    let strongest = northward.iter().max_by(|a, b| a.0.abs().total_cmp(&b.0.abs())).unwrap();
    assert!(strongest.1 < 4, "{strongest:?}");
}

#[test]
fn each_row_of_a_coarser_grid_is_with_the_worker_that_owns_it_in_the_finer_one() {
    for (cells, workers) in
        [4, 8, 64].into_iter().flat_map(|cells| (1..=9).map(move |workers| (cells, workers)))
    {
        let owner = |layout: Layout, row: usize| {
            let mut owners = WorkerNumber::all(workers).filter(|&who| layout.rows(who).contains(&row));
            let owner = owners.next().unwrap();
            assert_eq!(owners.next(), None);
            owner
        };
        let grids: Vec<Layout> = Layout::finest(cells).all().collect();
        assert_eq!(grids.last().unwrap().cells, 2);
        for two in grids.windows(2) {
            assert!((1..two[1].cells).all(|row| owner(two[1], row) == owner(two[0], 2 * row)));
        }
    }
}

#[test]
fn seas_that_cannot_be_halved_and_those_that_no_address_space_holds_are_refused() {
    for size in [0, 1, 2, 3, 4, 6, 7, 8, 64, 66, usize::MAX] {
        assert!(matches!(Ocean::new(size, 1, 1), Err(Error::NotAPowerOf2And1 { .. })), "{size}");
    }
    assert!(matches!(Ocean::new(5, 1, 0), Err(Error::Empty("--cycles"))));
    let huge = Ocean::new((1 << 63) + 1, 1, 1).unwrap();
    assert!(matches!(huge.allocate(1, &mut Heap), Err(Error::TooLarge)));
}
