//! OCEAN: a current that wind drives around a square sea, after the solver of the program of that name in
//! SPLASH-2.
//!
//! In each step the water's vorticity ζ changes: by the wind, which makes it turn; by friction; and by the
//! earth's curvature, which drives the current against the western coast (Stommel's model of the Gulf
//! Stream). The *stream function* ψ, along whose contour lines the water flows, follows from the vorticity by
//! an elliptic equation, ∇²ψ = ζ, with ψ = 0 on the coast. So in each step the same equation is solved with
//! another right-hand side, starting from the solution before.
//!
//! **Multigrid.** Relaxation makes an error smooth, and then hardly smaller. But what is smooth can be
//! computed on a grid with every second row and column, where it is less so, and so on, down to a grid of a
//! single point. A cycle relaxes, computes the residual, finds its correction on the coarser grid by the same
//! means, adds that, and relaxes once more. Cycles end when the largest residual is small, or after
//! `--cycles` of them.
//!
//! **Red and black.** Points are relaxed by colour, as in [`sor`](crate::sor), and each colour has a half of
//! an array. Black ones come last. So afterwards only red points have a residual, and from the coarser grid
//! only black ones need a correction: red ones, which are relaxed next, are computed from those.
//!
//! **Who owns what:** each worker owns neighbouring rows of the finest grid, and of a coarser one those that
//! lie in them. Of the coarse grids some workers own nothing, and just come to the barriers. Residuals are no
//! shared array: each worker computes those that its coarser rows ask for, one row of its neighbours' among
//! them. The largest residual is behind a lock, to which all bring theirs.
//!
//! **The same bits on any number of workers**: points of one colour do not depend on each other, and the
//! largest of several numbers does not depend on their order. So all workers also end their cycles alike.
//!
//! **The barriers**: each is there as somebody then reads what others wrote, or writes what they read.
//! - One after each colour: the other one reads rows of neighbours.
//! - One after the right-hand side of a coarser grid, where black points start from zero: these zeros are
//!   neighbours'. The largest residual is read after it.
//! - One after the correction, whose black points are read by neighbours; the barrier before it is that which
//!   ends the coarser grid's last colour.
//! - One after the vorticity, which each worker computes from its own rows alone. It is for the largest
//!   residual, which becomes zero then: others might not have read yet that the step before was done. Who
//!   read zero would take that for done, too, so no check would miss this barrier; but owners change at
//!   barriers.

mod level;

use std::f64::consts::PI;

use serde::Serialize;

use crate::crew::{Worker, WorkerNumber};
use crate::memory::Memory;
use crate::owned::{Array, Division, Locked};
use crate::program::{Program, ResultRun};
use crate::turn::Turn;
use crate::{Error, Result};
use level::{BLACK, COLOURS, Layout, Level, RED, Rows};

/// The program, with its parameters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ocean {
    /// Points in a row and in a column, those of the coast among them.
    size: usize,
    steps: usize,
    /// At most so many in a step.
    cycles: usize,
}

/// What the workers share.
pub struct Sea {
    /// The grids, the finest one first: there are two or more. Its right-hand side is the vorticity.
    levels: Vec<Level>,
    /// The largest residual of a cycle, a single element: who has its lock may make it larger,
    largest: Locked<f64>,
    /// the first worker sets it to zero,
    reset: Division,
    /// or all read it.
    read: Division,
}

/// The least grid: the next one would be the coast alone.
const LEAST: usize = 5;

/// How often the points of a grid are relaxed before and after it is corrected.
const BEFORE: usize = 2;
const AFTER: usize = 1;

/// A residual with which the stream function is right.
const TOLERANCE: f64 = 1e-6;

/// How long a step is; what the earth's curvature and friction do in a unit of time.
const STEP: f64 = 1.0;
const CURVATURE: f64 = 1.0;
const FRICTION: f64 = 0.05;

impl Ocean {
    /// So many steps on a grid of `size × size` points, of at most so many cycles each.
    ///
    /// # Errors
    /// If the size is none that can be halved again and again, or there are no cycles.
    pub fn new(size: usize, steps: usize, cycles: usize) -> Result<Self> {
        if size < LEAST || !(size - 1).is_power_of_two() {
            return Err(Error::NotAPowerOf2And1 { size, least: LEAST });
        }
        if cycles == 0 {
            return Err(Error::Empty("--cycles"));
        }
        Ok(Self { size, steps, cycles })
    }

    fn finest(&self) -> Layout {
        Layout::finest(self.size - 1)
    }

    /// Changes the vorticity of the worker's rows, which it owns, by what happens in a step.
    fn advance(&self, worker: &Worker<'_>, finest: &Level) {
        let (layout, rows) = (finest.layout, finest.layout.rows(worker.who()));
        let flow = finest.solution.unowned(worker);
        let own = finest.rhs.view(worker).mine;
        for (colour, own) in COLOURS.into_iter().zip(own) {
            let other = Rows::of(&flow, layout, 1 - colour, rows.clone());
            for (i, row) in rows.clone().zip(own.chunks_exact_mut(layout.width())) {
                let wind = self.wind(i);
                let beside = other.row(i);
                let points = row[layout.inner(i, colour)].iter_mut();
                for (vorticity, (west, east)) in points.zip(beside.iter().zip(&beside[1..])) {
                    let northward = 0.5 * layout.cells as f64 * (east - west);
                    *vorticity += STEP * (wind - CURVATURE * northward - FRICTION * *vorticity);
                }
            }
        }
    }

    /// What the wind adds to the vorticity of a row in a unit of time: it blows west on one coast, and east
    /// on the other.
    fn wind(&self, row: usize) -> f64 {
        -(PI * row as f64 / self.finest().cells as f64).sin()
    }

    /// Solves the equation of the finest grid, whose red points each worker owns, and both colours of its
    /// right-hand side. In the end nobody owns the solution. Returns the largest residual of the last cycle.
    fn solve(&self, worker: &mut Worker<'_>, sea: &Sea) -> Result<f64> {
        let Sea { levels, largest, reset, read } = sea;
        let (finest, coarser) = (&levels[0], &levels[1]);
        let mut residual = f64::INFINITY;
        for cycle in 1..=self.cycles {
            largest.array().mine(worker).fill(0.0);
            let mut then = to_restrict(finest, coarser);
            then.push(largest.to_holders());
            smooth(worker, finest, BEFORE, &then)?;
            let own = finest.restrict(worker, coarser);
            {
                let mut largest = largest.lock(worker, 0)?;
                *largest = largest.max(own);
            }
            let mut then = to_solve(finest, coarser);
            then.push(largest.array().to(read));
            worker.turn(&then)?;
            residual = largest.array().get(worker, 0..1)[0];
            if residual <= TOLERANCE {
                break;
            }
            correct(worker, levels)?;
            let next = if cycle == self.cycles { &finest.read } else { &finest.colours[RED] };
            smooth(worker, finest, AFTER, &[finest.solution.to(next), largest.array().to(reset)])?;
        }
        Ok(residual)
    }
}

/// Relaxes both colours of a grid so many times, and turns then to these owners. The worker owns its red
/// points, and both colours of the right-hand side.
fn smooth(worker: &mut Worker<'_>, level: &Level, times: usize, then: &[Turn<'_>]) -> Result<()> {
    for time in 1..=times {
        level.relax(worker, RED);
        worker.turn(&[level.solution.to(&level.colours[BLACK])])?;
        level.relax(worker, BLACK);
        if time < times {
            worker.turn(&[level.solution.to(&level.colours[RED])])?;
        }
    }
    worker.turn(then)
}

/// Who owns what while the residual of a grid goes to the coarser one.
fn to_restrict<'a>(fine: &'a Level, coarser: &'a Level) -> Vec<Turn<'a>> {
    vec![
        fine.solution.to(&fine.read),
        fine.rhs.to(&fine.read),
        coarser.solution.to(&coarser.colours[BLACK]),
        coarser.rhs.to(&coarser.both),
    ]
}

/// Who owns what when the coarser grid begins to be solved.
fn to_solve<'a>(fine: &'a Level, coarser: &'a Level) -> Vec<Turn<'a>> {
    vec![fine.rhs.to(&fine.both), coarser.solution.to(&coarser.colours[RED])]
}

/// Corrects the first of these grids by the solution of the second one, whose right-hand side is there. In
/// the end each worker owns its red points.
fn correct(worker: &mut Worker<'_>, levels: &[Level]) -> Result<()> {
    let (fine, coarser) = (&levels[0], &levels[1]);
    let then = [coarser.solution.to(&coarser.read), fine.solution.to(&fine.colours[BLACK])];
    improve(worker, &levels[1..], &then)?;
    fine.correct(worker, coarser);
    worker.turn(&[fine.solution.to(&fine.colours[RED])])
}

/// A cycle on the first of these grids, which solves the coarsest one, and turns then to these owners.
fn improve(worker: &mut Worker<'_>, levels: &[Level], then: &[Turn<'_>]) -> Result<()> {
    let [fine, coarser, ..] = levels else {
        // A single point off the coast, which is red.
        levels[0].relax(worker, RED);
        return worker.turn(then);
    };
    smooth(worker, fine, BEFORE, &to_restrict(fine, coarser))?;
    fine.restrict(worker, coarser);
    worker.turn(&to_solve(fine, coarser))?;
    correct(worker, levels)?;
    smooth(worker, fine, AFTER, then)
}

impl Program for Ocean {
    const NAME: &'static str = "ocean";
    type Arrays = Sea;
    type Element = f64;

    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Sea> {
        let levels = self
            .finest()
            .all()
            .map(|layout| Level::allocate(layout, workers, memory))
            .collect::<Result<_>>()?;
        Ok(Sea {
            levels,
            largest: memory.locked(1)?,
            reset: Division::even(1, workers),
            read: Division::read_by_all(1, workers),
        })
    }

    fn result<'a>(&self, sea: &'a Sea) -> &'a Array<f64> {
        &sea.levels[0].solution
    }

    fn result_mut<'a>(&self, sea: &'a mut Sea) -> &'a mut Array<f64> {
        &mut sea.levels[0].solution
    }

    fn owned(&self, who: WorkerNumber, _len: usize) -> Vec<ResultRun> {
        let layout = self.finest();
        COLOURS.map(|colour| ResultRun::in_place(layout.elements(colour, layout.all_rows(who)))).to_vec()
    }

    fn initialise(&self, worker: &mut Worker<'_>, sea: &Sea) -> Result<()> {
        let turns = |owners: fn(&Level) -> [&Division; 2]| -> Vec<Turn<'_>> {
            let turns = |level| {
                let [solution, rhs] = owners(level);
                [level.solution.to(solution), level.rhs.to(rhs)]
            };
            sea.levels.iter().flat_map(turns).collect()
        };
        worker.turn(&turns(|level| [&level.all, &level.all]))?;
        for level in &sea.levels {
            for array in [&level.solution, &level.rhs] {
                array.view(worker).mine.into_iter().for_each(|own| own.fill(0.0));
            }
        }
        worker.turn(&turns(|level| [&level.read, &level.both]))
    }

    fn compute(&self, worker: &mut Worker<'_>, sea: &Sea) -> Result<()> {
        let finest = &sea.levels[0];
        for _ in 0..self.steps {
            self.advance(worker, finest);
            worker.turn(&[finest.solution.to(&finest.colours[RED]), sea.largest.array().to(&sea.reset)])?;
            self.solve(worker, sea)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
