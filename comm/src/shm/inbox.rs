//! An inbox: the memory of one rank that its peers write messages into.
//!
//! Every rank makes one and maps all. Layout, each word on cache lines of its own (128 bytes: processors
//! fetch lines in pairs):
//!
//! ```text
//!     0          bell                       who sleeps here, who has left   (see `bell`)
//!     128        window of peer 0           gets from peer 0 under way      (see `window`)
//!     …          window of peer n-1
//!     …          head of ring 0             how far the owner has read      (see `ring`)
//!     …          head of ring n-1
//!     …          arrived                    meetings that the owner has come to   (see `board`)
//!     …          released                   meetings that it says are over
//!     …          coming                     what the owner came for last
//!     …          roused                     1: the owner's helper is not to nap   (see `waiting`)
//!     page       ring of sender 0           the frames that rank 0 writes here
//!     …          ring of sender n-1
//! ```

use super::bell::Bell;
use super::futex;
use super::map::{self, Mapping};
use super::window::Window;
use crate::{Error, Mark, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Bytes that a word is given for itself.
const LINE: usize = 128;
/// The smallest ring: the `ring` module's frames are a quarter of it at most.
pub(super) const MIN_RING: usize = 16 << 10;
/// The largest ring that is chosen unasked.
const MAX_RING: usize = 256 << 10;
/// Memory for rings that an inbox takes unless there are so many ranks that each would get less than
/// [`MIN_RING`].
const RINGS: usize = 1 << 20;

// Eight ranks' rings and words stay far below 4 MiB a rank.
const _: () = assert!(RINGS / 8 >= MIN_RING && RINGS + (2 * 8 + 5) * LINE < 4 << 20);
const _: () = assert!(MIN_RING.is_power_of_two() && MAX_RING.is_power_of_two());

/// Where things are in the inboxes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    ranks: usize,
    /// Bytes of a ring: a power of two, at least [`MIN_RING`].
    ring: usize,
}

impl Layout {
    /// The layout for `ranks`, with rings of about `ring` bytes if that is given.
    pub(super) fn new(ranks: u32, ring: Option<usize>) -> Self {
        let ranks = ranks as usize;
        let fair = (RINGS / ranks.max(1)).clamp(MIN_RING, MAX_RING);
        let ring = ring.unwrap_or(fair).clamp(MIN_RING, 1 << 30);
        Self { ranks, ring: 1 << ring.ilog2() }
    }

    /// Bytes of a ring.
    pub(super) fn ring(self) -> usize {
        self.ring
    }

    fn window_at(self, peer: usize) -> usize {
        LINE * (1 + peer)
    }

    fn head_at(self, sender: usize) -> usize {
        LINE * (1 + self.ranks + sender)
    }

    fn mark_at(self, mark: Mark) -> usize {
        LINE * (1 + 2 * self.ranks + mark as usize)
    }

    fn coming_at(self) -> usize {
        LINE * (3 + 2 * self.ranks)
    }

    fn roused_at(self) -> usize {
        LINE * (4 + 2 * self.ranks)
    }

    fn ring_at(self, sender: usize) -> usize {
        (LINE * (5 + 2 * self.ranks)).next_multiple_of(4096) + sender * self.ring
    }

    /// Bytes of an inbox.
    pub(super) fn len(self) -> usize {
        self.ring_at(self.ranks)
    }
}

/// A rank's inbox, mapped here.
#[derive(Debug)]
pub(super) struct Inbox {
    map: Mapping,
    layout: Layout,
    /// The eventfd that wakes the owner, if it does not sleep on its bell's word.
    alarm: Option<OwnedFd>,
}

impl Inbox {
    /// Makes the memory of an inbox, all zeros: nobody sleeps, no get is under way, all rings are empty.
    pub(super) fn create(layout: Layout) -> Result<OwnedFd> {
        map::reserved_memfd(c"scash-inbox", layout.len())
    }

    /// Maps the inbox that `rank` made, whose sleepers `alarm` wakes, if there is one.
    pub(super) fn open(fd: impl AsFd, alarm: Option<OwnedFd>, layout: Layout, rank: u32) -> Result<Self> {
        let broken = |why: &str| Error::Protocol { rank, why: why.to_owned() };
        if map::file_len(&fd)? != layout.len() as u64 {
            return Err(broken("its inbox has another size than ours"));
        }
        if !map::is_sealed_against_shrinking(&fd) {
            return Err(broken("its inbox is not sealed"));
        }
        Ok(Self { map: Mapping::new(fd, layout.len(), "a rank's inbox")?, layout, alarm })
    }

    /// The layout it was made with.
    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// The owner's bell.
    pub(super) fn bell(&self) -> Bell<'_> {
        Bell(self.bell_word())
    }

    /// The word of the owner's bell, to sleep on.
    pub(super) fn bell_word(&self) -> &AtomicU32 {
        self.short_word(0)
    }

    /// Whether the owner's helper is roused, to sleep on.
    pub(super) fn roused(&self) -> &AtomicU32 {
        self.short_word(self.layout.roused_at())
    }

    /// The eventfd that wakes the owner.
    pub(super) fn alarm(&self) -> Option<BorrowedFd<'_>> {
        self.alarm.as_ref().map(AsFd::as_fd)
    }

    /// Turn 7 of the bell's protocol: wakes all of the owner's threads that sleep.
    #[cold]
    pub(super) fn wake_all(&self) {
        match &self.alarm {
            None => futex::wake_all(self.bell_word()),
            // It can only fail when the count is at its maximum, and then the alarm has been raised.
            Some(alarm) => _ = nix::unistd::write(alarm, &1u64.to_ne_bytes()),
        }
    }

    /// The owner's gets from `peer`.
    pub(super) fn window(&self, peer: u32) -> Window<'_> {
        Window(self.word(self.layout.window_at(self.index(peer))))
    }

    /// How far the owner has read the ring of `sender`.
    pub(super) fn head(&self, sender: u32) -> &AtomicU64 {
        self.word(self.layout.head_at(self.index(sender)))
    }

    /// The owner's word on the board.
    pub(super) fn mark(&self, mark: Mark) -> &AtomicU64 {
        self.word(self.layout.mark_at(mark))
    }

    /// What the owner came for last.
    pub(super) fn coming(&self) -> &AtomicU64 {
        self.word(self.layout.coming_at())
    }

    /// The first byte of the ring of `sender`; there are `layout().ring()` of them, aligned to a page.
    pub(super) fn ring(&self, sender: u32) -> *mut u8 {
        let at = self.layout.ring_at(self.index(sender));
        // SAFETY: `index` is below `ranks`, so the whole ring is inside the mapping (`Layout::len`).
        unsafe { self.map.base().add(at) }
    }

    fn index(&self, rank: u32) -> usize {
        assert!((rank as usize) < self.layout.ranks, "rank {rank} was not checked");
        rank as usize
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: aligned (mappings start at a page, and lines are longer) and used as this atomic by every
        // rank; `self` keeps it mapped.
        unsafe { AtomicU64::from_ptr(self.line(at).cast()) }
    }

    /// A word that the kernel knows, too.
    fn short_word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.line(at).cast()) }
    }

    fn line(&self, at: usize) -> *mut u8 {
        assert!(at + LINE <= self.map.len() && at.is_multiple_of(LINE));
        // SAFETY: inside the mapping (checked above).
        unsafe { self.map.base().add(at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::map::reserved_memfd;

    #[test]
    fn inboxes_stay_small_and_rings_never_too_small() {
        for ranks in [1, 2, 3, 8, 64, 500] {
            let layout = Layout::new(ranks, None);
            assert!(layout.ring() >= MIN_RING && layout.ring() <= MAX_RING);
            assert!(
                layout.len()
                    <= (1 << 20).max(ranks as usize * MIN_RING) + (64 << 10) + ranks as usize * 2 * LINE
            );
        }
        assert!(Layout::new(8, None).len() < 4 << 20);
    }

    #[test]
    fn words_and_rings_do_not_overlap() {
        let layout = Layout::new(3, Some(MIN_RING));
        let inbox = Inbox::open(Inbox::create(layout).unwrap(), None, layout, 0).unwrap();
        let mut starts = vec![inbox.bell_word().as_ptr() as usize];
        starts.extend((0..3).map(|rank| inbox.window(rank).0.as_ptr() as usize));
        starts.extend((0..3).map(|rank| inbox.head(rank).as_ptr() as usize));
        starts.extend(Mark::ALL.map(|mark| inbox.mark(mark).as_ptr() as usize));
        starts.push(inbox.coming().as_ptr() as usize);
        starts.push(inbox.roused().as_ptr() as usize);
        starts.extend((0..3).map(|rank| inbox.ring(rank) as usize));
        assert!(starts.is_sorted());
        assert!(starts[..11].windows(2).all(|pair| pair[1] - pair[0] == LINE));
        assert!(starts[11..].windows(2).all(|pair| pair[1] - pair[0] == MIN_RING));
        assert_eq!(starts[13] + MIN_RING, starts[0] + layout.len());
    }

    #[test]
    fn memory_that_could_shrink_under_its_readers_is_refused() {
        let layout = Layout::new(2, None);
        let refused = |fd| matches!(Inbox::open(fd, None, layout, 1), Err(Error::Protocol { rank: 1, .. }));
        assert!(refused(reserved_memfd(c"test", layout.len() - 1).unwrap()));
        let unsealed =
            nix::sys::memfd::memfd_create(c"test", nix::sys::memfd::MFdFlags::MFD_CLOEXEC).unwrap();
        nix::unistd::ftruncate(&unsealed, i64::try_from(layout.len()).unwrap()).unwrap();
        assert!(refused(unsealed));
    }
}
