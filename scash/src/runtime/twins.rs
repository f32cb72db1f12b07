//! Twins: what written pages held before.
//!
//! A pool of page-sized slots in one lazily filled mapping, and for each page of the region the number of its
//! slot. Making a twin happens inside a fault handler, so it allocates nothing: free slots are linked through
//! their own first bytes.
//!
//! **Invariant:** `slot[page]` is 0, or one more than the number of a slot that no other page has.

use crate::fault::PAGE;
use memmap2::{MmapOptions, MmapRaw, UncheckedAdvice};
use scash_proto::diff::PageBytes;
use std::io;

/// Slots that stay filled when no twin is left; more than this is given back to the system.
const KEPT: u32 = 4096;

/// The twins of one rank.
#[derive(Debug)]
pub(crate) struct Twins {
    mapping: MmapRaw,
    /// For each page, its slot + 1.
    slots: Vec<u32>,
    /// First free slot + 1; the next one's number is in the slot's first four bytes.
    free: u32,
    /// Slots that were ever in use.
    used: u32,
    live: u32,
}

impl Twins {
    /// Room for a twin of each of so many pages; takes no memory until twins are made.
    pub(crate) fn new(pages: u32) -> io::Result<Twins> {
        let mapping =
            MmapOptions::new().len((pages as usize * PAGE).max(PAGE)).no_reserve_swap().map_anon()?;
        Ok(Twins { mapping: mapping.into(), slots: vec![0; pages as usize], free: 0, used: 0, live: 0 })
    }

    fn slot(&self, number: u32) -> *mut PageBytes {
        debug_assert!((number as usize) < self.slots.len());
        self.mapping.as_mut_ptr().cast::<PageBytes>().wrapping_add(number as usize)
    }

    /// The twin of a page.
    pub(crate) fn get(&mut self, page: u32) -> Option<&mut PageBytes> {
        let number = self.slots.get(page as usize)?.checked_sub(1)?;
        // SAFETY: a slot in use lies in the mapping and belongs to one page (the invariant); `self` is
        // borrowed.
        Some(unsafe { &mut *self.slot(number) })
    }

    /// A slot for the page's twin, with contents of no meaning. The one that it has, if it has one.
    pub(crate) fn make(&mut self, page: u32) -> &mut PageBytes {
        let number = match self.slots[page as usize].checked_sub(1) {
            Some(number) => number,
            None => self.take_slot(),
        };
        self.slots[page as usize] = number + 1;
        // SAFETY: as in `get`.
        unsafe { &mut *self.slot(number) }
    }

    fn take_slot(&mut self) -> u32 {
        self.live += 1;
        let Some(number) = self.free.checked_sub(1) else {
            // At most one slot a page is in use, and there are as many slots as pages.
            self.used += 1;
            return self.used - 1;
        };
        // SAFETY: a free slot lies in the mapping, and its first bytes hold the next free one's number
        // (`drop_twin`).
        self.free = unsafe { self.slot(number).cast::<u32>().read() };
        number
    }

    /// Forgets the page's twin, if it has one.
    pub(crate) fn drop_twin(&mut self, page: u32) {
        let Some(slot) = self.slots.get_mut(page as usize).filter(|slot| **slot != 0) else { return };
        let number = std::mem::take(slot) - 1;
        self.live -= 1;
        // SAFETY: the slot lies in the mapping, is aligned to a page, and belongs to nobody now.
        unsafe { self.slot(number).cast::<u32>().write(self.free) };
        self.free = number + 1;
        if self.live == 0 && self.used > KEPT {
            self.shrink();
        }
    }

    /// No twin is left, and there were many: gives the memory back.
    fn shrink(&mut self) {
        let len = self.used as usize * PAGE;
        // If the system does not want it back, nothing is lost.
        // SAFETY: the slots in use were the first `used` ones of our own mapping, and none holds a twin now.
        let _ = unsafe { self.mapping.unchecked_advise_range(UncheckedAdvice::DontNeed, 0, len) };
        self.free = 0;
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_again_and_keep_apart() {
        let mut t = Twins::new(100).unwrap();
        t.make(7)[0] = 1;
        t.make(9)[0] = 2;
        t.drop_twin(7);
        t.make(50)[0] = 3;
        assert_eq!(t.used, 2);
        assert!(t.get(7).is_none());
        assert_eq!((t.get(9).unwrap()[0], t.get(50).unwrap()[0]), (2, 3));
        t.drop_twin(7);
        assert_eq!(t.live, 2);
    }

    #[test]
    fn many_twins_give_their_memory_back() {
        let mut t = Twins::new(KEPT + 10).unwrap();
        for round in 0..2 {
            for p in 0..KEPT + 10 {
                t.make(p).fill(round);
            }
            for p in 0..KEPT + 10 {
                assert_eq!(t.get(p).unwrap()[4095], round);
                t.drop_twin(p);
            }
            assert_eq!((t.used, t.free), (0, 0));
        }
    }
}
