//! Atomic operations on words of shared memory.
//!
//! An operation is executed in the frame of the word's home, by the rank that wants it: no message, and the
//! home's processor has no part in it. Between two memory barriers a word is either operated on by all who
//! use it, or read and written by all as plain memory; after a memory barrier everybody reads what the
//! operations before it have left. Three things are to be seen to:
//!
//! 1. **A place.** A page that nobody had touched has no home. So its claim is asked for, as with first
//!    touches while there are objects of synchronisation. Without any some rank may have touched the page in
//!    this interval without asking, and the home be that one: then the claim says only *where the operations
//!    of this interval are executed*. The claimant is a first toucher like the others, and what operations
//!    have left in its frame goes to the home with the other bytes that it has there, at the end of the
//!    dispute.
//! 2. **A mark.** A home brings its own changes to sharers on its way into the barrier, when others still
//!    operate on words of the same page. What it had brought of such a word would look like the sharer's own
//!    write, and go home again, over what later operations have made of it. So before a rank's first
//!    operation on a page it sets a mark at the home, and a home that has compared a page and then finds it
//!    marked brings nothing until everybody is in the barrier.
//! 3. **A report.** At the barrier each rank tells the homes which pages it has operated on, and homes bring
//!    these to their sharers as wholes in the second meeting (the operating ranks among them: they have
//!    changed the home's frame, not their own copies).

use super::fault::block_of;
use super::{MeetingStage, Node, Output, Phase};
use crate::page::Access;
use crate::{Pages, Rank};
use std::collections::{BTreeMap, BTreeSet};

/// What this rank has operated on since the last memory barrier.
#[derive(Clone, Debug, Default)]
pub(super) struct Operated {
    /// Pages with words that operations have changed, and whether they are marked at their homes.
    pages: BTreeMap<u32, bool>,
    /// Where pages are operated on whose homes the next barrier settles, by the first page of their block.
    places: BTreeMap<u32, Rank>,
    /// Homes all of whose pages are marked, because this rank has written some of them back.
    pub(super) homes: BTreeSet<Rank>,
}

impl Operated {
    pub(super) fn holds(&self, page: u32) -> bool {
        self.pages.contains_key(&page)
    }

    /// The home of a page has its mark.
    pub(super) fn marked(&mut self, page: u32) {
        if let Some(marked) = self.pages.get_mut(&page) {
            *marked = true;
        }
    }
}

impl Node {
    /// Orders an operation, or what has to be known before.
    pub(super) fn operate(&mut self, page: u32, changes: bool) {
        let Some(a) = (page < self.table.len()).then(|| self.heap.find(page)).flatten() else {
            self.out.push_back(Output::Denied(page));
            return;
        };
        let (range, block) = (Pages { first: a.first, count: a.pages }, a.options.block);
        let key = block_of(page, range, block).first;
        let settled = self.settled_home(page);
        let Some(at) = settled.or_else(|| self.sync.operated.places.get(&key).copied()) else {
            self.ask_for_place(page, range, block);
            return;
        };
        // Operations on a shared frame leave nothing to bring to anybody.
        let mark = if changes && !self.shares_frames() {
            let marked = *self.sync.operated.pages.entry(page).or_insert(false);
            // A page that has no home yet has no sharers.
            !marked && settled.is_some_and(|home| home != self.cfg.rank) && !self.keeps_back()
        } else {
            false
        };
        self.out.push_back(Output::Operate { page, at, mark });
    }

    /// The home of a page, unless another rank may prove to be it at the next barrier.
    fn settled_home(&self, page: u32) -> Option<Rank> {
        let claimed = || self.table.at_home(page).is_some_and(|page| page.is_claimed());
        let settled = self.sync.objects.any() || !claimed();
        self.home(page).filter(|_| settled)
    }

    fn ask_for_place(&mut self, page: u32, range: Pages, block: u32) {
        if self.table.get(page).is_fetching() {
            self.out.push_back(Output::Wait(page));
        } else if !self.sync.objects.any() {
            self.ask_keeper(page, block_of(page, range, block), true);
        } else {
            self.ask_for_home(page, range, block, Access::Write);
        }
    }

    /// Without objects of synchronisation: it is known now where a block is operated on in this interval.
    pub(super) fn place_is_known(&mut self, page: u32, range: Pages, block: u32, place: Option<Rank>) {
        let Some(place) = place else { return };
        self.sync.operated.places.insert(block_of(page, range, block).first, place);
        if place == self.cfg.rank {
            // All of the block: whoever asks for another page of it is told the same.
            self.claim(page, range, block, true);
            self.prove(page);
        }
    }

    /// On the way into the barrier: tells homes which of their pages this rank has operated on.
    pub(super) fn report_operations(&mut self) {
        for &page in self.sync.operated.pages.keys() {
            match self.settled_home(page) {
                Some(home) if home == self.cfg.rank => {
                    self.meetings.now.away |= self.table.at_home(page).is_some_and(|page| page.is_tracked());
                }
                Some(home) => {
                    self.meetings.now.away = true;
                    self.meetings.now.say(home, |c| Pages::append(&mut c.operated, page));
                }
                // Nobody has a copy that outlives this barrier.
                None => {}
            }
        }
    }

    /// Home: the pages that this rank and others have operated on, as pages that are to be passed on to all
    /// their sharers.
    pub(super) fn operated_here(&self, by_others: &[Pages]) -> Vec<(u32, Rank)> {
        let others = by_others.iter().flat_map(|run| run.iter());
        let all = others.chain(self.sync.operated.pages.keys().copied());
        // This rank as the writer: no sharer has the newest page already.
        all.filter(|&page| self.is_home(page)).map(|page| (page, self.cfg.rank)).collect()
    }

    /// Whether an [`Output::Push`] comes before everybody is in the barrier, so that a page that is marked is
    /// to be left for later.
    pub fn pushes_early(&self) -> bool {
        self.meetings.phase == Phase::Flushing(MeetingStage::Flush) && !self.keeps_back()
    }
}
