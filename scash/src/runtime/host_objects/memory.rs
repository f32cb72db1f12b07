//! Where the table of a job's objects lies: a file that all its ranks map.

use super::record::{Record, WaitSlot};
use super::table::Table;
use super::wait_slots::WaitSlots;
use crate::error::Result;
use crate::fault::PAGE;
use crate::runtime::objects::Words;
use nix::unistd::{Whence, lseek};
use scash_comm::SharedMemory;
use scash_proto::node::{OWN_PLACES, OwnNumber};
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Objects that all ranks of a job can make together. With those that single ranks make they take 5 GiB of
/// address space, and memory where they are used.
pub(crate) const MOST: u32 = 1 << 26;

/// Records there are: those of single ranks lie behind the others.
pub(super) const RECORDS: u32 = MOST + OWN_PLACES;

/// Where the record of an object lies.
#[inline]
pub(super) fn place(number: u32) -> u32 {
    OwnNumber::of(number).map_or(number, |own| MOST + own.place())
}

/// Records in a page.
const A_PAGE: u32 = 64;
const _: () = assert!(A_PAGE as usize * size_of::<Record>() == PAGE);

/// See [the module](self).
pub(super) struct Memory {
    bytes: SharedMemory,
    slots: usize,
}

impl Memory {
    /// Room for the objects of a job of so many ranks.
    pub(super) fn new(ranks: u32) -> Result<Memory> {
        let slots = WaitSlots::count(ranks);
        let len = RECORDS as usize * size_of::<Record>() + slots * size_of::<WaitSlot>();
        // Checkpoints save whole pages.
        Ok(Memory { bytes: SharedMemory::new(len.next_multiple_of(PAGE))?, slots })
    }

    /// The file, for the other ranks.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.bytes.fd()
    }

    /// Takes another rank's file in place of its own.
    pub(super) fn adopt(&mut self, file: OwnedFd) -> Result<()> {
        let len = self.bytes.segment().len;
        // First: there may not be room for both.
        self.bytes = SharedMemory::new(PAGE)?;
        self.bytes = SharedMemory::open(file, len)?;
        Ok(())
    }

    /// All of it.
    pub(super) fn words(&self) -> Words<'_> {
        Words(&self.bytes)
    }

    pub(super) fn table(&self) -> Table<'_> {
        let records = self.bytes.at(0);
        let slots = self.bytes.at(RECORDS as usize * size_of::<Record>());
        // SAFETY: the mapping lives as long as `self`, begins at a page, and has room for all records. They
        // are nothing but atomic words, for which all bytes are values, and which other processes touch by
        // atomic operations only.
        let records = unsafe { std::slice::from_raw_parts(records.cast(), RECORDS as usize) };
        // SAFETY: likewise; the slots lie behind the records, and there is room for all.
        let slots = unsafe { std::slice::from_raw_parts(slots.cast(), self.slots) };
        Table { records, slots }
    }

    /// Those of these records that have memory: all others are as nobody has used them.
    pub(super) fn touched(&self, objects: Range<u32>) -> impl Iterator<Item = Range<u32>> {
        let objects = objects.start.min(RECORDS)..objects.end.min(RECORDS);
        let mut at = objects.start;
        std::iter::from_fn(move || {
            let find = |from: u32, whence| {
                let from = i64::from(from) * size_of::<Record>() as i64;
                let found = lseek(self.bytes.fd(), from, whence).ok()?;
                u32::try_from(found / size_of::<Record>() as i64).ok()
            };
            if at >= objects.end {
                return None;
            }
            let first = find(at, Whence::SeekData)?.max(at);
            let end = find(first, Whence::SeekHole).unwrap_or(objects.end).min(objects.end);
            at = end;
            (first < end).then_some(first..end)
        })
    }

    /// Makes these objects such as nobody has used, at a time when nobody uses them; and gives back what
    /// memory they have to themselves.
    pub(super) fn forget(&self, objects: Range<u32>) -> Result<()> {
        let objects = objects.start.min(MOST)..objects.end.min(MOST);
        let records = self.table().records;
        for touched in self.touched(objects.clone()) {
            records[touched.start as usize..touched.end as usize].iter().for_each(Record::clear);
        }
        let whole = objects.start.div_ceil(A_PAGE)..objects.end / A_PAGE;
        if whole.start < whole.end {
            self.bytes.give_back(whole.start as usize * PAGE..whole.end as usize * PAGE)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn what_is_forgotten_has_no_memory_and_what_lies_beside_it_stays() {
        let memory = Memory::new(1).unwrap();
        let used = |memory: &Memory| memory.touched(0..MOST).map(|r| r.len()).sum::<usize>();
        assert_eq!(used(&memory), 0);
        let kind = |number: u32| &memory.table().records[number as usize].kind;
        for number in [0, 63, 64, 1000, 70_000, MOST - 1] {
            kind(number).store(1, Relaxed);
        }
        assert_eq!(used(&memory), 5 * A_PAGE as usize);
        memory.forget(1..70_001).unwrap();
        let left: Vec<u32> =
            memory.touched(0..MOST).flatten().filter(|&number| kind(number).load(Relaxed) != 0).collect();
        assert_eq!((left, used(&memory)), (vec![0, MOST - 1], 3 * A_PAGE as usize));
    }
}
