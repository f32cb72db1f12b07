//! The four steps of blocked LU, each on whole blocks: [`lu0`], [`bdiv`], [`bmodd`] and [`bmod`], by
//! SPLASH-2's names.
//!
//! A block of `b × b` elements is a slice of [`Line`]s, a line being eight neighbours of one row. It is cut
//! into panels of eight columns, and the `b` lines of a panel follow one another: element (i, j) is in line
//! `(j / 8) · b + i`. With `b` = 64 a panel is exactly one page, and all that the innermost loop reads of its
//! right operand is contiguous: no packing, and no two lines of a panel compete for one set of the cache.
//! Where 8 does not divide `b`, the last panel is filled up with columns of zeros, which the kernels keep
//! zero.
//!
//! As in SPLASH-2, the diagonal belongs to L, and U has ones on it. Each element has the products of its sum
//! subtracted one by one in rising order of the inner index. The tiles change where an element waits
//! meanwhile (a register), never that order; the tests hold each kernel to the plain triple loop, bit for
//! bit.

use super::{multiversion, subtract_product};

/// Columns of a panel.
pub const LANES: usize = 8;

/// Eight neighbouring elements of one row.
pub type Line = [f64; LANES];

/// Rows that the innermost loop keeps in registers: four lines are eight 256-bit accumulators, just enough to
/// cover the latency of two fused multiply-adds a cycle.
const ROWS: usize = 4;

/// How many lines a block of `b × b` elements has.
pub const fn lines(b: usize) -> usize {
    b * b.div_ceil(LANES)
}

/// Where element (i, j) of a `b × b` block is: its line, and its place in the line.
pub const fn locate(b: usize, i: usize, j: usize) -> (usize, usize) {
    ((j / LANES) * b + i, j % LANES)
}

multiversion! {
    /// Factors the diagonal block `d` in place: `L·U = d`.
    pub fn lu0(d: &mut [Line], b: usize) => factor
}

multiversion! {
    /// Solves `X·U = x` in place, for a block below the diagonal; `d` holds the factored diagonal block.
    pub fn bdiv(d: &[Line], x: &mut [Line], b: usize) => divide_right
}

multiversion! {
    /// Solves `L·X = x` in place, for a block right of the diagonal; `d` holds the factored diagonal block.
    pub fn bmodd(d: &[Line], x: &mut [Line], b: usize) => divide_left
}

multiversion! {
    /// Subtracts the product of `l` (a block below the diagonal) and `u` (one right of it) from `c`.
    pub fn bmod(l: &[Line], u: &[Line], c: &mut [Line], b: usize) => subtract_block
}

#[inline(always)]
fn subtract_block<const FUSED: bool>(l: &[Line], u: &[Line], c: &mut [Line], b: usize) {
    for (u, c) in u.chunks_exact(b).zip(c.chunks_exact_mut(b)) {
        for row in tiles(b) {
            subtract_rows::<FUSED>(&mut c[row..], l, row, u, b, |_| ());
        }
    }
}

/// Where the tiles of a panel start: as many of [`ROWS`] rows as fit, then single rows.
#[inline(always)]
fn tiles(b: usize) -> impl Iterator<Item = usize> {
    let whole = b - b % ROWS;
    (0..whole).step_by(ROWS).chain(whole..b)
}

/// Subtracts, from the lines of the tile that starts at `row` and at `c`, the products of the same rows of
/// the block `l` with the lines of the panel `u`: as many columns of `l` take part as `u` has lines. While
/// the tile is still in registers, `finish` gets its lines.
#[inline(always)]
fn subtract_rows<const FUSED: bool>(
    c: &mut [Line],
    l: &[Line],
    row: usize,
    u: &[Line],
    b: usize,
    finish: impl Fn(&mut [Line]),
) {
    if row + ROWS <= b {
        let c = c.first_chunk_mut().expect("the tile's rows are in the panel");
        subtract_tile::<FUSED, ROWS>(c, l, row, u, b, finish);
    } else {
        let c = c.first_chunk_mut().expect("the tile's row is in the panel");
        subtract_tile::<FUSED, 1>(c, l, row, u, b, finish);
    }
}

/// The innermost loop: `R` lines of accumulators, for `R` rows.
#[inline(always)]
fn subtract_tile<const FUSED: bool, const R: usize>(
    c: &mut [Line; R],
    l: &[Line],
    row: usize,
    u: &[Line],
    b: usize,
    finish: impl Fn(&mut [Line]),
) {
    let mut sum = *c;
    for (u, l) in u.chunks(LANES).zip(l.chunks_exact(b)) {
        let l: &[Line; R] = l[row..].first_chunk().expect("the block has all rows of the tile");
        // A loop of known length is unrolled, and all its places in the panels become constants.
        if let Some(u) = u.first_chunk::<LANES>() {
            for (p, u) in u.iter().enumerate() {
                subtract_outer::<FUSED, R>(&mut sum, l, u, p);
            }
        } else {
            for (p, u) in u.iter().enumerate() {
                subtract_outer::<FUSED, R>(&mut sum, l, u, p);
            }
        }
    }
    finish(&mut sum);
    *c = sum;
}

/// Subtracts the product of column `p` of the lines `l` with the line `u`.
#[inline(always)]
fn subtract_outer<const FUSED: bool, const R: usize>(sum: &mut [Line; R], l: &[Line; R], u: &Line, p: usize) {
    for i in 0..R {
        subtract_line::<FUSED>(&mut sum[i], l[i][p], u);
    }
}

#[inline(always)]
fn divide_right<const FUSED: bool>(d: &[Line], x: &mut [Line], b: usize) {
    for (panel, d) in d.chunks_exact(b).enumerate() {
        let (solved, x) = x.split_at_mut(panel * b);
        let (above, corner) = d.split_at(panel * LANES);
        let corner = strict_upper(corner);
        for row in tiles(b) {
            subtract_rows::<FUSED>(&mut x[row..], solved, row, above, b, |x| {
                for p in 0..LANES {
                    for x in &mut *x {
                        let factor = x[p];
                        subtract_line::<FUSED>(x, factor, &corner[p]);
                    }
                }
            });
        }
    }
}

/// The part above the diagonal of the square that starts with the first of `lines`; zero elsewhere.
#[inline(always)]
fn strict_upper(lines: &[Line]) -> [Line; LANES] {
    let mut upper = [[0.0; LANES]; LANES];
    for (i, (to, from)) in upper.iter_mut().zip(lines).enumerate() {
        to[i + 1..].copy_from_slice(&from[i + 1..]);
    }
    upper
}

#[inline(always)]
fn divide_left<const FUSED: bool>(d: &[Line], x: &mut [Line], b: usize) {
    for x in x.chunks_exact_mut(b) {
        for row in tiles(b) {
            let (solved, x) = x.split_at_mut(row);
            subtract_rows::<FUSED>(x, d, row, solved, b, |x| {
                for i in 0..x.len() {
                    for p in 0..i {
                        let solved = x[p];
                        subtract_line::<FUSED>(&mut x[i], element(d, b, row + i, row + p), &solved);
                    }
                    let pivot = element(d, b, row + i, row + i);
                    x[i] = x[i].map(|x| x / pivot);
                }
            });
        }
    }
}

/// Element (i, j) of a block.
#[inline(always)]
fn element(block: &[Line], b: usize, i: usize, j: usize) -> f64 {
    let (line, lane) = locate(b, i, j);
    block[line][lane]
}

#[inline(always)]
fn factor<const FUSED: bool>(d: &mut [Line], b: usize) {
    for k in 0..b {
        let (first, lane) = (k / LANES * b, k % LANES);
        let (column, right) = d[first..].split_at_mut(b);
        let pivot = column[k][lane];
        for x in &mut column[k][lane + 1..] {
            *x /= pivot;
        }
        let mut u = column[k];
        u[..=lane].fill(0.0);
        for x in &mut column[k + 1..] {
            let factor = x[lane];
            subtract_line::<FUSED>(x, factor, &u);
        }
        for panel in right.chunks_exact_mut(b) {
            let u = panel[k].map(|x| x / pivot);
            panel[k] = u;
            for (x, l) in panel[k + 1..].iter_mut().zip(&column[k + 1..]) {
                subtract_line::<FUSED>(x, l[lane], &u);
            }
        }
    }
}

/// Subtracts `factor · u` from the line `x`.
#[inline(always)]
fn subtract_line<const FUSED: bool>(x: &mut Line, factor: f64, u: &Line) {
    for j in 0..LANES {
        x[j] = subtract_product::<FUSED>(x[j], factor, u[j]);
    }
}

#[cfg(test)]
mod tests;
