use super::*;
use crate::memory::Heap;
use crate::repetitions::tests::{agrees_on_any_number_of_threads, result_of};

#[test]
fn threads_compute_what_one_worker_does_whatever_the_sizes() {
    for (size, block) in [(1, 1), (5, 5), (6, 1), (12, 3), (40, 10), (64, 16), (72, 8)] {
        for layout in [MatrixLayout::Blocks, MatrixLayout::Rows] {
            agrees_on_any_number_of_threads(Lu::new(size, block).unwrap().laid_out(layout));
        }
    }
}

#[test]
fn factors_are_the_same_however_the_matrix_lies() {
    for (size, block) in [(5, 5), (36, 12), (64, 16)] {
        let lu = Lu::new(size, block).unwrap();
        let layout = lu.layout(1);
        let [blocks, rows] =
            [MatrixLayout::Blocks, MatrixLayout::Rows].map(|layout| result_of(&lu.laid_out(layout)));
        for (i, j) in (0..size).flat_map(|i| (0..size).map(move |j| (i, j))) {
            let (line, lane) = locate(block, i % block, j % block);
            let element = blocks[layout.block(i / block, j / block)][line * LANES + lane];
            assert_eq!(rows[i * size + j].to_bits(), element.to_bits(), "({i}, {j})");
        }
    }
}

#[test]
fn the_product_of_the_factors_is_the_matrix() {
    let (size, block) = (60, 12);
    let lu = Lu::new(size, block).unwrap();
    let layout = Layout::new(lu.blocks(), lines(block) * LANES, 1);
    let factors = result_of(&lu);
    let factor = |i: usize, j: usize| {
        let (line, lane) = locate(block, i % block, j % block);
        factors[layout.block(i / block, j / block)][line * LANES + lane]
    };
    for i in 0..size {
        for j in 0..size {
            let upper = |p: usize| if p == j { 1.0 } else { factor(p, j) };
            let product: f64 = (0..=i.min(j)).map(|p| factor(i, p) * upper(p)).sum();
            let expected = lu.element(i, j);
            assert!(
                (product - expected).abs() <= 1e-12 * size as f64,
                "({i}, {j}): {product} for {expected}"
            );
        }
    }
}

#[test]
fn the_matrix_is_diagonally_dominant() {
    let lu = Lu::new(48, 16).unwrap();
    for i in 0..48 {
        let others: f64 = (0..48).filter(|&j| j != i).map(|j| lu.element(i, j).abs()).sum();
        assert!(lu.element(i, i) > others);
    }
}

#[test]
fn blocks_that_do_not_divide_the_matrix_are_refused() {
    assert!(matches!(Lu::new(0, 64), Err(Error::Empty("--size"))));
    for (size, block) in [(100, 64), (32, 64), (64, 0)] {
        assert!(matches!(Lu::new(size, block), Err(Error::NotAMultiple { .. })), "{size}, {block}");
    }
    let huge = Lu::new(1 << 62, 1 << 61).unwrap();
    assert!(matches!(huge.allocate(1, &mut Heap), Err(Error::TooLarge)));
}
