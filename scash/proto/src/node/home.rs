//! What a home keeps and owes: the directory of sharers, tracking of its own writes, bringing changes to
//! sharers.

use super::maps::cut_out;
use super::{Node, Output, Transfer};
use crate::copyset::{CopyMode, Copyset};
use crate::page::{Access, HomePage, Tracked, Untracked};
use crate::{Pages, Rank};
use std::collections::{BTreeMap, BTreeSet};

/// What this rank knows as the home of pages, beside their words.
#[derive(Clone, Debug, Default)]
pub(super) struct Homes {
    /// Who has copies. Exactly the tracked pages have entries, here or in `asked`.
    directory: BTreeMap<u32, Copyset>,
    /// Tracked pages that stay writable. In a barrier, also some that do so no longer.
    predicted: Vec<u32>,
    /// Pages mapped writable here that are not tracked.
    untracked: u64,
    /// Pages that are to be brought to sharers when everybody is in the barrier.
    deferred_pushes: Vec<u32>,
    /// Pages whose changes went to sharers by message, in this barrier or the one before.
    messaged: Vec<u32>,
    /// Sharers that were asked whether they read what they are brought, and have not answered (`readers`).
    pub(super) unanswered: BTreeMap<u32, Copyset>,
    /// Pages that were brought often since this rank asked: the barrier's end gives up who has not answered.
    pub(super) in_vain: Vec<u32>,
    /// Pages that are tracked until the memory barrier for leases of other ranks (`exact`).
    pub(super) asked: BTreeSet<u32>,
    /// Of these, those that the next record tells of.
    pub(super) untold: Vec<u32>,
    /// Where ranks share frames: the homes that the program has given pages.
    pub(super) given: BTreeMap<u32, Rank>,
}

impl Homes {
    /// The copyset of a page, if anybody has a copy.
    pub(super) fn sharers(&self, page: u32) -> Option<&Copyset> {
        self.directory.get(&page)
    }

    /// Whether all sharers of a page are brought what is written in it.
    pub(super) fn brings_to_all(&self, page: u32) -> bool {
        self.sharers(page).is_some_and(|set| set.iter().all(|(_, mode)| mode == CopyMode::Update))
    }

    /// Pages of which somebody has copies.
    pub(super) fn entries(&self) -> usize {
        self.directory.len()
    }

    /// A sharer of a page is to be told of the next write, and brought nothing.
    pub(super) fn tell_only(&mut self, page: u32, rank: Rank) {
        if let Some(set) = self.directory.get_mut(&page).filter(|set| set.contains(rank.0)) {
            set.insert(rank.0, CopyMode::Invalidate);
        }
    }

    /// Bytes of the directory, without the links of the tree that holds it.
    pub(super) fn bytes(&self) -> usize {
        self.directory.values().map(|set| size_of::<u32>() + set.bytes()).sum()
    }

    /// Pages that are compared with their twins in every barrier.
    pub(super) fn predicted(&self) -> &[u32] {
        &self.predicted
    }

    /// Pages mapped writable here that are not tracked.
    pub(super) fn untracked(&self) -> u64 {
        self.untracked
    }

    /// A page is writable and not tracked from now on.
    pub(super) fn gains_untracked(&mut self) {
        self.untracked += 1;
    }

    /// A page, if it was such a one, is not any more.
    pub(super) fn loses_untracked(&mut self, was_free: bool) {
        self.untracked = self.untracked.saturating_sub(u64::from(was_free));
    }

    /// This rank has come back, and nobody has copies. `untracked`: how many pages are writable here.
    pub(super) fn reborn(&mut self, untracked: u64) {
        let given = std::mem::take(&mut self.given);
        *self = Homes { given, untracked, ..Homes::default() };
    }

    /// Nothing is known of these pages any more.
    pub(super) fn forget(&mut self, pages: Pages) {
        cut_out(&mut self.directory, pages.iter());
        cut_out(&mut self.unanswered, pages.iter());
        cut_out(&mut self.given, pages.iter());
        self.predicted.retain(|page| !pages.iter().contains(page));
        self.asked.retain(|page| !pages.iter().contains(page));
    }
}

impl Node {
    /// The ranks that are to get the changes of a page whose home is here, in ascending order.
    pub fn update_sharers(&self, page: u32) -> impl Iterator<Item = Rank> + '_ {
        let all = self.homes.directory.get(&page);
        all.into_iter()
            .flat_map(|set| set.iter())
            .filter(|&(_, mode)| mode == CopyMode::Update)
            .map(|(r, _)| Rank(r))
    }

    /// Orders what a page written at its home needs in the first part of the barrier.
    pub(super) fn flush_home_page(&mut self, page: u32) {
        self.learning.migration.written_at_home(page);
        let Some(mut home) = self.table.at_home(page).filter(|home| home.is_tracked()) else { return };
        if !home.has_twin() {
            self.tell_stale(page, None);
            return;
        }
        if home.found_written(self.cfg.predict) {
            self.homes.predicted.push(page);
        }
        self.table.put(page, home);
        // Pages that were predicted just now are compared with all others that are.
        if !home.is_predicted() {
            self.push(page);
        }
    }

    /// Orders that what changed in a page goes to its sharers: now, or when everybody is in the barrier.
    pub(super) fn push(&mut self, page: u32) {
        if self.keeps_pushes_back() || self.sync.operated.holds(page) {
            self.keep_back(page);
        } else {
            self.out.push_back(Output::Push(page));
        }
    }

    /// Predicted pages are compared on the way into the barrier, written or not.
    pub(super) fn push_predicted(&mut self) {
        let predicted = std::mem::take(&mut self.homes.predicted);
        predicted.iter().for_each(|&page| self.push(page));
        self.homes.predicted = predicted;
    }

    /// What changed in a page goes to its sharers when everybody is in the barrier.
    pub(super) fn keep_back(&mut self, page: u32) {
        self.meetings.now.away = true;
        self.homes.deferred_pushes.push(page);
    }

    /// Where races are looked for, what a home brings to a copy must not take the place of what its rank has
    /// written and not yet told.
    pub(super) fn keeps_pushes_back(&self) -> bool {
        self.keeps_back() || self.cfg.races
    }

    /// A page of ours was compared with its twin on the way into the barrier.
    pub(super) fn pushed(&mut self, page: u32, mut home: HomePage, changed: bool, by: Transfer) {
        if home.is_predicted() {
            home.compared(changed);
            self.table.put(page, home);
            self.counters.predicted += u64::from(changed && !home.is_dirty());
        } else if home.is_ahead() && changed {
            self.counters.predicted += 1;
            if home.found_written(self.cfg.predict) {
                self.homes.predicted.push(page);
            }
            self.table.put(page, home);
        }
        if changed {
            self.learning.migration.written_at_home(page);
            if by == Transfer::Message && self.cfg.transfer == Transfer::ZeroCopy {
                self.table.change_home(page, HomePage::messaged);
                self.homes.messaged.push(page);
            }
            self.count_updates(page, None, by);
        } else if home.is_dirty() && self.update_sharers(page).next().is_some() {
            // A write that had to be noticed, and has brought nothing.
            self.brought(page, None);
        }
        // Even if all bytes are again what they were: a sharer may have fetched the page in between (see
        // `copied`). A page that is predicted counts as written, since nothing tells whether it was. (One
        // that was opened ahead has nobody who is told.)
        self.tell_stale(page, None);
    }

    /// Whether the changes of a page that [`Output::Push`] finds have to go by message: because they did so
    /// in the last barrier, in which some sharer may still be. A put would be in its frame before the older
    /// message is taken, which would then undo it. (That all have come to *this* barrier by the next one is
    /// sure.)
    pub fn must_message(&self, page: u32) -> bool {
        self.table.at_home(page).is_some_and(|home| home.was_messaged())
    }

    /// The barrier ends, and with it what was said of the one before.
    pub(super) fn forget_messages(&mut self) {
        let table = &mut self.table;
        self.homes.messaged.sort_unstable();
        self.homes.messaged.dedup();
        self.homes.messaged.retain(|&page| table.change_home(page, HomePage::forget_message) == Some(true));
    }

    /// Notes that the changes of a page are brought to its sharers.
    fn count_updates(&mut self, page: u32, except: Option<Rank>, by: Transfer) {
        let Some(set) = self.homes.directory.get(&page) else { return };
        let mut brought = false;
        for (r, _) in set.iter().filter(|&(r, mode)| mode == CopyMode::Update && Some(Rank(r)) != except) {
            brought = true;
            self.counters.updates += 1;
            match by {
                Transfer::Message => self.meetings.now.sent(Rank(r), 1),
                Transfer::ZeroCopy if self.cfg.puts_at_once => {}
                Transfer::ZeroCopy => self.meetings.now.say(Rank(r), |_| {}),
            }
        }
        if brought {
            self.brought(page, except);
        }
    }

    /// Notices for the sharers in invalidate mode, which are sharers no longer.
    pub(super) fn tell_stale(&mut self, page: u32, except: Option<Rank>) {
        let Some(set) = self.homes.directory.get_mut(&page) else { return };
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
            self.meetings.now.say(Rank(r), |c| Pages::append(&mut c.stale, page));
        }
        if empty {
            self.untrack(page);
        }
    }

    /// Between the meetings: pages of ours that others wrote (`merged`, sorted) go to their sharers, but for
    /// the only writer, who has them. `unseen`: pages that this rank wrote, too, and brought to nobody.
    pub(super) fn pass_on(&mut self, merged: &[(u32, Rank)], unseen: &BTreeSet<u32>) {
        for group in merged.chunk_by(|a, b| a.0 == b.0) {
            let (page, writer) = group[0];
            // What the only writer has is the newest, unless others wrote the page after it had brought its
            // changes home, or this rank did and has not brought it that.
            let has_all = !self.keeps_pushes_back() && !unseen.contains(&page);
            let sole = (has_all && group.iter().all(|&(_, r)| r == writer)).then_some(writer);
            if !self.table.at_home(page).is_some_and(|home| home.is_tracked()) {
                continue;
            }
            group.iter().for_each(|&(_, writer)| self.answers(page, writer));
            if self.update_sharers(page).any(|r| Some(r) != sole) {
                self.out.push_back(Output::PushWhole { page, except: sole });
                self.count_updates(page, sole, self.cfg.transfer);
            }
            self.tell_stale(page, sole);
            // What was written back early came to the frame alone. Sharers have it now: it is not a change of
            // ours.
            if self.table.at_home(page).is_some_and(|home| home.is_predicted()) {
                self.out.push_back(Output::Twin(page));
            }
        }
    }

    /// Between the meetings: what was kept back goes to sharers now, but for pages that go as wholes, which
    /// are returned.
    pub(super) fn push_deferred(&mut self, merged: &[(u32, Rank)]) -> BTreeSet<u32> {
        let mut unseen = BTreeSet::new();
        for page in std::mem::take(&mut self.homes.deferred_pushes) {
            if merged.binary_search_by_key(&page, |&(page, _)| page).is_ok() {
                unseen.insert(page);
            } else if self.table.get(page).has_twin() {
                self.out.push_back(Output::Push(page));
            }
        }
        unseen
    }

    /// Between the meetings: brings pages to sharers that fetched them while this rank may have been writing
    /// them.
    pub(super) fn bring_again(&mut self, fresh: &[(Rank, Pages)]) {
        for &(to, pages) in fresh {
            for page in pages.iter() {
                if !self.is_home(page) {
                    continue;
                }
                self.counters.updates += 1;
                self.out.push_back(Output::PutPages { pages: Pages::one(page), to });
                if !self.cfg.puts_at_once {
                    self.meetings.now.say(to, |_| {});
                }
            }
        }
    }

    /// A rank becomes a sharer of a page. Returns whether the page must be protected now.
    pub(super) fn add_sharer(&mut self, page: u32, rank: Rank, mode: CopyMode) -> bool {
        // A page that its allocation has placed may have sharers before its home has touched it.
        let Some(mut home) = self.home_page(page) else { return false };
        self.homes.directory.entry(page).or_default().insert(rank.0, mode);
        let Tracked { was_free, protect } = home.track(mode);
        self.table.put(page, home);
        self.homes.loses_untracked(was_free);
        self.answers(page, rank);
        protect
    }

    /// A rank is a sharer no longer.
    pub(super) fn remove_sharer(&mut self, page: u32, rank: Rank) {
        let Some(set) = self.homes.directory.get_mut(&page) else { return };
        set.remove(rank.0);
        let is_empty = set.is_empty();
        self.answers(page, rank);
        if is_empty {
            self.untrack(page);
        }
    }

    /// Nobody is in the copyset any more: the home's writes are its own affair, unless ranks with leases have
    /// asked to hear of them.
    pub(super) fn untrack(&mut self, page: u32) {
        self.homes.directory.remove(&page);
        self.homes.unanswered.remove(&page);
        if !self.homes.asked.contains(&page) && self.open_untracked(page) {
            self.out.push_back(Output::Protect(Pages::one(page), Access::Write));
        }
    }

    /// A page is not tracked any more. Returns whether it was protected, and is to be writable.
    pub(super) fn open_untracked(&mut self, page: u32) -> bool {
        let Some(Untracked { drop_twin, open, free }) = self.table.change_home(page, HomePage::untrack)
        else {
            return false;
        };
        // If it was predicted, the end of the barrier takes it off that list.
        if drop_twin {
            self.out.push_back(Output::DropTwin(page));
        }
        self.homes.untracked += u64::from(free);
        open
    }

    /// Predictions that did not come true end; the pages are to be protected.
    pub(super) fn drop_idle_predictions(&mut self, protect: &mut Vec<u32>) {
        let (table, out) = (&mut self.table, &mut self.out);
        self.homes.predicted.retain(|&page| {
            let Some(mut home) = table.at_home(page) else { return false };
            if !home.is_predicted() || !home.is_idle() {
                return home.is_predicted();
            }
            home.end_prediction();
            table.put(page, home);
            out.push_back(Output::DropTwin(page));
            protect.push(page);
            false
        });
    }
}
