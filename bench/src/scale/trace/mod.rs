//! What ranks do: the accesses and the arithmetic of programs, interval by interval. Traces are generated,
//! not recorded, so there is one for any number of ranks.

mod grid;
mod laplace;
mod lu;
mod pattern;

pub use laplace::Laplace;
pub use lu::Lu;
pub use pattern::Pattern;

use super::machine::{Arithmetic, Compute};
use super::time::Time;
use std::ops::Range;

/// One thing that a rank does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads bytes of an array, in order.
    Read(usize, Range<u64>),
    /// Writes bytes of an array, in order.
    Write(usize, Range<u64>),
    /// Writes zeros to bytes of an array that hold nothing else, in order.
    Clear(usize, Range<u64>),
    /// Computes.
    Compute(Arithmetic),
}

/// A program, seen from the protocol: shared arrays, and intervals that a memory barrier ends.
pub trait Trace {
    /// Bytes of each shared array.
    fn arrays(&self) -> Vec<u64>;

    /// Intervals before the part that is timed: initialisation.
    fn untimed(&self) -> u32;

    /// Intervals of the part that is timed.
    fn timed(&self) -> u32;

    /// Appends what a rank does in an interval, the untimed ones first.
    fn work(&self, rank: u32, interval: u32, ops: &mut Vec<Op>);
}

/// What the arithmetic of the timed part takes one processor that runs the program for one rank.
pub fn alone(trace: &dyn Trace, compute: &Compute) -> Time {
    let mut ops = Vec::new();
    (trace.untimed()..trace.untimed() + trace.timed()).for_each(|interval| trace.work(0, interval, &mut ops));
    let arithmetic = ops.into_iter().filter_map(|op| match op {
        Op::Compute(work) => Some(compute.time(work)),
        Op::Read(..) | Op::Write(..) | Op::Clear(..) => None,
    });
    arithmetic.sum()
}
