//! First touches while a job has locks: who claimed which pages.
//!
//! Without locks, whose a page is that nobody had touched is settled at the next memory barrier. With them, the next holder of a lock must find what the one before
//! it wrote in a page that was nobody's: so a first touch is decided at once, by one atomic operation on a word of the rank that keeps the claim. The words are a segment of
//! their own: one for each page of the region, the claimant's number plus one. (Like the region, it takes memory where it is used.)

use crate::core::{Claim, House};
use crate::error::Result;
use crate::fault::{PAGE, Region};
use scash_comm::{Atomic, Endpoint, Exchange, LocalSegment, Rmw, SegmentId};
use scash_proto::{Pages, Rank};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a claim.
const WORD: usize = size_of::<u32>();
/// Claims in a page.
const A_PAGE: u32 = 1024;
const _: () = assert!(A_PAGE as usize * WORD == PAGE);

/// This rank's part of the claims, and the door to the others'.
pub(crate) struct Claims {
    words: Region,
    segment: SegmentId,
}

impl Claims {
    /// For a region of so many pages. Collective.
    pub(crate) fn new(pages: u32, endpoint: &dyn Endpoint, exchange: &mut dyn Exchange) -> Result<Claims> {
        let words = Region::anywhere(pages.div_ceil(A_PAGE))?;
        let local = LocalSegment {
            base: words.runtime_base(),
            len: words.pages() as usize * PAGE,
            fd: words.fd().as_raw_fd(),
        };
        // SAFETY: the mapping lives as long as the runtime, which is never freed; its words are only reached by atomic operations.
        let segment = unsafe { endpoint.register(exchange, local) }?;
        Ok(Claims { words, segment })
    }

    /// Whose a page is, and makes it this rank's if it is nobody's and the claim says so.
    pub(crate) fn ask(&self, house: &House, claim: Claim) -> Result<Option<Rank>> {
        let mine = house.endpoint.rank() + 1;
        let op = if claim.take { Rmw::CompareSwap { expected: 0, new: mine } } else { Rmw::Load };
        let offset = u64::from(claim.key) * WORD as u64;
        let was = house.endpoint.atomic(claim.at.0, self.segment, offset, Atomic::U32(op))?;
        let was = u32::try_from(was).unwrap_or(0);
        let now = if was == 0 && claim.take { mine } else { was };
        Ok(now.checked_sub(1).map(Rank))
    }

    /// The pages are free. Nobody claims one of them before this rank has left the memory barrier that freed them.
    pub(crate) fn forget(&self, pages: Pages) -> Result<()> {
        let (first, end) = (pages.first.div_ceil(A_PAGE), pages.end() / A_PAGE);
        if first >= end {
            pages.iter().for_each(|page| self.clear(page));
            return Ok(());
        }
        (pages.first..first * A_PAGE).chain(end * A_PAGE..pages.end()).for_each(|page| self.clear(page));
        Ok(self.words.punch(&(first..end))?)
    }

    fn clear(&self, page: u32) {
        let word = self.words.runtime_base().wrapping_add(page as usize * WORD);
        // SAFETY: a word of the segment, aligned, and reached by atomic operations only.
        let word = unsafe { AtomicU32::from_ptr(word.cast()) };
        word.store(0, Ordering::Relaxed);
    }
}
