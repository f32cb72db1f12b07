//! A data race in a random program: two ranks write one byte of a page of its own, in an interval in which
//! nobody synchronises.
//!
//! In other intervals ranks write bytes of that page each of its own, so its copies, homes and twins are in
//! any state when the race comes.

use super::RandomProgram;
use crate::program::{Interval, Op, Span};
use crate::rng::Rng;
use crate::world::Setup;
use scash_proto::node::{Collective, Outcome};
use scash_proto::{AllocOptions, PAGE_SIZE, Pages, Placement, Protocol, Rank};
use std::num::NonZeroU32;

/// Bytes of each rank, from the page's beginning; behind those of all ranks is the byte that is raced for.
const OWN: usize = 32;

/// A race to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planted {
    /// The byte's page.
    pub page: u32,
    /// Its place in the page.
    pub offset: usize,
    /// The two that write it, in ascending order.
    pub ranks: [Rank; 2],
    /// The interval.
    pub interval: u32,
}

impl RandomProgram {
    /// The program of a seed, with a race; for two ranks or more.
    pub fn racy(setup: &Setup) -> (RandomProgram, Planted) {
        let mut rng = Rng::part(setup.seed, 5);
        let first = rng.below(setup.size);
        let second = (first + 1 + rng.below(setup.size - 1)) % setup.size;
        let offset = OWN * setup.size as usize..PAGE_SIZE;
        let room = u32::try_from(offset.len()).unwrap_or(1);
        let mut program = RandomProgram::new(setup);
        let planted = Planted {
            page: 0,
            offset: offset.start + rng.below(room) as usize,
            ranks: [Rank(first.min(second)), Rank(first.max(second))],
            interval: rng.between(1, program.intervals - 1),
        };
        program.planted = Some(planted);
        (program, planted)
    }

    /// The first interval allocates the page.
    pub(super) fn arena(&mut self) -> Interval {
        let options = AllocOptions {
            placement: match self.rng.below(3) {
                0 => Placement::Rank(self.rng.below(self.size)),
                _ => Placement::FirstTouch,
            },
            protocol: self.rng.pick(&[Protocol::Adaptive, Protocol::Update, Protocol::Invalidate]),
            block: 1,
        };
        let bytes = PAGE_SIZE as u64;
        let pages = self
            .heap
            .alloc(bytes, NonZeroU32::MIN, options)
            .map(|a| Pages { first: a.first, count: a.pages });
        let mut interval = Interval::idle(self.size);
        interval.end = Collective::Alloc(bytes, options);
        interval.outcome = match pages {
            Ok(pages) => Outcome::Allocated(pages),
            Err(e) => Outcome::OutOfSpace(e),
        };
        interval
    }

    /// What ranks do with that page in an interval without the race. Critical sections do not come in
    /// between.
    pub(super) fn use_arena(&mut self, page: u32, work: &mut [Vec<Vec<Op>>]) {
        for (rank, threads) in work.iter_mut().enumerate() {
            let own = Span { page, first: rank * OWN, len: OWN - 1 };
            match self.rng.below(6) {
                0 | 1 => threads[0].push(Op::Write(own, self.rng.bits().to_le_bytes()[0])),
                2 => threads[0].push(Op::Flicker(own, 7)),
                3 => threads[0].push(Op::Read(own)),
                _ => {}
            }
        }
    }

    /// The interval with the race.
    pub(super) fn race(&mut self, planted: Planted) -> Interval {
        let mut interval = Interval::idle(self.size);
        self.use_arena(planted.page, &mut interval.work);
        // Not what was there, and not the same: such writes cannot be seen.
        let places = (planted.offset * 31).to_le_bytes()[0];
        for (rank, value) in planted.ranks.into_iter().zip([101u8, 202]) {
            let salt = value.wrapping_sub(places);
            let byte = Span { page: planted.page, first: planted.offset, len: 1 };
            interval.push(rank.0, Op::Write(byte, salt));
            let page = Pages::one(planted.page);
            match self.rng.below(8) {
                0 => interval.push(rank.0, Op::WriteBack(page)),
                1 => interval.push(rank.0, Op::SetHome(page, Rank(self.rng.below(self.size)))),
                _ => {}
            }
        }
        interval
    }
}
