//! Single patterns of sharing, which show what grows with the number of ranks.

use super::{Op, Trace};
use scash_proto::PAGE_SIZE;

const PAGE: u64 = PAGE_SIZE as u64;

/// A pattern, repeated in every interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Nobody does anything.
    Nothing,
    /// Each of so many ranks touches a page of its own for the first time.
    FirstTouch(u32),
    /// Rank 0 writes a page that all others read.
    OneForAll,
}

/// Intervals in which the protocol finds its pace, where a pattern is to be seen in its steady state.
const PACE: u32 = 6;
/// Intervals that are looked at then. A subscription is looked at in its fourth, and that is to be behind.
const STEADY: u32 = 2;

impl Trace for Pattern {
    fn arrays(&self) -> Vec<u64> {
        match self {
            Pattern::Nothing => Vec::new(),
            Pattern::FirstTouch(ranks) => vec![u64::from(*ranks) * PAGE],
            Pattern::OneForAll => vec![PAGE],
        }
    }

    fn untimed(&self) -> u32 {
        match self {
            Pattern::Nothing | Pattern::OneForAll => PACE,
            Pattern::FirstTouch(_) => 0,
        }
    }

    fn timed(&self) -> u32 {
        match self {
            Pattern::Nothing | Pattern::OneForAll => STEADY,
            Pattern::FirstTouch(_) => 1,
        }
    }

    fn work(&self, rank: u32, interval: u32, ops: &mut Vec<Op>) {
        match self {
            Pattern::Nothing => {}
            Pattern::FirstTouch(_) => {
                let page = u64::from(rank) * PAGE;
                ops.push(Op::Write(0, page..page + PAGE));
            }
            // A page that is read and written in one interval would be a race.
            Pattern::OneForAll if rank == 0 && interval.is_multiple_of(2) => ops.push(Op::Write(0, 0..PAGE)),
            Pattern::OneForAll if rank > 0 && !interval.is_multiple_of(2) => ops.push(Op::Read(0, 0..PAGE)),
            Pattern::OneForAll => {}
        }
    }
}
