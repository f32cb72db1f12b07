//! Home pages whose writes are noticed without faults.
//!
//! Where all sharers are told that copies are stale (invalidate mode), a home need only know *that* it wrote
//! a page: there is no twin to be made before the first write. Long runs of such pages are **watched**:
//! writes go through, the system remembers them (`WP_ASYNC`), and one scan at the barrier lists them. This is
//! the cure for what made SCASH slower on two nodes than on one on embedded boards: a fault for every home
//! page in every interval.
//!
//! A watched run is given back when a sharer wants updates (which need twins), and when nobody had copies of
//! any of its pages for a while.
//!
//! **Invariant:** a watched page has access [`Access::Write`] and no twin.

use super::{Collective, Node, Output, runs};
use crate::page::{Access, HomePage, Tracking};
use crate::{Pages, Rank};

/// Barriers without a sharer until a run is given back: to begin and to end watching splits and joins
/// mappings.
const IDLE: u32 = 8;

/// A run of watched pages.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub(super) pages: Pages,
    /// Barriers in a row at which nobody had copies.
    idle: u32,
}

impl Node {
    /// On the way into the barrier: asks which watched pages were written.
    pub(super) fn scan_watched(&mut self) {
        for run in &self.learning.watched {
            self.out.push_back(Output::Scan(run.pages));
        }
    }

    /// Watched pages were written in this interval.
    pub(super) fn written(&mut self, pages: Pages) {
        let len = self.table.len();
        for page in pages.iter().filter(|&page| page < len) {
            if !self.table.at_home(page).is_some_and(|home| home.is_watched() || home.is_tracked()) {
                continue;
            }
            self.counters.noticed += 1;
            if self.keeps_back() {
                self.written_while_watched(page);
            } else {
                self.tell_stale(page, None);
            }
        }
    }

    /// The barrier ends: takes long runs of pages that need no twin out of `protect`, and watches them
    /// instead.
    pub(super) fn watch_runs(&mut self, protect: &mut Vec<u32>) {
        // Other collective calls may free pages before the system has been asked to watch them.
        if self.cfg.watch_from == 0
            || !matches!(
                self.meetings.collective,
                Collective::Barrier | Collective::Publish(_) | Collective::Divide { .. }
            )
        {
            return;
        }
        protect.sort_unstable();
        let twinless = |p: &u32| self.table.at_home(*p).is_some_and(|home| home.tracking() == Tracking::Told);
        let candidates: Vec<u32> = protect.iter().copied().filter(twinless).collect();
        let mut found = Vec::new();
        runs(&candidates, |run| {
            if run.count >= self.cfg.watch_from {
                found.push(run);
            }
        });
        for &pages in &found {
            for page in pages.iter() {
                self.table.change_home(page, HomePage::watch);
            }
            self.learning.watched.push(Watched { pages, idle: 0 });
            self.out.push_back(Output::Watch(pages));
        }
        protect.retain(|&p| !self.table.at_home(p).is_some_and(|home| home.is_watched()));
    }

    /// The barrier ends: gives back the runs that cannot or need not be watched any more. Their tracked pages
    /// are to be protected.
    pub(super) fn review_watched(&mut self, protect: &mut Vec<u32>) {
        for mut run in std::mem::take(&mut self.learning.watched) {
            let most =
                run.pages.iter().filter_map(|p| self.table.at_home(p)).map(|home| home.tracking()).max();
            run.idle = if most > Some(Tracking::No) { 0 } else { run.idle + 1 };
            if most >= Some(Tracking::Updated) || run.idle >= IDLE {
                self.unwatch(run.pages, protect);
            } else {
                self.learning.watched.push(run);
            }
        }
    }

    /// Gives back the runs that hold any of these pages, at once.
    pub(super) fn unwatch_any(&mut self, pages: Pages) {
        let mut protect = Vec::new();
        for run in std::mem::take(&mut self.learning.watched) {
            if run.pages.first < pages.end() && pages.first < run.pages.end() {
                self.unwatch(run.pages, &mut protect);
            } else {
                self.learning.watched.push(run);
            }
        }
        // Runs are in the order in which watching began.
        protect.sort_unstable();
        runs(&protect, |p| self.out.push_back(Output::Protect(p, Access::Read)));
    }

    fn unwatch(&mut self, pages: Pages, protect: &mut Vec<u32>) {
        self.out.push_back(Output::Unwatch(pages));
        for page in pages.iter() {
            if self.table.change_home(page, HomePage::unwatch) == Some(true) {
                protect.push(page);
            }
        }
    }

    /// The system would not watch these pages: they have been protected.
    pub(super) fn unwatchable(&mut self, pages: Pages) {
        self.learning.watched.retain(|run| run.pages != pages);
        for page in pages.iter() {
            self.table.change_home(page, HomePage::unwatch);
        }
    }

    /// A move of a page's home ends its watch first.
    pub(super) fn unwatch_before_move(&mut self, page: u32, from: Option<Rank>) {
        if from == Some(self.cfg.rank) && self.table.at_home(page).is_some_and(|home| home.is_watched()) {
            self.unwatch_any(Pages::one(page));
        }
    }
}
