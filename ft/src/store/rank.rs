//! A store, as the rank sees that fills it and comes back from it.
//!
//! Nothing here allocates while a checkpoint is taken: the allocator's memory is part of what is being saved.
//! All state that changes meanwhile lies in the store itself, which is no part of an image.

use super::geometry::{DESCRIPTION, ENTRY, Geometry, PAGE};
use super::header::{Base, Header, Mark};
use crate::{Epoch, Incarnation};
use memmap2::MmapOptions;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// What a page of a store is a page of. Keys are in the order of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(u64);

/// Where keys of shared pages begin: no address has such a page number.
const SHARED: u64 = 1 << 56;
/// Where those of the words begin that ranks of a host share.
const WORDS: u64 = 2 << 56;

impl Key {
    /// A page of private memory, by any address in it.
    pub fn private(address: usize) -> Key {
        Key((address / PAGE) as u64)
    }

    /// A page of the region.
    pub fn shared(page: u32) -> Key {
        Key(SHARED + u64::from(page))
    }

    /// A page of the file of objects of synchronisation.
    pub fn words(page: u32) -> Key {
        Key(WORDS + u64::from(page))
    }

    /// The address of the page, if it is one of private memory.
    pub fn address(self) -> Option<usize> {
        (self.0 < SHARED).then(|| usize::try_from(self.0).ok()?.checked_mul(PAGE)).flatten()
    }

    /// The page's number in the region, if it is one of the region.
    pub fn shared_page(self) -> Option<u32> {
        (self.0 < WORDS).then(|| u32::try_from(self.0.checked_sub(SHARED)?).ok()).flatten()
    }

    /// The page's number in the file of objects, if it is one of those.
    pub fn words_page(self) -> Option<u32> {
        u32::try_from(self.0.checked_sub(WORDS)?).ok()
    }
}

/// A line of an index: this page is in that slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Entry {
    /// Which page.
    pub key: Key,
    /// Which slot.
    pub slot: u64,
}

const _: () = assert!(size_of::<Entry>() as u64 == ENTRY);

/// A store that this rank fills.
#[derive(Debug)]
pub struct RankStore {
    base: *mut u8,
    geometry: Geometry,
    header: Header,
    incarnation: Incarnation,
    epoch: Epoch,
}

// SAFETY: the pointer is that of a mapping of the process; a store is used through one `&mut` at a time.
unsafe impl Send for RankStore {}

impl RankStore {
    /// Bytes of address space that the store of a file needs.
    ///
    /// # Errors
    /// The file is no store, or was cut short.
    pub fn len_of(file: BorrowedFd<'_>) -> io::Result<usize> {
        let store = super::Store::open(file.try_clone_to_owned()?)?;
        let len = store.header.check(u64::MAX).map_err(io::Error::other)?.len();
        usize::try_from(len).map_err(|_| io::Error::other("the store is longer than an address space"))
    }

    /// Maps a store at `at`, over whatever is there. The next checkpoint is that of `incarnation`, after
    /// `epoch`.
    ///
    /// # Errors
    /// The file is no store, is not this rank's, or has no such epoch.
    ///
    /// # Safety
    /// The address space from `at` on, as long as [`len_of`](Self::len_of) says, is the caller's, and stays
    /// so for the life of the process; there is one `RankStore` over it at a time.
    pub unsafe fn map(file: BorrowedFd<'_>, at: *mut u8, base: Base) -> io::Result<RankStore> {
        let len = Self::len_of(file)?;
        let (read_write, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
        // SAFETY: the address space is the caller's; `len_of` has seen that the file is as long.
        let mapped = unsafe {
            libc::mmap(at.cast(), len, read_write, flags | libc::MAP_NORESERVE, file.as_raw_fd(), 0)
        };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // Of no use to who looks at a core file, and large; a child is no rank.
        for advice in [libc::MADV_DONTDUMP, libc::MADV_DONTFORK] {
            // SAFETY: it concerns the mapping that was just made.
            let _ = unsafe { libc::madvise(mapped, len, advice) };
        }
        let header = Header::new(MmapOptions::new().len(PAGE).map_raw(file.as_raw_fd())?);
        let geometry = header.check(u64::MAX).map_err(io::Error::other)?;
        let Base { incarnation, epoch } = base;
        let mut store = RankStore { base: at, geometry, header, incarnation, epoch };
        store.load()?;
        Ok(store)
    }

    /// The newest epoch that all ranks have, as far as this one knows.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Which start of the job this is.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Marks the slots of the epoch as used, and no others.
    fn load(&mut self) -> io::Result<()> {
        self.map_words(0).fill(0);
        self.map_words(1).fill(0);
        if self.epoch == Epoch(0) {
            return Ok(());
        }
        let slots = self.geometry.slots();
        let entries = self.saved()?.entries;
        if let Some(entry) = entries.iter().find(|entry| entry.slot >= slots) {
            return Err(io::Error::other(format!("its index names slot {}", entry.slot)));
        }
        let number = self.epoch.0 % 2;
        for i in 0..entries.len() {
            let slot = self.entries(number, i).slot;
            set(self.map_words(number), slot);
        }
        Ok(())
    }

    fn at<T>(&self, offset: u64) -> *mut T {
        debug_assert!(offset < self.geometry.len());
        self.base.wrapping_add(usize::try_from(offset).unwrap_or(0)).cast()
    }

    /// The bit map of the slots that the epochs of this parity use.
    fn map_words(&mut self, number: u64) -> &mut [u64] {
        let at = self.at(self.geometry.map_at(number));
        // SAFETY: the words lie in the mapping; only this rank uses them, through this one value, which is
        // borrowed.
        unsafe { std::slice::from_raw_parts_mut(at, self.geometry.map_words()) }
    }

    fn entries(&self, number: u64, i: usize) -> Entry {
        let first: *const Entry = self.at(self.geometry.index_at(number) + DESCRIPTION);
        // SAFETY: callers give numbers of entries of that index, which lie in the mapping; they are plain
        // data, and only this rank writes them.
        unsafe { first.wrapping_add(i).read() }
    }

    fn slot(&self, slot: u64) -> *mut u8 {
        self.at(self.geometry.slots_at() + slot * PAGE as u64)
    }

    /// What was saved in the epoch.
    ///
    /// # Errors
    /// It is not there, or has changed since.
    pub fn saved(&self) -> io::Result<Pages<'_>> {
        let number = self.epoch.0 % 2;
        let mark = self.header.mark(number).filter(|mark| mark.epoch == self.epoch);
        let mark = mark.ok_or_else(|| io::Error::other(format!("it has no epoch {}", self.epoch.0)))?;
        if mark.described > DESCRIPTION || mark.entries > self.geometry.slots() {
            return Err(io::Error::other("its mark says what no mark says"));
        }
        let [described, count] = [mark.described, mark.entries].map(|n| usize::try_from(n).unwrap_or(0));
        let index = self.geometry.index_at(number);
        // SAFETY: `described` bytes from the index on lie in the mapping; only this rank writes them, through
        // `&mut self`.
        let description = unsafe { std::slice::from_raw_parts(self.at::<u8>(index), described) };
        // SAFETY: the same for the entries, which are plain data.
        let entries = unsafe { std::slice::from_raw_parts(self.at::<Entry>(index + DESCRIPTION), count) };
        if sum(description, entries) != mark.sum {
            return Err(io::Error::other("its index does not have the sum that its mark says"));
        }
        Ok(Pages { store: self, description, entries })
    }

    /// Begins the next epoch. The one before stays.
    pub fn stage(&mut self) -> Staged<'_> {
        let epoch = self.epoch.next();
        let number = epoch.0 % 2;
        // Whatever was marked there is over: an epoch that all ranks have left, or one that was given up.
        self.header.clear_mark(number);
        self.map_words(number).fill(0);
        let before = self.epoch.0 % 2;
        let mark = self.header.mark(before).filter(|mark| mark.epoch == self.epoch);
        let known = mark.map_or(0, |mark| usize::try_from(mark.entries).unwrap_or(0));
        Staged { store: self, epoch, known, next_known: 0, count: 0, described: 0, free_from: 0, copied: 0 }
    }

    /// All ranks have the epoch that was staged last: it is the newest now.
    pub fn commit(&mut self) {
        self.epoch = self.epoch.next();
    }
}

/// The pages of an epoch.
#[derive(Clone, Copy, Debug)]
pub struct Pages<'a> {
    store: &'a RankStore,
    /// What was said of them.
    pub description: &'a [u8],
    /// Which they are, in the order of keys.
    pub entries: &'a [Entry],
}

impl Pages<'_> {
    /// The bytes of a page of [`entries`](Self::entries).
    pub fn bytes(&self, entry: Entry) -> *const u8 {
        self.store.slot(entry.slot)
    }
}

/// An epoch that is being written.
#[derive(Debug)]
pub struct Staged<'a> {
    store: &'a mut RankStore,
    epoch: Epoch,
    /// Entries of the epoch before.
    known: usize,
    /// The first of them whose key is not below those that were asked for.
    next_known: usize,
    count: u64,
    described: u64,
    /// The word of the bit maps before which no slot is free.
    free_from: usize,
    copied: u64,
}

/// There is no slot left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Staged<'_> {
    /// Where the description goes, and how long it may be.
    pub fn description(&mut self) -> (*mut u8, usize) {
        let at = self.store.at(self.store.geometry.index_at(self.epoch.0 % 2));
        (at, usize::try_from(DESCRIPTION).unwrap_or(0))
    }

    /// The description has so many bytes.
    pub fn described(&mut self, len: usize) {
        self.described = (len as u64).min(DESCRIPTION);
    }

    /// Pages that were copied, for they were new or had changed.
    pub fn copied(&self) -> u64 {
        self.copied
    }

    /// Pages of the epoch.
    pub fn pages(&self) -> u64 {
        self.count
    }

    /// Saves a page: not its bytes, if the epoch before has the same. Keys must come in ascending order.
    ///
    /// # Errors
    /// There is no slot left: the epoch cannot be staged.
    ///
    /// # Safety
    /// A page of readable bytes begins at `bytes`. Threads that write it meanwhile may tear what is saved.
    pub unsafe fn page(&mut self, key: Key, bytes: *const u8) -> Result<(), Full> {
        let now = self.epoch.0 % 2;
        let slot = match self.known_slot(key) {
            // SAFETY: both are pages of readable bytes.
            Some(slot) if unsafe { same(self.store.slot(slot), bytes) } => slot,
            _ => {
                let slot = self.take_slot().ok_or(Full)?;
                // SAFETY: the slot is a page of the mapping that no epoch uses.
                unsafe { ptr::copy_nonoverlapping(bytes, self.store.slot(slot), PAGE) };
                self.copied += 1;
                slot
            }
        };
        set(self.store.map_words(now), slot);
        let first: *mut Entry = self.store.at(self.store.geometry.index_at(now) + DESCRIPTION);
        let at = first.wrapping_add(usize::try_from(self.count).unwrap_or(0));
        // SAFETY: there are as many places for entries as slots, each entry has a slot of its own, and
        // nobody else uses them.
        unsafe { at.write(Entry { key, slot }) };
        self.count += 1;
        Ok(())
    }

    /// The slot that the epoch before has for a page.
    fn known_slot(&mut self, key: Key) -> Option<u64> {
        let before = 1 - self.epoch.0 % 2;
        while self.next_known < self.known {
            let entry = self.store.entries(before, self.next_known);
            if entry.key >= key {
                return (entry.key == key).then_some(entry.slot);
            }
            self.next_known += 1;
        }
        None
    }

    /// A slot that neither this epoch nor the one before uses.
    fn take_slot(&mut self) -> Option<u64> {
        let words = self.store.geometry.map_words();
        for at in self.free_from..words {
            self.free_from = at;
            let used = self.store.map_words(0)[at] | self.store.map_words(1)[at];
            if used != u64::MAX {
                return Some(at as u64 * 64 + u64::from(used.trailing_ones()));
            }
        }
        None
    }

    /// All is written: marks the epoch as whole. `outputs`: the bytes of standard output and error that belong
    /// to it. It is not committed before all ranks have theirs.
    pub fn mark(self, outputs: [u64; 2]) -> Mark {
        let number = self.epoch.0 % 2;
        let index = self.store.geometry.index_at(number);
        let [described, count] = [self.described, self.count].map(|n| usize::try_from(n).unwrap_or(0));
        // SAFETY: description and entries lie in the mapping, and nobody writes them now.
        let description = unsafe { std::slice::from_raw_parts(self.store.at::<u8>(index), described) };
        let first = self.store.at::<Entry>(index + DESCRIPTION);
        // SAFETY: as above.
        let entries = unsafe { std::slice::from_raw_parts(first, count) };
        let mark = Mark {
            incarnation: self.store.incarnation,
            epoch: self.epoch,
            described: self.described,
            entries: self.count,
            sum: sum(description, entries),
            outputs,
        };
        self.store.header.set_mark(&mark);
        mark
    }
}

fn sum(description: &[u8], entries: &[Entry]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(description);
    // SAFETY: entries are two words each, without padding.
    crc.update(unsafe { std::slice::from_raw_parts(entries.as_ptr().cast(), size_of_val(entries)) });
    crc.finalize()
}

fn set(map: &mut [u64], slot: u64) {
    if let Some(word) = map.get_mut(usize::try_from(slot / 64).unwrap_or(usize::MAX)) {
        *word |= 1 << (slot % 64);
    }
}

/// Whether two pages have the same bytes.
///
/// # Safety
/// Both are pages of readable bytes.
unsafe fn same(one: *const u8, other: *const u8) -> bool {
    // SAFETY: as the caller promises. The C library's function takes what other threads write meanwhile as it
    // comes.
    unsafe { libc::memcmp(one.cast(), other.cast(), PAGE) == 0 }
}
