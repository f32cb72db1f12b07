//! What goes to the copies of a store on other hosts. A copy is the same file: what lies at a place here,
//! lies at the same place there, and whoever holds it interprets nothing. So an epoch is sent as pieces of
//! the file: first the mark that stood for an epoch of the same number before, which is gone; slots and
//! index; and when these have arrived, the mark.

use super::RankStore;
use super::geometry::{DESCRIPTION, ENTRY, PAGE};
use super::header::MARK_LEN;
use super::staged::UnmarkedEpoch;
use crate::Epoch;
use memmap2::{Advice, MmapOptions, MmapRaw};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most pages of a piece.
const MOST: u32 = 256;

/// Bytes of the file that lie one behind the other.
#[derive(Clone, Copy, Debug)]
pub struct FileRange {
    /// Where in the file.
    pub offset: u64,
    /// Where in the memory of this process. They stay until the store is changed.
    pub bytes: *const u8,
    /// How many.
    pub len: usize,
}

/// A copy that this process holds for the rank of another host: memory that is written from there.
#[derive(Debug)]
pub struct HeldCopy {
    file: OwnedFd,
    mapping: MmapRaw,
}

impl HeldCopy {
    /// Maps the copy.
    ///
    /// # Errors
    /// The file is no store, or there is no address space left.
    pub fn open(file: OwnedFd) -> io::Result<HeldCopy> {
        let len = RankStore::len_of(file.as_fd())?;
        let mapping = MmapOptions::new().len(len).no_reserve_swap().map_raw(&file);
        let mapping = mapping.map_err(|error| super::rank::no_room(len, error))?;
        // Of no use to who looks at a core file, and large; a child is no rank.
        let _ = mapping.advise(Advice::DontDump);
        let _ = mapping.advise(Advice::DontFork);
        Ok(HeldCopy { file, mapping })
    }

    /// The file.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Where it is mapped.
    pub fn base(&self) -> *mut u8 {
        self.mapping.as_mut_ptr()
    }

    /// Bytes of it.
    #[expect(clippy::len_without_is_empty, reason = "it has a header")]
    pub fn len(&self) -> usize {
        self.mapping.len()
    }
}

impl RankStore {
    /// Gives `send`, one after the other, what a copy that has the epoch before lacks of the one that was
    /// [written](Self::wrote), or, if it `has_nothing`, all of it; but for its mark. Allocates nothing.
    /// Nothing is given if nothing was written.
    ///
    /// # Errors
    /// That of `send`, which is not called again.
    pub fn changes<E>(
        &mut self,
        has_nothing: bool,
        mut send: impl FnMut(FileRange) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(UnmarkedEpoch { described, entries, .. }) = self.written else { return Ok(()) };
        send(self.mark_piece())?;
        for run in self.slots().staged_runs(has_nothing, MOST) {
            send(self.slots_piece(&run))?;
        }
        let index = self.geometry.index_at(self.staged_epoch().0 % 2);
        self.send_range(index..index + described, &mut send)?;
        self.send_range(index + DESCRIPTION..index + DESCRIPTION + entries * ENTRY, &mut send)
    }

    /// The mark of the epoch that is staged, as it is now: none, or one that was [written](Self::mark).
    pub fn mark_piece(&self) -> FileRange {
        self.piece(super::header::mark_at(self.staged_epoch().0 % 2), MARK_LEN)
    }

    fn staged_epoch(&self) -> Epoch {
        self.epoch().next()
    }

    fn slots_piece(&self, run: &Range<u32>) -> FileRange {
        let page = |slot: u32| u64::from(slot) * PAGE as u64;
        self.piece(self.geometry.slots_at() + page(run.start), page(run.end - run.start))
    }

    fn send_range<E>(
        &self,
        range: Range<u64>,
        send: &mut impl FnMut(FileRange) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = range.start;
        while at < range.end {
            let len = (range.end - at).min(u64::from(MOST) * PAGE as u64);
            send(self.piece(at, len))?;
            at += len;
        }
        Ok(())
    }

    fn piece(&self, offset: u64, len: u64) -> FileRange {
        FileRange { offset, bytes: self.at(offset), len: usize::try_from(len).unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests;
