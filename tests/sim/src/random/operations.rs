//! Atomic operations on words of pieces.

use super::RandomProgram;
use super::accesses::piece;
use super::character::Character;
use crate::program::{Change, Op, Word};
use crate::rng::mix;
use scash_proto::Pages;

impl RandomProgram {
    /// Atomic operations on the words of an area.
    pub(super) fn operations(&mut self, pages: Pages, c: &Character, work: &mut [Vec<Vec<Op>>]) {
        let cells = pages.count * c.pieces;
        for cell in 0..cells {
            if let Some(word) = self.word(pages, c, cell)
                && self.is_worth_it(cells)
            {
                self.operations_on(word, work);
            }
        }
    }

    /// Some of a thread's operations come between what it does in its critical sections.
    pub(super) fn operate_within(&mut self, list: &mut Vec<Op>, sections: &mut [Vec<Op>]) {
        let Some(most) = u32::try_from(sections.len()).ok().filter(|&n| n > 0) else { return };
        list.retain(|&op| {
            let moves = matches!(op, Op::Operate(..)) && self.rng.chance(40);
            if moves {
                let section = &mut sections[self.rng.below(most) as usize];
                let last = u32::try_from(section.len()).map_or(1, |len| len - 1);
                section.insert(self.rng.between(1, last) as usize, op);
            }
            !moves
        });
    }

    fn operations_on(&mut self, word: Word, work: &mut [Vec<Vec<Op>>]) {
        let (percent, most) = (self.rng.pick(&[20, 60, 100]), self.rng.pick(&[1, 3, 10]));
        for threads in work {
            if !self.rng.chance(percent) {
                continue;
            }
            for _ in 0..self.rng.between(1, most) {
                let thread = self.rng.below(self.threads) as usize;
                let number = self.rng.bits();
                let change = self.rng.pick(&[
                    Change::Load,
                    Change::Add(1),
                    Change::Add(number),
                    Change::Swap(number % 256),
                    Change::SwapIfEven(number),
                ]);
                threads[thread].push(Op::Operate(word, change));
            }
        }
    }

    /// The word of a piece that is operated on in this interval, if one is.
    pub(super) fn word(&self, pages: Pages, c: &Character, cell: u32) -> Option<Word> {
        let name = mix(c.salt ^ u64::from(cell));
        let dice = mix(name ^ u64::from(self.next));
        let span = piece(pages.first + cell / c.pieces, cell % c.pieces, c.pieces, name);
        let width = if dice >> 32 & 1 == 0 { 4 } else { 8 };
        let first = span.first.next_multiple_of(width);
        let operated = dice % 100 < u64::from(c.operated) && first + width <= span.first + span.len;
        operated.then_some(Word { page: span.page, first, width })
    }
}
