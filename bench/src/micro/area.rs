//! Pages of shared memory, and ways to go through them.

use std::ops::Range;

use scash::{AllocOptions, Dsm, Placement, Protocol, SharedSlice};

use crate::Result;

/// Bytes of a page.
pub(crate) const PAGE: usize = scash_proto::PAGE_SIZE;
/// Words of a page.
const WORDS: usize = PAGE / size_of::<u64>();

/// An allocation of whole pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    words: SharedSlice<u64>,
}

impl Area {
    /// Pages that are in nobody's way. Collective.
    pub(crate) fn alloc(
        dsm: &mut Dsm,
        pages: usize,
        placement: Placement,
        protocol: Protocol,
    ) -> Result<Self> {
        let options = AllocOptions { placement, protocol, block: 1 };
        Ok(Self { words: dsm.alloc_with(pages * WORDS, options)? })
    }

    /// Gives them back. Collective.
    pub(crate) fn free(self, dsm: &mut Dsm) -> Result<()> {
        Ok(dsm.free(self.words)?)
    }

    /// Reads one word of a page.
    pub(crate) fn peek(self, dsm: &Dsm, page: usize) -> u64 {
        self.words.get(dsm, page * WORDS)
    }

    /// Writes one word of a page.
    pub(crate) fn poke(self, dsm: &Dsm, page: usize, value: u64) {
        self.words.set(dsm, page * WORDS, value);
    }

    /// Adds 1 to a word of a page where its home is.
    pub(crate) fn count(self, dsm: &Dsm, page: usize) -> Result<u64> {
        Ok(self.words.fetch_add(dsm, page * WORDS, 1)?)
    }

    /// Gives all bytes of some pages the same value: another one than `round - 1` gave them, so that every
    /// byte changes.
    pub(crate) fn fill(self, dsm: &Dsm, pages: Range<usize>, round: usize) {
        let value = pattern(round);
        (pages.start * WORDS..pages.end * WORDS).for_each(|word| self.words.set(dsm, word, value));
    }

    /// Whether `fill` was the last to write these pages.
    pub(crate) fn holds(self, dsm: &Dsm, pages: Range<usize>, round: usize) -> bool {
        let value = pattern(round);
        (pages.start * WORDS..pages.end * WORDS).all(|word| self.words.get(dsm, word) == value)
    }
}

/// A word of equal bytes, which are not zero, and others in the next round.
fn pattern(round: usize) -> u64 {
    (round % 255 + 1) as u64 * 0x0101_0101_0101_0101
}

/// Pages that are touched out of order lie so far apart: too far for what is fetched or mapped along with a
/// page.
pub(crate) const APART: usize = 16;

/// `count` pages among `count * APART`, in an order that no prefetcher foresees: neither neighbours nor a
/// fixed stride.
pub(crate) fn scattered(count: usize) -> impl Iterator<Item = usize> {
    let bits = count.next_power_of_two().trailing_zeros();
    let reversed = move |i: usize| if bits == 0 { 0 } else { i.reverse_bits() >> (usize::BITS - bits) };
    (0..1usize << bits).map(reversed).filter(move |&at| at < count).map(|at| at * APART)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_pages_are_each_touched_once_and_never_in_a_row() {
        for count in [0, 1, 2, 3, 64, 100] {
            let order: Vec<usize> = scattered(count).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..count).map(|i| i * APART).collect::<Vec<_>>());
            let steps: Vec<_> = order.windows(2).map(|pair| pair[0].abs_diff(pair[1])).collect();
            assert!(count < 4 || steps.windows(2).all(|pair| pair[0] != pair[1]), "{order:?}");
        }
    }

    #[test]
    fn from_round_to_round_every_byte_changes() {
        for round in 0..600 {
            let (old, new) = (pattern(round).to_le_bytes(), pattern(round + 1).to_le_bytes());
            assert!(old.iter().zip(new).all(|(old, new)| *old != new && *old != 0));
        }
    }
}
