//! Which slots of a store may be written.
//!
//! A slot that the index of committed epoch e names must not be overwritten before e+1 is committed: until
//! then, e is what a restart goes back to. So a checkpoint takes only slots that neither e nor e+1 uses; what
//! did not change since e keeps its slot.
//!
//! The state is two bit maps in memory that the caller provides: the slots that the committed index names,
//! and those that the staged one names. Nothing here allocates, since the allocator's memory is part of the
//! image.

#![forbid(unsafe_code)]

use std::fmt;
use std::ops::Range;

#[cfg(test)]
mod tests;

/// The words that a bit map of so many slots takes.
pub const fn words(slots: u32) -> usize {
    slots.div_ceil(u64::BITS) as usize
}

/// The slots of one rank's store. All its holders have the same.
#[derive(Debug)]
pub struct Slots<'a> {
    committed: &'a mut [u64],
    staged: &'a mut [u64],
    count: u32,
    /// Every slot in a word before this one is used by the committed or the staged index. Words become
    /// free only as a checkpoint ends.
    full_before: usize,
    /// No slot is used in this word of a map, or in one behind it: a store has room for more slots than it
    /// ever uses, and their words are never touched.
    used_words: usize,
}

/// A slot that cannot be what it was said to be: the store has no such slot, the committed index does not
/// name it, or it was told twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongSlot(pub u32);

impl fmt::Display for WrongSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {} of the store is named twice, or is none that the committed index has", self.0)
    }
}

impl std::error::Error for WrongSlot {}

impl<'a> Slots<'a> {
    /// The slots of a store that has `count` of them. The bit maps say what is used, as an earlier value left
    /// them, which had so many [used words](Self::used_words); of a new store they are zero. None if a map
    /// has fewer words than [`words`] says.
    pub fn over(
        committed: &'a mut [u64],
        staged: &'a mut [u64],
        count: u32,
        used_words: usize,
    ) -> Option<Slots<'a>> {
        let length = words(count);
        let (committed, staged) = (committed.get_mut(..length)?, staged.get_mut(..length)?);
        Some(Slots { committed, staged, count, full_before: 0, used_words: used_words.min(length) })
    }

    /// How many words of each map have ever said that a slot is used.
    pub fn used_words(&self) -> usize {
        self.used_words
    }

    /// Takes the lowest free slot for the staged index. None if the store is full.
    pub fn take(&mut self) -> Option<u32> {
        while let Some(committed) = self.committed.get(self.full_before) {
            let bit = (committed | self.staged[self.full_before]).trailing_ones();
            if bit == u64::BITS {
                self.full_before += 1;
                continue;
            }
            let slot = u32::try_from(self.full_before).ok()? * u64::BITS + bit;
            if slot >= self.count {
                return None;
            }
            self.staged[self.full_before] |= 1 << bit;
            self.used_words = self.used_words.max(self.full_before + 1);
            return Some(slot);
        }
        None
    }

    /// The staged index names a slot of the committed one, as what is in it did not change.
    #[inline]
    pub fn keep(&mut self, slot: u32) -> Result<(), WrongSlot> {
        let (word, bit) = place(slot);
        let wrong = WrongSlot(slot);
        let committed = *self.committed.get(word).ok_or(wrong)?;
        if committed & bit == 0 || self.staged[word] & bit != 0 {
            return Err(wrong);
        }
        self.staged[word] |= bit;
        Ok(())
    }

    /// The staged index is committed: slots that only the index before it named are free. The maps change
    /// places.
    pub fn commit(&mut self) {
        std::mem::swap(&mut self.committed, &mut self.staged);
        self.abandon();
    }

    /// The checkpoint was left out: slots that only the staged index named are free.
    pub fn abandon(&mut self) {
        self.staged[..self.used_words].fill(0);
        self.full_before = 0;
    }

    /// After a restart: the committed index names exactly these slots. On an error, which ones are used is
    /// undefined, and the store must not be written.
    pub fn load(&mut self, slots: impl IntoIterator<Item = u32>) -> Result<(), WrongSlot> {
        self.committed[..self.used_words].fill(0);
        self.abandon();
        for slot in slots {
            let (word, bit) = place(slot);
            let wrong = WrongSlot(slot);
            let used = self.committed.get_mut(word).filter(|_| slot < self.count).ok_or(wrong)?;
            if *used & bit != 0 {
                return Err(wrong);
            }
            *used |= bit;
            self.used_words = self.used_words.max(word + 1);
        }
        Ok(())
    }

    /// The slots that the staged index names and the committed one does not, or all that the staged one
    /// names: in runs of at most so many.
    pub fn staged_runs(&self, all: bool, most: u32) -> impl Iterator<Item = Range<u32>> {
        let words = self.committed[..self.used_words].iter().zip(&*self.staged);
        let words = words.map(move |(committed, staged)| if all { *staged } else { staged & !committed });
        let mut bits = words.flat_map(|word| (0..u64::BITS).map(move |bit| word >> bit & 1 == 1)).zip(0..);
        std::iter::from_fn(move || {
            let first = bits.find(|&(is_named, _)| is_named)?.1;
            let more = bits.by_ref().take(most as usize - 1).take_while(|&(is_named, _)| is_named).count();
            Some(first..first + 1 + u32::try_from(more).unwrap_or(0))
        })
    }

    /// How many slots the committed and the staged index name together.
    pub fn used(&self) -> u32 {
        self.committed[..self.used_words].iter().zip(&*self.staged).map(|(c, s)| (c | s).count_ones()).sum()
    }
}

/// Word and bit of a slot.
fn place(slot: u32) -> (usize, u64) {
    ((slot / u64::BITS) as usize, 1 << (slot % u64::BITS))
}
