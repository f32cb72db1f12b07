//! Lazy release consistency between two memory barriers.
//!
//! A rank's time is cut into **intervals** where a lock leaves it for another rank (unless one has ended
//! since the lock was given back), or where it does a signal that lets others go on. At the end of an
//! interval its changes of cached pages are put into their homes' frames, and a **record** (write notice)
//! says which pages it wrote, or brought up to what their homes had. A lock comes with all records that
//! happened before and that the new holder does not know: it takes the copies that they name out of view, and
//! fetches them again when they are touched.
//!
//! 1. **Close.** Cached pages that are writable are compared with their twins and *put* into the home's
//!    frame, byte by byte: the home's processor is not needed. They stay writable if they had changed; those
//!    that had not, twice in a row, are protected again. Home pages with sharers are protected, so that the
//!    next write is noticed. The puts are waited for before anybody hears of the interval, but for those into
//!    frames of the rank that hears of it first: the message comes behind them. Whoever else hears of it from
//!    this rank does so when these are in place, too.
//! 2. **Records.** What a rank knows of each other rank's records is its vector time. All ranks know
//!    everything after a memory barrier: there the history ends, and vectors are empty again. They only name
//!    ranks that have handed a lock on since.
//! 3. **Apply**, when a lock comes. A copy that a record names ends. A home does not know who has leases, and
//!    so not which of their pages it has written: a record of rank r ends *all* leases of pages whose home is
//!    r, but for those that r [tracks](super::exact). A page that was written here, too, goes home first; its
//!    own changes are in the home's frame then, and come back with the others'. A copy that was fetched again
//!    after an acquire had ended it is likely to be used again: it is renewed where it stands, without a
//!    fault, some times until it is ended to see whether it still is. A manager learns records with signals
//!    long before it applies them: only what its own threads go on with concerns its own copies.
//! 4. **Fetches under way** when records are applied may have read what was there before. They are waited
//!    for, and taken for nothing.
//!
//! While a job has locks, homes keep back what they bring to sharers until everybody has come to the memory
//! barrier (its second meeting): a put into the frame of a rank that still computes would look like that
//! rank's own write at the end of its interval, and go home again, over what a later holder of the lock has
//! written there. For the same reason everything is at home, by puts, before a rank says that it has come: it
//! may have to hand a lock on while it waits.

use super::collective::union;
use super::history::{History, as_runs};
use super::locks::LeavingLock;
use super::{Node, Output, Violation, runs};
use crate::page::{Access, HomePage, List, Page};
use crate::wire::sync::{self, Brought, KnownIntervals, QueuePlace, Record};
use crate::{Pages, Rank};
use std::collections::{BTreeSet, VecDeque};

/// What follows the end of an interval.
#[derive(Clone, Debug)]
pub(super) enum After {
    /// The memory barrier goes on.
    Barrier,
    /// The orders of the memory barrier's end are carried out: what came early is taken.
    Left,
    /// What was learnt is applied.
    Enter {
        /// The object that a thread goes on with.
        object: u32,
        /// Its ticket.
        ticket: u32,
    },
    /// A lock leaves.
    Grant(LeavingLock),
    /// A lock leaves, for which no interval ends.
    GrantOnly(LeavingLock),
    /// Others go on.
    Signal {
        /// Which object.
        object: u32,
        /// How.
        signal: sync::Signal,
    },
    /// A manager lets somebody go on, who hears of intervals that had not quite ended.
    Served {
        /// Which object.
        object: u32,
        /// Whose request.
        to: QueuePlace,
        /// What is known there.
        known: KnownIntervals,
    },
}

/// Where a node is between two memory barriers.
#[derive(Clone, Debug, Default)]
pub(super) struct Intervals {
    pub(super) history: History,
    /// Pages that are at home and in no record yet.
    written: Vec<u32>,
    /// Pages that were read from home with what others may have brought there, and are in no record yet.
    pub(super) read_home: Vec<Pages>,
    /// Copies that were renewed in this epoch and are on no list: another renewal of them is likely.
    pub(super) renewed: BTreeSet<u32>,
    /// What came with the lock whose records are applied next, and from which home.
    pub(super) brought: Option<(Rank, Brought)>,
    /// What follows each [`Output::Closed`] that is not answered.
    closes: VecDeque<After>,
    /// Intervals that have begun to end, since the rank began or came back.
    ends_begun: u64,
    /// The rank to whose frames puts may be on their way that a record tells of. Only that rank may hear of
    /// it: the message that tells it comes behind the puts.
    behind: Option<Rank>,
    /// Fetches under way.
    fetches: u32,
    /// All fetches under way are to be taken for nothing.
    vain: bool,
    /// Locks and other objects that wait for that, with their tickets.
    entering: Vec<(u32, u32)>,
}

impl Intervals {
    /// Whether none ends, and no fetch is under way. `recorded`: whether there are records at all.
    pub(super) fn are_at_rest(&self, recorded: bool) -> bool {
        let nothing = self.history.is_empty() && self.written.is_empty() && self.read_home.is_empty();
        self.closes.is_empty() && self.entering.is_empty() && self.fetches == 0 && (nothing || !recorded)
    }

    /// How many intervals have begun to end. What was written before one began to end is in a record as soon
    /// as no interval [is ending](Self::is_any_ending).
    pub(super) fn ends_begun(&self) -> u64 {
        self.ends_begun
    }

    /// Whether an interval has begun to end, and has not ended.
    pub(super) fn is_any_ending(&self) -> bool {
        !self.closes.is_empty()
    }

    /// Whether this rank has put something into a page of another home, or may have read there what another
    /// rank has put, and there is no record of it yet.
    pub(super) fn has_seen_more(&self, page: u32) -> bool {
        self.written.contains(&page) || self.read_home.iter().any(|run| run.iter().contains(&page))
    }
}

impl Node {
    /// Ends an interval: orders that what was written goes home.
    pub(super) fn close(&mut self, after: After) {
        self.sync.intervals.ends_begun += 1;
        for run in &self.learning.watched {
            self.out.push_back(Output::Scan(run.pages));
        }
        let (mut open, mut protect, mut away) = (Vec::new(), Vec::new(), Vec::new());
        self.table.take(List::Open, &mut open);
        for page in open {
            self.close_page(page, &mut protect, &mut away);
        }
        // These are writable all the time: nothing tells whether they were written.
        self.sync.intervals.written.extend(self.homes.predicted());
        runs(&protect, |p| self.out.push_back(Output::Protect(p, Access::Read)));
        for (page, to) in away {
            self.out.push_back(Output::PutDiff { page, to });
        }
        self.await_puts(after);
    }

    /// Orders that what was put be in place before something follows.
    pub(super) fn await_puts(&mut self, after: After) {
        let next = self.hears_next(&after);
        self.sync.intervals.closes.push_back(after);
        self.out.push_back(Output::Closed { next });
    }

    /// The peer to which a record goes that is made when an interval ends, if it goes to one alone. What was
    /// put into its frames need not be waited for: it has that when it hears of it.
    fn hears_next(&self, after: &After) -> Option<Rank> {
        let to = match *after {
            Grant(ref leaving) | GrantOnly(ref leaving) => leaving.to.rank,
            Signal { object, .. } => self.manager(object),
            Barrier | Left | Enter { .. } | Served { .. } => return None,
        };
        (to != self.cfg.rank && !self.cfg.puts_at_once).then_some(to)
    }

    /// Whether a rank may be told of all records of this rank now.
    pub(super) fn may_hear(&self, rank: Rank) -> bool {
        self.sync.intervals.behind.is_none_or(|behind| behind == rank)
    }

    fn close_page(&mut self, page: u32, protect: &mut Vec<u32>, away: &mut Vec<(u32, Rank)>) {
        if self.is_unrecorded(page) {
            self.table.enlist(page, List::Open);
        }
        let word = self.table.get(page);
        if !word.is_dirty() || word.access() != Access::Write {
            return;
        }
        let protects = match word.page() {
            Page::Copy(mut copy) => {
                away.extend(copy.home().map(|home| (page, home)));
                let quiet = copy.close();
                self.table.put(page, copy);
                quiet
            }
            Page::Home(mut home) if !home.is_predicted() => {
                self.sync.intervals.written.push(page);
                // A rank that writes it in every interval does better without the faults; others hear of it
                // once in vain at worst.
                let protected = home.close();
                self.table.put(page, home);
                protected
            }
            Page::Home(_) | Page::Unclaimed(_) => return,
        };
        if protects {
            protect.push(page);
        } else {
            self.table.enlist(page, List::Open);
        }
    }

    /// Puts a page on a list that intervals go through; in jobs that have none, nobody would.
    pub(super) fn list(&mut self, page: u32, list: List) {
        if self.keeps_back() {
            self.table.enlist(page, list);
        }
    }

    /// A page of an [`Output::PutDiff`] was compared.
    pub(super) fn put_back(&mut self, page: u32, changed: bool) {
        if !self.keeps_back() {
            return;
        }
        let Some(mut copy) = self.table.cached(page) else { return };
        let ahead = copy.is_ahead();
        copy.put_back(changed);
        self.table.put(page, copy);
        self.table.touch(page);
        if changed {
            self.counters.diffs += 1;
            self.counters.predicted += u64::from(ahead);
            if copy.access() == Access::None {
                self.record_later(page);
            } else {
                self.brought_home(page);
            }
        }
    }

    /// Watched pages were written in this interval.
    pub(super) fn written_while_watched(&mut self, page: u32) {
        self.table.change_home(page, HomePage::noticed);
        self.table.touch(page);
        self.sync.intervals.written.push(page);
    }

    /// Notes that what was written in a page is at home.
    pub(super) fn brought_home(&mut self, page: u32) {
        self.sync.intervals.written.push(page);
    }

    /// What an interval wrote is at home: it gets its record, and what waited for that goes on.
    /// `behind`: but for puts to the rank that it goes to.
    pub(super) fn closed(&mut self, behind: bool) -> Result<(), Violation> {
        let Some(after) = self.sync.intervals.closes.pop_front() else { return Ok(()) };
        self.sync.intervals.behind = self.hears_next(&after).filter(|_| behind);
        match after {
            Barrier => {
                self.record();
                self.flush();
            }
            Left => self.take_early()?,
            Enter { object, ticket } => {
                self.record();
                self.apply_and_enter(object, ticket);
            }
            Grant(leaving) => {
                self.record();
                self.send_grant(leaving);
            }
            GrantOnly(leaving) => self.send_grant(leaving),
            Signal { object, signal } => {
                self.record();
                self.send_signal(object, signal)?;
            }
            Served { object, to, known } => self.send_served(object, to, &known),
        }
        Ok(())
    }

    fn record(&mut self) {
        self.take_unrecorded();
        let mut pages = std::mem::take(&mut self.sync.intervals.written);
        let read_home = std::mem::take(&mut self.sync.intervals.read_home);
        let tracked = self.take_untold();
        if pages.is_empty() && read_home.is_empty() && tracked.is_empty() && self.homes.untracked() == 0 {
            return;
        }
        pages.sort_unstable();
        let (rank, history) = (self.cfg.rank, &mut self.sync.intervals.history);
        let written = as_runs(&pages);
        let pages = if read_home.is_empty() { written } else { union([written, read_home].concat()) };
        history.add(Record { rank, number: history.number(rank) + 1, pages, tracked });
        self.stamp_again(None);
    }

    /// Takes note of what others wrote.
    pub(super) fn learn(&mut self, from: Rank, records: Vec<Record>) -> Result<(), Violation> {
        let (size, pages) = (self.cfg.size, self.table.len());
        let sound = |r: &Record| {
            let mut runs = r.pages.iter().chain(&r.tracked);
            r.rank.0 < size && runs.all(|run| run.end() <= pages && run.count > 0)
        };
        if !records.iter().all(sound) {
            return Err(Violation {
                rank: from,
                what: "a record that names ranks or pages that do not exist",
            });
        }
        let history = &mut self.sync.intervals.history;
        for record in records {
            history.has_heard(from, &record);
            if record.rank != self.cfg.rank && record.number > history.number(record.rank) {
                history.news.push(record.clone());
                history.add(record);
            }
        }
        Ok(())
    }

    /// Takes the copies out of view that what was learnt has ended. Then the thread goes on: at once, or when
    /// fetches that are under way have come to nothing. Where races are looked for, the interval ends first:
    /// what was written before is not ordered by what is learnt now.
    pub(super) fn enter(&mut self, object: u32, ticket: u32) {
        if self.cfg.races && !self.sync.intervals.history.news.is_empty() {
            self.close(After::Enter { object, ticket });
        } else {
            self.apply_and_enter(object, ticket);
        }
    }

    fn apply_and_enter(&mut self, object: u32, ticket: u32) {
        self.apply();
        if self.sync.intervals.vain {
            self.sync.intervals.entering.push((object, ticket));
        } else {
            self.entered_object(object, ticket);
        }
    }

    fn apply(&mut self) {
        let news = std::mem::take(&mut self.sync.intervals.history.news);
        let brought = self.sync.intervals.brought.take();
        if news.is_empty() {
            return;
        }
        let named = news.iter().flat_map(|r| &r.pages).flat_map(|run| run.iter());
        let mut stale: Vec<u32> = named.filter(|&page| !self.is_home(page)).collect();
        self.hear_of_tracked(&news);
        let mut leased = Vec::new();
        self.table.take(List::Leased, &mut leased);
        for page in leased {
            let home = self.home(page);
            if self.table.cached(page).is_some_and(|copy| !copy.ends_with_any_record()) {
                continue;
            }
            if home.is_none_or(|home| news.iter().any(|record| record.rank == home)) {
                stale.push(page);
            } else {
                self.table.enlist(page, List::Leased);
            }
        }
        stale.sort_unstable();
        stale.dedup();
        self.end_copies(&stale, brought);
        self.stamp_again(Some(self.sync.intervals.history.known()));
        self.sync.intervals.vain = self.sync.intervals.fetches > 0;
    }

    /// Copies are not good any more. What was written in them goes home.
    pub(super) fn end_copies(&mut self, pages: &[u32], brought: Option<(Rank, Brought)>) {
        let (mut unmap, mut away, mut drop) = (Vec::new(), Vec::new(), Vec::new());
        let mut renewed = Vec::new();
        for &page in pages {
            if let Some(home) = self.renew(page) {
                renewed.push((home, page));
                continue;
            }
            let mut state = self.table.get(page).page();
            let Some(gone) = state.end() else { continue };
            self.table.put(page, state);
            self.table.touch(page);
            if gone.mapped {
                unmap.push(page);
                self.counters.invalidated += 1;
            }
            if gone.twin {
                drop.push(page);
            }
            away.extend(self.home(page).filter(|_| gone.dirty).map(|home| (page, home)));
        }
        // Before the puts: a home answers a get when it has taken what was put there before.
        self.refresh(renewed, brought);
        runs(&unmap, |p| self.out.push_back(Output::Unmap(p)));
        for (page, to) in away {
            self.out.push_back(Output::PutDiff { page, to });
        }
        for page in drop {
            self.out.push_back(Output::DropTwin(page));
        }
        self.release_ended(&unmap);
    }

    /// A copy that is used again and again is brought up to what its home has, where it stands. What was
    /// written here stays. Returns the home, if it is such a copy: a [`refresh`](Self::refresh) is due.
    fn renew(&mut self, page: u32) -> Option<Rank> {
        let mut copy = self.table.cached(page)?;
        let home = copy.home().filter(|_| copy.renew())?;
        self.table.put(page, copy);
        if copy.ends_with_any_record() {
            self.table.enlist(page, List::Leased);
        } else if self.cfg.bring {
            self.sync.intervals.renewed.insert(page);
        }
        self.counters.renewed += 1;
        self.copied(page);
        Some(home)
    }

    /// Whether a fetch may begin. Not while others are waited for that are in vain.
    pub(super) fn may_fetch(&self) -> bool {
        !self.sync.intervals.vain
    }

    /// A fetch begins.
    pub(super) fn fetch_begins(&mut self) {
        self.sync.intervals.fetches += 1;
    }

    /// A fetch is over. Returns whether it was in vain.
    pub(super) fn fetch_ends(&mut self) -> bool {
        let now = &mut self.sync.intervals;
        now.fetches = now.fetches.saturating_sub(1);
        let vain = now.vain;
        if vain && now.fetches == 0 {
            now.vain = false;
            for (object, ticket) in std::mem::take(&mut now.entering) {
                self.entered_object(object, ticket);
            }
        }
        vain
    }

    /// The memory barrier ends: everybody knows everything.
    pub(super) fn end_intervals(&mut self) {
        if !self.keeps_back() {
            return;
        }
        self.table.clear(List::Open);
        self.table.clear(List::Leased);
        self.sync.intervals.history = History::default();
        self.sync.intervals.written.clear();
        self.sync.intervals.read_home.clear();
        self.sync.intervals.renewed.clear();
        self.sync.intervals.brought = None;
        self.sync.own.rested();
    }

    /// Orders that what came early be taken as soon as all is carried out that was ordered before.
    pub(super) fn take_early_later(&mut self) {
        if self.has_early() {
            self.await_puts(Left);
        }
    }

    /// Whether changes that others get must wait until all ranks are in the barrier.
    pub(super) fn keeps_back(&self) -> bool {
        self.sync.objects.any() || self.cfg.cache > 0
    }

    /// What a message of another epoch means for when it is taken.
    pub(super) fn epoch_of(&self, from: Rank, epoch: u32) -> Result<bool, Violation> {
        match epoch.wrapping_sub(self.interval) {
            0 => Ok(true),
            1 if self.in_memory_barrier() => Ok(false),
            _ => Err(Violation { rank: from, what: "a message of an epoch that is over or far away" }),
        }
    }
}

use After::{Barrier, Enter, Grant, GrantOnly, Left, Served, Signal};
