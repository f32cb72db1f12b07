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

    /// For each line of 64 bytes, which of its bytes are in the set.
    pub fn masks(&self) -> &[u64] {
        &self.masks
    }

    /// The bytes in which two pages differ.
    pub fn between(old: &PageBytes, new: &PageBytes) -> Self {
        let mut changes = Self::NONE;
        let stretches = old.as_chunks::<STRETCH>().0.iter().zip(new.as_chunks::<STRETCH>().0);
        for ((masks, (old, new)), first) in
            changes.masks.as_chunks_mut().0.iter_mut().zip(stretches).zip((0..).step_by(STRETCH_LINES))
        {
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
        Runs { masks: &self.masks, lines: self.lines, line: 0, starts: 0, ends: 0 }
    }

    /// The aligned words of eight bytes that have a byte of this set, each as a whole: far fewer runs in
    /// arrays of numbers.
    ///
    /// For receivers that have nothing of their own there. A page that is merged from several writers must
    /// get the changed bytes and no others.
    #[must_use]
    pub fn whole_words(&self) -> Self {
        const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
        // Adding 127 to a byte's low bits carries into its top bit unless they are all zero.
        let widen = |mask: u64| ((((mask & LOW) + LOW) | mask) >> 7 & 0x0101_0101_0101_0101) * 0xff;
        Self { masks: self.masks.map(widen), lines: self.lines }
    }

    /// The changed lines in ascending order: their numbers and masks.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, u64)> {
        ones(self.lines).map(|line| (line, self.masks[line]))
    }

    /// The lines that have changed, as bits.
    pub(super) fn changed(&self) -> u64 {
        self.lines
    }

    /// Counts what decides on a diff's form. The count of runs stops when it is beyond `most_runs`.
    pub(super) fn count_runs(&self, most_runs: usize) -> RunCounts {
        let mut counts = RunCounts { partial: 0, runs: 0 };
        let mut before = 0;
        for (line, mask) in self.lines() {
            if line > 0 {
                before = self.masks[line - 1] >> 63;
            }
            if mask == u64::MAX {
                counts.runs += usize::from(before == 0);
                continue;
            }
            counts.partial |= 1 << line;
            if counts.runs <= most_runs {
                counts.runs += (mask & !(mask << 1 | before)).count_ones() as usize;
            }
        }
        counts
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

/// The places of the ones in `bits`, ascending.
pub(super) fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(lowest)
    })
}

/// Numbers about a set of bytes.
pub(super) struct RunCounts {
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
/// This order costs three vector instructions for 16 bytes, of those that every processor has: compare, keep
/// each word's own bit, combine the words.
fn bits_by_word(old: &[u8; LINE], new: &[u8; LINE]) -> u64 {
    let bits: [u8; LINE] = std::array::from_fn(|i| u8::from(old[i] != new[i]).wrapping_neg() & WORD_BITS[i]);
    bits.as_chunks().0.iter().fold(0, |all, &word| all | u64::from_le_bytes(word))
}

/// Transposes eight bytes of eight bits: bit 8j + k goes to bit 8k + j. (Warren, "Hacker's Delight", section
/// 7-3.)
fn transpose(mut bits: u64) -> u64 {
    for (distance, below) in
        [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)]
    {
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
    #[allow(clippy::cast_possible_truncation, reason = "both are at most PAGE_SIZE, as compared")]
    fn new(start: usize, end: usize) -> Self {
        debug_assert!(start < end && end <= PAGE_SIZE);
        Self { offset: start as u16, len: (end - start) as u16 }
    }

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
    /// The changed lines to come, as bits.
    lines: u64,
    /// The line under way.
    line: usize,
    /// Where in it runs begin, as bits; those that were handed out are cleared.
    starts: u64,
    /// Where in it the byte before was the last of its run, likewise. A run's end may be in a later line than
    /// its start.
    ends: u64,
}

impl Runs<'_> {
    #[inline]
    fn enter(&mut self, line: usize) {
        let mask = self.masks[line];
        let before = mask << 1 | line.checked_sub(1).map_or(0, |previous| self.masks[previous] >> 63);
        self.line = line;
        self.lines &= u64::MAX << line << 1;
        self.starts = mask & !before;
        self.ends = !mask & before;
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    #[inline]
    fn next(&mut self) -> Option<Run> {
        while self.starts == 0 {
            if self.lines == 0 {
                return None;
            }
            self.enter(self.lines.trailing_zeros() as usize);
        }
        let start = self.line * LINE + self.starts.trailing_zeros() as usize;
        self.starts &= self.starts - 1;
        while self.ends == 0 {
            // The run goes on through all lines that changed throughout, and ends in the one after them.
            let Some(line) = (self.line + 1..LINES).find(|&line| self.masks[line] != u64::MAX) else {
                self.lines = 0;
                return Some(Run::new(start, PAGE_SIZE));
            };
            self.enter(line);
        }
        let end = self.line * LINE + self.ends.trailing_zeros() as usize;
        self.ends &= self.ends - 1;
        Some(Run::new(start, end))
    }
}

impl FusedIterator for Runs<'_> {}
