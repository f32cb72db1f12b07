//! Fourier transforms of several rows at once: element by element, the rows lie side by side, so that the
//! processor's vectors do one step of each.

use crate::fft::powers;

/// A complex number.
type Complex = [f64; 2];

/// Rows that are transformed at once: as many complex numbers as a cache line has.
pub(super) const LANES: usize = 4;

/// One element of each row: real parts, and imaginary parts.
type Bundle = [[f64; LANES]; 2];

/// How to transform rows of one length, a power of two.
#[derive(Debug)]
pub(super) struct RowTransform {
    /// The powers of the root of unity: half of them.
    powers: Vec<Complex>,
    rows: Vec<Bundle>,
    other: Vec<Bundle>,
}

impl RowTransform {
    /// For rows of so many elements.
    pub(super) fn new(n: usize) -> Self {
        let rows = vec![Bundle::default(); n];
        Self { powers: powers(n, n / 2), other: rows.clone(), rows }
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    /// Transforms the rows of a matrix; they are a multiple of [`LANES`].
    pub(super) fn transform_rows(&mut self, matrix: &mut [Complex], back: bool) {
        let n = self.len();
        for rows in matrix.chunks_exact_mut(n * LANES) {
            self.transform(rows, |element, lane| lane * n + element, back);
        }
    }

    /// Transforms the columns of a matrix with rows of `width` elements, a multiple of [`LANES`].
    pub(super) fn transform_columns(&mut self, matrix: &mut [Complex], width: usize, back: bool) {
        for first in (0..width).step_by(LANES) {
            self.transform(matrix, |element, lane| element * width + first + lane, back);
        }
    }

    /// Transforms `count` lines, a multiple of [`LANES`], that lie in so many pieces: first the first piece
    /// of each line.
    pub(super) fn transform_lines(&mut self, all: &mut [Complex], pieces: usize, count: usize, back: bool) {
        let len = self.len() / pieces;
        for first in (0..count).step_by(LANES) {
            let place =
                |element: usize, lane: usize| (element / len * count + first + lane) * len + element % len;
            self.transform(all, place, back);
        }
    }

    /// Transforms the rows whose elements are at these places, unscaled.
    fn transform(&mut self, all: &mut [Complex], place: impl Fn(usize, usize) -> usize, back: bool) {
        for (element, bundle) in self.rows.iter_mut().enumerate() {
            for lane in 0..LANES {
                [bundle[0][lane], bundle[1][lane]] = all[place(element, lane)];
            }
        }
        self.play(back);
        for (element, bundle) in self.rows.iter().enumerate() {
            for lane in 0..LANES {
                all[place(element, lane)] = [bundle[0][lane], bundle[1][lane]];
            }
        }
    }

    /// Stockham's algorithm: each stage reads one array and writes the other, and the result is in order.
    fn play(&mut self, back: bool) {
        let n = self.len();
        let mut stride = 1;
        while stride < n {
            let (low, high) = self.rows.split_at(n / 2);
            let groups = low.chunks_exact(stride).zip(high.chunks_exact(stride));
            let to = self.other.chunks_exact_mut(2 * stride);
            for (p, ((low, high), to)) in groups.zip(to).enumerate() {
                let [real, imaginary] = self.powers[p * stride];
                let root = [real, if back { -imaginary } else { imaginary }];
                let (sums, differences) = to.split_at_mut(stride);
                for at in 0..stride {
                    butterfly(&low[at], &high[at], root, &mut sums[at], &mut differences[at]);
                }
            }
            std::mem::swap(&mut self.rows, &mut self.other);
            stride *= 2;
        }
    }
}

/// `a + b`, and `(a - b)·root`.
#[inline]
fn butterfly(a: &Bundle, b: &Bundle, [real, imaginary]: Complex, sum: &mut Bundle, difference: &mut Bundle) {
    for lane in 0..LANES {
        let (x, y) = (a[0][lane] - b[0][lane], a[1][lane] - b[1][lane]);
        sum[0][lane] = a[0][lane] + b[0][lane];
        sum[1][lane] = a[1][lane] + b[1][lane];
        difference[0][lane] = x * real - y * imaginary;
        difference[1][lane] = x * imaginary + y * real;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fft::{multiply, root};

    fn numbers(count: usize) -> Vec<Complex> {
        (0..count).map(|at| [crate::random::unit(at), crate::random::unit(at + count)]).collect()
    }

    fn assert_close(a: &[Complex], b: &[Complex]) {
        assert_eq!(a.len(), b.len());
        for (a, b) in a.as_flattened().iter().zip(b.as_flattened()) {
            assert!((a - b).abs() < 1e-12, "{a} {b}");
        }
    }

    /// The transform by its definition.
    fn slowly(row: &[Complex]) -> Vec<Complex> {
        let n = row.len();
        let term = |k: usize, (at, &x): (usize, &Complex)| multiply(x, root(n, k * at % n));
        let sum = |k| {
            row.iter().enumerate().map(|it| term(k, it)).fold([0.0; 2], |s, t| [s[0] + t[0], s[1] + t[1]])
        };
        (0..n).map(sum).collect()
    }

    #[test]
    fn rows_columns_and_lines_in_pieces_are_transformed_by_the_definition() {
        let n = 16;
        let matrix = numbers(n * LANES);
        let right: Vec<Vec<Complex>> = matrix.chunks(n).map(slowly).collect();
        let mut rows = matrix.clone();
        RowTransform::new(n).transform_rows(&mut rows, false);
        assert_close(&rows, &right.concat());
        // The same rows as columns, and in two pieces.
        let mut columns: Vec<Complex> =
            (0..n).flat_map(|at| matrix.chunks(n).map(move |row| row[at])).collect();
        RowTransform::new(n).transform_columns(&mut columns, LANES, false);
        let transposed: Vec<Complex> = (0..n).flat_map(|at| right.iter().map(move |row| row[at])).collect();
        assert_close(&columns, &transposed);
        let pieces = |rows: &[Vec<Complex>]| {
            let piece = |half: usize| rows.iter().flat_map(move |row| row[half * n / 2..][..n / 2].to_vec());
            (0..2).flat_map(piece).collect::<Vec<Complex>>()
        };
        let mut lines = pieces(&matrix.chunks(n).map(<[Complex]>::to_vec).collect::<Vec<_>>());
        RowTransform::new(n).transform_lines(&mut lines, 2, LANES, false);
        assert_close(&lines, &pieces(&right));
    }

    #[test]
    fn there_and_back_is_as_many_times_what_it_was() {
        let matrix = numbers(64 * LANES);
        let (mut plan, mut there) = (RowTransform::new(64), matrix.clone());
        plan.transform_rows(&mut there, false);
        plan.transform_rows(&mut there, true);
        let scaled: Vec<Complex> = matrix.iter().map(|element| element.map(|part| part * 64.0)).collect();
        assert_close(&there, &scaled);
    }
}
