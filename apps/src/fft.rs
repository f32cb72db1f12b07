//! FFT: a one-dimensional complex transform in six steps, as SPLASH-2's, that keeps its reads and writes in
//! rows.
//!
//! `size = m²` points are an `m × m` matrix, row by row. With point `a·m + b` of the input and point `c +
//! d·m` of the output, the transform's sum over all points becomes one over a, then one over b:
//!
//! 1. transpose, so that row b has the points of all a;
//! 2. transform each row;
//! 3. multiply element (b, c) with the twiddle factor, the bc-th power of the size-th root of unity;
//! 4. transpose, so that row c has what belongs together of all b;
//! 5. transform each row;
//! 6. transpose, which brings the output in order.
//!
//! **Who owns what:** each worker owns neighbouring rows of all matrices, and writes those alone. A
//! transposition reads columns, which lie across everybody's rows: all workers exchange data with all others.
//!
//! **Three barriers**, one before each exchange but the first, and one at the end.

use std::f64::consts::TAU;
use std::ops::Range;

use serde::Serialize;

use crate::crew::{Worker, WorkerNumber};
use crate::memory::Memory;
use crate::owned::{Array, Division};
use crate::program::{Program, ResultRun};
use crate::random::unit;
use crate::{Error, Result};

/// A complex number: its real and its imaginary part.
type Complex = [f64; 2];

/// The program, with its parameters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Fft {
    size: usize,
}

/// What the workers share.
pub struct Matrices {
    /// The input; then what step 4 moves here.
    input: Array<Complex>,
    /// What step 1 moves here; then the output.
    output: Array<Complex>,
    /// The factors of step 3. Each worker makes and uses those of its rows.
    twiddles: Array<Complex>,
    /// Each worker owns its rows; nobody owns anything.
    rows: Division,
    read: Division,
}

/// Rows that are transposed together: what lies in their columns is in the cache when the next column is
/// read.
const TILE: usize = 16;

impl Fft {
    /// Transforms that many points.
    ///
    /// # Errors
    /// If there is no point, or their number is not a power of 4.
    pub fn new(size: usize) -> Result<Self> {
        if size == 0 {
            return Err(Error::Empty("--size"));
        }
        if !size.is_power_of_two() || !size.ilog2().is_multiple_of(2) {
            return Err(Error::NotAPowerOf4(size));
        }
        Ok(Self { size })
    }

    /// Rows, and elements of a row.
    fn width(&self) -> usize {
        self.size.isqrt()
    }

    /// The elements of the worker's rows.
    fn rows(&self, who: WorkerNumber) -> Range<usize> {
        let rows = who.part(self.width());
        rows.start * self.width()..rows.end * self.width()
    }

    /// Steps 1, 4 and 6: makes columns of the matrix `from` the worker's rows of `to`, and returns these.
    fn transpose<'a>(
        &self,
        worker: &'a Worker<'_>,
        from: &'a Array<Complex>,
        to: &'a Array<Complex>,
    ) -> &'a mut [Complex] {
        let (who, m) = (worker.who(), self.width());
        let (from, own) = (from.get(worker, 0..self.size), to.mine(worker));
        for (tile, from) in from.chunks(TILE * m).enumerate() {
            for (column, row) in who.part(m).zip(own.chunks_exact_mut(m)) {
                for (to, from) in row[tile * TILE..].iter_mut().zip(from.chunks_exact(m)) {
                    *to = from[column];
                }
            }
        }
        own
    }
}

/// The first `count` powers of the n-th root of unity by which forward transforms multiply.
pub(crate) fn powers(n: usize, count: usize) -> Vec<Complex> {
    (0..count).map(|k| root(n, k)).collect()
}

/// The k-th power of that root.
pub(crate) fn root(n: usize, k: usize) -> Complex {
    let (sine, cosine) = (-TAU * (k as f64 / n as f64)).sin_cos();
    [cosine, sine]
}

pub(crate) fn multiply([a, b]: Complex, [c, d]: Complex) -> Complex {
    [a * c - b * d, a * d + b * c]
}

/// Transforms a row in place, given the first half of the powers of its root of unity.
fn transform(row: &mut [Complex], powers: &[Complex]) {
    let n = row.len();
    for i in 0..n {
        let mirrored = if n == 1 { 0 } else { i.reverse_bits() >> (usize::BITS - n.ilog2()) };
        if i < mirrored {
            row.swap(i, mirrored);
        }
    }
    let mut half = 1;
    while half < n {
        for pair in row.chunks_exact_mut(2 * half) {
            let (even, odd) = pair.split_at_mut(half);
            let powers = powers.iter().step_by(n / (2 * half));
            for ((even, odd), power) in even.iter_mut().zip(odd).zip(powers) {
                let (a, b) = (*even, multiply(*odd, *power));
                *even = [a[0] + b[0], a[1] + b[1]];
                *odd = [a[0] - b[0], a[1] - b[1]];
            }
        }
        half *= 2;
    }
}

impl Program for Fft {
    const NAME: &'static str = "fft";
    type Arrays = Matrices;
    type Element = Complex;

    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Matrices> {
        let mut matrix = || memory.array(self.size);
        let (input, output, twiddles) = (matrix()?, matrix()?, matrix()?);
        let rows = Division::rows(self.width(), self.width(), workers);
        Ok(Matrices { input, output, twiddles, rows, read: Division::read_by_all(self.size, workers) })
    }

    fn result<'a>(&self, arrays: &'a Self::Arrays) -> &'a Array<Self::Element> {
        &arrays.output
    }

    fn result_mut<'a>(&self, arrays: &'a mut Self::Arrays) -> &'a mut Array<Self::Element> {
        &mut arrays.output
    }

    fn owned(&self, who: WorkerNumber, _len: usize) -> Vec<ResultRun> {
        vec![ResultRun::in_place(self.rows(who))]
    }

    fn initialise(&self, worker: &mut Worker<'_>, matrices: &Matrices) -> Result<()> {
        let Matrices { input, output, twiddles, rows: own, read } = matrices;
        worker.turn(&[input.to(own), output.to(own), twiddles.to(own)])?;
        let (m, rows) = (self.width(), self.rows(worker.who()));
        output.mine(worker).fill([0.0, 0.0]);
        for ((at, x), twiddle) in rows.zip(input.mine(worker)).zip(twiddles.mine(worker)) {
            *x = [unit(2 * at) - 0.5, unit(2 * at + 1) - 0.5];
            *twiddle = root(self.size, (at / m) * (at % m));
        }
        worker.turn(&[input.to(read)])
    }

    fn compute(&self, worker: &mut Worker<'_>, matrices: &Matrices) -> Result<()> {
        let m = self.width();
        let Matrices { input, output, twiddles, rows, read } = matrices;
        let powers = powers(m, m / 2);
        let own = self.transpose(worker, input, output);
        let twiddles = &*twiddles.mine(worker);
        for (row, twiddles) in own.chunks_exact_mut(m).zip(twiddles.chunks_exact(m)) {
            transform(row, &powers);
            row.iter_mut().zip(twiddles).for_each(|(x, twiddle)| *x = multiply(*x, *twiddle));
        }
        worker.turn(&[output.to(read), input.to(rows)])?;
        let own = self.transpose(worker, output, input);
        own.chunks_exact_mut(m).for_each(|row| transform(row, &powers));
        worker.turn(&[input.to(read), output.to(rows)])?;
        self.transpose(worker, input, output);
        worker.turn(&[output.to(read)])
    }
}

#[cfg(test)]
mod tests;
