//! Accesses to memory, each compared with the oracle.

use super::State;
use crate::program::{Change, Op, Program, Span, Word};
use crate::report::Seen;
use crate::world::{Result, World, number};
use scash_proto::{Input, PAGE_SIZE, Rank};

impl<P: Program> World<P> {
    /// Marks a page at its home, or executes the atomic operation that the thread is at.
    pub(super) fn step_operation(
        &mut self,
        rank: usize,
        t: usize,
        page: u32,
        at: Rank,
        mark: bool,
    ) -> Result<()> {
        if mark {
            let epoch = self.ranks[rank].node.epoch();
            self.ranks[at.0 as usize].marks.insert(page, epoch);
            self.ranks[rank].threads[t].state = State::Operating { page, at, mark: false };
            return self.tell(rank, Input::Marked(page));
        }
        let thread = &mut self.ranks[rank].threads[t];
        let Some(&Op::Operate(word, change)) = thread.ops.get(thread.at) else {
            return Err(self.failure(&format!("rank {rank} was told to operate, and did not want to")));
        };
        thread.at += 1;
        let place = word.page as usize * PAGE_SIZE + word.first;
        let want = number_in(&self.oracle[place..place + word.width]);
        let after = change.apply(want).to_le_bytes();
        let frame = &mut self.frames(at.0 as usize).bytes_mut(word.page)[word.span().range()];
        let have = number_in(frame);
        frame.copy_from_slice(&after[..word.width]);
        self.ranks[rank].threads[t].seen = have;
        self.oracle[place..place + word.width].copy_from_slice(&after[..word.width]);
        self.report.checked += word.width as u64;
        self.trace(|| format!("rank {rank} makes {after:?} of {have:#x} at {word:?} of {at}"));
        if have == want {
            return Ok(());
        }
        let what = format!(
            "rank {rank} operates on {word:?}, which is {have:#x} at {at}, but {want:#x} was written"
        );
        Err(self.failure_about(&what, rank, page))
    }

    /// The first step loads a word, the second one stores what is to be there. A store that does not depend
    /// on what was there looks at nothing.
    pub(super) fn plainly(&mut self, rank: usize, t: usize, word: Word, change: Change) -> Result<()> {
        let had = self.frames(rank).bytes(word.page)[word.span().range()].to_vec();
        let thread = &mut self.ranks[rank].threads[t];
        let place = word.page as usize * PAGE_SIZE + word.first;
        let blind = matches!(change, Change::Swap(_)).then(|| had.clone());
        let Some(before) = thread.before.take().or(blind) else {
            let have = number_in(&had);
            thread.seen = have;
            if change == Change::Load {
                thread.at += 1;
            } else {
                thread.before = Some(had);
            }
            return self.seen(rank, word, have);
        };
        thread.at += 1;
        let after = change.apply(number_in(&before)).to_le_bytes();
        let frame = &mut self.frames(rank).bytes_mut(word.page)[word.span().range()];
        frame.copy_from_slice(&after[..word.width]);
        self.oracle[place..place + word.width].copy_from_slice(&after[..word.width]);
        self.ranks[rank].frames.note_write(word.page);
        self.trace(|| format!("rank {rank} makes {after:?} of {before:?} at {word:?}"));
        Ok(())
    }

    /// A thread has found a number. It is compared with the oracle if only one can be right.
    fn seen(&mut self, rank: usize, word: Word, value: u64) -> Result<()> {
        self.trace(|| format!("rank {rank} sees {value} at {word:?}"));
        let interval = self.ranks[rank].interval;
        self.report.seen.push(Seen { interval, rank: number(rank), word, value });
        if self.setup.racy { Ok(()) } else { self.read(rank, word.span()) }
    }

    pub(super) fn write(&mut self, rank: usize, span: Span, salt: u8) {
        self.trace(|| format!("rank {rank} writes {span:?} with {salt}"));
        let base = span.page as usize * PAGE_SIZE;
        self.ranks[rank].frames.note_write(span.page);
        let value = |i: usize| salt.wrapping_add((i as u64).wrapping_mul(31).to_le_bytes()[0]);
        let frame = self.frames(rank).bytes_mut(span.page);
        span.range().for_each(|i| frame[i] = value(i));
        span.range().for_each(|i| self.oracle[base + i] = value(i));
    }

    /// The first step writes; the second one puts back what was there, and goes on.
    pub(super) fn flicker(&mut self, rank: usize, t: usize, span: Span, salt: u8) {
        let had = self.frames(rank).bytes(span.page)[span.range()].to_vec();
        let me = &mut self.ranks[rank];
        let Some(before) = me.threads[t].before.take() else {
            me.threads[t].before = Some(had);
            return self.write(rank, span, salt);
        };
        me.threads[t].at += 1;
        me.frames.note_write(span.page);
        self.frames(rank).bytes_mut(span.page)[span.range()].copy_from_slice(&before);
        let base = span.page as usize * PAGE_SIZE + span.first;
        self.oracle[base..base + span.len].copy_from_slice(&before);
        self.trace(|| format!("rank {rank} puts back what was at {span:?}"));
    }

    /// Stores the values that are there. They must be the right ones, or a later diff would undo the work of
    /// others.
    pub(super) fn rewrite(&mut self, rank: usize, span: Span) -> Result<()> {
        self.read(rank, span)?;
        self.ranks[rank].frames.note_write(span.page);
        Ok(())
    }

    pub(super) fn read(&mut self, rank: usize, span: Span) -> Result<()> {
        let base = span.page as usize * PAGE_SIZE;
        let have = &self.ranks[self.keeper(rank)].frames.bytes(span.page)[span.range()];
        let want = &self.oracle[base + span.first..base + span.first + span.len];
        self.report.checked += span.len as u64;
        if have == want {
            return Ok(());
        }
        let at = have.iter().zip(want).position(|(h, w)| h != w).unwrap_or(0);
        let interval = self.ranks[rank].interval;
        let what = format!(
            "rank {rank} reads byte {} of page {} in interval {interval}: {:#04x}, but {:#04x} was written",
            span.first + at,
            span.page,
            have[at],
            want[at],
        );
        Err(self.failure_about(&what, rank, span.page))
    }
}

/// A word's bytes as a number.
fn number_in(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte))
}
