//! The slots of one rank: which are free.

use super::record::WaitSlot;
use crate::runtime::lock;
use std::ops::Range;
use std::sync::Mutex;

/// Slots of a rank: as many of its threads may wait, and have reader–writer locks to read, at a time.
pub(super) const A_RANK: u32 = 1 << 16;

/// See [the module](self).
pub(super) struct WaitSlots(Mutex<Free>);

struct Free {
    /// Slots that were given back.
    back: Vec<u32>,
    /// All from here on were never taken.
    unused: u32,
    range: Range<u32>,
}

impl WaitSlots {
    /// The slots of a rank in the table of all.
    pub(super) fn of(rank: u32) -> WaitSlots {
        // Slot 0 is nobody's.
        let first = 1 + rank * A_RANK;
        WaitSlots(Mutex::new(Free { back: Vec::new(), unused: first, range: first..first + A_RANK }))
    }

    /// How many there are in a job of so many ranks.
    pub(super) fn count(ranks: u32) -> usize {
        1 + ranks as usize * A_RANK as usize
    }

    /// As those of the same rank in the process that was saved.
    pub(super) fn go_on_as(&self, old: &WaitSlots) {
        let mut old = lock(&old.0);
        // What the old process had is not given back.
        let back = std::mem::take(&mut old.back);
        *lock(&self.0) = Free { back, unused: old.unused, range: old.range.clone() };
    }

    /// A slot for the calling thread alone; `None` if all are taken.
    pub(super) fn take(&self) -> Option<u32> {
        let mut free = lock(&self.0);
        if let Some(slot) = free.back.pop() {
            return Some(slot);
        }
        let slot = free.unused;
        (slot < free.range.end).then(|| free.unused += 1).map(|()| slot)
    }

    /// Gives a slot back in which nobody waits, and that is in no list.
    pub(super) fn give_back(&self, slot: u32) {
        lock(&self.0).back.push(slot);
    }

    /// Those that were ever taken.
    pub(super) fn used<'a>(&self, slots: &'a [WaitSlot]) -> impl Iterator<Item = &'a WaitSlot> + use<'a> {
        let free = lock(&self.0);
        let (first, end) = (free.range.start as usize, free.unused as usize);
        slots.get(first..end).unwrap_or(&[]).iter()
    }
}
