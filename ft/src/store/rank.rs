//! A store, as the rank sees that fills it and comes back from it.
//!
//! Nothing here allocates while a checkpoint is taken: the allocator's memory is part of what is being saved.
//! All state that changes meanwhile lies in the store itself, which is no part of an image.

use super::geometry::{DESCRIPTION, ENTRY, Geometry, PAGE};
use super::header::{Header, Marked};
use crate::slots::Slots;
use crate::{Base, Epoch, Incarnation, Mark};
use memmap2::MmapOptions;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
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
    pub slot: u32,
    /// Of no meaning.
    pub(crate) spare: u32,
}

const _: () = assert!(size_of::<Entry>() as u64 == ENTRY);

/// A store that this rank fills.
#[derive(Debug)]
pub struct RankStore {
    base: *mut u8,
    file: OwnedFd,
    geometry: Geometry,
    header: Header,
    incarnation: Incarnation,
    epoch: Epoch,
    /// Words of the bit maps that have ever said that a slot is used.
    used_words: usize,
    written: Option<Written>,
}

// SAFETY: the pointer is that of a mapping of the process; a store is used through one `&mut` at a time.
unsafe impl Send for RankStore {}

/// The error of a store that cannot be mapped, with its cause if that is the user's limit.
pub(super) fn no_room(len: usize, error: io::Error) -> io::Error {
    let limit = getrlimit(Resource::RLIMIT_AS).map_or(RLIM_INFINITY, |(limit, _)| limit);
    if error.raw_os_error() != Some(libc::ENOMEM) || limit == RLIM_INFINITY {
        return error;
    }
    let (needed, given) = (len.div_ceil(1 << 20), limit >> 20);
    let why = format!(
        "{error}: `ulimit -v` allows {given} MiB of address space, and a store is mapped whole, which takes {needed} MiB beside what the program needs"
    );
    io::Error::new(error.kind(), why)
}

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
    pub unsafe fn map(file: OwnedFd, at: *mut u8, base: Base) -> io::Result<RankStore> {
        let len = Self::len_of(file.as_fd())?;
        let (read_write, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
        // SAFETY: the address space is the caller's; `len_of` has seen that the file is as long.
        let mapped = unsafe {
            libc::mmap(at.cast(), len, read_write, flags | libc::MAP_NORESERVE, file.as_raw_fd(), 0)
        };
        if mapped == libc::MAP_FAILED {
            return Err(no_room(len, io::Error::last_os_error()));
        }
        // Of no use to who looks at a core file, and large; a child is no rank.
        for advice in [libc::MADV_DONTDUMP, libc::MADV_DONTFORK] {
            // SAFETY: it concerns the mapping that was just made.
            let _ = unsafe { libc::madvise(mapped, len, advice) };
        }
        let header = Header::new(MmapOptions::new().len(PAGE).map_raw(file.as_raw_fd())?);
        let geometry = header.check(u64::MAX).map_err(io::Error::other)?;
        let Base { incarnation, epoch } = base;
        let mut store =
            RankStore { base: at, file, geometry, header, incarnation, epoch, used_words: 0, written: None };
        store.empty_maps();
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
        let first = self.entries_at(self.epoch);
        let count = if self.epoch == Epoch(0) { 0 } else { self.saved()?.entries.len() };
        // SAFETY: `saved` has seen that so many entries lie there; they are plain data.
        let slots = (0..count).map(|i| unsafe { first.wrapping_add(i).read() }.slot);
        let mut maps = self.slots();
        maps.load(slots).map_err(|wrong| io::Error::other(wrong.to_string()))?;
        self.used_words = maps.used_words();
        Ok(())
    }

    /// Makes the bit maps zero, without giving them memory.
    fn empty_maps(&mut self) {
        for number in [0, 1] {
            let at = self.at::<u64>(self.geometry.map_at(number));
            let words = self.geometry.map_words();
            // SAFETY: the words are of the mapping, and nobody uses them yet.
            if unsafe { libc::madvise(at.cast(), 8 * words, libc::MADV_REMOVE) } != 0 {
                // SAFETY: likewise.
                unsafe { ptr::write_bytes(at, 0, words) };
            }
        }
    }

    /// Which slots are used.
    fn slots<'a>(&self) -> Slots<'a> {
        let parity = self.epoch.0 % 2;
        let [committed, staged] = [parity, 1 - parity].map(|number| {
            let at = self.at(self.geometry.map_at(number));
            // SAFETY: the words lie in the mapping, which stays; only this rank uses them, through one value of
            // this kind at a time, made by functions that have `&mut self`.
            unsafe { std::slice::from_raw_parts_mut(at, self.geometry.map_words()) }
        });
        let count = u32::try_from(self.geometry.slots()).unwrap_or(u32::MAX);
        Slots::over(committed, staged, count, self.used_words).expect("maps have a bit for each slot")
    }

    /// Where the entries of an epoch's index begin.
    fn entries_at(&self, epoch: Epoch) -> *mut Entry {
        self.at(self.geometry.index_at(epoch.0 % 2) + DESCRIPTION)
    }

    fn at<T>(&self, offset: u64) -> *mut T {
        debug_assert!(offset < self.geometry.len());
        self.base.wrapping_add(usize::try_from(offset).unwrap_or(0)).cast()
    }

    /// Where slot 0 is; the others follow.
    fn slot(&self, slot: u32) -> *mut u8 {
        self.at(self.geometry.slots_at() + u64::from(slot) * PAGE as u64)
    }

    /// What was saved in the epoch.
    ///
    /// # Errors
    /// It is not there, or has changed since.
    pub fn saved(&self) -> io::Result<Pages<'_>> {
        let number = self.epoch.0 % 2;
        let mark = self.header.mark(number).filter(|marked| marked.mark.epoch == self.epoch);
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
        let entries = unsafe { std::slice::from_raw_parts(self.entries_at(self.epoch), count) };
        if sum(description, entries) != mark.sum {
            return Err(io::Error::other("its index does not have the sum that its mark says"));
        }
        Ok(Pages { store: self, description, entries })
    }

    /// Begins the next epoch. The one before stays.
    pub fn stage(&mut self) -> Staged<'_> {
        let epoch = self.epoch.next();
        // Whatever was marked there is over: an epoch that all ranks have left, or one that was given up.
        self.header.clear_mark(epoch.0 % 2);
        let mut slots = self.slots();
        slots.abandon();
        let newest = self.header.mark(self.epoch.0 % 2).filter(|marked| marked.mark.epoch == self.epoch);
        let count = newest.map_or(0, |marked| usize::try_from(marked.entries).unwrap_or(0));
        let known = self.entries_at(self.epoch);
        // SAFETY: the entries lie in the mapping, and nobody writes them while the epoch is the newest.
        let known = unsafe { std::slice::from_raw_parts(known, count) };
        let unused = u32::try_from(slots.used_words() * 64).unwrap_or(u32::MAX);
        let batch = Batch { slot: 0, pages: 0, bytes: ptr::null() };
        let (next_known, count, described, copied) = (0, 0, 0, 0);
        Staged { store: self, slots, epoch, known, next_known, count, described, copied, unused, batch }
    }

    /// The next epoch is written.
    pub fn wrote(&mut self, written: Written) {
        self.used_words = written.used_words;
        self.written = Some(written);
    }

    /// Marks the epoch that was written as whole. `outputs`: the bytes of standard output and error that belong
    /// to it. It is not committed before all ranks have theirs. Without an epoch that was
    /// [written](Self::wrote) nothing is marked.
    pub fn mark(&mut self, outputs: [u64; 2]) {
        let mark = Mark { incarnation: self.incarnation, epoch: self.epoch.next() };
        if let Some(Written { described, entries, sum, .. }) = self.written.take() {
            self.header.set_mark(&Marked { mark, described, entries, sum, outputs });
        }
    }

    /// The epoch that was staged last counts for nobody: a mark of it would be taken for one of the next
    /// attempt.
    pub fn abandon(&mut self) {
        self.header.clear_mark(self.epoch.next().0 % 2);
        self.slots().abandon();
    }

    /// All ranks have the epoch that was staged last: it is the newest now.
    pub fn commit(&mut self) {
        self.slots().commit();
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
    /// Where slot 0 is; the others follow.
    pub(crate) fn slots(&self) -> *const u8 {
        self.store.slot(0)
    }

    /// The bytes of a page of [`entries`](Self::entries).
    pub fn bytes(&self, entry: Entry) -> *const u8 {
        self.store.slot(entry.slot)
    }
}

/// An epoch that is being written.
#[derive(Debug)]
pub struct Staged<'a> {
    store: &'a mut RankStore,
    slots: Slots<'a>,
    epoch: Epoch,
    /// Entries of the epoch before.
    known: &'a [Entry],
    /// The first of them whose key is not below those that were asked for.
    next_known: usize,
    count: u64,
    described: u64,
    copied: u64,
    /// No slot was ever written from this one on.
    unused: u32,
    batch: Batch,
}

/// Pages that lie one behind the other, and go into slots that do so, too, and were never written: they are
/// written at once, which spares a page fault and a page of zeros for each.
#[derive(Debug)]
struct Batch {
    slot: u32,
    pages: u32,
    bytes: *const u8,
}

/// Most pages of a batch.
const MOST_AT_ONCE: u32 = 1 << 14;

/// There is no slot left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its store is full")
    }
}

impl std::error::Error for Full {}

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
    /// A page of readable bytes begins at `bytes`, until the epoch is [written](Self::written) or
    /// [saved](Self::flush). Threads that write it meanwhile may tear what is saved.
    pub unsafe fn page(&mut self, key: Key, bytes: *const u8) -> Result<(), Full> {
        let slot = match self.known_slot(key) {
            // SAFETY: both are pages of readable bytes.
            Some(slot) if unsafe { same(self.store.slot(slot), bytes) } && self.slots.keep(slot).is_ok() => {
                slot
            }
            _ => {
                let slot = self.slots.take().ok_or(Full)?;
                // SAFETY: it is a page of readable bytes, and stays so while the epoch is written.
                unsafe { self.copy(bytes, slot) };
                self.copied += 1;
                slot
            }
        };
        self.enter(key, slot);
        Ok(())
    }

    /// Copies a page into a slot that no epoch uses, now or with its neighbours.
    ///
    /// # Safety
    /// A page of readable bytes is there until [`flush`](Self::flush).
    unsafe fn copy(&mut self, bytes: *const u8, slot: u32) {
        if slot < self.unused {
            // SAFETY: the slot is a page of the mapping that no epoch uses.
            return unsafe { ptr::copy_nonoverlapping(bytes, self.store.slot(slot), PAGE) };
        }
        let Batch { slot: first, pages, bytes: begin } = self.batch;
        let follows = slot == first + pages && bytes == begin.wrapping_add(pages as usize * PAGE);
        if pages > 0 && pages < MOST_AT_ONCE && follows {
            self.batch.pages += 1;
            return;
        }
        self.flush();
        self.batch = Batch { slot, pages: 1, bytes };
    }

    /// Sees to it that all pages so far are in the store.
    pub fn flush(&mut self) {
        let Batch { slot, pages, bytes } = self.batch;
        self.batch.pages = 0;
        let (len, to) = (pages as usize * PAGE, self.store.slot(slot));
        let offset = self.store.geometry.slots_at() + u64::from(slot) * PAGE as u64;
        let offset = libc::off_t::try_from(offset).unwrap_or(0);
        // SAFETY: so many bytes are there, as whoever added them to the batch has promised.
        let wrote = unsafe { libc::pwrite(self.store.file.as_raw_fd(), bytes.cast(), len, offset) };
        let wrote = usize::try_from(wrote).unwrap_or(0);
        if wrote < len {
            // SAFETY: the slots are pages of the mapping that no epoch uses.
            unsafe {
                ptr::copy_nonoverlapping(bytes.wrapping_add(wrote), to.wrapping_add(wrote), len - wrote)
            };
        }
    }

    /// Adds a line to the index.
    fn enter(&mut self, key: Key, slot: u32) {
        let at = self.store.entries_at(self.epoch).wrapping_add(usize::try_from(self.count).unwrap_or(0));
        // SAFETY: there are as many places for entries as slots, each entry has a slot of its own, and
        // nobody else uses them.
        unsafe { at.write(Entry { key, slot, spare: 0 }) };
        self.count += 1;
    }

    /// Saves a page of which it is known that the epoch before has its bytes. `false` if that has no such page.
    pub fn keep(&mut self, key: Key) -> bool {
        let Some(slot) = self.known_slot(key).filter(|&slot| self.slots.keep(slot).is_ok()) else {
            return false;
        };
        self.enter(key, slot);
        true
    }

    /// The slot that the epoch before has for a page.
    fn known_slot(&mut self, key: Key) -> Option<u32> {
        while let Some(entry) = self.known.get(self.next_known) {
            if entry.key >= key {
                return (entry.key == key).then_some(entry.slot);
            }
            self.next_known += 1;
        }
        None
    }

    /// What was written, for [`RankStore::wrote`].
    pub fn written(mut self) -> Written {
        self.flush();
        let index = self.store.geometry.index_at(self.epoch.0 % 2);
        let [described, count] = [self.described, self.count].map(|n| usize::try_from(n).unwrap_or(0));
        // SAFETY: description and entries lie in the mapping, and nobody writes them now.
        let description = unsafe { std::slice::from_raw_parts(self.store.at::<u8>(index), described) };
        // SAFETY: as above.
        let entries = unsafe { std::slice::from_raw_parts(self.store.entries_at(self.epoch), count) };
        let sum = sum(description, entries);
        let used_words = self.slots.used_words();
        Written { described: self.described, entries: self.count, sum, used_words }
    }
}

/// What an epoch consists of that was written and not yet marked.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    described: u64,
    entries: u64,
    sum: u32,
    used_words: usize,
}

fn sum(description: &[u8], entries: &[Entry]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(description);
    // SAFETY: entries are two words each, without padding.
    crc.update(unsafe { std::slice::from_raw_parts(entries.as_ptr().cast(), size_of_val(entries)) });
    crc.finalize()
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
