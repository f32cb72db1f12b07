//! A store, as the rank sees that fills it and comes back from it. How it fills it, is in `staged`.

use super::geometry::{DESCRIPTION, ENTRY, Geometry, PAGE};
use super::header::{Header, Marked};
use super::staged::{Staged, UnmarkedEpoch};
use crate::slots::Slots;
use crate::{Base, Epoch, Incarnation, Mark};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::unistd::fdatasync;
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
/// Where those of the files begin in which it is kept what the rank prints, and by how much those of one lie
/// behind those of the other.
const PRINTED: u64 = 3 << 56;
const STREAM: u64 = 1 << 48;

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

    /// A page of the file in which it is kept what the rank prints to standard output (0) or error (1).
    pub fn printed(stream: usize, page: u64) -> Key {
        Key(PRINTED + (stream as u64 & 1) * STREAM + (page & (STREAM - 1)))
    }

    /// Whatever an index says.
    pub(super) fn from_number(number: u64) -> Key {
        Key(number)
    }

    /// The address of the page, if it is one of private memory.
    pub fn address(self) -> Option<usize> {
        (self.0 < SHARED).then(|| usize::try_from(self.0).ok()?.checked_mul(PAGE)).flatten()
    }

    /// That of the page so many pages on, in the same memory.
    pub(super) fn plus(self, pages: usize) -> Key {
        Key(self.0 + pages as u64)
    }

    /// Whether it is of the page behind that of another one, in the same memory.
    pub fn follows(self, other: Key) -> bool {
        other.0.checked_add(1) == Some(self.0)
    }

    /// The page's number in the region, if it is one of the region.
    pub fn shared_page(self) -> Option<u32> {
        (self.0 < WORDS).then(|| u32::try_from(self.0.checked_sub(SHARED)?).ok()).flatten()
    }

    /// The page's number in the file of objects, if it is one of those.
    pub fn words_page(self) -> Option<u32> {
        u32::try_from(self.0.checked_sub(WORDS)?).ok()
    }

    /// The stream and the page's number in its file, if it is one of what the rank prints.
    pub(super) fn printed_page(self) -> Option<(usize, u64)> {
        let number = self.0.checked_sub(PRINTED).filter(|number| *number < 2 * STREAM)?;
        Some((usize::from(number >= STREAM), number % STREAM))
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
    /// CRC-32 of the page in a store on disk; elsewhere 0.
    pub(super) sum: u32,
}

const _: () = assert!(size_of::<Entry>() as u64 == ENTRY);

/// A store that this rank fills.
#[derive(Debug)]
pub struct RankStore {
    base: *mut u8,
    pub(super) file: OwnedFd,
    pub(super) geometry: Geometry,
    pub(super) header: Header,
    is_durable: bool,
    incarnation: Incarnation,
    epoch: Epoch,
    /// Words of the bit maps that have ever said that a slot is used.
    pub(super) used_words: usize,
    pub(super) written: Option<UnmarkedEpoch>,
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
        // No mapping of its own: the process that comes back would have to do without.
        // SAFETY: the mapping was just made, and stays.
        let header = unsafe { Header::over(at) };
        let geometry = header.check(u64::MAX).map_err(io::Error::other)?;
        let Base { incarnation, epoch } = base;
        let (is_durable, used_words, written) = (header.is_durable(), 0, None);
        let mut store = RankStore {
            base: at,
            file,
            geometry,
            header,
            is_durable,
            incarnation,
            epoch,
            used_words,
            written,
        };
        store.empty_maps();
        store.load()?;
        Ok(store)
    }

    /// The file.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Bytes of it.
    #[expect(clippy::len_without_is_empty, reason = "it has a header")]
    pub fn len(&self) -> u64 {
        self.geometry.len()
    }

    /// The newest epoch that all ranks have, as far as this one knows.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// How many bytes of standard output and error belong to that epoch.
    pub fn outputs(&self) -> [u64; 2] {
        let newest = self.header.mark(self.epoch.0 % 2).filter(|marked| marked.mark.epoch == self.epoch);
        newest.map_or([0; 2], |marked| marked.outputs)
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
            // On disk they have blocks of their own, which they keep: there may be no others later.
            // SAFETY: the words are of the mapping, and nobody uses them yet.
            if self.is_durable || unsafe { libc::madvise(at.cast(), 8 * words, libc::MADV_REMOVE) } != 0 {
                // SAFETY: likewise.
                unsafe { ptr::write_bytes(at, 0, words) };
            }
        }
    }

    /// Which slots are used.
    pub(super) fn slots<'a>(&self) -> Slots<'a> {
        let parity = self.epoch.0 % 2;
        let [committed, staged] = [parity, 1 - parity].map(|number| {
            let at = self.at(self.geometry.map_at(number));
            // SAFETY: the words lie in the mapping, which stays; only this rank uses them, through one value
            // of this kind at a time, made by functions that have `&mut self`.
            unsafe { std::slice::from_raw_parts_mut(at, self.geometry.map_words()) }
        });
        let count = u32::try_from(self.geometry.slots()).unwrap_or(u32::MAX);
        Slots::over(committed, staged, count, self.used_words).expect("maps have a bit for each slot")
    }

    /// Where the entries of an epoch's index begin.
    pub(super) fn entries_at(&self, epoch: Epoch) -> *mut Entry {
        self.at(self.geometry.index_at(epoch.0 % 2) + DESCRIPTION)
    }

    pub(super) fn at<T>(&self, offset: u64) -> *mut T {
        debug_assert!(offset < self.geometry.len());
        self.base.wrapping_add(usize::try_from(offset).unwrap_or(0)).cast()
    }

    /// Where slot 0 is; the others follow.
    pub(super) fn slot(&self, slot: u32) -> *mut u8 {
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
        self.written = None;
        let mut slots = self.slots();
        slots.abandon();
        let newest = self.header.mark(self.epoch.0 % 2).filter(|marked| marked.mark.epoch == self.epoch);
        let count = newest.map_or(0, |marked| usize::try_from(marked.entries).unwrap_or(0));
        let known = self.entries_at(self.epoch);
        // SAFETY: the entries lie in the mapping, and nobody writes them while the epoch is the newest.
        let known = unsafe { std::slice::from_raw_parts(known, count) };
        Staged::new(self, slots, epoch, known)
    }

    /// The next epoch is written.
    ///
    /// # Errors
    /// The store is on a disk that did not take it.
    pub fn wrote(&mut self, written: UnmarkedEpoch) -> io::Result<()> {
        self.sync()?;
        self.written = Some(written);
        Ok(())
    }

    /// Whether an epoch was written and not marked yet.
    pub fn has_written(&self) -> bool {
        self.written.is_some()
    }

    /// Marks the epoch that was written as whole, which was taken at that memory barrier. `outputs`: the
    /// bytes of standard output and error that belong to it. It is not committed before all ranks have
    /// theirs. Without an epoch that was
    /// [written](Self::wrote) nothing is marked.
    ///
    /// # Errors
    /// The store is on a disk that did not take the mark.
    pub fn mark(&mut self, outputs: [u64; 2], barrier: u64) -> io::Result<()> {
        let mark = Mark { incarnation: self.incarnation, epoch: self.epoch.next() };
        let Some(UnmarkedEpoch { described, entries, sum, .. }) = self.written.take() else { return Ok(()) };
        self.header.set_mark(&Marked { mark, described, entries, sum, outputs, barrier });
        self.sync()
    }

    /// Whether the store is a file on disk.
    pub fn is_durable(&self) -> bool {
        self.is_durable
    }

    /// What was written is on the disk, if the store is.
    fn sync(&self) -> io::Result<()> {
        if self.is_durable { fdatasync(&self.file).map_err(io::Error::from) } else { Ok(()) }
    }

    /// The epoch that was staged last counts for nobody: a mark of it would be taken for one of the next
    /// attempt.
    pub fn abandon(&mut self) {
        self.header.clear_mark(self.epoch.next().0 % 2);
        // If the disk does not take that, it still has the whole of what is marked.
        let _ = self.sync();
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

/// The sum that a mark has over an index.
pub(super) fn sum(description: &[u8], entries: &[Entry]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(description);
    // SAFETY: entries are two words each, without padding.
    crc.update(unsafe { std::slice::from_raw_parts(entries.as_ptr().cast(), size_of_val(entries)) });
    crc.finalize()
}
