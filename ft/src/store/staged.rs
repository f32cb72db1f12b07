//! How a rank fills its store with an epoch.
//!
//! Nothing here allocates: the allocator's memory is part of what is being saved. All state that changes
//! meanwhile lies in the store itself, which is no part of an image.
//!
//! **On disk** nothing is written through the mapping where the file has no blocks yet: a full disk would end
//! the process by a signal. Pages are written by system calls, and the index has its blocks before it is
//! written. What fails is noted, and told in the end ([`Staged::written`]).

use super::geometry::{DESCRIPTION, ENTRY, PAGE};
use super::rank::{Entry, Key, RankStore, sum};
use crate::Epoch;
use crate::slots::Slots;
use nix::errno::Errno;
use nix::fcntl::posix_fallocate;
use nix::sys::resource::{Resource, getrlimit};
use std::fmt;
use std::os::fd::AsRawFd;
use std::ptr;
use std::time::{Duration, Instant};

/// Bytes of an index on disk for which there is room made at once; its description has as many.
const ROOM: u64 = 1 << 20;

/// An epoch that is being written.
#[derive(Debug)]
pub struct Staged<'a> {
    pub(super) store: &'a mut RankStore,
    slots: Slots<'a>,
    epoch: Epoch,
    /// Where its first line goes.
    entries: *mut Entry,
    /// Entries of the epoch before.
    known: &'a [Entry],
    /// The first of them whose key is not below those that were asked for.
    next_known: usize,
    count: u64,
    described: u64,
    copied: u64,
    /// How long copying took.
    copying: Duration,
    /// No slot was ever written from this one on.
    unused: u32,
    /// Files of this process may not be as long as the store is: no system call may write to that.
    is_limited: bool,
    batch: SlotBatch,
    /// Bytes of the index that have blocks on disk.
    room: u64,
    /// What a disk has not taken.
    trouble: Option<Errno>,
}

/// Pages that lie one behind the other, and go into slots that do so, too, and were never written: they are
/// written at once, which spares a page fault and a page of zeros for each.
#[derive(Debug)]
struct SlotBatch {
    slot: u32,
    pages: u32,
    bytes: *const u8,
}

/// Most pages of a batch: those that were just searched for locks are still in the processor's cache.
const MOST_AT_ONCE: u32 = 1 << 7;

/// So many pages that are copied by themselves are timed, and one in so many of the others.
const TIMED: u64 = 64;
const ONE_IN: u32 = 8;

/// Why an epoch is not in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsaved {
    /// There is no slot left.
    Full,
    /// The disk did not take what was written.
    Unwritten(Errno),
}

impl fmt::Display for Unsaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsaved::Full => f.write_str("its store is full"),
            Unsaved::Unwritten(errno) => write!(f, "its store cannot be written: {}", errno.desc()),
        }
    }
}

impl std::error::Error for Unsaved {}

impl<'a> Staged<'a> {
    /// Epoch `epoch` of a store whose newest epoch has the entries `known`.
    pub(super) fn new(
        store: &'a mut RankStore,
        slots: Slots<'a>,
        epoch: Epoch,
        known: &'a [Entry],
    ) -> Staged<'a> {
        // A program that has set itself a limit of files would be ended by a signal where one is written.
        let limit = getrlimit(Resource::RLIMIT_FSIZE).map_or(0, |(limit, _)| limit);
        let is_limited = limit < store.geometry.len();
        let used = u32::try_from(slots.used_words() * 64).unwrap_or(u32::MAX);
        let unused = if is_limited { u32::MAX } else { used };
        let batch = SlotBatch { slot: 0, pages: 0, bytes: ptr::null() };
        let entries = store.entries_at(epoch);
        let (next_known, count, described, copied, room, trouble) = (0, 0, 0, 0, 0, None);
        Staged {
            store,
            slots,
            epoch,
            entries,
            known,
            next_known,
            count,
            described,
            copied,
            copying: Duration::ZERO,
            unused,
            is_limited,
            batch,
            room,
            trouble,
        }
    }

    /// Where the description goes, and how long it may be: on disk, as long as there is room for it.
    pub fn description(&mut self) -> (*mut u8, usize) {
        let index = self.store.geometry.index_at(self.epoch.0 % 2);
        let most = if !self.store.is_durable() {
            DESCRIPTION
        } else if self.allocate(index, ROOM) {
            ROOM
        } else {
            0
        };
        (self.store.at(index), usize::try_from(most).unwrap_or(0))
    }

    /// Sees to it that so many bytes of the file have blocks on disk.
    fn allocate(&mut self, at: u64, len: u64) -> bool {
        let [at, len] = [at, len].map(|n| libc::off_t::try_from(n).unwrap_or(0));
        let done = posix_fallocate(&self.store.file, at, len);
        self.trouble = self.trouble.or(done.err());
        done.is_ok()
    }

    /// The description has so many bytes.
    pub fn described(&mut self, len: usize) {
        self.described = (len as u64).min(DESCRIPTION);
    }

    /// Why the epoch will not be in the store, if that is known by now.
    pub(crate) fn trouble(&self) -> Option<Unsaved> {
        self.trouble.map(Unsaved::Unwritten)
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
    pub unsafe fn page(&mut self, key: Key, bytes: *const u8) -> Result<(), Unsaved> {
        let known = self.known(key).filter(|entry| {
            // SAFETY: both are pages of readable bytes.
            let is_same = unsafe { same(self.store.slot(entry.slot), bytes) };
            is_same && self.slots.keep(entry.slot).is_ok()
        });
        if let Some(entry) = known {
            self.enter(entry);
            return Ok(());
        }
        let slot = self.slots.take().ok_or(Unsaved::Full)?;
        // SAFETY: it is a page of readable bytes, and stays so while the epoch is written.
        unsafe { self.copy(bytes, slot) };
        self.copied += 1;
        self.enter(Entry { key, slot, sum: 0 });
        Ok(())
    }

    /// Copies a page into a slot that no epoch uses, now or with its neighbours.
    ///
    /// # Safety
    /// A page of readable bytes is there until [`flush`](Self::flush).
    unsafe fn copy(&mut self, bytes: *const u8, slot: u32) {
        if slot < self.unused && !self.store.is_durable() {
            let stands_for = self.stands_for();
            let begun = (stands_for > 0).then(Instant::now);
            // SAFETY: the slot is a page of the mapping that no epoch uses.
            unsafe { ptr::copy_nonoverlapping(bytes, self.store.slot(slot), PAGE) };
            self.copying += begun.map_or(Duration::ZERO, |begun| begun.elapsed() * stands_for);
            return;
        }
        let SlotBatch { slot: first, pages, bytes: begin } = self.batch;
        let follows = slot == first + pages && bytes == begin.wrapping_add(pages as usize * PAGE);
        if pages > 0 && pages < MOST_AT_ONCE && follows {
            self.batch.pages += 1;
            return;
        }
        self.flush();
        self.batch = SlotBatch { slot, pages: 1, bytes };
    }

    /// For how many pages the time stands that the next one takes which is copied by itself; 0: it is not
    /// timed, as looking at the clock takes time, too.
    fn stands_for(&self) -> u32 {
        match self.copied {
            ..TIMED => 1,
            copied if copied.is_multiple_of(u64::from(ONE_IN)) => ONE_IN,
            _ => 0,
        }
    }

    /// Sees to it that all pages so far are in the store.
    pub fn flush(&mut self) {
        if self.batch.pages > 0 {
            let begun = Instant::now();
            self.write_batch();
            self.copying += begun.elapsed();
        }
    }

    fn write_batch(&mut self) {
        let SlotBatch { slot, pages, bytes } = self.batch;
        self.batch.pages = 0;
        let (len, to) = (pages as usize * PAGE, self.store.slot(slot));
        let offset = self.store.geometry.slots_at() + u64::from(slot) * PAGE as u64;
        let offset = libc::off_t::try_from(offset).unwrap_or(0);
        if self.is_limited {
            let at = u64::try_from(offset).unwrap_or(0);
            if self.allocate(at, len as u64) {
                // SAFETY: the slots are pages of the mapping that no epoch uses, and have blocks on the disk.
                unsafe { ptr::copy_nonoverlapping(bytes, to, len) };
            }
            return;
        }
        // SAFETY: so many bytes are there, as whoever added them to the batch has promised.
        let wrote = unsafe { libc::pwrite(self.store.file.as_raw_fd(), bytes.cast(), len, offset) };
        let failed = if wrote < 0 { Errno::last() } else { Errno::ENOSPC };
        let wrote = usize::try_from(wrote).unwrap_or(0);
        if wrote == len {
            return;
        }
        if self.store.is_durable() {
            self.trouble.get_or_insert(failed);
            return;
        }
        // SAFETY: the slots are pages of the mapping that no epoch uses.
        unsafe { ptr::copy_nonoverlapping(bytes.wrapping_add(wrote), to.wrapping_add(wrote), len - wrote) };
    }

    /// Adds a line to the index, if that has room for it.
    ///
    /// # Panics
    /// In builds that check it, if the page has a line already: an image would have two opinions of it.
    #[inline]
    fn enter(&mut self, entry: Entry) {
        self.enter_all(&[entry]);
    }

    /// As [`enter`](Self::enter), of pages in ascending order.
    fn enter_all(&mut self, entries: &[Entry]) {
        let end = DESCRIPTION + (self.count + entries.len() as u64) * ENTRY;
        while self.store.is_durable() && end > self.room {
            let from = self.room.max(DESCRIPTION);
            let at = self.store.geometry.index_at(self.epoch.0 % 2) + from;
            if !self.allocate(at, ROOM) {
                return;
            }
            self.room = from + ROOM;
        }
        let at = self.entries.wrapping_add(usize::try_from(self.count).unwrap_or(0));
        // SAFETY: the entry before was written, if there is one.
        let last = (self.count > 0).then(|| unsafe { at.wrapping_sub(1).read() }.key);
        let keys = || last.into_iter().chain(entries.iter().map(|entry| entry.key));
        debug_assert!(keys().is_sorted_by(|one, next| one < next), "{last:?}, {:?}", entries.first());
        // SAFETY: there are as many places for entries as slots, each entry has a slot of its own, and
        // nobody else uses them.
        unsafe { ptr::copy_nonoverlapping(entries.as_ptr(), at, entries.len()) };
        self.count += entries.len() as u64;
    }

    /// Saves pages of which it is known that the epoch before has their bytes: so many, from this one on.
    /// Returns how many it did before one that the epoch before has not.
    pub fn keep(&mut self, first: Key, pages: usize) -> usize {
        if self.known(first).is_none() {
            return 0;
        }
        // Pages that follow one another do so in the index, too.
        let rest = &self.known[self.next_known..];
        let follow = rest.iter().take(pages).enumerate().take_while(|(page, entry)| {
            entry.key == first.plus(*page) && self.slots.keep(entry.slot).is_ok()
        });
        let kept = follow.count();
        self.enter_all(&rest[..kept]);
        self.next_known += kept;
        kept
    }

    /// What the epoch before has of a page.
    fn known(&mut self, key: Key) -> Option<Entry> {
        while self.known.get(self.next_known).is_some_and(|entry| entry.key < key) {
            self.next_known += 1;
        }
        self.known.get(self.next_known).filter(|entry| entry.key == key).copied()
    }

    /// What was written, for [`RankStore::wrote`].
    ///
    /// # Errors
    /// A disk did not take all of it.
    pub fn written(mut self) -> Result<UnmarkedEpoch, Unsaved> {
        self.flush();
        if let Some(why) = self.trouble() {
            return Err(why);
        }
        if self.store.is_durable() {
            self.sum_up();
        }
        let index = self.store.geometry.index_at(self.epoch.0 % 2);
        let [described, count] = [self.described, self.count].map(|n| usize::try_from(n).unwrap_or(0));
        // SAFETY: description and entries lie in the mapping, and nobody writes them now.
        let description = unsafe { std::slice::from_raw_parts(self.store.at::<u8>(index), described) };
        // SAFETY: as above.
        let entries = unsafe { std::slice::from_raw_parts(self.entries, count) };
        let sum = sum(description, entries);
        Ok(UnmarkedEpoch { described: self.described, entries: self.count, sum, copying: self.copying })
    }
}

impl Staged<'_> {
    /// Gives entries of new pages their sums: of what is in the store, since a page may have changed while it
    /// waited to be copied (one that has the end of this thread's stack).
    fn sum_up(&mut self) {
        let first = self.entries;
        for i in 0..usize::try_from(self.count).unwrap_or(0) {
            let at = first.wrapping_add(i);
            // SAFETY: an entry that was written before.
            let mut entry = unsafe { at.read() };
            if entry.sum == 0 {
                // SAFETY: a slot is a page of the mapping, which nobody writes now.
                let page = unsafe { std::slice::from_raw_parts(self.store.slot(entry.slot), PAGE) };
                entry.sum = crc32fast::hash(page);
                // SAFETY: as above.
                unsafe { at.write(entry) };
            }
        }
    }
}

/// Slots that were taken are noted, whatever becomes of the epoch: they are free again when the next one
/// begins, and were written.
impl Drop for Staged<'_> {
    fn drop(&mut self) {
        self.store.used_words = self.slots.used_words();
    }
}

/// What an epoch consists of that was written and not yet marked.
#[derive(Clone, Copy, Debug)]
pub struct UnmarkedEpoch {
    pub(super) described: u64,
    pub(super) entries: u64,
    pub(super) sum: u32,
    /// How long copying its pages took.
    pub copying: Duration,
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
