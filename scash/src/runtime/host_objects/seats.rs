//! The seats of one rank: which are free.

use super::record::Seat;
use crate::runtime::lock;
use std::ops::Range;
use std::sync::Mutex;

/// Seats of a rank: as many of its threads may wait, and have reader–writer locks to read, at a time.
pub(super) const A_RANK: u32 = 1 << 16;

/// See [the module](self).
pub(super) struct Seats(Mutex<Free>);

#[derive(Clone)]
struct Free {
    /// Seats that were given back.
    back: Vec<u32>,
    /// All from here on were never taken.
    unused: u32,
    range: Range<u32>,
}

impl Seats {
    /// The seats of a rank in the table of all.
    pub(super) fn of(rank: u32) -> Seats {
        // Seat 0 is nobody's.
        let first = 1 + rank * A_RANK;
        Seats(Mutex::new(Free { back: Vec::new(), unused: first, range: first..first + A_RANK }))
    }

    /// How many there are in a job of so many ranks.
    pub(super) fn count(ranks: u32) -> usize {
        1 + ranks as usize * A_RANK as usize
    }

    /// As those of the same rank in the process that was saved.
    pub(super) fn go_on_as(&self, old: &Seats) {
        let old = lock(&old.0).clone();
        *lock(&self.0) = old;
    }

    /// A seat for the calling thread alone; `None` if all are taken.
    pub(super) fn take(&self) -> Option<u32> {
        let mut free = lock(&self.0);
        if let Some(seat) = free.back.pop() {
            return Some(seat);
        }
        let seat = free.unused;
        (seat < free.range.end).then(|| free.unused += 1).map(|()| seat)
    }

    /// Gives a seat back in which nobody waits, and that is in no list.
    pub(super) fn give_back(&self, seat: u32) {
        lock(&self.0).back.push(seat);
    }

    /// Those that were ever taken.
    pub(super) fn used<'a>(&self, seats: &'a [Seat]) -> impl Iterator<Item = &'a Seat> + use<'a> {
        let free = lock(&self.0);
        let (first, end) = (free.range.start as usize, free.unused as usize);
        seats.get(first..end).unwrap_or(&[]).iter()
    }
}
