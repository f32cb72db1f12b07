//! A set of pages that many threads change at once: one bit a page.
//!
//! **Invariant:** a bit is only ever changed by the thread that the engine's caller has let work on that
//! page; words are atomic because neighbours share them. So `Relaxed` suffices: whoever orders calls on a
//! page orders its bit too.

use memmap2::{MmapOptions, MmapRaw};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const BITS: u32 = u64::BITS;

/// A set of pages of one region.
pub(crate) struct PageSet {
    /// Not of the heap: what was used there before would be filled with zeros.
    words: MmapRaw,
}

impl PageSet {
    /// The empty set, for a region of `pages` pages. 2 MiB of address space for a region of 64 GiB, of which
    /// what is used takes memory.
    ///
    /// # Errors
    /// There is no address space left.
    pub(crate) fn new(pages: u32) -> io::Result<Self> {
        let len = pages.div_ceil(BITS).max(1) as usize * size_of::<AtomicU64>();
        Ok(Self { words: MmapOptions::new().len(len).no_reserve_swap().map_anon()?.into() })
    }

    fn words(&self) -> &[AtomicU64] {
        let words = self.words.as_mut_ptr().cast::<AtomicU64>();
        // SAFETY: the mapping has so many words, which live as long as the set and are used as atomic words
        // only.
        unsafe { std::slice::from_raw_parts(words, self.words.len() / size_of::<AtomicU64>()) }
    }

    pub(crate) fn insert(&self, pages: Range<u32>) {
        for (word, mask) in masks(pages) {
            self.words()[word].fetch_or(mask, Relaxed);
        }
    }

    pub(crate) fn remove(&self, pages: Range<u32>) {
        for (word, mask) in masks(pages) {
            // Words that nobody has used take no memory: it stays so.
            if self.words()[word].load(Relaxed) & mask != 0 {
                self.words()[word].fetch_and(!mask, Relaxed);
            }
        }
    }

    /// Whether the first page of `pages` (not empty) is in the set, and the end of the run of pages that are
    /// like it.
    pub(crate) fn run(&self, pages: Range<u32>) -> (bool, u32) {
        let (word, bit) = split(pages.start);
        let inside = self.words()[word].load(Relaxed) >> bit & 1 == 1;
        let unlike = masks(pages.clone()).find_map(|(word, mask)| {
            let bits = self.words()[word].load(Relaxed);
            let other = mask & if inside { !bits } else { bits };
            (other != 0).then(|| word as u64 * u64::from(BITS) + u64::from(other.trailing_zeros()))
        });
        // A page number found lies inside `pages`, so it fits; the fallback is never used.
        (inside, unlike.map_or(pages.end, |page| u32::try_from(page).unwrap_or(pages.end)))
    }
}

/// Where a page's bit is.
fn split(page: u32) -> (usize, u32) {
    ((page / BITS) as usize, page % BITS)
}

/// The words that hold the bits of `pages`, each with those bits set.
fn masks(pages: Range<u32>) -> impl Iterator<Item = (usize, u64)> {
    let mut at = pages.start;
    std::iter::from_fn(move || {
        if at >= pages.end {
            return None;
        }
        let (word, low) = split(at);
        let count = (BITS - low).min(pages.end - at);
        at += count;
        Some((word, (u64::MAX >> (BITS - count)) << low))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn runs_are_found_across_words() {
        let set = PageSet::new(300).unwrap();
        set.insert(10..200);
        set.remove(64..65);
        assert_eq!(set.run(0..300), (false, 10));
        assert_eq!(set.run(10..300), (true, 64));
        assert_eq!(set.run(64..300), (false, 65));
        assert_eq!(set.run(65..300), (true, 200));
        assert_eq!(set.run(65..128), (true, 128));
        assert_eq!(set.run(299..300), (false, 300));
    }

    #[test]
    fn an_empty_range_changes_nothing() {
        let set = PageSet::new(64).unwrap();
        set.insert(5..5);
        assert_eq!(set.run(0..64), (false, 64));
    }
}
