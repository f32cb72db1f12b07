//! Reads and writes of pieces that at most one thread writes in an interval.

use super::RandomProgram;
use super::character::{Character, Readers, When, Writers};
use crate::program::{Op, Span};
use crate::rng::{Rng, mix};
use scash_proto::{PAGE_SIZE, Pages};

impl RandomProgram {
    /// What is read and written of a piece in this interval: all that is behind its word.
    pub(super) fn span(&self, pages: Pages, c: &Character, cell: u32) -> Option<Span> {
        let name = mix(c.salt ^ u64::from(cell));
        let span = piece(pages.first + cell / c.pieces, cell % c.pieces, c.pieces, name);
        let skip = self.word(pages, c, cell).map_or(0, |word| word.first + word.width - span.first);
        (skip < span.len).then_some(Span { first: span.first + skip, len: span.len - skip, ..span })
    }

    pub(super) fn writer(&mut self, c: &Character, cell: u32, cells: u32, name: u64) -> u32 {
        let n = u64::from(self.size);
        let rank = match c.writers {
            Writers::Owner => u64::from(cell) * n / u64::from(cells),
            Writers::One(rank) => u64::from(rank),
            Writers::Fixed => name % n,
            Writers::Rotating(every) => (name + u64::from(self.next / every)) % n,
            Writers::Chaos => u64::from(self.rng.below(self.size)),
        };
        u32::try_from(rank).unwrap_or(0)
    }

    pub(super) fn is_time(&mut self, when: When, name: u64) -> bool {
        let turn = self.next.wrapping_add(u32::try_from(name % 64).unwrap_or(0));
        match when {
            When::Always => true,
            When::Every(k) => turn.is_multiple_of(k),
            When::Often(percent) => self.rng.chance(percent),
            When::Phases(on, off) => turn % (on + off) < on,
        }
    }

    fn thread_of(&self, name: u64) -> usize {
        usize::try_from((name >> 32) % u64::from(self.threads)).unwrap_or(0)
    }

    pub(super) fn write(
        &mut self,
        c: &Character,
        writer: u32,
        name: u64,
        span: Span,
        work: &mut [Vec<Vec<Op>>],
    ) {
        let list = &mut work[writer as usize][self.thread_of(name)];
        for part in self.rng.cut(span) {
            if self.rng.chance(c.silent) {
                list.push(Op::Rewrite(part));
            } else if self.rng.chance(c.flickers) {
                list.push(Op::Flicker(part, self.rng.bits().to_le_bytes()[0]));
            } else if self.rng.chance(90) {
                list.push(Op::Write(part, self.rng.bits().to_le_bytes()[0]));
                // There, away, and back again: who looks twice sees two things, and the end looks like the
                // first.
                let again = if self.torn && c.flickers > 0 { self.rng.below(4) } else { 0 };
                (0..again).for_each(|_| list.push(Op::Flicker(part, self.rng.bits().to_le_bytes()[0])));
            }
            if self.rng.chance(20) {
                list.push(Op::Read(part));
            }
        }
    }

    /// Nobody writes the piece: whoever likes reads it.
    pub(super) fn reads(
        &mut self,
        c: &Character,
        writer: u32,
        name: u64,
        span: Span,
        work: &mut [Vec<Vec<Op>>],
    ) {
        for rank in 0..self.size {
            let reads = match c.readers {
                Readers::Neighbours => rank.abs_diff(writer) == 1,
                Readers::All => true,
                Readers::Fixed(percent) => mix(name ^ u64::from(rank)) % 100 < u64::from(percent),
                Readers::Chaos(percent) => self.rng.chance(percent),
            };
            if reads {
                let thread = self.rng.below(self.threads) as usize;
                let part = self.rng.cut(span)[0];
                work[rank as usize][thread].push(Op::Read(part));
            }
        }
    }
}

/// Piece number `i` of a page that is cut in `of` pieces: each of any length, at its place.
pub(super) fn piece(page: u32, i: u32, of: u32, name: u64) -> Span {
    let slot = PAGE_SIZE / of as usize;
    let start = i as usize * slot;
    let skip = usize::try_from(name >> 40).unwrap_or(0) % slot;
    let room = slot - skip;
    let len = match name >> 30 & 3 {
        0 => room,
        1 => 1 + usize::try_from(name >> 24).unwrap_or(0) % room,
        2 => room.min(8),
        _ => return Span { page, first: start, len: slot },
    };
    Span { page, first: start + skip, len }
}

impl Rng {
    /// Some parts of a span, at least one, that do not touch each other.
    pub(super) fn cut(&mut self, span: Span) -> Vec<Span> {
        if span.len < 3 || self.chance(60) {
            return vec![span];
        }
        let n = u32::try_from(span.len).unwrap_or(3);
        let a = self.between(1, n - 2);
        let b = self.between(a, n - 1);
        let first = Span { len: a as usize, ..span };
        let second = Span { first: span.first + b as usize, len: (n - b) as usize, ..span };
        vec![first, second]
    }
}
