//! Faults: an access needs work.
//!
//! Runs inside a signal handler: nothing here allocates (the touched list is threaded through the page table; orders fit the reserved queue).

use super::{Node, Output};
use crate::copyset::CopyMode;
use crate::page::{Access, List, flag};
use crate::{Pages, Rank, Strided};

impl Node {
    /// Orders what brings `page` nearer to `want`. The caller repeats it until [`Node::access`] is enough: fetching and becoming a writer are two steps.
    pub(super) fn fault(&mut self, page: u32, want: Access) {
        let Some(a) = (page < self.table.len()).then(|| self.heap.find(page)).flatten() else {
            self.out.push_back(Output::Denied(page));
            return;
        };
        let (id, range, block) = (a.id, Pages { first: a.first, count: a.pages }, a.options.block);
        let word = self.table.get(page);
        if word.access() >= want {
            return;
        }
        if word.has(flag::FETCHING) {
            self.out.push_back(Output::Wait(page));
            return;
        }
        match want {
            Access::Write => self.counters.write_faults += 1,
            _ => self.counters.read_faults += 1,
        }
        match self.home(page) {
            Some(home) if home == self.cfg.rank => self.home_fault(page, id, range, block),
            Some(_) if word.access() == Access::Read => self.write_cached(page, id, range),
            Some(_) if word.has(flag::ARMED) => self.disarm(page),
            Some(home) => self.fetch(page, home, id, range, block),
            None if self.objects.any() => self.ask_for_home(page, range, block, want),
            None if want == Access::Write => self.claim(page, range, block, false),
            None => self.read_unclaimed(page),
        }
    }

    /// The home's own access: a new page, or a write that must be noticed.
    fn home_fault(&mut self, page: u32, id: u64, range: Pages, block: u32) {
        let word = self.table.get(page);
        if word.access() == Access::Read {
            if word.has(flag::TWINNED) && !word.has(flag::TWIN) {
                self.make_twin(page);
            }
            let renewals = self.cfg.renewals;
            self.table.update(page, |w| {
                // Written again since the last barrier, so an interval has ended in between.
                if w.has(flag::DIRTY) {
                    w.set_backoff(renewals);
                }
                w.set(flag::DIRTY);
                w.set_access(Access::Write);
            });
            self.table.touch(page);
            self.list(page, List::Open);
            self.out.push_back(Output::Protect(Pages::one(page), Access::Write));
        } else if word.has(flag::TRACKED) {
            self.table.update(page, |w| w.set_access(Access::Read));
            self.out.push_back(Output::MapZero(Pages::one(page), Access::Read));
        } else {
            let pages = self.window(page, id, range, block, |node, p| {
                let w = node.table.get(p);
                node.is_home(p) && w.access() == Access::None && !w.has(flag::TRACKED)
            });
            for p in pages.iter() {
                self.own(p);
            }
            self.counters.prefetched += u64::from(pages.count - 1);
            self.out.push_back(Output::MapZero(pages, Access::Write));
        }
    }

    /// Makes this rank the home of a page that it may write from now on, untracked.
    fn own(&mut self, page: u32) {
        let rank = self.cfg.rank;
        self.untracked += 1;
        self.let_go(page);
        self.table.update(page, |w| {
            w.set_home(Some(rank));
            w.set_access(Access::Write);
        });
    }

    /// First touch: this rank claims the page, and all pages of its block that nobody has. Others learn it at the next memory barrier; if several
    /// ranks claimed a page, the lowest is its home. `all`: also pages of the block that are read here.
    pub(super) fn claim(&mut self, page: u32, range: Pages, block: u32, all: bool) {
        for p in block_of(page, range, block).iter() {
            let word = self.table.get(p);
            if self.home(p).is_some() || (!all && p != page && word.access() != Access::None) {
                continue;
            }
            let had = word.access();
            self.own(p);
            self.table.update(p, |w| {
                w.clear(flag::LEASE);
                w.set(flag::CLAIMED);
            });
            self.table.touch(p);
            self.counters.first_touches += 1;
            self.open_claimed(p, had);
        }
    }

    /// Orders access to a page that was claimed, in one order with the page before it where that is ordered alike.
    fn open_claimed(&mut self, page: u32, had: Access) {
        match (self.out.back_mut(), had) {
            (Some(Output::MapZero(run, Access::Write)), Access::None)
            | (Some(Output::Protect(run, Access::Write)), Access::Read)
                if run.end() == page =>
            {
                run.count += 1;
            }
            (_, Access::None) => self.out.push_back(Output::MapZero(Pages::one(page), Access::Write)),
            _ => self.out.push_back(Output::Protect(Pages::one(page), Access::Write)),
        }
    }

    /// While a job has locks, a first touch must be known to whoever comes next, not only after the barrier: the rank that keeps the claim decides at once.
    pub(super) fn ask_for_home(&mut self, page: u32, range: Pages, block: u32, want: Access) {
        if !self.may_fetch() {
            self.out.push_back(Output::Wait(page));
            return;
        }
        self.fetch_begins();
        self.table.update(page, |w| w.set(flag::FETCHING));
        let key = block_of(page, range, block).first;
        let (at, take) = (Rank(key % self.cfg.size), want == Access::Write);
        self.out.push_back(Output::Claim { page, key, at, take });
    }

    /// It is known now whose the page is.
    pub(super) fn claimed(&mut self, page: u32, home: Option<Rank>) {
        let Some(a) = self.heap.find(page) else { return };
        let (range, block) = (Pages { first: a.first, count: a.pages }, a.options.block);
        if !self.objects.any() {
            return self.place_is_known(page, range, block, home);
        }
        let vain = self.fetch_ends();
        self.table.update(page, |w| w.clear(flag::FETCHING));
        match home {
            // A claim that is kept is one of the whole block.
            Some(home) if home == self.cfg.rank => self.claim(page, range, block, true),
            Some(_) => {
                for p in block_of(page, range, block).iter() {
                    self.table.update(p, |w| {
                        if w.home().is_none() {
                            w.set_home(home);
                        }
                    });
                }
            }
            // It may have become somebody's since.
            None if vain => {}
            None => self.read_unclaimed(page),
        }
    }

    /// A page that nobody has touched reads as zeros; whoever writes it will tell at the next barrier.
    fn read_unclaimed(&mut self, page: u32) {
        self.make_room(1);
        self.hold(page, false);
        self.table.update(page, |w| {
            w.set_access(Access::Read);
            w.set(flag::LEASE);
        });
        self.table.touch(page);
        self.list(page, List::Leased);
        self.out.push_back(Output::MapZero(Pages::one(page), Access::Read));
    }

    /// A cached page becomes writable: with a twin, so that what was written can be told apart. Where pages are written one after the other, those
    /// that follow become writable with it: a twin that was made for nothing costs less than a fault.
    fn write_cached(&mut self, page: u32, id: u64, range: Pages) {
        let ahead = if self.cfg.predict { self.writes.window(id, page, self.interval) } else { 1 };
        let end = page.saturating_add(ahead).min(range.end());
        let alike = |node: &Node, p| {
            node.table.get(p).access() == Access::Read
                && node.home(p).is_some_and(|home| home != node.cfg.rank)
        };
        let end = (page + 1..end).find(|&p| !alike(self, p)).unwrap_or(end);
        let pages = Pages { first: page, count: end - page };
        for p in pages.iter() {
            if !self.table.get(p).has(flag::TWIN) {
                self.make_twin(p);
            }
            self.table.update(p, |w| {
                w.set(if p == page { flag::DIRTY } else { flag::DIRTY | flag::AHEAD });
                w.set_access(Access::Write);
            });
            self.table.touch(p);
            self.list(p, List::Open);
            self.hold(p, true);
        }
        self.writes.fetched(id, pages);
        self.out.push_back(Output::Protect(pages, Access::Write));
    }

    pub(super) fn make_twin(&mut self, page: u32) {
        self.table.update(page, |w| w.set(flag::TWIN));
        self.counters.twins += 1;
        self.out.push_back(Output::Twin(page));
    }

    /// The page was out of view only to see whether it is read. It is.
    fn disarm(&mut self, page: u32) {
        self.found_used(page);
        self.table.update(page, |w| {
            w.clear(flag::ARMED);
            w.set_access(Access::Read);
        });
        self.out.push_back(Output::Map(Pages::one(page), Access::Read));
    }

    fn fetch(&mut self, page: u32, home: Rank, id: u64, range: Pages, block: u32) {
        if !self.may_fetch() {
            self.out.push_back(Output::Wait(page));
            return;
        }
        self.fetch_begins();
        let alike = |node: &Node, p| {
            let w = node.table.get(p);
            w.access() == Access::None && !w.has(flag::FETCHING | flag::ARMED) && node.home(p) == Some(home)
        };
        let run = self.window(page, id, range, block, alike);
        let pages = if block > 1 { run.into() } else { self.strides(run, id, range, alike) };
        self.make_room(pages.count());
        for p in pages.iter() {
            self.table.update(p, |w| w.set(flag::FETCHING));
            self.hold(p, false);
        }
        self.counters.fetched += u64::from(pages.count());
        self.counters.prefetched += u64::from(pages.count() - 1);
        self.out.push_back(Output::Get { from: home, pages });
    }

    /// A run, and those at a distance from it that faults have shown to be worth it.
    fn strides(&mut self, run: Pages, id: u64, range: Pages, alike: impl Fn(&Node, u32) -> bool) -> Strided {
        let wanted = self.streams.strided(id, run);
        let fits = |run: &Pages| {
            run.first >= range.first
                && run.first.checked_add(run.count).is_some_and(|end| end <= range.end())
                && run.iter().all(|p| alike(self, p))
        };
        let more = wanted.runs().skip(1).take_while(fits).count();
        let pages = Strided { times: 1 + u32::try_from(more).unwrap_or(0), ..wanted };
        self.streams.strided_fetched(id, pages);
        pages
    }

    /// The run of pages around `page` to be worked on together: its block, or as many following pages as faults have shown to be worth it.
    fn window(
        &mut self,
        page: u32,
        id: u64,
        range: Pages,
        block: u32,
        alike: impl Fn(&Node, u32) -> bool,
    ) -> Pages {
        let whole = block_of(page, range, block);
        let ahead = self.streams.window(id, page, self.interval);
        let end = whole.end().max(page.saturating_add(ahead)).min(range.end());
        let mut first = page;
        while first > whole.first && alike(self, first - 1) {
            first -= 1;
        }
        let last = (page + 1..end).find(|&p| !alike(self, p)).unwrap_or(end);
        let pages = Pages { first, count: last - first };
        self.streams.fetched(id, pages);
        pages
    }

    /// Pages of a fetch are here.
    pub(super) fn fetched(&mut self, pages: Strided) {
        if self.fetch_ends() {
            self.unmark_fetch(pages);
            self.dismiss_fetched(pages);
            return;
        }
        let Some(a) = self.heap.find(pages.first.first) else { return };
        let protocol = a.options.protocol;
        for page in pages.iter() {
            let wanted = self.worth_keeping(page, protocol);
            let (interval, renewals) = (self.interval, self.cfg.renewals);
            let mut leased = false;
            self.table.update(page, |w| {
                // If an acquire had ended the copy, those that follow renew it.
                if w.has(flag::ENDED) {
                    w.set_score(renewals);
                }
                w.clear(flag::FETCHING | flag::BEHIND | flag::ENDED);
                w.set_access(Access::Read);
                if !w.has(flag::SUBSCRIBED) {
                    w.set(flag::LEASE);
                    if wanted {
                        w.set(flag::WANTED);
                    }
                }
                w.set_fetched(interval);
                leased = w.has(flag::LEASE);
            });
            self.table.touch(page);
            if leased {
                self.list(page, List::Leased);
            }
            self.copied(page);
        }
    }

    /// A page was read from its home, which may be writing it: a byte may be seen that the home writes back to what it was. A sharer that gets updates would
    /// keep it, for the home finds nothing to send; so the page must come again. Where the home tells of every write, changed or not, there is no need.
    pub(super) fn copied(&mut self, page: u32) {
        let word = self.table.get(page);
        // While a new mode is wanted, the old one is in force.
        let told = self.wanted_mode(page) == CopyMode::Invalidate && !word.has(flag::WANTED);
        if word.has(flag::SUBSCRIBED) && !told {
            self.table.update(page, |w| w.set(flag::FRESH));
            self.table.touch(page);
        }
    }

    /// Pages of a fetch could not be had.
    pub(super) fn fetch_failed(&mut self, pages: Strided) {
        self.fetch_ends();
        self.unmark_fetch(pages);
        pages.iter().for_each(|page| self.let_go(page));
    }

    fn unmark_fetch(&mut self, pages: Strided) {
        for page in pages.iter() {
            self.table.update(page, |w| w.clear(flag::FETCHING));
        }
    }
}

/// The pages of `page`'s block within its allocation.
pub(super) fn block_of(page: u32, range: Pages, block: u32) -> Pages {
    let first = page - (page - range.first) % block.max(1);
    Pages { first, count: block.max(1).min(range.end() - first) }
}
