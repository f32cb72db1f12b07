//! Faults: an access needs work.
//!
//! Runs inside a signal handler: nothing here allocates (the touched list is threaded through the page table;
//! orders fit the reserved queue).

use super::adapt::SOON;
use super::{Node, Output};
use crate::copyset::CopyMode;
use crate::page::{Access, CachedPage, HomePage, List, Page, UnclaimedPage};
use crate::{Pages, Rank, Strided};

/// A write at home opens no pages that are farther away than this.
const FARTHEST_AT_HOME: u32 = 64;

impl Node {
    /// Orders what brings `page` nearer to `want`. The caller repeats it until [`Node::access`] is enough:
    /// fetching and becoming a writer are two steps.
    pub(super) fn fault(&mut self, page: u32, want: Access) {
        let Some(a) = (page < self.table.len()).then(|| self.heap.find(page)).flatten() else {
            self.out.push_back(Output::Denied(page));
            return;
        };
        let (id, range, block) = (a.id, Pages { first: a.first, count: a.pages }, a.options.block);
        let word = self.table.get(page);
        if self.access(page) >= want {
            return;
        }
        if word.is_fetching() || self.is_being_freed(page) {
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
            Some(_) if self.table.cached(page).is_some_and(|page| page.is_hidden()) => self.show(page),
            Some(home) => self.fetch(page, home, id, range, block, want),
            None if self.sync.objects.any() => self.ask_for_home(page, range, block, want),
            None if want == Access::Write || self.was_opened_in_vain(page) => {
                self.touch_first(page, id, range, block, want);
            }
            None => self.read_unclaimed(page),
        }
    }

    /// The home's own access: a new page, or a write that must be noticed.
    fn home_fault(&mut self, page: u32, id: u64, range: Pages, block: u32) {
        let Some(mut home) = self.home_page(page) else { return };
        if home.access() == Access::Read {
            self.write_at_home(page, home, id, range);
        } else if home.is_tracked() {
            home.read();
            self.table.put(page, home);
            self.out.push_back(Output::MapZero(Pages::one(page), Access::Read));
        } else {
            let unused = |home: HomePage| home.access() == Access::None && !home.is_tracked();
            let alike = |node: &Node, p| node.home_page(p).is_some_and(unused);
            let pages = self.window(page, 1, id, range, block, alike);
            for p in pages.iter() {
                if let Some(mut home) = self.home_page(p) {
                    home.open();
                    self.own(p, home);
                }
            }
            self.counters.prefetched += u64::from(pages.count - 1);
            self.out.push_back(Output::MapZero(pages, Access::Write));
        }
    }

    /// A write at home is noticed. Where pages are written one after the other, those that follow become
    /// writable with it if all their sharers get updates: their twins tell whether they are written. (Others
    /// would have to be told in any case.) Those in between that are writable already are passed over.
    fn write_at_home(&mut self, page: u32, mut home: HomePage, id: u64, range: Pages) {
        if home.lacks_twin() {
            self.make_twin(page);
        }
        home.write(self.cfg.renewals);
        self.table.put(page, home);
        self.table.touch(page);
        self.list(page, List::Open);
        let mut run = Pages::one(page);
        if home.is_twinned() && self.opens_runs() && !self.cfg.races {
            let wanted = self.learning.home_writes.window(id, page, self.interval);
            let end = page.saturating_add(FARTHEST_AT_HOME).min(range.end());
            let (mut opened, mut next) = (1, page + 1);
            while next < end
                && let Some(home) = self.table.at_home(next)
            {
                if home.can_open_ahead() && opened < wanted && self.homes.brings_to_all(next) {
                    self.open_ahead_at_home(next, home);
                    opened += 1;
                    run.count = next + 1 - page;
                } else if home.access() != Access::Write || home.is_watched() {
                    break;
                }
                next += 1;
            }
            self.learning.home_writes.fetched(id, Pages { first: page, count: next - page }, opened);
        }
        self.out.push_back(Output::Protect(run, Access::Write));
    }

    fn open_ahead_at_home(&mut self, page: u32, mut home: HomePage) {
        if home.lacks_twin() {
            self.make_twin(page);
        }
        home.write_ahead();
        self.table.put(page, home);
        self.table.touch(page);
    }

    /// A page at home here may be written from now on, untracked.
    pub(super) fn own(&mut self, page: u32, home: HomePage) {
        self.homes.gains_untracked();
        self.let_go(page);
        self.table.put(page, home);
    }

    /// A page as its home has it, if that is this rank.
    pub(super) fn home_page(&self, page: u32) -> Option<HomePage> {
        match self.table.get(page).page() {
            Page::Home(home) => Some(home),
            Page::Unclaimed(unclaimed) if self.is_home(page) => Some(unclaimed.place(self.cfg.rank)),
            _ => None,
        }
    }

    /// A page as a rank has it that is not its home.
    pub(super) fn cached_page(&self, page: u32, home: Rank) -> Option<CachedPage> {
        match self.table.get(page).page() {
            Page::Copy(copy) => Some(copy),
            Page::Unclaimed(unclaimed) if home != self.cfg.rank => Some(unclaimed.learn(home)),
            _ => None,
        }
    }

    /// First touch: this rank claims the page, and all pages of its block that nobody has. Others learn it
    /// at the next memory barrier; if several ranks claimed a page, one of them is its home. `all`: also
    /// pages of the block that are read here.
    pub(super) fn claim(&mut self, page: u32, range: Pages, block: u32, all: bool) {
        for p in block_of(page, range, block).iter() {
            let Page::Unclaimed(unclaimed) = self.table.get(p).page() else { continue };
            let had = unclaimed.access();
            if self.home(p).is_some() || (!all && p != page && had != Access::None) {
                continue;
            }
            self.own(p, unclaimed.claim(self.cfg.rank));
            self.table.touch(p);
            self.counters.first_touches += 1;
            self.open_claimed(p, had);
        }
    }

    /// Orders access to a page that was claimed, in one order with the page before it where that is ordered
    /// alike.
    pub(super) fn open_claimed(&mut self, page: u32, had: Access) {
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

    /// While a job has locks, a first touch must be known to whoever comes next, not only after the barrier:
    /// the rank that keeps the claim decides at once.
    pub(super) fn ask_for_home(&mut self, page: u32, range: Pages, block: u32, want: Access) {
        if !self.may_fetch() {
            self.out.push_back(Output::Wait(page));
            return;
        }
        self.fetch_begins();
        self.table.set_fetching(page, true);
        self.ask_keeper(page, block_of(page, range, block), want == Access::Write);
    }

    /// Asks the keeper of a block whose it is, and takes it if it is nobody's and this rank is to have it.
    ///
    /// Others may know the answer before this rank does, and bring what they write to its frames. So where
    /// frames are given back, all of the block counts as being fetched until then.
    pub(super) fn ask_keeper(&mut self, page: u32, block: Pages, take: bool) {
        self.mark_asked(block, true);
        let (key, at) = (block.first, Rank(block.first % self.cfg.size));
        self.out.push_back(Output::Claim { page, key, at, take });
    }

    fn mark_asked(&mut self, block: Pages, asks: bool) {
        if self.cache.is_limited() {
            block.iter().for_each(|page| self.table.change_unclaimed(page, |page| page.ask(asks)));
        }
    }

    /// It is known now whose the page is.
    pub(super) fn claimed(&mut self, page: u32, home: Option<Rank>) {
        let Some(a) = self.heap.find(page) else { return };
        let (range, block) = (Pages { first: a.first, count: a.pages }, a.options.block);
        self.mark_asked(block_of(page, range, block), false);
        if !self.sync.objects.any() {
            return self.place_is_known(page, range, block, home);
        }
        let vain = self.fetch_ends();
        self.table.set_fetching(page, false);
        match home {
            // A claim that is kept is one of the whole block.
            Some(home) if home == self.cfg.rank => self.claim(page, range, block, true),
            Some(home) => {
                for p in block_of(page, range, block).iter() {
                    if let Page::Unclaimed(unclaimed) = self.table.get(p).page() {
                        self.table.put(p, unclaimed.learn(home));
                    }
                }
            }
            // It may have become somebody's since.
            None if vain => {}
            None => self.read_unclaimed(page),
        }
    }

    /// A page that nobody has touched reads as zeros; whoever writes it will tell at the next barrier.
    fn read_unclaimed(&mut self, page: u32) {
        // It may have become somebody's while this rank asked.
        if !matches!(self.table.get(page).page(), Page::Unclaimed(_)) {
            return;
        }
        self.make_room(1);
        self.hold(page, false);
        self.table.change_unclaimed(page, UnclaimedPage::read);
        self.table.touch(page);
        self.list(page, List::Leased);
        self.out.push_back(Output::MapZero(Pages::one(page), Access::Read));
    }

    /// A cached page becomes writable: with a twin, so that what was written can be told apart. Those that
    /// follow become writable with it, where pages are written one after the other or runs of them are known
    /// ([`super::write_runs`]): a twin that was made for nothing costs less than a fault. For the sake of
    /// runs, not those that are kept up to date and were not written the last time: what their home brings
    /// would look like a write.
    fn write_cached(&mut self, page: u32, id: u64, range: Pages) {
        let jumps = !self.learning.writes.goes_on(id, page);
        let in_order =
            if self.cfg.predict { self.learning.writes.window(id, page, self.interval) } else { 1 };
        let ahead = in_order.max(self.worth_opening(page, id, range, jumps));
        let end = page.saturating_add(ahead).min(range.end());
        let opens = |p: u32, copy: CachedPage| {
            let is_written = p - page < in_order || !copy.is_shared() || copy.was_written();
            copy.access() == Access::Read && is_written
        };
        let alike = |node: &Node, p| node.table.cached(p).is_some_and(|copy| opens(p, copy));
        let end = (page + 1..end).find(|&p| !alike(self, p)).unwrap_or(end);
        let pages = Pages { first: page, count: end - page };
        self.opened_ahead(id, pages.count.saturating_sub(in_order));
        for p in pages.iter() {
            if !self.table.get(p).has_twin() {
                self.make_twin(p);
            }
            self.table.change_copy(p, |copy| copy.write(p != page));
            self.table.touch(p);
            self.list(p, List::Open);
            self.hold(p, true);
        }
        self.learning.writes.fetched(id, pages, in_order);
        self.out.push_back(Output::Protect(pages, Access::Write));
    }

    /// Orders that a page's twin be what the page is now.
    pub(super) fn make_twin(&mut self, page: u32) {
        self.counters.twins += 1;
        self.out.push_back(Output::Twin(page));
    }

    /// The page was out of view only to see whether it is read. It is.
    fn show(&mut self, page: u32) {
        self.found_used(page);
        if self.table.change_copy(page, CachedPage::show) == Some(true) {
            self.table.touch(page);
        }
        self.out.push_back(Output::Map(Pages::one(page), Access::Read));
    }

    fn fetch(&mut self, page: u32, home: Rank, id: u64, range: Pages, block: u32, want: Access) {
        if !self.may_fetch() {
            self.out.push_back(Output::Wait(page));
            return;
        }
        self.fetch_begins();
        let alike = |node: &Node, p| {
            let w = node.table.get(p);
            let free = w.access() == Access::None && !w.is_fetching();
            free && node.cached_page(p, home).is_some_and(|copy| !copy.is_hidden())
                && node.home(p) == Some(home)
        };
        // Where a fetch is a round trip, one by guess brings as much.
        let jumps = self.cfg.puts_at_once && !self.learning.writes.goes_on(id, page);
        let least = match want {
            Access::Write => self.worth_opening(page, id, range, jumps),
            _ => 1,
        };
        let table = &self.table;
        let is_read = |p| match table.cached(p) {
            Some(copy) if copy.is_hidden() => Some(false),
            Some(copy) if copy.access() != Access::None => Some(true),
            // It is on its way, or has ended.
            _ => None,
        };
        self.learning.streams.judge(id, page, self.interval, is_read);
        let run = self.window(page, least, id, range, block, alike);
        let pages = if block > 1 { run.into() } else { self.strides(run, id, range, alike) };
        // With a limit on cached pages others are out of view, too.
        if block == 1 && want == Access::Read && pages.times == 1 && !self.cache.is_limited() {
            self.learning.streams.guesses(id, run, self.interval);
        }
        self.make_room(pages.count());
        for p in pages.iter() {
            if let Some(copy) = self.cached_page(p, home) {
                self.table.put(p, copy);
            }
            self.table.set_fetching(p, true);
            self.hold(p, false);
        }
        self.counters.fetched += u64::from(pages.count());
        self.counters.prefetched += u64::from(pages.count() - 1);
        self.out.push_back(Output::Get { from: home, pages });
    }

    /// A run, and those at a distance from it that faults have shown to be worth it.
    fn strides(&mut self, run: Pages, id: u64, range: Pages, alike: impl Fn(&Node, u32) -> bool) -> Strided {
        let wanted = self.learning.streams.strided(id, run);
        let fits = |run: &Pages| {
            run.first >= range.first
                && run.first.checked_add(run.count).is_some_and(|end| end <= range.end())
                && run.iter().all(|p| alike(self, p))
        };
        let more = wanted.runs().skip(1).take_while(fits).count();
        let pages = Strided { times: 1 + u32::try_from(more).unwrap_or(0), ..wanted };
        self.learning.streams.strided_fetched(id, pages);
        pages
    }

    /// The run of pages around `page` to be worked on together: its block, or as many following pages as
    /// faults have shown to be worth it; not fewer than `least`, if there are so many.
    fn window(
        &mut self,
        page: u32,
        least: u32,
        id: u64,
        range: Pages,
        block: u32,
        alike: impl Fn(&Node, u32) -> bool,
    ) -> Pages {
        let whole = block_of(page, range, block);
        let in_order = self.learning.streams.window(id, page, self.interval);
        let ahead = in_order.max(least.min(self.learning.streams.most));
        let end = whole.end().max(page.saturating_add(ahead)).min(range.end());
        let mut first = page;
        while first > whole.first && alike(self, first - 1) {
            first -= 1;
        }
        let last = (page + 1..end).find(|&p| !alike(self, p)).unwrap_or(end);
        let pages = Pages { first, count: last - first };
        // What was fetched in this interval goes on with the run: it is as long as if it came now.
        let is_here = |&p: &u32| {
            let copy = self.table.cached(p).filter(|copy| copy.access() != Access::None);
            copy.and_then(|copy| copy.last_fetched(self.interval)) == Some(0)
        };
        let wanted = last..end.min(page.saturating_add(in_order));
        let here = u32::try_from(wanted.take_while(is_here).count()).unwrap_or(0);
        let run = Pages { count: pages.count + here, ..pages };
        self.learning.streams.fetched(id, run, in_order.max(block));
        pages
    }

    /// Pages of a fetch are here.
    pub(super) fn fetched(&mut self, pages: Strided) {
        if self.fetch_ends() {
            self.unmark_fetch(pages);
            // They are in their frames all the same, where an update finds them.
            pages.iter().for_each(|page| self.copied(page));
            self.dismiss_fetched(pages);
            return;
        }
        let Some(a) = self.heap.find(pages.first.first) else { return };
        let (id, protocol) = (a.id, a.options.protocol);
        for page in pages.iter() {
            let wanted = self.worth_keeping(page, protocol);
            let Some(mut copy) = self.table.cached(page) else { continue };
            if copy.told(self.interval).is_some_and(|ago| ago <= SOON) {
                copy.fetched_soon();
            }
            copy.fetched(self.interval, self.cfg.renewals, wanted);
            if self.learning.streams.hides(id, page) {
                copy.hide();
                self.out.push_back(Output::Unmap(Pages::one(page)));
            }
            self.table.put(page, copy);
            self.table.touch(page);
            if copy.ends_with_any_record() {
                self.list(page, List::Leased);
            }
            self.copied(page);
        }
    }

    /// A page was read from its home, which may be writing it: a byte may be seen that the home writes back
    /// to what it was. A sharer that gets updates would keep it, for the home finds nothing to send; so the
    /// page must come again. Where the home tells of every write, changed or not, there is no need.
    pub(super) fn copied(&mut self, page: u32) {
        let Some(mut copy) = self.table.cached(page).filter(|copy| copy.is_shared()) else { return };
        // While a new mode is wanted, the old one is in force.
        let told = self.wanted_mode(page, copy) == CopyMode::Invalidate && !copy.is_wanted();
        if !told {
            copy.freshen();
            self.table.put(page, copy);
            self.table.touch(page);
        }
    }

    /// Pages of a fetch could not be had.
    pub(super) fn fetch_failed(&mut self, pages: Strided) {
        self.fetch_ends();
        self.unmark_fetch(pages);
        pages.iter().for_each(|page| self.let_go(page));
        // Or it was asked whose they are.
        for page in pages.iter() {
            let Some(a) = self.heap.find(page) else { continue };
            self.mark_asked(block_of(page, Pages { first: a.first, count: a.pages }, a.options.block), false);
        }
    }

    fn unmark_fetch(&mut self, pages: Strided) {
        for page in pages.iter() {
            self.table.set_fetching(page, false);
        }
    }
}

/// The pages of `page`'s block within its allocation.
pub(super) fn block_of(page: u32, range: Pages, block: u32) -> Pages {
    let first = page - (page - range.first) % block.max(1);
    Pages { first, count: block.max(1).min(range.end() - first) }
}
