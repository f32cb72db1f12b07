//! MG: some V-cycles of multigrid for a Poisson problem with periodic boundaries and twenty point charges.
//!
//! **Who owns what:** the cube is cut in two along its last dimension, and the one before, and the first, as
//! long as there are ranks to give the halves to. That holds for all grids, down to the one with two points
//! in each dimension; so there can be at most eight ranks.
//!
//! **What travels:** each rank keeps its neighbours' faces around its own points, and gets them anew after
//! each operation, dimension by dimension (`halo`).

mod charges;
mod field;
mod halo;

use scash_messages::Messages;
use scash_mp::Op;

use super::{Kernel, Outcome, close, me, ranks, timed};
use crate::Result;
use crate::npb::Class;
use field::{Field, Rows};
use halo::Halo;

/// The sizes of a class.
#[derive(Clone, Copy, Debug)]
struct Parameters {
    /// Points in each dimension.
    points: usize,
    /// The published result.
    norm: f64,
}

/// V-cycles.
const CYCLES: usize = 4;
const TOLERANCE: f64 = 1e-8;

impl Parameters {
    fn of(class: Class) -> Self {
        match class {
            Class::S => Self { points: 32, norm: 0.530_770_700_573_4e-4 },
            Class::W => Self { points: 128, norm: 0.646_732_937_533_9e-5 },
            Class::A => Self { points: 256, norm: 0.243_336_530_906_9e-5 },
        }
    }

    /// Floating-point operations, as NPB counts them.
    fn operations(self) -> f64 {
        58.0 * (CYCLES * self.points.pow(3)) as f64
    }
}

/// How the cube is divided, and this rank's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cube {
    parts: [usize; 3],
    place: [usize; 3],
}

impl Cube {
    /// For 1, 2, 4 or 8 ranks.
    fn new(ranks: usize, me: usize) -> Self {
        let parts = [8, 4, 2].map(|least| if ranks >= least { 2 } else { 1 });
        let [x, y, _] = parts;
        Self { parts, place: [me % x, me / x % y, me / (x * y)] }
    }

    /// The rank at a place.
    fn rank_at(self, [x, y, z]: [usize; 3]) -> usize {
        x + self.parts[0] * (y + self.parts[1] * z)
    }

    /// The neighbours in a dimension, below and above.
    fn neighbours(self, axis: usize) -> [usize; 2] {
        let parts = self.parts[axis];
        [parts - 1, 1].map(|distance| {
            let mut place = self.place;
            place[axis] = (place[axis] + distance) % parts;
            self.rank_at(place)
        })
    }
}

/// A rank's part of the problem.
struct Solver<'a> {
    messages: &'a dyn Messages,
    cube: Cube,
    points: usize,
    halo: Halo<'a>,
    rows: Rows,
    /// The charges.
    v: Field,
    /// The solution, or what it lacks, on grids of 2, 4, … points in each dimension.
    u: Vec<Field>,
    /// The residuals there.
    r: Vec<Field>,
}

/// Runs the kernel.
///
/// # Errors
/// A number of ranks other than 1, 2, 4 and 8, or one that is gone.
pub fn run(class: Class, messages: &dyn Messages) -> Result<Outcome> {
    let count = ranks(Kernel::Mg, messages, |ranks| [1, 2, 4, 8].contains(&ranks), "1, 2, 4 or 8 ranks")?;
    let parameters = Parameters::of(class);
    let mut solver = Solver::new(parameters.points, messages, Cube::new(count, me(messages)));
    // Once untimed, as NPB does.
    solver.begin()?;
    solver.residual()?;
    solver.cycle()?;
    solver.begin()?;
    let mut norm = 0.0;
    let seconds = timed(messages, || {
        solver.residual()?;
        for _ in 0..CYCLES {
            messages.checkpoint()?;
            solver.cycle()?;
            solver.residual()?;
        }
        norm = solver.norm()?;
        Ok(())
    })?;
    let verified = close(norm, parameters.norm, TOLERANCE);
    Ok(Outcome { seconds, operations: parameters.operations(), verified })
}

impl<'a> Solver<'a> {
    fn new(points: usize, messages: &'a dyn Messages, cube: Cube) -> Self {
        let level = |level: u32| Field::new(cube.parts.map(|parts| 2usize.pow(level) / parts));
        let levels = 1..=points.ilog2();
        Self {
            messages,
            cube,
            points,
            halo: Halo::new(messages, cube),
            rows: Rows::new(points),
            v: level(points.ilog2()),
            u: levels.clone().map(level).collect(),
            r: levels.map(level).collect(),
        }
    }

    /// No solution yet, and the charges.
    fn begin(&mut self) -> Result<()> {
        self.finest().fill(0.0);
        charges::place(&mut self.v, self.points, self.cube, self.messages)?;
        self.halo.exchange(&mut self.v)
    }

    /// The solution on the finest grid.
    fn finest(&mut self) -> &mut Field {
        self.u.last_mut().expect("there is a grid")
    }

    /// The residual on the finest grid.
    fn residual(&mut self) -> Result<()> {
        let finest = self.u.len() - 1;
        self.rows.residual(&self.u[finest], Some(&self.v), &mut self.r[finest]);
        self.halo.exchange(&mut self.r[finest])
    }

    /// A V-cycle: residuals go down to the coarsest grid, and corrections up, smoothed on each grid.
    fn cycle(&mut self) -> Result<()> {
        let finest = self.u.len() - 1;
        for level in (1..=finest).rev() {
            let (coarse, fine) = self.r.split_at_mut(level);
            self.rows.restrict(&fine[0], &mut coarse[level - 1]);
            self.halo.exchange(&mut coarse[level - 1])?;
        }
        self.u[0].fill(0.0);
        self.smooth(0)?;
        for level in 1..=finest {
            if level < finest {
                self.u[level].fill(0.0);
            }
            let (coarse, fine) = self.u.split_at_mut(level);
            self.rows.interpolate(&coarse[level - 1], &mut fine[0]);
            let v = (level == finest).then_some(&self.v);
            self.rows.residual(&self.u[level], v, &mut self.r[level]);
            self.halo.exchange(&mut self.r[level])?;
            self.smooth(level)?;
        }
        Ok(())
    }

    /// Corrects a solution by its residual.
    fn smooth(&mut self, level: usize) -> Result<()> {
        self.rows.smooth(&self.r[level], &mut self.u[level]);
        self.halo.exchange(&mut self.u[level])
    }

    /// The root of the mean square of the residual.
    fn norm(&self) -> Result<f64> {
        let residual = self.r.last().expect("there is a grid");
        let [sum] = self.messages.combined(Op::Sum, [residual.square()])?;
        Ok((sum / self.points.pow(3) as f64).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_all_places_and_are_their_neighbours_neighbours() {
        for ranks in [1, 2, 4, 8] {
            for me in 0..ranks {
                let cube = Cube::new(ranks, me);
                assert_eq!(cube.parts.iter().product::<usize>(), ranks);
                assert_eq!(cube.rank_at(cube.place), me);
                for axis in 0..3 {
                    let [below, above] = cube.neighbours(axis);
                    assert_eq!(Cube::new(ranks, below).neighbours(axis)[1], me);
                    assert_eq!(Cube::new(ranks, above).neighbours(axis)[0], me);
                }
            }
        }
    }
}
