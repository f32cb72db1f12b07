//! A limit on cached pages (the embedded SCASH's "only remote pages are released").
//!
//! Home pages stay. Of the pages of other homes, those that are no good any more go *at once*: their frames
//! go back to the system where they would otherwise only leave the view. When there are more good ones than
//! the limit allows, a [`EvictionPolicy`] says which go; what was written in such a page goes home first.
//!
//! A page that its home keeps up to date and that goes is left at the next memory barrier: until then its
//! home may bring changes to a frame that is not there, which is given back once more.
//!
//! What was written goes home in the middle of an interval, so the rules of jobs with locks hold for all jobs
//! with a limit: see [`intervals`](super::intervals).
//!
//! Runs in signal handlers: all memory is there from the beginning.

use super::{Collective, Eviction, Node, Output, runs};
use crate::page::{Access, List};
use crate::{Pages, Strided};
use policy::{EvictionAction, EvictionPolicy, Fifo, Sieve};

mod policy;
mod queue;

/// Two runs that leave the view are one if no more pages than this lie between.
const MOST_ACROSS: u32 = 64;

/// The page is held.
const HELD: u8 = 1;
/// Changes of the page went home when it was given up, and are in no record yet.
const UNRECORDED: u8 = 2;

/// The cached pages of a rank with a limit.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    /// Most pages; 0: no limit.
    most: u32,
    held: u32,
    /// Of each page: [`HELD`], [`UNRECORDED`].
    state: Vec<u8>,
    policy: Box<dyn EvictionPolicy>,
}

impl Cache {
    /// At most so many of a region's pages; 0: no limit.
    pub(super) fn new(most: u32, pages: u32, eviction: Eviction) -> Cache {
        let pages = if most > 0 { pages as usize } else { 0 };
        let policy: Box<dyn EvictionPolicy> = match eviction {
            Eviction::Fifo => Box::new(Fifo::new(pages)),
            Eviction::Sieve => Box::new(Sieve::new(pages)),
        };
        Cache { most, held: 0, state: vec![0; pages], policy }
    }

    /// Whether there is a limit.
    pub(super) fn is_limited(&self) -> bool {
        self.most > 0
    }

    fn enter(&mut self, page: u32, written: bool) {
        let state = &mut self.state[page as usize];
        self.held += u32::from(*state & HELD == 0);
        *state |= HELD;
        self.policy.enter(page, written);
    }

    fn leave(&mut self, page: u32) {
        let state = &mut self.state[page as usize];
        if *state & HELD != 0 {
            *state &= !HELD;
            self.held -= 1;
            self.policy.leave(page);
        }
    }
}

impl Node {
    /// Cached pages that are held.
    pub fn cached(&self) -> u32 {
        self.cache.held
    }

    /// A page of another home takes a frame here, or is written for the first time since it was last home.
    pub(super) fn hold(&mut self, page: u32, written: bool) {
        if self.cache.is_limited() {
            self.cache.enter(page, written);
            self.counters.most_cached = self.counters.most_cached.max(u64::from(self.cache.held));
        }
    }

    /// Its frame is given back, or the page is no other's any more.
    pub(super) fn let_go(&mut self, page: u32) {
        if self.cache.is_limited() {
            self.cache.leave(page);
        }
    }

    /// A page that was out of the view is used.
    pub(super) fn found_used(&mut self, page: u32) {
        if self.cache.is_limited() {
            self.cache.policy.used(page);
        }
    }

    /// Takes pages out of the view that are no good any more; with a limit, the frames of those of other
    /// homes too. `pages` is sorted.
    pub(super) fn dismiss(&mut self, pages: &[u32]) {
        if !self.cache.is_limited() {
            self.unmap_across(pages);
            return;
        }
        // What was broadcast is in its frame already; what was subscribed to just now, its home brings
        // changes to.
        let brought = match self.meetings.collective {
            Collective::Broadcast(range) => range.iter(),
            _ => 0..0,
        };
        let stays = |page: &&u32| self.is_home(**page) || brought.contains(*page) || self.is_sharer(**page);
        let (stay, others): (Vec<u32>, Vec<u32>) = pages.iter().partition(stays);
        runs(&stay, |run| self.out.push_back(Output::Unmap(run)));
        others.iter().for_each(|&page| self.cache.leave(page));
        runs(&others, |run| self.out.push_back(Output::Discard(run)));
    }

    /// Takes pages out of the view that are no good any more, `pages`. Those in between that are out of view
    /// are no worse for it: many runs of a few pages, as of columns of a matrix, go by one call of the
    /// system.
    fn unmap_across(&mut self, pages: &[u32]) {
        let (table, out) = (&self.table, &mut self.out);
        let is_out_of_view = |page| table.get(page).access() == Access::None;
        let mut last: Option<Pages> = None;
        runs(pages, |run| match &mut last {
            Some(last)
                if run.first - last.end() <= MOST_ACROSS && (last.end()..run.first).all(is_out_of_view) =>
            {
                last.count = run.end() - last.first;
            }
            _ => out.extend(last.replace(run).map(Output::Unmap)),
        });
        out.extend(last.map(Output::Unmap));
    }

    /// Pages that were fetched in vain are no good. With a limit their frames are given back, but for those
    /// to which their homes will bring changes.
    pub(super) fn dismiss_fetched(&mut self, pages: Strided) {
        // This may be a signal handler, where nothing allocates.
        for run in pages.runs() {
            let mut first = run.first;
            while first < run.end() {
                let stays = |node: &Node, page: u32| !node.cache.is_limited() || node.is_sharer(page);
                let stay = stays(self, first);
                let end = (first + 1..run.end()).find(|&page| stays(self, page) != stay).unwrap_or(run.end());
                let part = Pages { first, count: end - first };
                if stay {
                    self.out.push_back(Output::Unmap(part));
                } else {
                    part.iter().for_each(|page| self.let_go(page));
                    self.out.push_back(Output::Discard(part));
                }
                first = end;
            }
        }
    }

    /// Copies that an acquire has ended have no use for their frames, unless their homes bring changes there.
    pub(super) fn release_ended(&mut self, pages: &[u32]) {
        if !self.cache.is_limited() {
            return;
        }
        for &page in pages {
            // If this rank asks whose it is, others may know that it is this one's, and have written there.
            let is_asked_for = self.table.get(page).is_fetching();
            if !is_asked_for && !self.is_sharer(page) {
                self.cache.leave(page);
                self.out.push_back(Output::Discard(Pages::one(page)));
            }
        }
    }

    /// Makes room for so many pages more.
    pub(super) fn make_room(&mut self, pages: u32) {
        if !self.cache.is_limited() {
            return;
        }
        // Every page is probed once and passed over once at most.
        let mut tries = 2 * u64::from(self.cache.held) + 1;
        while self.cache.held.saturating_add(pages) > self.cache.most && tries > 0 {
            tries -= 1;
            match self.cache.policy.next() {
                Some(EvictionAction::Evict(page)) if self.table.get(page).is_fetching() => {
                    // As if it had come just now.
                    self.cache.policy.leave(page);
                    self.cache.policy.enter(page, false);
                }
                Some(EvictionAction::Evict(page)) => self.evict(page),
                Some(EvictionAction::Probe(page)) => self.probe(page),
                None => return,
            }
        }
    }

    /// Takes a page out of the view that is good, to see whether it is used.
    fn probe(&mut self, page: u32) {
        let Some(mut copy) = self.table.cached(page) else { return };
        if copy.access() == Access::Read && !copy.has_twin() && !copy.is_fetching() {
            copy.hide();
            self.table.put(page, copy);
            self.out.push_back(Output::Unmap(Pages::one(page)));
        }
    }

    /// Gives a page up. What was written in it goes home.
    fn evict(&mut self, page: u32) {
        let mut state = self.table.get(page).page();
        let gone = state.evict();
        self.table.put(page, state);
        self.counters.evicted += 1;
        if gone.mapped {
            self.out.push_back(Output::Unmap(Pages::one(page)));
        }
        if let (true, Some(to)) = (gone.dirty, self.home(page)) {
            self.counters.evicted_written += 1;
            self.out.push_back(Output::PutDiff { page, to });
        }
        if gone.twin {
            self.out.push_back(Output::DropTwin(page));
        }
        self.out.push_back(Output::Discard(Pages::one(page)));
        self.table.touch(page);
        self.cache.leave(page);
    }

    /// Changes of a page that is out of the view have gone home: they are for the next record.
    pub(super) fn record_later(&mut self, page: u32) {
        if self.cache.is_limited() {
            // This may be a signal handler, where nothing allocates.
            self.cache.state[page as usize] |= UNRECORDED;
            self.table.enlist(page, List::Open);
        } else {
            self.brought_home(page);
        }
    }

    /// Whether there are such changes of a page.
    pub(super) fn is_unrecorded(&self, page: u32) -> bool {
        self.cache.state.get(page as usize).is_some_and(|state| state & UNRECORDED != 0)
    }

    /// Such changes are recorded now.
    pub(super) fn take_unrecorded(&mut self) {
        if !self.cache.is_limited() {
            return;
        }
        let mut open = Vec::new();
        self.table.take(List::Open, &mut open);
        for page in open {
            let state = &mut self.cache.state[page as usize];
            if *state & UNRECORDED != 0 {
                *state &= !UNRECORDED;
                self.brought_home(page);
            }
            if self.table.get(page).is_dirty() {
                self.table.enlist(page, List::Open);
            }
        }
    }

    /// Whether the home of a page has this rank in the copyset.
    fn is_sharer(&self, page: u32) -> bool {
        self.table.cached(page).is_some_and(|copy| copy.is_shared())
    }
}
