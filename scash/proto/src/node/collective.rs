//! Collective calls that are more than a barrier, homes that move, and the consistency operations open to the
//! user.

use super::{Collective, Node, Outcome, Output, Protocol, Transfer};
use crate::page::{Access, CachedPage, HomePage, Page};
use crate::wire::{News, Notice, Purpose};
use crate::{AllocOptions, Pages, Placement, Rank};
use std::collections::BTreeMap;
use std::num::NonZeroU32;

/// A number that stands for a placement, so that ranks can compare theirs.
fn placement_number(placement: Placement) -> u64 {
    let (kind, rank, pages) = match placement {
        Placement::FirstTouch => (0, 0, 0),
        Placement::Block => (1, 0, 0),
        Placement::Cyclic { pages, first } => (2, first, pages.get()),
        Placement::Rank(rank) => (3, rank, 0),
    };
    // A rank has 20 bits at most (`MAX_RANKS`).
    u64::from(pages) << 22 | u64::from(rank) << 2 | kind
}

impl Node {
    /// Before any call: makes pages an allocation for as long as the job runs, in which ranks have parts
    /// ([`part`](crate::part)). No allocation of all ranks lies behind it. Where ranks share frames, whoever
    /// asks for this opens the pages, and again when the rank comes back.
    ///
    /// # Panics
    /// If these are not pages of the region, or it is not before any call.
    pub fn reserve(&mut self, pages: Pages, options: AllocOptions) {
        self.heap.reserve(pages.first, pages.count, options);
        self.note_new_pages(pages);
    }

    /// Whether pages get their homes at once, because the job has what orders memory between memory barriers:
    /// then what is written back is at home.
    pub fn has_homes_at_once(&self) -> bool {
        self.sync.objects.any()
    }

    /// What a collective call does beyond its barrier; the same at every rank.
    pub(super) fn conclude(&mut self) -> Outcome {
        match self.meetings.collective {
            Collective::Barrier
            | Collective::Publish(_)
            | Collective::Divide { .. }
            | Collective::Broadcast(_)
            | Collective::Finalize => Outcome::Done,
            Collective::Alloc(bytes, options) => {
                let align = NonZeroU32::new(options.block).unwrap_or(NonZeroU32::MIN);
                match self.heap.alloc(bytes, align, options) {
                    Ok(a) => {
                        // With a limit on cached pages, a fault that fetches a block may give up as many
                        // pages by a few orders each, and allocates nothing.
                        let evicted = options.block.min(a.pages).min(self.cfg.cache / 4);
                        self.out.reserve(4 * evicted as usize);
                        let pages = Pages { first: a.first, count: a.pages };
                        self.note_new_pages(pages);
                        self.open_shared(pages);
                        Outcome::Allocated(pages)
                    }
                    Err(e) => Outcome::OutOfSpace(e),
                }
            }
            Collective::Make(kind, count) => {
                match self.sync.objects.add(kind, count, self.cfg.most_objects) {
                    Some(first) => Outcome::Made(first),
                    None => Outcome::TooManyObjects(self.cfg.most_objects),
                }
            }
            Collective::Destroy { first, count, .. } => {
                self.destroy(first..first.saturating_add(count));
                Outcome::Done
            }
            Collective::Free(first) => {
                if let Ok(a) = self.heap.free(first) {
                    self.forget(Pages { first: a.first, count: a.pages });
                }
                Outcome::Done
            }
        }
    }

    /// Nothing is known of these pages any more, and their frames go back to the system.
    fn forget(&mut self, pages: Pages) {
        self.unwatch_any(pages);
        for page in pages.iter() {
            let word = self.table.get(page);
            if word.is_blank() {
                continue;
            }
            if word.has_twin() {
                self.out.push_back(Output::DropTwin(page));
            }
            let free = self.table.at_home(page).is_some_and(|home| home.is_free());
            self.homes.loses_untracked(free);
            self.table.forget(page);
            self.learning.migration.forget(page);
            self.let_go(page);
        }
        self.homes.forget(pages);
        self.learning.moves.retain(|p, _| !(pages.first..pages.end()).contains(p));
        if self.gives_frames_back() {
            self.out.push_back(Output::Discard(pages));
        }
        if !self.shares_frames() {
            self.out.push_back(Output::ForgetClaims(pages));
        }
    }

    /// Of several calls about a page the last one counts.
    pub(super) fn set_home(&mut self, pages: Pages, home: Rank) {
        self.learning.moves.extend(pages.iter().map(|page| (page, (home, true))));
    }

    /// What this rank asked for since the last barrier, as notices.
    pub(super) fn take_moves(&mut self) -> Vec<Notice> {
        let origin = self.cfg.rank;
        let mut notices: Vec<Notice> = Vec::new();
        for (page, (to, placed)) in std::mem::take(&mut self.learning.moves) {
            let news = News::Moves { to, placed };
            match notices.last_mut() {
                Some(n) if n.pages.end() == page && n.news == news => n.pages.count += 1,
                _ => notices.push(Notice { origin, pages: Pages::one(page), news }),
            }
        }
        notices
    }

    pub(super) fn set_protocol(&mut self, page: u32, protocol: Protocol) {
        let Some(a) = self.heap.find_mut(page) else { return };
        a.options.protocol = protocol;
        let range = a.range();
        for page in range {
            // Tells the home at the next barrier.
            if let Some(mut copy) = self.table.cached(page).filter(|copy| copy.is_shared()) {
                copy.want();
                self.table.put(page, copy);
                self.table.touch(page);
            }
        }
    }

    /// Between the meetings of a barrier: homes move. All copies end; the old home hands the page to the new
    /// one.
    pub(super) fn hand_over(&mut self, notices: &[Notice]) {
        let (mut moves, claims): (Vec<&Notice>, Vec<&Notice>) =
            notices.iter().partition(|n| n.news != News::FirstTouch);
        // In one order at all ranks: of several ranks that move a page the last one counts, and what a
        // program says counts more than what a home found.
        moves.sort_unstable_by_key(|n| (matches!(n.news, News::Moves { placed: true, .. }), **n));
        let claimed = union(claims.into_iter().map(|n| n.pages).collect());
        let is_claimed = |page: u32| {
            let run = claimed.get(claimed.partition_point(|run| run.end() <= page));
            run.is_some_and(|run| run.first <= page)
        };
        let mut homes = BTreeMap::new();
        for n in moves {
            let News::Moves { to, placed } = n.news else { continue };
            for page in n.pages.iter() {
                if !is_claimed(page) {
                    homes.insert(page, (to, placed));
                } else if n.origin == self.cfg.rank {
                    // A page that was first touched in this very interval may be disputed: it moves at the
                    // next barrier.
                    self.learning.moves.insert(page, (to, placed));
                }
            }
        }
        for (page, (to, placed)) in homes {
            self.learning.migration.moves(page, placed);
            self.move_home(page, to);
        }
    }

    fn move_home(&mut self, page: u32, to: Rank) {
        let me = self.cfg.rank;
        let from = self.home(page);
        if from == Some(to) {
            return;
        }
        self.note_move(page, from);
        self.unwatch_before_move(page, from);
        if to == me {
            self.let_go(page);
        }
        if let Some(home) = self.home_page(page) {
            self.hand_page_over(page, home, to);
        } else if let Some(copy) = self.cached_page(page, from.unwrap_or(to)) {
            if to == me {
                self.table.put(page, copy.take_over(me));
            } else {
                self.table.put(page, copy.follow(to));
            }
        } else if let Page::Unclaimed(unclaimed) = self.table.get(page).page() {
            // Nobody's, and to be this rank's.
            self.table.put(page, unclaimed.learn(to).take_over(me));
        }
        self.table.touch(page);
    }

    /// The page goes to its new home, and all copies end.
    fn hand_page_over(&mut self, page: u32, home: HomePage, to: Rank) {
        if home.is_tracked() {
            self.homes.asked.remove(&page);
            self.untrack(page);
        }
        let home = self.table.at_home(page).unwrap_or(home);
        self.homes.loses_untracked(home.is_free());
        self.out.push_back(Output::Hand { page, to });
        match self.cfg.transfer {
            Transfer::ZeroCopy if self.cfg.puts_at_once => {}
            _ => self.meetings.now.say(to, |_| {}),
        }
        self.table.put(page, home.hand_over(to));
    }

    /// Orders that this rank's changes of cached pages be put into the homes' frames now. The pages stay
    /// dirty: the barrier tells their homes.
    ///
    /// A home that brings its own changes to sharers on its way into the barrier would take these for its
    /// own, and bring them back here, over what this rank has written since. So its pages are
    /// [marked](super::atomics), as for atomic operations, but all at once: ranges can be long.
    pub(super) fn write_back(&mut self, pages: Pages) {
        for page in pages.iter().filter(|&p| p < self.table.len()).collect::<Vec<_>>() {
            let word = self.table.get(page);
            let home = self.home(page).filter(|&h| h != self.cfg.rank);
            if let (true, Some(to)) = (word.is_dirty(), home) {
                if !self.keeps_pushes_back() && self.sync.operated.homes.insert(to) {
                    self.out.push_back(Output::MarkAll(to));
                }
                self.table.change_copy(page, CachedPage::report);
                self.out.push_back(Output::PutDiff { page, to });
            }
        }
    }

    /// Orders that valid copies be refreshed from their homes, those that are out of view among them. Pages
    /// that were read as zeros may have a home since.
    ///
    /// A get or a claim that is under way may have passed the home before. Then the last order is to wait for
    /// that page, and the others are of the pages before it.
    ///
    /// What others have brought home, this rank's next record names as if it had written it: bytes that it
    /// writes again as it has seen them are no change of its own, and whoever has a lock from this rank must
    /// not go on from an older copy. For the same reason a lock brings nothing of these pages that is older.
    pub(super) fn read_home(&mut self, pages: Pages) {
        let (end, mut copies, mut zeros) = (self.table.len(), Vec::new(), Vec::new());
        let there = Pages { first: pages.first, count: pages.count.min(end.saturating_sub(pages.first)) };
        let under_way = there.iter().find(|&page| self.is_fetching(page));
        let there = Pages { count: under_way.map_or(there.count, |page| page - there.first), ..there };
        if self.keeps_back() && !self.shares_frames() && there.count > 0 {
            let read = &mut self.sync.intervals.read_home;
            read.push(there);
            // However often a rank reads the same pages.
            if read.len().is_power_of_two() {
                *read = union(std::mem::take(read));
            }
        }
        for page in there.iter() {
            let word = self.table.get(page);
            let home = self.home(page).filter(|&h| h != self.cfg.rank);
            let is_hidden = self.table.cached(page).is_some_and(|copy| copy.is_hidden());
            let is_zeros = matches!(word.page(), Page::Unclaimed(_)) && word.access() != Access::None;
            if is_zeros && self.sync.objects.any() {
                zeros.push(page);
            }
            if let (true, Some(from)) = (word.access() != Access::None || is_hidden, home) {
                self.copied(page);
                copies.push((from, page));
            }
        }
        self.end_copies(&zeros, None);
        self.refresh(copies, None);
        self.out.extend(under_way.map(Output::Wait));
    }
}

/// Any runs of pages as ascending runs that do not overlap.
pub(super) fn union(mut runs: Vec<Pages>) -> Vec<Pages> {
    runs.sort_unstable_by_key(|run| run.first);
    let mut out: Vec<Pages> = Vec::new();
    for run in runs {
        match out.last_mut() {
            Some(last) if run.first <= last.end() => last.count = last.end().max(run.end()) - last.first,
            _ => out.push(run),
        }
    }
    out
}

/// The numbers by which ranks compare what they came for.
pub(super) fn purpose(collective: Collective) -> Purpose {
    Purpose(match collective {
        Collective::Barrier => [0; 4],
        Collective::Alloc(bytes, o) => {
            [1, bytes, placement_number(o.placement), { (u64::from(o.block) << 2) | o.protocol as u64 }]
        }
        Collective::Free(first) => [2, u64::from(first), 0, 0],
        Collective::Finalize => [3, 0, 0, 0],
        Collective::Broadcast(pages) => [4, u64::from(pages.first), u64::from(pages.count), 0],
        Collective::Publish(first) => [5, u64::from(first), 0, 0],
        Collective::Make(kind, count) => {
            let [kind, parameter] = kind.numbers();
            [6, u64::from(count), kind, parameter]
        }
        Collective::Divide { page, digest: [a, b] } => [8, u64::from(page), a, b],
        Collective::Destroy { kind, first, count } => {
            let [kind, _] = kind.numbers();
            [7, u64::from(count), kind, u64::from(first)]
        }
    })
}
