//! A word for each page of the region, at each rank, for atomic operations of all.
//!
//! The words of a kind are a segment of their own. Like the region, it takes memory where it is used.

use crate::error::Result;
use crate::fault::{PAGE, Region};
use scash_comm::{Atomic, Endpoint, Exchange, LocalSegment, Rmw, SegmentId};
use scash_proto::{Pages, Rank};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a word.
const WORD: usize = size_of::<u32>();
/// Words in a page.
const A_PAGE: u32 = 1024;
const _: () = assert!(A_PAGE as usize * WORD == PAGE);

/// This rank's words, and access to the others'.
pub(crate) struct PageWords {
    words: Region,
    segment: SegmentId,
}

impl PageWords {
    /// For a region of so many pages: zeros. Collective.
    pub(crate) fn new(pages: u32, endpoint: &dyn Endpoint, exchange: &mut dyn Exchange) -> Result<PageWords> {
        let words = Region::anywhere(pages.div_ceil(A_PAGE))?;
        let local = LocalSegment {
            base: words.runtime_base(),
            len: words.pages() as usize * PAGE,
            fd: words.fd().as_raw_fd(),
        };
        // SAFETY: the mapping lives as long as the runtime, which is never freed; its words are only reached
        // by atomic operations.
        let segment = unsafe { endpoint.register(exchange, local) }?;
        Ok(PageWords { words, segment })
    }

    /// Executes an operation on the word that rank `at` has for a page, and returns what it was before.
    pub(crate) fn operate(&self, endpoint: &dyn Endpoint, at: Rank, page: u32, op: Rmw<u32>) -> Result<u32> {
        let offset = u64::from(page) * WORD as u64;
        let was = endpoint.atomic(at.0, self.segment, offset, Atomic::U32(op))?;
        Ok(u32::try_from(was).unwrap_or(0))
    }

    /// This rank's word for a page.
    pub(crate) fn mine(&self, page: u32) -> u32 {
        self.word(page).load(Ordering::SeqCst)
    }

    /// Sets this rank's words for some pages to zero, at a time when nobody uses them.
    pub(crate) fn clear(&self, pages: Pages) -> Result<()> {
        let zero = |page| self.word(page).store(0, Ordering::Relaxed);
        let (first, end) = (pages.first.div_ceil(A_PAGE), pages.end() / A_PAGE);
        if first >= end {
            pages.iter().for_each(zero);
            return Ok(());
        }
        (pages.first..first * A_PAGE).chain(end * A_PAGE..pages.end()).for_each(zero);
        Ok(self.words.punch(&(first..end))?)
    }

    fn word(&self, page: u32) -> &AtomicU32 {
        let at = page as usize * WORD;
        assert!(at < self.words.pages() as usize * PAGE, "page {page} has no word");
        // SAFETY: a word of the segment, which is mapped as long as `self`, aligned, and reached by atomic
        // operations only.
        unsafe { AtomicU32::from_ptr(self.words.runtime_base().wrapping_add(at).cast()) }
    }
}
