//! One rank's half of the protocol.
//!
//! The life of a page reads in this order: `fault` (an access needs work), `home` (the directory, and what a home owes its
//! sharers), `barrier` (everyone meets), `adapt` (what is worth keeping up to date), `collective` (allocation, homes that move). Between barriers:
//! `objects` (which there are, and who manages them), `locks` (who has which), `served` and `conditions` (the other objects), `destroy` (their end), `intervals` (what must be known with all these);
//! `atomics` (words that ranks operate on), `reduce` (values of all ranks that become one).

mod adapt;
mod arrivals;
mod atomics;
mod barrier;
mod broadcast;
mod cache;
mod check;
mod collective;
mod conditions;
mod config;
mod counters;
mod destroy;
mod dissemination;
mod doings;
mod fault;
mod history;
mod home;
mod intervals;
mod locks;
mod migrate;
mod objects;
mod orders;
mod races;
mod reduce;
mod served;
mod watch;

use crate::copyset::Copyset;
use crate::heap::Heap;
use crate::page::{Access, MAX_RANKS, PageTable};
use crate::wire::Control;
use crate::{Pages, Rank};
pub use adapt::MOST_RUNS;
use adapt::{Streams, Wheel};
use arrivals::Slot;
use atomics::Operated;
use barrier::Meeting;
use broadcast::Parcels;
use cache::Cache;
pub use cache::Eviction;
pub use check::Broken;
use conditions::Wait;
pub use config::{AllocOptions, Config, Protocol, Transfer};
pub use counters::Counters;
use dissemination::Dissemination;
use intervals::Intervals;
use locks::Locks;
pub use migrate::MIGRATE_AFTER;
use migrate::Migration;
pub use objects::ObjectKind;
use objects::Objects;
pub use orders::{Collective, InUse, Input, Outcome, Output, Violation};
use reduce::Reductions;
use served::Served;
use std::collections::{BTreeMap, VecDeque};
use watch::Watched;

/// Which of its meetings a barrier is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Everybody comes, and what was written goes home.
    Flush,
    /// Homes have passed on what others wrote.
    PassOn,
    /// Homes that are new have their pages.
    Settle,
    /// Everybody has what was broadcast.
    Close,
}

/// Where a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The application runs.
    Running,
    /// This rank has said that none of its threads uses the objects that are to be destroyed. It waits for the word of all others, and none may begin to.
    Announcing,
    /// Orders that come before one of the barrier's meetings are being carried out.
    Flushing(Part),
    /// Waiting for tokens and items.
    Meeting(Part),
    /// Ranks disagreed on a collective call.
    Failed,
}

/// One rank's half of the protocol. See the [crate's documentation](crate).
#[derive(Debug)]
pub struct Node {
    cfg: Config,
    table: PageTable,
    heap: Heap<AllocOptions>,
    out: VecDeque<Output>,
    phase: Phase,
    /// Memory barriers passed.
    interval: u32,
    /// Number of the meeting that this rank is in, or will be in next.
    meeting: u32,
    /// What has arrived for this meeting and the next one, by parity.
    /// Who sends tokens to whom.
    way: Dissemination,
    slots: [Slot; 2],
    now: Meeting,
    collective: Collective,
    /// In this barrier pages come to new homes, so that it takes a third meeting.
    settling: bool,
    /// Home: who has copies. Only pages with sharers have entries.
    directory: BTreeMap<u32, Copyset>,
    /// Home: tracked pages that stay writable. In a barrier, also some that do so no longer.
    predicted: Vec<u32>,
    /// Home: pages mapped writable here that are not tracked.
    untracked: u64,
    watched: Vec<Watched>,
    streams: Streams,
    /// Runs of pages that are made writable one after the other, with their twins.
    writes: Streams,
    wheel: Wheel,
    parcels: Parcels,
    cache: Cache,
    objects: Objects,
    locks: Locks,
    served: Served,
    /// Threads of this rank that wait for conditions.
    waits: Vec<Wait>,
    intervals: Intervals,
    /// Home: pages that are to be brought to sharers when everybody is in the barrier.
    kept_back: Vec<u32>,
    operated: Operated,
    reductions: Reductions,
    /// Home: pages with one of the flags `MESSAGED` and `MESSAGED_BEFORE`.
    messaged: Vec<u32>,
    /// Pages that this rank asked to be moved, with their new homes.
    moves: BTreeMap<u32, (Rank, bool)>,
    migration: Migration,
    /// Pages that this rank first touched but another rank did, too, and before it in rank order.
    lost: Vec<u32>,
    /// What peers said in the meetings of this barrier, for its end.
    kept: Vec<(Rank, Control)>,
    scratch: Vec<u32>,
    counters: Counters,
    epoch_of_races: races::Epoch,
}

/// Pages at most that one write fault makes writable.
const MOST_AHEAD: u32 = 32;

impl Node {
    /// A node at the beginning of a job.
    ///
    /// # Panics
    /// If the configuration names a rank that does not exist, or more ranks than [`MAX_RANKS`].
    pub fn new(cfg: Config) -> Node {
        assert!(cfg.rank.0 < cfg.size && cfg.size <= MAX_RANKS, "{} of {} ranks", cfg.rank, cfg.size);
        assert!(cfg.fetch_first >= 1 && cfg.fetch_most >= cfg.fetch_first, "a fetch has at least one page");
        let way = Dissemination::new(cfg.size, cfg.base);
        let widest = if cfg.cache > 0 { (cfg.cache / 4).max(1) } else { u32::MAX };
        Node {
            table: PageTable::new(cfg.pages),
            heap: Heap::new(cfg.pages),
            // A fault orders a few things beside the twins of a run at most: no allocation then.
            out: VecDeque::with_capacity(
                if cfg.cache > 0 { 8 * cfg.fetch_most as usize } else { 0 } + 2 * MOST_AHEAD as usize,
            ),
            phase: Phase::Running,
            interval: 0,
            meeting: 0,
            way,
            slots: [Slot::new(way), Slot::new(way)],
            now: Meeting::default(),
            collective: Collective::Barrier,
            settling: false,
            directory: BTreeMap::new(),
            predicted: Vec::new(),
            untracked: 0,
            watched: Vec::new(),
            streams: Streams::new(cfg.fetch_first.min(widest), cfg.fetch_most.min(widest)),
            writes: Streams::new(1, cfg.fetch_most.min(MOST_AHEAD)),
            wheel: Wheel::default(),
            parcels: Parcels::default(),
            cache: Cache::new(cfg.cache, cfg.pages, cfg.eviction),
            objects: Objects::default(),
            locks: Locks::default(),
            served: Served::default(),
            waits: Vec::new(),
            intervals: Intervals::default(),
            kept_back: Vec::new(),
            operated: Operated::default(),
            reductions: Reductions::default(),
            messaged: Vec::new(),
            moves: BTreeMap::new(),
            migration: Migration::new(cfg.migrate_after, cfg.pages),
            lost: Vec::new(),
            kept: Vec::new(),
            scratch: Vec::new(),
            counters: Counters::default(),
            epoch_of_races: races::Epoch::new(),
            cfg,
        }
    }

    /// Takes note of what happened. Errors are a peer's; the node is as it was before.
    pub fn handle(&mut self, input: Input) -> Result<(), Violation> {
        match input {
            Input::Fault { page, want } => self.fault(page, want),
            Input::Fetched(pages) => self.fetched(pages),
            Input::FetchFailed(pages) => self.fetch_failed(pages),
            Input::Arrive(collective) => self.arrive(collective),
            Input::Compared { page, changed } => self.compared(page, changed, self.cfg.transfer),
            Input::Messaged { page } => self.compared(page, true, Transfer::Message),
            Input::Written(pages) => self.written(pages),
            Input::Unwatchable(pages) => self.unwatchable(pages),
            Input::Flushed => self.flushed()?,
            Input::Token(from, token) => self.token(from, token)?,
            Input::Control(from, meeting, control) => self.control(from, meeting, control)?,
            Input::Diff(from, meeting, page) => self.diff(from, meeting, page)?,
            Input::Update(from, meeting, page) => self.update(from, meeting, page)?,
            Input::Parcel(from, meeting, home) => self.parcel(from, meeting, home)?,
            Input::SetHome(pages, home) => self.set_home(pages, home),
            Input::SetProtocol(page, protocol) => self.set_protocol(page, protocol),
            Input::WriteBack(pages) => self.write_back(pages),
            Input::ReadHome(pages) => self.read_home(pages),
            Input::PutBack { page, changed } => self.put_back(page, changed),
            Input::Closed => self.closed()?,
            Input::Acquire { lock, who } => self.acquire(lock, who, true)?,
            Input::TryAcquire { lock, who } => self.acquire(lock, who, false)?,
            Input::Release(lock) => self.release(lock),
            Input::Wish { object, who, wish } => self.wish(object, who, wish)?,
            Input::Deed { object, who, deed } => self.deed(object, who, deed)?,
            Input::Wait { condition, lock, who } => self.wait(condition, lock, who)?,
            Input::Sync(from, message) => self.sync(from, message)?,
            Input::Claimed { page, home } => self.claimed(page, home),
            Input::Reduce(what, values) => self.reduce(what, values),
            Input::Reducing(from, message) => self.reduce_message(from, message)?,
            Input::Operate { page, changes } => self.operate(page, changes),
            Input::Marked(page) => self.operated.marked(page),
            Input::IsMarked { page } => self.keep_back(page),
            Input::Testified(to) => self.testified(to),
            Input::Testimony(from, meeting) => self.testimony(from, meeting)?,
        }
        Ok(())
    }

    /// The next order, if there is one.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// What the application may do with a page now.
    pub fn access(&self, page: u32) -> Access {
        if page < self.table.len() { self.table.get(page).access() } else { Access::None }
    }

    /// The home of a page, if it is decided.
    pub fn home(&self, page: u32) -> Option<Rank> {
        if page >= self.table.len() {
            return None;
        }
        self.table.get(page).home().or_else(|| self.placed_home(page))
    }

    /// The allocation that a page belongs to.
    pub fn allocation(&self, page: u32) -> Option<&crate::heap::Allocation<AllocOptions>> {
        self.heap.find(page)
    }

    /// Number of the meeting that this rank is in or will be in next: what its messages carry.
    pub fn meeting(&self) -> u32 {
        self.meeting
    }

    /// True from the end of a barrier's first meeting on, if there is a second one.
    pub fn in_second_meeting(&self) -> bool {
        matches!(self.phase, Phase::Flushing(part) | Phase::Meeting(part) if part != Part::Flush)
    }

    /// Memory barriers passed.
    pub fn epoch(&self) -> u32 {
        self.interval
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// True while a thread of this rank is fetching the page.
    pub fn is_fetching(&self, page: u32) -> bool {
        self.table.get(page).is_fetching()
    }

    /// Pages of this home that somebody has subscribed to.
    pub fn directory_entries(&self) -> usize {
        self.directory.len()
    }

    /// Bytes of the directory: page numbers and copysets, without the links of the tree that holds them.
    pub fn directory_bytes(&self) -> usize {
        self.directory.values().map(|set| size_of::<u32>() + set.bytes()).sum()
    }

    /// What this node believes of a page, for people who look for a fault.
    pub fn describe(&self, page: u32) -> String {
        if page >= self.table.len() {
            return "outside of the region".to_owned();
        }
        let sharers = self.directory.get(&page);
        format!("home {:?}, {:?}, sharers {sharers:?}", self.home(page), self.table.get(page))
    }

    fn placed_home(&self, page: u32) -> Option<Rank> {
        let a = self.heap.find(page)?;
        a.options.placement.home_of(page - a.first, a.pages, self.cfg.size).map(Rank)
    }

    fn is_home(&self, page: u32) -> bool {
        self.home(page) == Some(self.cfg.rank)
    }
}

/// Hands runs of consecutive pages to `emit`. `pages` is sorted and may hold duplicates.
fn runs(pages: &[u32], mut emit: impl FnMut(Pages)) {
    let mut run: Option<Pages> = None;
    for &page in pages {
        match &mut run {
            Some(r) if page < r.end() => {}
            Some(r) if page == r.end() => r.count += 1,
            _ => {
                if let Some(done) = run.replace(Pages::one(page)) {
                    emit(done);
                }
            }
        }
    }
    if let Some(done) = run {
        emit(done);
    }
}

#[cfg(test)]
mod tests;
