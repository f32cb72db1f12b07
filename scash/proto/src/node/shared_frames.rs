//! Ranks that share frames ([`Sharing::Frames`](super::Sharing)).
//!
//! The frames of such a job are one memory, which every rank maps: what a rank stores is there for all, and
//! the processor keeps their caches coherent. So a rank has no copies, and nothing is to be fetched, compared
//! or told. The protocol comes to that by its own rules, from two facts:
//!
//! 1. **An allocated page is at home at every rank**, writable, and untracked, since nobody has a copy. No
//!    word of the page table says so: words stay blank, and the allocation answers for them. It is opened
//!    when it is made, and no access to it ever faults. So no page is touched, written or claimed as far as a
//!    node knows; the memory barrier finds nothing to flush and is one meeting; an interval ends without a
//!    record, and a lock comes with nothing to apply. (Ranks of real jobs have locks that need no node at
//!    all.)
//! 2. **Frames are given back once.** On the way into the meeting that frees an allocation each rank closes
//!    its view of it. When the meeting is over all have done so, and the lowest rank gives the frames back,
//!    before it comes to the next meeting. Without that one the pages are nobody's again: so whoever gets
//!    them next finds zeros. A thread that touches a page between the close and the end of the meeting waits
//!    for the end, and is told then that it has no such memory.
//!
//! The homes that a program gives pages move nothing. They are remembered at the next memory barrier, for it
//! to ask about.

use super::{Collective, Node, Output, Phase, Sharing};
use crate::page::Access;
use crate::wire::{News, Notice};
use crate::{Pages, Rank};

impl Node {
    /// Whether a page has one frame, which all ranks have in view.
    pub fn shares_frames(&self) -> bool {
        self.cfg.sharing == Sharing::Frames
    }

    /// What the application may do with a page, where ranks share frames.
    pub(super) fn access_to_shared(&self, page: u32) -> Access {
        if self.heap.find(page).is_some() && !self.is_being_freed(page) {
            Access::Write
        } else {
            Access::None
        }
    }

    /// Whether a page's view is closed, or about to be, because this rank is in the meeting that frees it.
    pub(super) fn is_being_freed(&self, page: u32) -> bool {
        let Collective::Free(first) = self.meetings.collective else { return false };
        // If the ranks disagreed, nothing is freed.
        let meets = matches!(self.meetings.phase, Phase::Flushing(_) | Phase::Meeting(_));
        self.shares_frames() && meets && self.heap.find(page).is_some_and(|a| a.first == first)
    }

    /// The home of a page as the program is told: where its allocation has placed it, or the program itself;
    /// otherwise the rank that touched it first. Where ranks share frames, nobody knows which that is.
    pub fn told_home(&self, page: u32) -> Option<Rank> {
        if !self.shares_frames() {
            return self.home(page);
        }
        self.homes.given.get(&page).copied().or_else(|| self.placed_home(page))
    }

    /// Orders that pages which were allocated be opened.
    pub(super) fn open_shared(&mut self, pages: Pages) {
        if self.shares_frames() {
            self.out.push_back(Output::MapZero(pages, Access::Write));
        }
    }

    /// On the way into the barrier: orders that what is to be freed be closed.
    pub(super) fn close_what_is_freed(&mut self) {
        let Collective::Free(first) = self.meetings.collective else { return };
        let Some(a) = self.heap.find(first).filter(|a| self.shares_frames() && a.first == first) else {
            return;
        };
        self.out.push_back(Output::Unmap(Pages { first, count: a.pages }));
    }

    /// Whether this rank is to give back the frames of what is freed: each its own, or the lowest rank those
    /// that all share.
    pub(super) fn gives_frames_back(&self) -> bool {
        !self.shares_frames() || self.cfg.rank == Rank(0)
    }

    /// Remembers the homes that the program has given pages. Of several ranks that move a page the last one
    /// counts.
    pub(super) fn note_given_homes(&mut self, notices: &[Notice]) {
        let mut notices: Vec<&Notice> = notices.iter().collect();
        notices.sort_unstable();
        for notice in notices {
            if let News::Moves { to, .. } = notice.news {
                self.homes.given.extend(notice.pages.iter().map(|page| (page, to)));
            }
        }
    }
}
