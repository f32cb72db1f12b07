//! Each kernel, in both versions, against the plain loops on plain rows.

use super::*;

/// Sizes with and without rows and columns left over from tiles and panels.
const SIZES: [usize; 9] = [1, 2, 3, 4, 7, 8, 13, 24, 64];

type Rows = Vec<Vec<f64>>;

/// Numbers between 0 and 1, different for each seed; `diagonal` is added to those on the diagonal.
fn numbers(b: usize, seed: usize, diagonal: f64) -> Rows {
    let number = |i: usize, j: usize| ((seed * 7919 + i * b + j) as f64 * 0.754_877_666).fract();
    (0..b).map(|i| (0..b).map(|j| number(i, j) + if i == j { diagonal } else { 0.0 }).collect()).collect()
}

fn to_block(rows: &Rows) -> Vec<Line> {
    let b = rows.len();
    let mut block = vec![[0.0; LANES]; lines(b)];
    for (i, row) in rows.iter().enumerate() {
        for (j, &x) in row.iter().enumerate() {
            let (line, lane) = locate(b, i, j);
            block[line][lane] = x;
        }
    }
    block
}

/// Asserts that the block has the bits of the rows, and zeros where it is filled up.
fn assert_same(block: &[Line], rows: &Rows, what: &str) {
    let expected = to_block(rows);
    for (line, (a, b)) in block.iter().zip(&expected).enumerate() {
        assert_eq!(a.map(f64::to_bits), b.map(f64::to_bits), "{what}, b = {}, line {line}", rows.len());
    }
}

fn naive_lu0<const FUSED: bool>(d: &mut Rows) {
    let b = d.len();
    for k in 0..b {
        for j in k + 1..b {
            d[k][j] /= d[k][k];
            for i in k + 1..b {
                d[i][j] = subtract_product::<FUSED>(d[i][j], d[i][k], d[k][j]);
            }
        }
    }
}

fn naive_bdiv<const FUSED: bool>(d: &Rows, x: &mut Rows) {
    let b = d.len();
    for row in x {
        for j in 0..b {
            for p in 0..j {
                row[j] = subtract_product::<FUSED>(row[j], row[p], d[p][j]);
            }
        }
    }
}

#[expect(clippy::needless_range_loop, reason = "as in the book")]
fn naive_bmodd<const FUSED: bool>(d: &Rows, x: &mut Rows) {
    let b = d.len();
    for i in 0..b {
        for j in 0..b {
            for p in 0..i {
                x[i][j] = subtract_product::<FUSED>(x[i][j], d[i][p], x[p][j]);
            }
            x[i][j] /= d[i][i];
        }
    }
}

fn naive_bmod<const FUSED: bool>(l: &Rows, u: &Rows, c: &mut Rows) {
    let b = c.len();
    for i in 0..b {
        for j in 0..b {
            for p in 0..b {
                c[i][j] = subtract_product::<FUSED>(c[i][j], l[i][p], u[p][j]);
            }
        }
    }
}

/// The four kernels of one version.
struct Kernels {
    lu0: fn(&mut [Line], usize),
    bdiv: fn(&[Line], &mut [Line], usize),
    bmodd: fn(&[Line], &mut [Line], usize),
    bmod: fn(&[Line], &[Line], &mut [Line], usize),
}

fn agree_with_the_plain_loops<const FUSED: bool>(kernels: &Kernels) {
    for b in SIZES {
        let mut d = numbers(b, 1, b as f64);
        let mut block = to_block(&d);
        naive_lu0::<FUSED>(&mut d);
        (kernels.lu0)(&mut block, b);
        assert_same(&block, &d, "lu0");
        let (d, factors) = (d, block);

        let (mut below, mut right, mut inside) = (numbers(b, 2, 0.0), numbers(b, 3, 0.0), numbers(b, 4, 0.0));
        let (mut l, mut u, mut c) = (to_block(&below), to_block(&right), to_block(&inside));
        naive_bdiv::<FUSED>(&d, &mut below);
        (kernels.bdiv)(&factors, &mut l, b);
        assert_same(&l, &below, "bdiv");
        naive_bmodd::<FUSED>(&d, &mut right);
        (kernels.bmodd)(&factors, &mut u, b);
        assert_same(&u, &right, "bmodd");
        naive_bmod::<FUSED>(&below, &right, &mut inside);
        (kernels.bmod)(&l, &u, &mut c, b);
        assert_same(&c, &inside, "bmod");
    }
}

#[test]
fn the_baseline_kernels_do_what_the_plain_loops_do() {
    agree_with_the_plain_loops::<false>(&Kernels {
        lu0: factor::<false>,
        bdiv: divide_right::<false>,
        bmodd: divide_left::<false>,
        bmod: subtract_block::<false>,
    });
}

#[test]
fn the_kernels_of_this_processor_do_what_the_plain_loops_do() {
    let kernels = Kernels { lu0, bdiv, bmodd, bmod };
    if crate::kernels::fused() {
        agree_with_the_plain_loops::<true>(&kernels);
    } else {
        agree_with_the_plain_loops::<false>(&kernels);
    }
}
