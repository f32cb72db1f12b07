//! Which allocations are still there: what a handle asks before it goes to memory.
//!
//! A [`SharedSlice`](crate::SharedSlice) is copied as the program likes. Copies outlive the allocation, and
//! its pages may come to belong to another one, with references into it. So an allocation has a **slot** as
//! long as it lives, and the slot's number is its **generation**: freeing raises it. A handle remembers slot
//! and generation, and is good while they agree: one load and one comparison.
//!
//! Slots serve one allocation after another and are never given back, so there are as many as allocations
//! ever were alive at once.
//!
//! **Invariant:** a slot's number only grows, so a handle that is stale stays so.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// What an allocation has as long as it lives.
#[derive(Debug, Default)]
struct LiveAllocation {
    /// How many allocations have had it.
    number: AtomicU64,
    /// How often the memory has changed hands since it was allocated: see [`Generation::phase`].
    phase: AtomicU64,
}

type Slot = &'static LiveAllocation;

/// The phase of memory of which ranks may think differently.
const LOST: u64 = u64::MAX;

/// The allocations of this process, by first page.
#[derive(Debug, Default)]
pub(crate) struct Live {
    slots: BTreeMap<u32, Slot>,
    /// Slots of no allocation.
    spare: Vec<Slot>,
}

/// What a handle remembers of its allocation.
///
/// Relaxed throughout: what is read was written by this thread, or before a collective call of all threads of
/// a crew, or before the crew began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Generation {
    slot: Slot,
    number: u64,
}

impl Generation {
    /// Whether the allocation is there.
    pub(crate) fn is_live(self) -> bool {
        self.slot.number.load(Ordering::Relaxed) == self.number
    }

    /// How often the memory has changed hands, for memory of which ranks or workers own parts; `None` when a
    /// change has failed, so that it may have succeeded at other ranks. All handles of a rank that lead to
    /// the memory see the same.
    pub(crate) fn phase(self) -> Option<u64> {
        Some(self.slot.phase.load(Ordering::Relaxed)).filter(|&phase| phase != LOST)
    }

    /// The memory has changed hands, or it has failed to.
    pub(crate) fn set_phase(self, phase: Option<u64>) {
        self.slot.phase.store(phase.unwrap_or(LOST), Ordering::Relaxed);
    }
}

impl Live {
    /// An allocation begins at this page.
    pub(crate) fn add(&mut self, first: u32) -> Generation {
        let slot = self.spare.pop().unwrap_or_else(|| Box::leak(Box::default()));
        self.slots.insert(first, slot);
        slot.phase.store(0, Ordering::Relaxed);
        Generation { slot, number: slot.number.load(Ordering::Relaxed) }
    }

    /// The allocation that began at this page was freed.
    pub(crate) fn remove(&mut self, first: u32) {
        if let Some(slot) = self.slots.remove(&first) {
            slot.number.fetch_add(1, Ordering::Relaxed);
            self.spare.push(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_generation_stays_so_when_its_page_and_its_slot_are_used_again() {
        let mut live = Live::default();
        let (old, other) = (live.add(7), live.add(8));
        live.remove(7);
        assert!(!old.is_live() && other.is_live());
        let new = live.add(7);
        assert!(std::ptr::eq(old.slot, new.slot), "the slot is used again");
        assert!(!old.is_live() && new.is_live() && other.is_live());
    }

    #[test]
    fn all_handles_see_the_phase_and_the_next_allocation_has_one_of_its_own() {
        let mut live = Live::default();
        let one = live.add(7);
        let other = one;
        assert_eq!(one.phase(), Some(0));
        one.set_phase(Some(3));
        assert_eq!(other.phase(), Some(3));
        other.set_phase(None);
        assert_eq!(one.phase(), None);
        live.remove(7);
        assert_eq!(live.add(9).phase(), Some(0));
    }

    #[test]
    fn there_are_as_many_slots_as_allocations_were_alive_at_once() {
        let mut live = Live::default();
        for _ in 0..10 {
            (0..3).for_each(|page| {
                live.add(page);
            });
            (0..3).for_each(|page| live.remove(page));
        }
        assert_eq!((live.slots.len(), live.spare.len()), (0, 3));
    }
}
