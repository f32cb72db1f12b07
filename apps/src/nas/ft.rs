//! FT: a diffusion equation in three dimensions, solved by Fourier transforms: forward once, and back at each
//! time.
//!
//! **Who owns what:** in space, a rank has planes of the third dimension (slabs). In frequency, it has a part
//! of the lines along the third dimension, each as a piece from every slab.
//!
//! **What travels:** between the transforms of the first two dimensions and that of the third, everybody
//! exchanges with everybody; transposed before, the pieces lie in order.

mod lanes;

use std::f64::consts::PI;
use std::ops::Range;

use scash_messages::Messages;
use scash_mp::Op;

use super::{Kernel, Outcome, close, me, ranks, timed};
use crate::Result;
use crate::npb::{Class, Random};
use lanes::RowTransform;

/// A complex number.
type Complex = [f64; 2];

const SEED: u64 = 314_159_265;
const DIFFUSION: f64 = 1e-6;
const TIMES: usize = 6;
/// Points of a checksum.
const SAMPLES: usize = 1024;
const TOLERANCE: f64 = 1e-12;

/// Points in the three dimensions; those of the first are neighbours in memory.
#[derive(Clone, Copy, Debug)]
struct Grid {
    x: usize,
    y: usize,
    z: usize,
}

impl Grid {
    fn of(class: Class) -> Self {
        match class {
            Class::S => Self { x: 64, y: 64, z: 64 },
            Class::W => Self { x: 128, y: 128, z: 32 },
            Class::A => Self { x: 256, y: 256, z: 128 },
        }
    }

    fn points(self) -> usize {
        self.x * self.y * self.z
    }

    /// Floating-point operations, as NPB counts them.
    fn operations(self) -> f64 {
        let (points, log) = (self.points() as f64, (self.points() as f64).ln());
        points * (14.8157 + 7.19641 * log + (5.23518 + 7.21113 * log) * TIMES as f64)
    }
}

/// The published checksums, at all times.
fn published(class: Class) -> [Complex; TIMES] {
    match class {
        Class::S => [
            [5.546087004964e+02, 4.845363331978e+02],
            [5.546385409189e+02, 4.865304269511e+02],
            [5.546148406171e+02, 4.883910722336e+02],
            [5.545423607415e+02, 4.901273169046e+02],
            [5.544255039624e+02, 4.917475857993e+02],
            [5.542683411902e+02, 4.932597244941e+02],
        ],
        Class::W => [
            [5.673612178944e+02, 5.293246849175e+02],
            [5.631436885271e+02, 5.282149986629e+02],
            [5.594024089970e+02, 5.270996558037e+02],
            [5.560698047020e+02, 5.260027904925e+02],
            [5.530898991250e+02, 5.249400845633e+02],
            [5.504159734538e+02, 5.239212247086e+02],
        ],
        Class::A => [
            [5.046735008193e+02, 5.114047905510e+02],
            [5.059412319734e+02, 5.098809666433e+02],
            [5.069376896287e+02, 5.098144042213e+02],
            [5.077892868474e+02, 5.101336130759e+02],
            [5.085233095391e+02, 5.104914655194e+02],
            [5.091487099959e+02, 5.107917842803e+02],
        ],
    }
}

/// A rank's part of the problem.
struct Equation<'a> {
    messages: &'a dyn Messages,
    grid: Grid,
    ranks: usize,
    /// The planes of this rank.
    planes: Range<usize>,
    /// The lines along the third dimension of this rank, by the place that they have in a plane.
    lines: Range<usize>,
    plans: [RowTransform; 3],
    /// Of each element in frequency, what it is multiplied by from one time to the next.
    decay: Vec<f64>,
    /// In frequency.
    spectrum: Vec<Complex>,
    /// Of two arrangements, what is transformed now and what is exchanged.
    here: Vec<Complex>,
    there: Vec<Complex>,
}

/// Runs the kernel.
///
/// # Errors
/// A number of ranks that is no power of two up to 32, or a rank that is gone.
pub fn run(class: Class, messages: &dyn Messages) -> Result<Outcome> {
    let grid = Grid::of(class);
    let can = |ranks: usize| ranks.is_power_of_two() && ranks <= 32;
    let count = ranks(Kernel::Ft, messages, can, "1, 2, 4, 8, 16 or 32 ranks")?;
    let mut equation = Equation::new(grid, messages, count);
    // Once untimed, as NPB does.
    equation.begin()?;
    let mut sums = [Complex::default(); TIMES];
    let seconds = timed(messages, || {
        equation.begin()?;
        for sum in &mut sums {
            messages.checkpoint()?;
            *sum = equation.step()?;
        }
        Ok(())
    })?;
    let verified = is_published(class, &sums);
    Ok(Outcome { seconds, operations: grid.operations(), verified })
}

fn is_published(class: Class, sums: &[Complex; TIMES]) -> bool {
    let published = published(class);
    let mut both = sums.as_flattened().iter().zip(published.as_flattened());
    both.all(|(&sum, &published)| close(sum, published, TOLERANCE))
}

impl<'a> Equation<'a> {
    fn new(grid: Grid, messages: &'a dyn Messages, ranks: usize) -> Self {
        let part = |len: usize| me(messages) * (len / ranks)..(me(messages) + 1) * (len / ranks);
        let array = || vec![Complex::default(); grid.points() / ranks];
        Self {
            messages,
            grid,
            ranks,
            planes: part(grid.z),
            lines: part(grid.x * grid.y),
            plans: [grid.x, grid.y, grid.z].map(RowTransform::new),
            decay: vec![0.0; grid.points() / ranks],
            spectrum: array(),
            here: array(),
            there: array(),
        }
    }

    /// The state at the beginning, in frequency.
    fn begin(&mut self) -> Result<()> {
        self.fill_decay();
        let first = self.planes.start * self.grid.x * self.grid.y;
        let mut random = Random::after(SEED, 2 * first as u64);
        self.here.as_flattened_mut().iter_mut().for_each(|part| *part = random.number());
        self.transform_planes(false);
        self.transpose();
        self.messages.all_to_all(self.there.as_flattened(), self.spectrum.as_flattened_mut())?;
        let (pieces, lines) = (self.ranks, self.lines.len());
        self.plans[2].transform_lines(&mut self.spectrum, pieces, lines, false);
        Ok(())
    }

    /// The next time: its checksum.
    fn step(&mut self) -> Result<Complex> {
        for ((element, decay), here) in self.spectrum.iter_mut().zip(&self.decay).zip(&mut self.there) {
            *element = element.map(|part| part * decay);
            *here = *element;
        }
        let (pieces, lines) = (self.ranks, self.lines.len());
        self.plans[2].transform_lines(&mut self.there, pieces, lines, true);
        self.messages.all_to_all(self.there.as_flattened(), self.here.as_flattened_mut())?;
        std::mem::swap(&mut self.here, &mut self.there);
        self.transpose_back();
        self.transform_planes(true);
        self.checksum()
    }

    /// Transforms the first two dimensions of all planes, in `here`.
    fn transform_planes(&mut self, back: bool) {
        let Grid { x, y, .. } = self.grid;
        let [along_x, along_y, _] = &mut self.plans;
        for plane in self.here.chunks_exact_mut(x * y) {
            along_x.transform_rows(plane, back);
            along_y.transform_columns(plane, x, back);
        }
    }

    /// From planes in `here` to lines in `there`: those of rank 0 first, of which all points of this rank's
    /// planes are neighbours.
    fn transpose(&mut self) {
        transpose(&self.here, &mut self.there, self.planes.len(), self.grid.x * self.grid.y);
    }

    /// From lines in `there` to planes in `here`.
    fn transpose_back(&mut self) {
        transpose(&self.there, &mut self.here, self.grid.x * self.grid.y, self.planes.len());
    }

    /// The factors e^(-4απ²k²), where k² is the sum over the dimensions.
    fn fill_decay(&mut self) {
        let Grid { x, y, z } = self.grid;
        let [along_x, along_y, along_z] = [x, y, z].map(decays);
        let thick = self.planes.len();
        let pieces = self.decay.chunks_exact_mut(self.lines.len() * thick).zip(along_z.chunks_exact(thick));
        for (piece, along_z) in pieces {
            for (points, line) in piece.chunks_exact_mut(thick).zip(self.lines.clone()) {
                let plane = along_x[line % x] * along_y[line / x];
                points.iter_mut().zip(along_z).for_each(|(decay, along_z)| *decay = plane * along_z);
            }
        }
    }

    /// The sum over some points, of all ranks.
    fn checksum(&self) -> Result<Complex> {
        let Grid { x, y, z } = self.grid;
        let mut sum = Complex::default();
        for sample in 1..=SAMPLES {
            let at = [sample % x, 3 * sample % y, 5 * sample % z];
            if self.planes.contains(&at[2]) {
                let [real, imaginary] = self.here[((at[2] - self.planes.start) * y + at[1]) * x + at[0]];
                sum[0] += real;
                sum[1] += imaginary;
            }
        }
        let sum = self.messages.combined(Op::Sum, sum)?;
        Ok(sum.map(|part| part / self.grid.points() as f64))
    }
}

/// What one dimension of so many points contributes to the decay: k is how often a wave fits into it, with
/// the sign that makes it least.
fn decays(n: usize) -> Vec<f64> {
    let frequency = |at: usize| if at < n / 2 { at as f64 } else { at as f64 - n as f64 };
    let decay = |k: f64| (-4.0 * DIFFUSION * PI * PI * k * k).exp();
    (0..n).map(|at| decay(frequency(at))).collect()
}

/// Elements of a tile's side: two tiles stay in the processor's nearest cache.
const TILE: usize = 16;

/// Transposes a matrix of so many rows and columns.
fn transpose(from: &[Complex], to: &mut [Complex], rows: usize, columns: usize) {
    for top in (0..rows).step_by(TILE) {
        for left in (0..columns).step_by(TILE) {
            for column in left..columns.min(left + TILE) {
                for row in top..rows.min(top + TILE) {
                    to[column * rows + row] = from[row * columns + column];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_transposed_twice_is_itself() {
        let matrix: Vec<Complex> = (0..35 * 18).map(|at| [f64::from(at), 0.0]).collect();
        let (mut once, mut twice) = (matrix.clone(), matrix.clone());
        transpose(&matrix, &mut once, 35, 18);
        assert_eq!(once[35 + 2], matrix[2 * 18 + 1]);
        transpose(&once, &mut twice, 18, 35);
        assert_eq!(twice, matrix);
    }
}
