//! Where in a store what lies.

use std::io;

/// Bytes of a page, and of a slot.
pub const PAGE: usize = 4096;

/// Most slots of a store: 64 GiB.
const MOST: u64 = 1 << 24;
/// A store with fewer is of no use.
const LEAST: u64 = 1 << 14;

const MAPS_AT: u64 = 1 << 20;
const MAP_LEN: u64 = MOST / 8;
const INDICES_AT: u64 = 16 << 20;
/// Bytes of an index in front of its entries.
pub(crate) const DESCRIPTION: u64 = 16 << 20;
/// Bytes of an entry.
pub(crate) const ENTRY: u64 = 16;

/// How many slots a store has, from which all else follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    slots: u64,
}

impl Geometry {
    /// The largest store whose file has at most `most` bytes.
    ///
    /// # Errors
    /// That is too few.
    pub(crate) fn within(most: u64) -> io::Result<Geometry> {
        let mut slots = MOST;
        while slots >= LEAST {
            let geometry = Geometry { slots };
            if geometry.len() <= most {
                return Ok(geometry);
            }
            slots /= 2;
        }
        Err(io::Error::other(format!(
            "files may have {most} bytes only, and a store needs {}: raise `ulimit -f`",
            Geometry { slots: LEAST }.len()
        )))
    }

    /// That of a store with so many slots, if there can be such a store.
    pub(crate) fn of(slots: u64) -> Option<Geometry> {
        (LEAST..=MOST).contains(&slots).then_some(Geometry { slots })
    }

    /// Slots.
    pub fn slots(self) -> u64 {
        self.slots
    }

    /// Where bit map 0 or 1 begins.
    pub(crate) fn map_at(self, number: u64) -> u64 {
        MAPS_AT + number * MAP_LEN
    }

    /// 64-bit words of a bit map.
    pub(crate) fn map_words(self) -> usize {
        usize::try_from(self.slots / 64).unwrap_or(usize::MAX)
    }

    /// Where index 0 or 1 begins.
    pub(crate) fn index_at(self, number: u64) -> u64 {
        INDICES_AT + number * (DESCRIPTION + ENTRY * self.slots)
    }

    /// Where the slots begin.
    pub(crate) fn slots_at(self) -> u64 {
        self.index_at(2).next_multiple_of(1 << 20)
    }

    /// Bytes of the file.
    pub fn len(self) -> u64 {
        self.slots_at() + PAGE as u64 * self.slots
    }

    /// Never: it has `LEAST` slots at least.
    pub fn is_empty(self) -> bool {
        self.slots == 0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn parts_of_a_store_lie_one_behind_the_other() {
        for slots in [LEAST, LEAST * 2, MOST] {
            let geometry = Geometry::of(slots).unwrap();
            let map = |number| [geometry.map_at(number), slots / 8];
            let index = |number| [geometry.index_at(number), DESCRIPTION + ENTRY * slots];
            let all = [[0, PAGE as u64], map(0), map(1), index(0), index(1), [geometry.slots_at(), 0]];
            assert!(all.is_sorted_by(|[at, len], [next, _]| at + len <= *next), "{slots} slots: {all:?}");
            assert_eq!(geometry.len() - geometry.slots_at(), slots * PAGE as u64);
        }
    }
}
