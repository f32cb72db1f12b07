//! CG: the inverse power method for the smallest eigenvalue of a large sparse matrix, with conjugate
//! gradients to solve its systems.
//!
//! **Who owns what:** ranks form a rectangle, as wide as high or twice as wide. A rank has the block of the
//! matrix (`matrix`) of its row and column of ranks, and the part of each vector that belongs to its column;
//! all ranks of a column have the same part.
//!
//! **What travels:** a product of matrix and vector is added up along the rows of ranks, by exchanges at
//! doubling distances. Each rank has a part of the rows of the result then, and needs that of its column: it
//! changes with the rank that is its mirror image. Where there are twice as many columns, rows are twice as
//! long as columns; so each of two neighbours adds up one half alone.

mod matrix;

use scash_messages::Messages;

use super::{Kernel, Outcome, close, me, rank, ranks, timed};
use crate::Result;
use crate::npb::Class;
use matrix::Block;

/// The sizes of a class.
#[derive(Clone, Copy, Debug)]
struct Parameters {
    /// Rows of the matrix.
    rows: usize,
    /// Elements of each of the vectors that it is made of.
    nonzeros: usize,
    /// Iterations of the power method.
    iterations: usize,
    shift: f64,
    /// The published result.
    zeta: f64,
}

/// Steps of conjugate gradients in an iteration.
const STEPS: usize = 25;
const TOLERANCE: f64 = 1e-10;
const ROWS: u16 = 1;
const MIRROR: u16 = 2;

impl Parameters {
    fn of(class: Class) -> Self {
        match class {
            Class::S => {
                Self { rows: 1400, nonzeros: 7, iterations: 15, shift: 10.0, zeta: 8.597_177_507_864_8 }
            }
            Class::W => {
                Self { rows: 7000, nonzeros: 8, iterations: 15, shift: 12.0, zeta: 10.362_595_087_124 }
            }
            Class::A => {
                Self { rows: 14_000, nonzeros: 11, iterations: 15, shift: 20.0, zeta: 17.130_235_054_029 }
            }
        }
    }

    /// Floating-point operations, as NPB counts them.
    fn operations(&self) -> f64 {
        let product = (self.nonzeros * (self.nonzeros + 1)) as f64;
        let step = 3.0 + product + STEPS as f64 * (5.0 + product) + 3.0;
        2.0 * (self.iterations * self.rows) as f64 * step
    }
}

/// The rectangle of ranks, and this rank's place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rectangle {
    width: usize,
    height: usize,
    row: usize,
    column: usize,
}

impl Rectangle {
    /// For a power of two of ranks.
    fn new(ranks: usize, me: usize) -> Self {
        let height = 1 << (ranks.ilog2() / 2);
        let width = ranks / height;
        Self { width, height, row: me / width, column: me % width }
    }

    /// Whether there are twice as many columns as rows.
    fn is_wide(self) -> bool {
        self.width > self.height
    }

    /// The rank that has what this one's column needs, and needs what its own column does.
    fn mirror(self) -> usize {
        if self.is_wide() {
            (self.column / 2) * self.width + 2 * self.row + self.column % 2
        } else {
            self.column * self.width + self.row
        }
    }
}

/// A rank's part of the problem.
struct Solver<'a> {
    messages: &'a dyn Messages,
    rectangle: Rectangle,
    block: Block,
    x: Vec<f64>,
    z: Vec<f64>,
    p: Vec<f64>,
    q: Vec<f64>,
    r: Vec<f64>,
    /// A product's elements of all rows of the block.
    w: Vec<f64>,
    /// What others have added up of it.
    theirs: Vec<f64>,
}

/// Runs the kernel.
///
/// # Errors
/// A number of ranks that is no power of two up to 32, or a rank that is gone.
pub fn run(class: Class, messages: &dyn Messages) -> Result<Outcome> {
    let parameters = Parameters::of(class);
    let can = |ranks: usize| ranks.is_power_of_two() && ranks <= 32;
    let count = ranks(Kernel::Cg, messages, can, "1, 2, 4, 8, 16 or 32 ranks")?;
    let mut solver = Solver::new(&parameters, messages, Rectangle::new(count, me(messages)));
    // Once untimed, as NPB does.
    solver.iterate(parameters.shift)?;
    solver.x.fill(1.0);
    let mut zeta = 0.0;
    let seconds = timed(messages, || {
        for _ in 0..parameters.iterations {
            messages.checkpoint()?;
            zeta = solver.iterate(parameters.shift)?;
        }
        Ok(())
    })?;
    let verified = close(zeta, parameters.zeta, TOLERANCE);
    Ok(Outcome { seconds, operations: parameters.operations(), verified })
}

impl<'a> Solver<'a> {
    fn new(parameters: &Parameters, messages: &'a dyn Messages, rectangle: Rectangle) -> Self {
        let (long, short) = (parameters.rows / rectangle.height, parameters.rows / rectangle.width);
        let rows = rectangle.row * long..(rectangle.row + 1) * long;
        let columns = rectangle.column * short..(rectangle.column + 1) * short;
        let block = Block::make(parameters.rows, parameters.nonzeros, parameters.shift, rows, columns);
        let vector = || vec![0.0; short];
        let (z, p, q, r) = (vector(), vector(), vector(), vector());
        let (w, theirs) = (vec![0.0; long], vec![0.0; long]);
        Self { messages, rectangle, block, x: vec![1.0; short], z, p, q, r, w, theirs }
    }

    /// An iteration of the power method: the estimate of the eigenvalue.
    fn iterate(&mut self, shift: f64) -> Result<f64> {
        self.solve()?;
        let [xz, zz] = self.added_up([dot(&self.x, &self.z), dot(&self.z, &self.z)])?;
        let norm = 1.0 / zz.sqrt();
        self.x.iter_mut().zip(&self.z).for_each(|(x, z)| *x = norm * z);
        Ok(shift + 1.0 / xz)
    }

    /// Solves `A·z = x` as well as some steps can.
    fn solve(&mut self) -> Result<()> {
        self.z.fill(0.0);
        self.r.copy_from_slice(&self.x);
        self.p.copy_from_slice(&self.x);
        let [mut rho] = self.added_up([dot(&self.r, &self.r)])?;
        for _ in 0..STEPS {
            self.multiply()?;
            let [d] = self.added_up([dot(&self.p, &self.q)])?;
            let alpha = rho / d;
            self.z.iter_mut().zip(&self.p).for_each(|(z, p)| *z += alpha * p);
            self.r.iter_mut().zip(&self.q).for_each(|(r, q)| *r -= alpha * q);
            let [next] = self.added_up([dot(&self.r, &self.r)])?;
            let beta = next / rho;
            rho = next;
            self.p.iter_mut().zip(&self.r).for_each(|(p, r)| *p = r + beta * *p);
        }
        // The residual, which NPB prints and times: one more product.
        self.p.copy_from_slice(&self.z);
        self.multiply()?;
        let own = self.x.iter().zip(&self.q).map(|(x, q)| (x - q) * (x - q)).sum();
        self.added_up([own])?;
        Ok(())
    }

    /// `q = A·p`.
    fn multiply(&mut self) -> Result<()> {
        self.block.multiply(&self.p, &mut self.w);
        let mut part = 0..self.w.len();
        let mut distance = 1;
        while distance < self.rectangle.width {
            let peer = rank(me(self.messages) ^ distance);
            let mut gone = part.clone();
            if distance == 1 && self.rectangle.is_wide() {
                // Each of two neighbours keeps one half.
                let middle = part.end / 2;
                let halves = [0..middle, middle..part.end];
                let kept = self.rectangle.column % 2;
                [part, gone] = [halves[kept].clone(), halves[1 - kept].clone()];
            }
            let theirs = &mut self.theirs[..part.len()];
            self.messages.send_receive(ROWS, peer, &self.w[gone], peer, theirs)?;
            self.w[part.clone()].iter_mut().zip(theirs).for_each(|(sum, theirs)| *sum += *theirs);
            distance *= 2;
        }
        let mirror = self.rectangle.mirror();
        if mirror == me(self.messages) {
            self.q.copy_from_slice(&self.w[part]);
            return Ok(());
        }
        let mirror = rank(mirror);
        Ok(self.messages.send_receive(MIRROR, mirror, &self.w[part], mirror, &mut self.q)?)
    }

    /// The sums along the row of ranks.
    fn added_up<const N: usize>(&self, mut sums: [f64; N]) -> Result<[f64; N]> {
        let mut distance = 1;
        while distance < self.rectangle.width {
            let (peer, mut theirs) = (rank(me(self.messages) ^ distance), [0.0; N]);
            self.messages.send_receive(ROWS, peer, &sums, peer, &mut theirs)?;
            sums.iter_mut().zip(theirs).for_each(|(sum, theirs)| *sum += theirs);
            distance *= 2;
        }
        Ok(sums)
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirror_images_are_mutual_and_have_each_others_part() {
        for ranks in [1, 2, 4, 8, 16, 32] {
            for me in 0..ranks {
                let mine = Rectangle::new(ranks, me);
                let theirs = Rectangle::new(ranks, mine.mirror());
                assert_eq!(theirs.mirror(), me, "{ranks} ranks");
                // What a rank has added up, in parts as long as columns'.
                let part = if theirs.is_wide() { 2 * theirs.row + theirs.column % 2 } else { theirs.row };
                assert_eq!(part, mine.column, "{ranks} ranks");
            }
        }
    }
}
