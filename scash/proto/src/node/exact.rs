//! Exact records: which leases an acquire can leave as they are.
//!
//! A home does not know who has leases, and does not notice its writes of pages that nobody subscribes to. So
//! a record of it ends all leases of its pages. Where a renewal is a round trip, and turns out to be in vain,
//! the rank that has the lease asks the home to track the page:
//!
//! 1. **Ask.** The home had changed nothing in a page each time that it was renewed, some times in a row: the
//!    rank that renewed it sends [`Track`](SyncBody::Track), once an epoch. The next memory barrier waits for
//!    its arrival, as for a signal's.
//! 2. **Track.** From then on the home notices its writes of the page, as if somebody subscribed to it. Its
//!    next record says that it does, and names the page among those that were written, for it may have been
//!    before.
//! 3. **Spare.** A rank that has applied that record ends a lease of the page only if a record names it. What
//!    it fetches later holds all that the records named that it knows by then. So it does not matter which
//!    rank has asked, nor when a copy was fetched.
//! 4. **Forget.** At the end of the memory barrier, with all leases. A page that moves or is freed, which
//!    happens at the end of a barrier, too, is forgotten with them.
//!
//! **Invariant:** from the record that says that a page is tracked to the end of the epoch, its home tracks
//! it: nothing but a memory barrier that all have come to unprotects it.

use super::history::as_runs;
use super::{Node, Output, Violation, runs};
use crate::copyset::CopyMode;
use crate::page::{Access, CachedPage, Tracked};
use crate::wire::sync::{Record, SyncBody};
use crate::{Pages, Rank};

impl Node {
    /// Whether this rank wants to know which renewals were in vain.
    pub(crate) fn asks_for_tracking(&self) -> bool {
        self.cfg.exact_after > 0 && self.sync.objects.any()
    }

    /// Whether it matters if a renewal of a copy was in vain. One that came with a lock costs a part of a
    /// round trip, so only some of these count.
    pub(crate) fn counts_in_vain(&self, page: u32, came_with_lock: bool) -> bool {
        let counts =
            |copy: CachedPage| copy.counts_in_vain() && (!came_with_lock || copy.is_fourth_renewal());
        self.table.cached(page).is_some_and(counts)
    }

    /// Copies were renewed. Where their home had changed nothing, as often before, asks it to name these
    /// pages when it does.
    pub(super) fn refreshed(&mut self, in_vain: &[u32], changed: &[u32], home: Rank) {
        let enough = self.cfg.exact_after;
        if !self.asks_for_tracking() || self.in_memory_barrier() {
            return;
        }
        for &page in changed {
            self.table.change_copy(page, CachedPage::renewed_usefully);
        }
        let mut ask = Vec::new();
        for &page in in_vain {
            if self.home(page) != Some(home) {
                continue;
            }
            if let Some(asks) = self.table.change_copy(page, |copy| copy.renewed_in_vain(enough)) {
                self.table.touch(page);
                ask.extend(asks.then_some(page));
            }
        }
        if ask.is_empty() {
            return;
        }
        ask.sort_unstable();
        self.tell(home, 0, SyncBody::Track { pages: as_runs(&ask) });
        self.sync.objects.count_signal(home);
    }

    /// A peer asks this rank to track pages.
    pub(super) fn track_for(&mut self, from: Rank, pages: &[Pages]) -> Result<(), Violation> {
        let len = self.table.len();
        if from.0 >= self.cfg.size || !pages.iter().all(|run| run.end() <= len && run.count > 0) {
            return Err(Violation { rank: from, what: "leases of pages that do not exist" });
        }
        self.signal_arrives(from)?;
        // In a barrier this rank writes nothing, and at its end all leases are over.
        if !self.in_memory_barrier() {
            let mut protect = Vec::new();
            for page in pages.iter().flat_map(|run| run.iter()) {
                self.track_for_leases(page, &mut protect);
            }
            runs(&protect, |p| self.out.push_back(Output::Protect(p, Access::Read)));
        }
        self.advance()
    }

    /// Tracks a page, if it is at home here. (A rank may have asked the keeper of claims whose it is before
    /// this one has heard that it is its own.) A page that was claimed in this epoch has no copyset, and must
    /// not be protected before all know of it.
    fn track_for_leases(&mut self, page: u32, protect: &mut Vec<u32>) {
        let Some(mut home) = self.home_page(page).filter(|home| !home.is_claimed()) else { return };
        if self.homes.asked.insert(page) {
            self.counters.tracked += 1;
            if !home.is_tracked() {
                // It may have been written before.
                self.brought_home(page);
                let Tracked { was_free, protect: protects } = home.track(CopyMode::Invalidate);
                self.table.put(page, home);
                self.homes.loses_untracked(was_free);
                protect.extend(protects.then_some(page));
            }
        }
        // Who asks may not have had a copy when it was told of before.
        self.homes.untold.push(page);
    }

    /// The pages that a record is to tell of as tracked.
    pub(super) fn take_untold(&mut self) -> Vec<Pages> {
        let mut pages = std::mem::take(&mut self.homes.untold);
        pages.sort_unstable();
        as_runs(&pages)
    }

    /// Whether this home's records say that it tracks a page for leases: of any other rank that knows them, a
    /// lease of it ends only if a record names it.
    pub(super) fn is_told_of_as_tracked(&self, page: u32) -> bool {
        self.homes.asked.contains(&page) && !self.homes.untold.contains(&page)
    }

    /// Notes which pages their homes track for leases.
    pub(super) fn hear_of_tracked(&mut self, news: &[Record]) {
        for record in news {
            for page in record.tracked.iter().flat_map(|run| run.iter()) {
                if self.home(page) != Some(record.rank) {
                    continue;
                }
                if let Some(spared) = self.table.change_copy(page, CachedPage::becomes_exact) {
                    self.table.touch(page);
                    self.counters.spared += u64::from(spared);
                }
            }
        }
    }

    /// The memory barrier ends, and with it all leases: what is tracked for nothing else is not any more.
    pub(super) fn end_tracking_for_leases(&mut self) {
        self.homes.untold.clear();
        let mut open = Vec::new();
        for page in std::mem::take(&mut self.homes.asked) {
            if self.homes.sharers(page).is_none() && self.open_untracked(page) {
                open.push(page);
            }
        }
        runs(&open, |p| self.out.push_back(Output::Protect(p, Access::Write)));
    }
}
