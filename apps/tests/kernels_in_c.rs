//! The kernels in C give the same bits as those in Rust, which are tested against the plain loops.

use scash_apps::kernels::block::{LANES, Line, bdiv, bmod, bmodd, lines, locate, lu0};
use scash_apps::kernels::stencil::relax;

mod c {
    use super::Line;

    #[link(name = "kernels_c", kind = "static")]
    unsafe extern "C" {
        pub(super) fn relax(old: *const f64, new: *mut f64, rows: usize, width: usize);
        pub(super) fn lu0(d: *mut Line, b: usize);
        pub(super) fn bdiv(d: *const Line, x: *mut Line, b: usize);
        pub(super) fn bmodd(d: *const Line, x: *mut Line, b: usize);
        pub(super) fn bmod(l: *const Line, u: *const Line, c: *mut Line, b: usize);
    }
}

fn number(seed: usize) -> f64 {
    (seed as f64 * 0.754_877_666).fract()
}

/// A block of numbers; `diagonal` is added to those on the diagonal.
fn numbers(b: usize, seed: usize, diagonal: f64) -> Vec<Line> {
    let mut block = vec![[0.0; LANES]; lines(b)];
    for i in 0..b {
        for j in 0..b {
            let (line, lane) = locate(b, i, j);
            block[line][lane] = number(seed * 7919 + i * b + j) + if i == j { diagonal } else { 0.0 };
        }
    }
    block
}

fn assert_same(c: &[Line], rust: &[Line], what: &str) {
    for (line, (c, rust)) in c.iter().zip(rust).enumerate() {
        assert_eq!(c.map(f64::to_bits), rust.map(f64::to_bits), "{what}, line {line}");
    }
}

#[test]
fn the_steps_of_lu_in_c_do_what_those_in_rust_do() {
    for b in [1, 2, 3, 4, 7, 8, 13, 24, 64] {
        let mut d = numbers(b, 1, b as f64);
        let mut twin = d.clone();
        lu0(&mut d, b);
        // SAFETY: the block has as many lines as one of b × b elements.
        unsafe { c::lu0(twin.as_mut_ptr(), b) };
        assert_same(&twin, &d, "lu0");

        let mut below = numbers(b, 2, 0.0);
        let mut twin = below.clone();
        bdiv(&d, &mut below, b);
        // SAFETY: as above; the blocks are two.
        unsafe { c::bdiv(d.as_ptr(), twin.as_mut_ptr(), b) };
        assert_same(&twin, &below, "bdiv");

        let mut right = numbers(b, 3, 0.0);
        let mut twin = right.clone();
        bmodd(&d, &mut right, b);
        // SAFETY: as above; the blocks are two.
        unsafe { c::bmodd(d.as_ptr(), twin.as_mut_ptr(), b) };
        assert_same(&twin, &right, "bmodd");

        let mut inside = numbers(b, 4, 0.0);
        let mut twin = inside.clone();
        bmod(&below, &right, &mut inside, b);
        // SAFETY: as above; the blocks are three.
        unsafe { c::bmod(below.as_ptr(), right.as_ptr(), twin.as_mut_ptr(), b) };
        assert_same(&twin, &inside, "bmod");
    }
}

#[test]
fn the_stencil_in_c_does_what_that_in_rust_does() {
    for (rows, width) in [(1, 3), (2, 4), (5, 19), (3, 66)] {
        let old: Vec<f64> = (0..(rows + 2) * width).map(number).collect();
        let mut new = vec![-7.0; rows * width];
        let mut twin = new.clone();
        relax(&old, &mut new, width);
        // SAFETY: `twin` has `rows` rows, and `old` two more.
        unsafe { c::relax(old.as_ptr(), twin.as_mut_ptr(), rows, width) };
        assert_eq!(twin, new);
    }
}
