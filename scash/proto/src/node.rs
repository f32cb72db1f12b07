//! One rank's half of the protocol.
//!
//! The life of a page reads in this order: `fault` (an access needs work), `home` (the directory, and what a
//! home owes its sharers), `barrier` (everyone meets), `agreement` (without a message, where nobody has
//! anything to say), `adapt` (what is worth keeping up to date), `collective` (allocation, homes that move),
//! `shared_frames` (what is left of all this where ranks share frames). Between barriers: `objects` (which
//! there are, and who manages them), `locks` (who has which), `ahead` (which are asked for before a thread
//! wants them), `served` and `conditions` (the other objects), `destroy` (their end), `own` (those that one
//! rank makes and destroys by itself), `intervals` (what must be known with all these), `exact` (what they
//! need not end); `atomics` (words that ranks operate on), `reduce` (values of all ranks that become one). At
//! the end of some memory barriers: `checkpoint` (what ranks save, and how they come back).

mod activities;
mod adapt;
mod agreement;
mod ahead;
mod arrivals;
mod atomics;
mod barrier;
mod broadcast;
mod brought;
mod cache;
mod check;
mod checkpoint;
mod collective;
mod conditions;
mod config;
mod counters;
mod destroy;
mod dissemination;
mod exact;
mod fault;
mod first_touch;
mod history;
mod home;
mod intervals;
mod locks;
mod maps;
mod migrate;
mod objects;
mod orders;
mod own;
mod races;
mod readers;
mod reduce;
mod served;
mod shared_frames;
mod streams;
mod synchronisation;
mod watch;
mod write_runs;

use crate::heap::Heap;
use crate::page::{Access, MAX_RANKS, PageTable};
use crate::{Pages, Rank};
use adapt::Learning;
use barrier::Meetings;
use cache::Cache;
pub use check::Broken;
use checkpoint::Checkpoint;
pub use config::{AllocOptions, Config, Eviction, Protocol, Sharing, Transfer};
pub use counters::Counters;
use dissemination::Dissemination;
use home::Homes;
pub use migrate::MIGRATE_AFTER;
pub use orders::{Collective, InUse, Input, ObjectKind, Outcome, Output, Violation};
pub use own::{LEAST_OWN, OWN_PLACES, OwnNumber};
use std::collections::VecDeque;
pub use streams::MOST_RUNS;
use synchronisation::Synchronisation;

/// Which of its meetings a barrier is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MeetingStage {
    /// Everybody comes, and what was written goes home.
    Flush,
    /// Homes have passed on what others wrote.
    PassOn,
    /// Homes that are new have their pages.
    Settle,
    /// Everybody has what was broadcast.
    Close,
    /// Everybody has staged, or has left out, the checkpoint that the barrier is.
    Commit,
}

/// Where a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The application runs.
    Running,
    /// This rank has said that none of its threads uses the objects that are to be destroyed. It waits for
    /// the word of all others, and none may begin to.
    Announcing,
    /// Orders that come before one of the barrier's meetings are being carried out.
    Flushing(MeetingStage),
    /// Waiting for tokens and items.
    Meeting(MeetingStage),
    /// The barrier has ended, and is a checkpoint, which this rank is staging. The next meeting follows.
    Staging,
    /// Ranks disagreed on a collective call.
    Failed,
}

/// One rank's half of the protocol. See the [crate's documentation](crate).
///
/// Each part is a value of its own, named by the module that owns it; other modules ask for what they need.
#[derive(Clone, Debug)]
pub struct Node {
    cfg: Config,
    /// Memory barriers passed.
    interval: u32,
    /// What the application has allocated.
    heap: Heap<AllocOptions>,
    /// What this rank is to each page (`page`).
    table: PageTable,
    /// What this rank knows as the home of pages (`home`).
    homes: Homes,
    /// The collective call that this rank is in, and its meetings with all others (`barrier`).
    meetings: Meetings,
    /// The checkpoint that is due, or under way (`checkpoint`).
    checkpoint: Checkpoint,
    /// What orders memory between barriers: objects of synchronisation, intervals, operations, reductions
    /// (`synchronisation`).
    sync: Synchronisation,
    /// What faults and writers have taught this rank (`adapt`, `watch`, `migrate`).
    learning: Learning,
    /// The limit on cached pages (`cache`).
    cache: Cache,
    /// What the search for data races must know (`races`).
    epoch_of_races: races::RaceEpoch,
    /// What is ordered and not yet carried out.
    out: VecDeque<Output>,
    counters: Counters,
    /// Room for a list of pages.
    scratch: Vec<u32>,
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
        assert!(!cfg.races || cfg.sharing == Sharing::Off, "races show in frames that are not shared");
        Node {
            interval: 0,
            heap: Heap::new(cfg.pages),
            table: PageTable::new(cfg.pages),
            homes: Homes::default(),
            meetings: Meetings::new(Dissemination::new(cfg.size, cfg.base)),
            checkpoint: Checkpoint::default(),
            sync: Synchronisation::default(),
            learning: Learning::new(&cfg),
            cache: Cache::new(cfg.cache, cfg.pages, cfg.eviction),
            epoch_of_races: races::RaceEpoch::new(),
            // A fault orders a few things beside the twins of a run at most: no allocation then.
            out: VecDeque::with_capacity(
                if cfg.cache > 0 { 8 * cfg.fetch_most as usize } else { 0 } + 2 * MOST_AHEAD as usize,
            ),
            counters: Counters::default(),
            scratch: Vec::new(),
            cfg,
        }
    }

    /// Takes note of what happened. Errors are a peer's; the node is as it was before.
    pub fn handle(&mut self, input: Input) -> Result<(), Violation> {
        match input {
            Input::Fault { page, want } => self.fault(page, want),
            Input::Fetched(pages) => self.fetched(pages),
            Input::FetchFailed(pages) => self.fetch_failed(pages),
            Input::CheckpointDue => self.checkpoint_due(),
            Input::Staged => self.answer_stage(true)?,
            Input::NotStaged => self.answer_stage(false)?,
            Input::Arrive(collective) => self.arrive(collective),
            Input::Uses(used) => self.sync.used = used,
            Input::Compared { page, changed } => self.compared(page, changed, self.cfg.transfer),
            Input::Messaged { page } => self.compared(page, true, Transfer::Message),
            Input::Written(pages) => self.written(pages),
            Input::Unwatchable(pages) => self.unwatchable(pages),
            Input::Flushed => self.flushed()?,
            Input::Agreed(all) => self.agreed(all)?,
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
            Input::Refreshed { in_vain, changed, from } => self.refreshed(&in_vain, &changed, from),
            Input::Closed { behind } => self.closed(behind)?,
            Input::Acquire { lock, who } => self.acquire(lock, who, true)?,
            Input::TryAcquire { lock, who } => self.acquire(lock, who, false)?,
            Input::Release(lock) => self.release(lock),
            Input::Request { object, who, request } => self.request(object, who, request)?,
            Input::Signal { object, who, signal } => self.signal(object, who, signal)?,
            Input::Wait { condition, lock, who } => self.wait(condition, lock, who)?,
            Input::Unmake { object, who } => self.unmake(object, who)?,
            Input::Sync(from, message) => self.sync(from, message)?,
            Input::Claimed { page, home } => self.claimed(page, home),
            Input::IsZero { page, zero } => self.doubt_ends(page, !zero),
            Input::Reduce(what, values) => self.reduce(what, values),
            Input::Reducing(from, message) => self.reduce_message(from, message)?,
            Input::Operate { page, changes } => self.operate(page, changes),
            Input::Marked(page) => self.sync.operated.marked(page),
            Input::IsMarked { page } => self.keep_back(page),
            Input::WritesSent(to) => self.writes_sent(to),
            Input::WriteTraces(from, meeting) => self.write_traces(from, meeting)?,
        }
        Ok(())
    }

    /// The next order, if there is one.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// Whether there is one.
    pub fn has_orders(&self) -> bool {
        !self.out.is_empty()
    }

    /// What the application may do with a page now.
    pub fn access(&self, page: u32) -> Access {
        if self.shares_frames() {
            return self.access_to_shared(page);
        }
        if page < self.table.len() { self.table.get(page).access() } else { Access::None }
    }

    /// The home of a page, if it is decided. Where ranks share frames, an allocated page is at home at each.
    pub fn home(&self, page: u32) -> Option<Rank> {
        if self.shares_frames() {
            return self.heap.find(page).map(|_| self.cfg.rank);
        }
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
        self.meetings.meeting
    }

    /// True from the end of a barrier's first meeting on, if there is a second one.
    pub fn in_second_meeting(&self) -> bool {
        matches!(self.meetings.phase, Phase::Flushing(part) | Phase::Meeting(part) if part != MeetingStage::Flush)
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
        self.homes.entries()
    }

    /// Bytes of the directory: page numbers and copysets, without the links of the tree that holds them.
    pub fn directory_bytes(&self) -> usize {
        self.homes.bytes()
    }

    /// What this node believes of a page, for people who look for a fault.
    pub fn describe(&self, page: u32) -> String {
        if page >= self.table.len() {
            return "outside of the region".to_owned();
        }
        let sharers = self.homes.sharers(page);
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
