//! Which bytes of a page changed.

use super::{LINE, LINES, PageBytes};
use crate::PAGE_SIZE;
use std::iter::FusedIterator;
use std::ops::Range;

/// Bytes that are compared at once to pass over what is equal.
const STRETCH: usize = STRETCH_LINES * LINE;
const STRETCH_LINES: usize = 8;

/// A set of bytes of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// Bit i of `masks[l]` stands for byte `l * LINE + i`.
    masks: [u64; LINES],
    /// Bit l is set if `masks[l]` is not zero.
    lines: u64,
}

impl Changes {
    /// Every byte of a page.
    pub const ALL: Self = Self { masks: [u64::MAX; LINES], lines: u64::MAX };
    /// No byte.
    pub const NONE: Self = Self { masks: [0; LINES], lines: 0 };

    /// The bytes in which two pages differ.
    pub fn between(old: &PageBytes, new: &PageBytes) -> Self {
        let mut changes = Self::NONE;
        let stretches = old.as_chunks::<STRETCH>().0.iter().zip(new.as_chunks::<STRETCH>().0);
        for ((masks, (old, new)), first) in changes.masks.as_chunks_mut().0.iter_mut().zip(stretches).zip((0..).step_by(STRETCH_LINES)) {
            if old != new {
                *masks = compare(old, new);
                let lines = masks.iter().rev().fold(0, |lines, &mask| lines << 1 | u64::from(mask != 0));
                changes.lines |= lines << first;
            }
        }
        changes
    }

    /// True if nothing changed.
    pub fn is_empty(&self) -> bool {
        self.lines == 0
    }

    /// How many bytes changed.
    pub fn bytes(&self) -> usize {
        self.lines().map(|(_, mask)| mask.count_ones() as usize).sum()
    }

    /// The changed bytes as runs: ascending, maximal, so that at least one unchanged byte is between two.
    pub fn runs(&self) -> Runs<'_> {
        Runs { masks: &self.masks, lines: self.lines, line: 0, rest: 0 }
    }

    /// The changed lines in ascending order: their numbers and masks.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, u64)> {
        let mut left = self.lines;
        std::iter::from_fn(move || {
            let line = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            self.masks.get(line).map(|&mask| (line, mask))
        })
    }

    /// The lines that have changed, as bits.
    pub(super) fn changed(&self) -> u64 {
        self.lines
    }

    /// Counts what decides on a diff's form. The count of runs stops when it is beyond `most_runs`.
    pub(super) fn census(&self, most_runs: usize) -> Census {
        let mut census = Census { partial: 0, runs: 0 };
        let (mut previous, mut before) = (LINES, 0);
        for (line, mask) in self.lines() {
            census.partial |= u64::from(mask != u64::MAX) << line;
            if census.runs <= most_runs {
                let continued = if line == previous + 1 { before >> 63 } else { 0 };
                census.runs += (mask & !(mask << 1 | continued)).count_ones() as usize;
                (previous, before) = (line, mask);
            }
        }
        census
    }

    /// Adds bytes of a line.
    pub(super) fn insert(&mut self, line: usize, mask: u64) {
        self.masks[line] |= mask;
        self.lines |= u64::from(mask != 0) << line;
    }

    /// Adds the bytes of a run.
    pub(super) fn insert_run(&mut self, run: Run) {
        let Range { mut start, end } = run.range();
        while start < end {
            let (line, bit) = (start / LINE, start % LINE);
            let len = (LINE - bit).min(end - start);
            self.insert(line, u64::MAX >> (LINE - len) << bit);
            start += len;
        }
    }
}

/// Numbers about a set of bytes.
pub(super) struct Census {
    /// The lines that have changed, but not throughout, as bits.
    pub(super) partial: u64,
    /// How many runs there are, or some number above the limit that was asked for.
    pub(super) runs: usize,
}

/// The masks of lines in which there is a difference.
fn compare(old: &[u8; STRETCH], new: &[u8; STRETCH]) -> [u64; STRETCH_LINES] {
    let (old, new) = (old.as_chunks().0, new.as_chunks().0);
    let by_word: [u64; STRETCH_LINES] = std::array::from_fn(|line| bits_by_word(&old[line], &new[line]));
    by_word.map(transpose)
}

/// For each byte of a line its word's bit: byte i of the line has bit i / 8.
const WORD_BITS: [u8; LINE] = {
    let (mut bits, mut i) = ([0; LINE], 0);
    while i < LINE {
        bits[i] = 1 << (i / 8);
        i += 1;
    }
    bits
};

/// Bit 8j + k of the result is set if byte j of word k differs: the mask of the line, transposed.
///
/// This order costs three vector instructions for 16 bytes, of those that every processor has: compare, keep each word's own
/// bit, combine the words.
fn bits_by_word(old: &[u8; LINE], new: &[u8; LINE]) -> u64 {
    let bits: [u8; LINE] = std::array::from_fn(|i| u8::from(old[i] != new[i]).wrapping_neg() & WORD_BITS[i]);
    bits.as_chunks().0.iter().fold(0, |all, &word| all | u64::from_le_bytes(word))
}

/// Transposes eight bytes of eight bits: bit 8j + k goes to bit 8k + j. (Warren, "Hacker's Delight", section 7-3.)
fn transpose(mut bits: u64) -> u64 {
    for (distance, below) in [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)] {
        let swapped = (bits ^ bits >> distance) & below;
        bits ^= swapped ^ swapped << distance;
    }
    bits
}

/// Neighbouring bytes of a page, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where they begin, in bytes from the start of the page.
    pub offset: u16,
    /// How many they are.
    pub len: u16,
}

impl Run {
    /// Their places in the page.
    pub fn range(self) -> Range<usize> {
        let start = usize::from(self.offset);
        start..start + usize::from(self.len)
    }
}

/// Iterator over the [runs](Changes::runs) of changed bytes.
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    masks: &'a [u64; LINES],
    /// The changed lines to come.
    lines: u64,
    /// The line under way.
    line: usize,
    /// What is left of its mask.
    rest: u64,
}

impl Runs<'_> {
    /// Takes the ones at the low end of what is left, from bit `start` on.
    fn take_ones(&mut self, start: u32) -> u32 {
        let ones = (self.rest >> start).trailing_ones();
        self.rest &= u64::MAX.checked_shl(start + ones).unwrap_or(0);
        ones
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        if self.rest == 0 {
            self.line = self.lines.trailing_zeros() as usize;
            self.rest = *self.masks.get(self.line)?;
            self.lines &= self.lines - 1;
        }
        let start = self.rest.trailing_zeros();
        let offset = self.line * LINE + start as usize;
        let mut end = start + self.take_ones(start);
        let mut len = end - start;
        // A run that reaches its line's end goes on in the next line, if that line's first byte changed.
        while end == u64::BITS
            && let Some(&mask) = self.masks.get(self.line + 1)
            && mask & 1 == 1
        {
            self.line += 1;
            self.rest = mask;
            self.lines &= self.lines - 1;
            end = self.take_ones(0);
            len += end;
        }
        Some(Run { offset: small(offset), len: small(len as usize) })
    }
}

impl FusedIterator for Runs<'_> {}

/// An offset or a length in a page as 16 bits.
fn small(bytes: usize) -> u16 {
    debug_assert!(bytes <= PAGE_SIZE);
    (bytes & 0xffff) as u16
}
