//! What a rank has besides its protocol state: the region, the fault engine, the endpoint; and pages that
//! come from other ranks.

use crate::error::Result;
use crate::fault::{self, FaultEngine, PAGE, Region};
use crate::runtime::arrivals::Arrivals;
use crate::runtime::checkpoint::copies::StoreCopies;
use crate::runtime::claims::Claims;
use crate::runtime::frame_sharing::FrameSharing;
use crate::runtime::marks::Marks;
use crate::runtime::objects::Objects;
use crate::runtime::within;
use scash_comm::{Board, Caps, Endpoint, GetRange, SegmentId};
use scash_join::boot::JobPage;
use scash_proto::diff::PageBytes;
use scash_proto::{Access, Pages, Rank, Strided, Transfer};
use std::ops::Range;
use std::sync::Arc;

/// What a rank has besides its protocol state: usable without the lock on
/// [`Core`](crate::runtime::core::Core).
pub(crate) struct RankContext {
    pub(crate) region: Arc<Region>,
    pub(crate) engine: Box<dyn FaultEngine>,
    pub(crate) endpoint: Box<dyn Endpoint>,
    pub(crate) segment: SegmentId,
    pub(crate) transfer: Transfer,
    pub(crate) claims: Claims,
    pub(crate) marks: Marks,
    pub(crate) objects: Box<dyn Objects>,
    /// Where pages arrive that have no frames yet.
    pub(crate) arrivals: Arrivals,
    /// Whose frames the pages have.
    pub(crate) frames: FrameSharing,
    /// What the launcher says of ranks.
    pub(crate) page: Arc<JobPage>,
    /// Copies of stores, where ranks come back.
    pub(crate) copies: StoreCopies,
}

/// A run of pages as engines take it.
pub(crate) fn span(pages: Pages) -> Range<u32> {
    pages.first..pages.end()
}

pub(crate) fn engine_access(access: Access) -> fault::Access {
    match access {
        Access::Write => fault::Access::Write,
        Access::Read | Access::None => fault::Access::Read,
    }
}

pub(crate) fn offset(page: u32) -> u64 {
    u64::from(page) * PAGE as u64
}

impl RankContext {
    /// Where ranks meet without messages, if they [may](scash_proto::Config::board).
    pub(crate) fn board(&self) -> Option<&dyn Board> {
        self.endpoint.board()
    }

    /// Fetches pages from their home and maps them for reading.
    pub(crate) fn fetch(&self, from: Rank, pages: Strided) -> Result<()> {
        if self.endpoint.caps_to(from.0).contains(Caps::DIRECT) {
            for run in pages.runs() {
                let (at, len, mut mapped) = (offset(run.first), run.count as usize * PAGE, Ok(()));
                let mut map = |src| {
                    // SAFETY: the endpoint gives the address of `len` readable bytes: in the peer's runtime
                    // view, or a copy.
                    mapped = unsafe { self.engine.map_copy(span(run), src, fault::Access::Read) };
                };
                if run.count == 1 && self.engine.lack_frames(span(run)) {
                    self.endpoint.read_peer_once(from.0, self.segment, at, len, &mut map)?;
                } else {
                    self.endpoint.read_peer(from.0, self.segment, at, len, &mut map)?;
                }
                mapped?;
            }
            return Ok(());
        }
        self.arrivals.bring(&self.region, &*self.engine, pages, |ranges| {
            let _inside = within::enter_for(&*self.endpoint, from.0);
            // SAFETY: the frames of pages that are being fetched belong to the fetching thread: nobody here
            // has them mapped. A buffer is its alone.
            Ok(unsafe { self.endpoint.get(from.0, self.segment, ranges) }?)
        })
    }

    /// Gets pages of a peer into as many pages of private memory, all at once. `ranges` is empty, before and
    /// afterwards.
    pub(crate) fn read_pages(
        &self,
        from: Rank,
        pages: &[u32],
        into: &mut [PageBytes],
        ranges: &mut Vec<GetRange>,
    ) -> Result<()> {
        assert_eq!(pages.len(), into.len(), "each page has its place");
        let first = into.as_mut_ptr().cast::<u8>();
        for (place, &page) in (0..).step_by(PAGE).zip(pages) {
            match ranges.last_mut() {
                // The places lie one behind the other, too.
                Some(last) if last.offset + last.len as u64 == offset(page) => last.len += PAGE,
                _ => {
                    let dst = first.wrapping_add(place);
                    ranges.push(GetRange { offset: offset(page), len: PAGE, dst });
                }
            }
        }
        // SAFETY: the ranges are, together, as long as `into`, which is private memory, borrowed mutably, and
        // lie there one behind the other.
        let got = unsafe { self.endpoint.get(from.0, self.segment, ranges) };
        ranges.clear();
        Ok(got?)
    }

    /// Gives a page again the access that it has, for a fault that found it already served (or swapped out).
    pub(crate) fn restore(&self, page: u32, access: Access) -> Result<()> {
        Ok(self.engine.map(span(Pages::one(page)), engine_access(access))?)
    }
}
