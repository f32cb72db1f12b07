//! The five-point stencil of LAPLACE.

use super::multiversion;

multiversion! {
    /// Makes each inner element of the rows `new` the mean of its four neighbours in `old`.
    ///
    /// Rows are `width` elements long. `old` starts one row before `new` and ends one row after it. The first
    /// and the last element of a row are boundary, and stay.
    pub fn relax(old: &[f64], new: &mut [f64], width: usize) => relax_rows
}

#[inline(always)]
fn relax_rows<const FUSED: bool>(old: &[f64], new: &mut [f64], width: usize) {
    for (row, new) in new.chunks_exact_mut(width).enumerate() {
        let (above, rest) = old[row * width..].split_at(width);
        let (middle, rest) = rest.split_at(width);
        relax_row(above, middle, &rest[..width], new);
    }
}

/// One row; the slices have the same length.
#[inline(always)]
fn relax_row(above: &[f64], middle: &[f64], below: &[f64], new: &mut [f64]) {
    let inner = 1..new.len() - 1;
    let vertical = above[inner.clone()].iter().zip(&below[inner.clone()]);
    let horizontal = middle.iter().zip(&middle[2..]);
    for ((new, (above, below)), (left, right)) in new[inner].iter_mut().zip(vertical).zip(horizontal) {
        *new = 0.25 * (above + below + left + right);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_inner_element_becomes_the_mean_of_its_neighbours_and_the_frame_stays() {
        for (rows, width) in [(1, 3), (2, 4), (3, 5), (5, 19), (1, 66)] {
            let old: Vec<f64> = (0..(rows + 2) * width).map(|i| (i as f64 * 0.7).sin()).collect();
            let mut new = vec![-7.0; rows * width];
            relax(&old, &mut new, width);
            for (i, &x) in new.iter().enumerate() {
                let at = i + width;
                let inner = (1..width - 1).contains(&(i % width));
                let mean = 0.25 * (old[at - width] + old[at + width] + old[at - 1] + old[at + 1]);
                assert_eq!(x, if inner { mean } else { -7.0 });
            }
        }
    }
}
