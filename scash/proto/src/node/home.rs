//! What a home keeps and owes: the directory of sharers, tracking of its own writes, bringing changes to sharers.

use super::{Node, Output, Transfer};
use crate::copyset::CopyMode;
use crate::page::{Access, flag};
use crate::{Pages, Rank};
use std::collections::BTreeSet;

/// Barriers in which a tracked page was found written, until it is predicted to be.
const PREDICT_AFTER: u64 = 2;
/// Barriers in a row in which a predicted page was found unwritten, until it is tracked by faults again.
const GIVE_UP_AFTER: u64 = 8;

impl Node {
    /// The ranks that are to get the changes of a page whose home is here, in ascending order.
    pub fn update_sharers(&self, page: u32) -> impl Iterator<Item = Rank> + '_ {
        let all = self.directory.get(&page);
        all.into_iter()
            .flat_map(|set| set.iter())
            .filter(|&(_, mode)| mode == CopyMode::Update)
            .map(|(r, _)| Rank(r))
    }

    /// Orders what a page written at its home needs in the first part of the barrier.
    pub(super) fn flush_home_page(&mut self, page: u32) {
        self.migration.written_at_home(page);
        let mut word = self.table.get(page);
        if !word.has(flag::TRACKED) {
            return;
        }
        if !word.has(flag::TWIN) {
            self.tell_stale(page, None);
            return;
        }
        word.set_score(word.score() + 1);
        if self.cfg.predict && word.score() >= PREDICT_AFTER && !word.has(flag::PREDICTED) {
            word.set(flag::PREDICTED);
            word.set_backoff(0);
            self.predicted.push(page);
        }
        self.table.put(page, word);
        // Pages that were predicted just now are compared with all others that are.
        if !word.has(flag::PREDICTED) {
            self.push(page);
        }
    }

    /// Orders that what changed in a page goes to its sharers: now, or when everybody is in the barrier.
    pub(super) fn push(&mut self, page: u32) {
        if self.keeps_pushes_back() || self.operated.holds(page) {
            self.keep_back(page);
        } else {
            self.out.push_back(Output::Push(page));
        }
    }

    /// What changed in a page goes to its sharers when everybody is in the barrier.
    pub(super) fn keep_back(&mut self, page: u32) {
        self.now.away = true;
        self.kept_back.push(page);
    }

    /// Where races are looked for, what a home brings to a copy must not take the place of what its rank has written and not yet told.
    fn keeps_pushes_back(&self) -> bool {
        self.keeps_back() || self.cfg.races
    }

    /// A page of ours was compared with its twin on the way into the barrier.
    pub(super) fn pushed(&mut self, page: u32, changed: bool, by: Transfer) {
        let word = self.table.get(page);
        if word.has(flag::PREDICTED) {
            let quiet = if changed { 0 } else { word.backoff() + 1 };
            self.table.update(page, |w| w.set_backoff(quiet));
            if changed && !word.has(flag::DIRTY) {
                self.counters.predicted += 1;
            }
        }
        if changed {
            self.migration.written_at_home(page);
            if by == Transfer::Message && self.cfg.transfer == Transfer::ZeroCopy {
                self.table.update(page, |w| w.set(flag::MESSAGED));
                self.messaged.push(page);
            }
            self.count_updates(page, None, by);
        }
        // Even if all bytes are again what they were: a sharer may have fetched the page in between (see `copied`). A page that is predicted counts as
        // written, since nothing tells whether it was.
        self.tell_stale(page, None);
    }

    /// Whether the changes of a page that [`Output::Push`] finds have to go by message: because they did so in the last barrier, in which some
    /// sharer may still be. A put would be in its frame before the older message is taken, which would then undo it. (That all have come to
    /// *this* barrier by the next one is sure.)
    pub fn must_message(&self, page: u32) -> bool {
        self.table.get(page).has(flag::MESSAGED_BEFORE)
    }

    /// The barrier ends, and with it what was said of the one before.
    pub(super) fn forget_messages(&mut self) {
        let table = &mut self.table;
        self.messaged.sort_unstable();
        self.messaged.dedup();
        self.messaged.retain(|&page| {
            let mut word = table.get(page);
            let now = word.has(flag::MESSAGED);
            word.clear(flag::MESSAGED | flag::MESSAGED_BEFORE);
            if now {
                word.set(flag::MESSAGED_BEFORE);
            }
            table.put(page, word);
            now
        });
    }

    /// Notes that the changes of a page are brought to its sharers.
    fn count_updates(&mut self, page: u32, except: Option<Rank>, by: Transfer) {
        let Some(set) = self.directory.get(&page) else { return };
        for (r, _) in set.iter().filter(|&(r, mode)| mode == CopyMode::Update && Some(Rank(r)) != except) {
            self.counters.updates += 1;
            match by {
                Transfer::Message => self.now.sent(Rank(r), 1),
                Transfer::ZeroCopy if self.cfg.puts_at_once => {}
                Transfer::ZeroCopy => self.now.say(Rank(r), |_| {}),
            }
        }
    }

    /// Notices for the sharers in invalidate mode, which are sharers no longer.
    pub(super) fn tell_stale(&mut self, page: u32, except: Option<Rank>) {
        let Some(set) = self.directory.get_mut(&page) else { return };
        let told: Vec<u32> = set
            .iter()
            .filter(|&(r, mode)| mode == CopyMode::Invalidate && Some(Rank(r)) != except)
            .map(|(r, _)| r)
            .collect();
        for &r in &told {
            set.remove(r);
        }
        let empty = set.is_empty();
        for r in told {
            self.now.say(Rank(r), |c| join(&mut c.stale, page));
        }
        if empty {
            self.untrack(page);
        }
    }

    /// Between the meetings: pages of ours that others wrote (`merged`, sorted) go to their sharers, but for the only writer, who has them.
    pub(super) fn pass_on(&mut self, merged: &[(u32, Rank)]) {
        for group in merged.chunk_by(|a, b| a.0 == b.0) {
            let (page, writer) = group[0];
            // What the only writer has is the newest, unless others wrote the page after it had brought its changes home.
            let sole =
                (!self.keeps_pushes_back() && group.iter().all(|&(_, r)| r == writer)).then_some(writer);
            if !self.table.get(page).has(flag::TRACKED) {
                continue;
            }
            if self.update_sharers(page).any(|r| Some(r) != sole) {
                self.out.push_back(Output::PushWhole { page, except: sole });
                self.count_updates(page, sole, self.cfg.transfer);
            }
            self.tell_stale(page, sole);
            // What was written back early came to the frame alone. Sharers have it now: it is not a change of ours.
            if self.table.get(page).has(flag::PREDICTED) {
                self.out.push_back(Output::Twin(page));
            }
        }
    }

    /// Between the meetings: what was kept back goes to sharers now, but for pages that go as wholes.
    pub(super) fn push_kept_back(&mut self, merged: &[(u32, Rank)]) {
        if self.kept_back.is_empty() {
            return;
        }
        let whole: BTreeSet<u32> = merged.iter().map(|&(page, _)| page).collect();
        for page in std::mem::take(&mut self.kept_back) {
            if self.table.get(page).has(flag::TWIN) && !whole.contains(&page) {
                self.out.push_back(Output::Push(page));
            }
        }
    }

    /// Between the meetings: brings pages to sharers that fetched them while this rank may have been writing them.
    pub(super) fn bring_again(&mut self, fresh: &[(Rank, Pages)]) {
        for &(to, pages) in fresh {
            for page in pages.iter() {
                if !self.is_home(page) {
                    continue;
                }
                self.counters.updates += 1;
                self.out.push_back(Output::PutPages { pages: Pages::one(page), to });
                if !self.cfg.puts_at_once {
                    self.now.say(to, |_| {});
                }
            }
        }
    }

    /// A rank becomes a sharer of a page. Returns whether the page must be protected now.
    pub(super) fn add_sharer(&mut self, page: u32, rank: Rank, mode: CopyMode) -> bool {
        self.directory.entry(page).or_default().insert(rank.0, mode);
        let mut word = self.table.get(page);
        // A page that its allocation has placed may have sharers before its home has touched it.
        word.set_home(Some(self.cfg.rank));
        let mut protect = false;
        if !word.has(flag::TRACKED) && word.access() == Access::Write {
            self.untracked = self.untracked.saturating_sub(1);
            // A watched page's writes are noticed without a fault.
            if !word.has(flag::ASYNC) {
                word.set_access(Access::Read);
                protect = true;
            }
        }
        if !word.has(flag::TRACKED) {
            word.set_score(0);
        }
        word.set(flag::TRACKED);
        if mode == CopyMode::Update {
            word.set(flag::TWINNED);
        }
        self.table.put(page, word);
        protect
    }

    /// A rank is a sharer no longer.
    pub(super) fn remove_sharer(&mut self, page: u32, rank: Rank) {
        let Some(set) = self.directory.get_mut(&page) else { return };
        set.remove(rank.0);
        if set.is_empty() {
            self.untrack(page);
        }
    }

    /// Nobody has copies any more: the home's writes are its own affair.
    pub(super) fn untrack(&mut self, page: u32) {
        self.directory.remove(&page);
        let mut word = self.table.get(page);
        // If it was predicted, the end of the barrier takes it off that list.
        if word.has(flag::TWIN) {
            self.out.push_back(Output::DropTwin(page));
        }
        match word.access() {
            Access::Read => {
                self.untracked += 1;
                self.out.push_back(Output::Protect(Pages::one(page), Access::Write));
                word.set_access(Access::Write);
            }
            Access::Write => self.untracked += 1,
            Access::None => {}
        }
        word.clear(flag::TRACKED | flag::TWINNED | flag::PREDICTED | flag::TWIN | flag::DIRTY);
        self.table.put(page, word);
    }

    /// Predictions that did not come true end; the pages are to be protected.
    pub(super) fn drop_idle_predictions(&mut self, protect: &mut Vec<u32>) {
        let (table, out) = (&mut self.table, &mut self.out);
        self.predicted.retain(|&page| {
            let mut word = table.get(page);
            if !word.has(flag::PREDICTED) || word.backoff() < GIVE_UP_AFTER {
                return word.has(flag::PREDICTED);
            }
            word.clear(flag::PREDICTED | flag::TWIN);
            word.set_score(0);
            word.set_access(Access::Read);
            table.put(page, word);
            out.push_back(Output::DropTwin(page));
            protect.push(page);
            false
        });
    }

    /// This rank is a sharer of a page no longer, and says so at this barrier.
    pub(super) fn leave(&mut self, page: u32) {
        self.table.update(page, |w| w.set(flag::STALE));
        self.table.touch(page);
        if let Some(home) = self.home(page) {
            self.now.say(home, |c| join(&mut c.leave, page));
        }
    }
}

/// Appends a page to a list of runs.
pub(super) fn join(list: &mut Vec<Pages>, page: u32) {
    match list.last_mut() {
        Some(run) if run.end() == page => run.count += 1,
        _ => list.push(Pages::one(page)),
    }
}
