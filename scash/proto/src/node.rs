//! One rank's half of the protocol.
//!
//! The life of a page reads in this order: `fault` (an access needs work), `home` (the directory, and what a home owes its
//! sharers), `barrier` (everyone meets), `adapt` (what is worth keeping up to date), `collective` (allocation, homes that move). Between barriers:
//! `objects` (which there are, and who manages them), `locks` (who has which), `served` and `conditions` (the other objects), `intervals` (what must be known with all these);
//! `atomics` (words that ranks operate on), `reduce` (values of all ranks that become one).

mod adapt;
mod arrivals;
mod atomics;
mod barrier;
mod broadcast;
mod cache;
mod collective;
mod conditions;
mod counters;
mod doings;
mod fault;
mod history;
mod home;
mod intervals;
mod locks;
mod migrate;
mod objects;
mod races;
mod reduce;
mod served;
mod watch;

use crate::copyset::Copyset;
use crate::heap::{Heap, OutOfSpace};
use crate::page::{Access, MAX_RANKS, PageTable, flag};
use crate::wire::reduce::{ReduceMessage, Reduction};
use crate::wire::sync::{Deed, SyncMessage, Wish};
use crate::wire::{Attendance, Control, Token};
use crate::{Pages, Placement, Rank, Strided};
pub use adapt::MOST_RUNS;
use adapt::{Streams, Wheel};
use arrivals::Slot;
use atomics::Operated;
use barrier::Meeting;
use broadcast::Parcels;
use cache::Cache;
pub use cache::Eviction;
use conditions::Wait;
pub use counters::Counters;
use intervals::Intervals;
use locks::Locks;
pub use migrate::MIGRATE_AFTER;
use migrate::Migration;
pub use objects::ObjectKind;
use objects::Objects;
use reduce::Reductions;
use served::Served;
use std::collections::{BTreeMap, VecDeque};
use watch::Watched;

/// How the pages of an allocation are kept coherent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Copies are leases until they prove to be used again; then their home updates them for as long as they are read.
    #[default]
    Adaptive,
    /// The home sends its sharers what changed, at every memory barrier.
    Update,
    /// The home tells its sharers that their copies are stale.
    Invalidate,
}

/// What can be asked of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocOptions {
    /// Where its pages have their homes.
    pub placement: Placement,
    /// How copies are kept coherent.
    pub protocol: Protocol,
    /// Pages that are fetched, and first touched, together. At least 1.
    pub block: u32,
}

impl Default for AllocOptions {
    fn default() -> Self {
        AllocOptions { placement: Placement::FirstTouch, protocol: Protocol::Adaptive, block: 1 }
    }
}

/// How changed pages reach their sharers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transfer {
    /// Written straight into the sharer's frame (the SCASH paper's zero copy).
    #[default]
    ZeroCopy,
    /// Copied into a message, and out of it (the paper's message transfer).
    Message,
}

/// What a node must know of its job.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// This rank.
    pub rank: Rank,
    /// Number of ranks, at most [`MAX_RANKS`].
    pub size: u32,
    /// Pages of the region.
    pub pages: u32,
    /// A put is in the peer's memory when it was ordered: nothing need be said after it.
    pub puts_at_once: bool,
    /// How changed pages reach their sharers.
    pub transfer: Transfer,
    /// Pages of the first fetch of a run that nothing is known of.
    pub fetch_first: u32,
    /// Most pages of one fetch.
    pub fetch_most: u32,
    /// Whether pages that are written in barrier after barrier stay writable.
    pub predict: bool,
    /// Most cached pages; 0: no limit. The same at all ranks.
    pub cache: u32,
    /// Which go first.
    pub eviction: Eviction,
    /// Times (at most 15) that a copy which is used again and again in critical sections is renewed by acquires, and a home page left writable by
    /// releases, until it is looked at whether it still is. 0: never.
    pub renewals: u64,
    /// Memory barriers at which one other rank alone wrote a page, until it becomes that rank's; 0: never.
    pub migrate_after: u32,
    /// Shortest run of home pages whose writes are noticed without faults; 0 where the system cannot.
    pub watch_from: u32,
    /// Whether data races are looked for ([`races`](crate::races)). The same at all ranks.
    pub races: bool,
}

/// A call that all ranks make together. Each includes a memory barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// The memory barrier itself.
    Barrier,
    /// A memory barrier at which the partition that begins at this page passes to its next state.
    Publish(u32),
    /// Allocate this many bytes.
    Alloc(u64, AllocOptions),
    /// Free the allocation that begins at this page.
    Free(u32),
    /// Make this many objects of synchronisation.
    Make(ObjectKind, u32),
    /// Bring these pages, which belong to one allocation, to all ranks.
    Broadcast(Pages),
    /// The last meeting of a job.
    Finalize,
}

/// What can happen to a node.
#[derive(Debug)]
pub enum Input {
    /// A thread of this rank touched a page in a way that its access does not allow.
    Fault {
        /// Which page.
        page: u32,
        /// What the thread wants ([`Access::Read`] or [`Access::Write`]).
        want: Access,
    },
    /// Pages of an [`Output::Get`] are here and mapped.
    Fetched(Strided),
    /// They could not be had.
    FetchFailed(Strided),
    /// All threads of this rank have come to a collective call.
    Arrive(Collective),
    /// A page of an [`Output::Diff`], [`Output::DiffZero`] or [`Output::Push`] was compared.
    Compared {
        /// Which page.
        page: u32,
        /// Whether anything differed.
        changed: bool,
    },
    /// A page of an [`Output::Push`] had changed, in so many pieces that they went to the sharers by message although the transfer is zero copy. (Or
    /// because [`Node::must_message`] said so.)
    Messaged {
        /// Which page.
        page: u32,
    },
    /// Pages of an [`Output::Scan`] that were written since the last one.
    Written(Pages),
    /// The system refused an [`Output::Watch`]; the pages were protected ([`Access::Read`]) instead.
    Unwatchable(Pages),
    /// All orders before [`Output::Flushed`] have been carried out.
    Flushed,
    /// A meeting's token.
    Token(Rank, Token),
    /// A peer's word in a meeting.
    Control(Rank, u32, Control),
    /// A diff for a page whose home is here, in the meeting of the given number. To be applied when this was accepted.
    Diff(Rank, u32, u32),
    /// Changes of a page that is cached here (transfer by message), likewise.
    Update(Rank, u32, u32),
    /// Pages that a peer put here for a broadcast, in the meeting of the given number: all of the range whose home is the second rank.
    Parcel(Rank, u32, Rank),
    /// From the next memory barrier on, the home of these pages is to be that rank.
    SetHome(Pages, Rank),
    /// From now on the pages of the allocation that holds this page are kept coherent so.
    SetProtocol(u32, Protocol),
    /// This rank's changes of these pages are to be at their homes now. The program must not write the bytes again that it has written back
    /// before the next memory barrier: the home may bring them to sharers, this rank among them, on its own way into the barrier.
    WriteBack(Pages),
    /// Cached copies of these pages are to be as their homes have them now, but for what was written here.
    ReadHome(Pages),
    /// A page of an [`Output::PutDiff`] was compared.
    PutBack {
        /// Which page.
        page: u32,
        /// Whether anything differed.
        changed: bool,
    },
    /// All puts before [`Output::Closed`] are in the frames that they were for.
    Closed,
    /// A thread of this rank wants a lock, which exists. While it waits, the rank does not come to a collective call.
    Acquire {
        /// The lock's number.
        lock: u32,
        /// Stands for the thread.
        who: u64,
    },
    /// A thread of this rank wants a lock, which exists, if it is free: [`Output::Acquired`] or [`Output::Refused`] follows.
    TryAcquire {
        /// The lock's number.
        lock: u32,
        /// Stands for the thread.
        who: u64,
    },
    /// The thread that has a lock gives it back.
    Release(u32),
    /// A thread of this rank waits for something. The object exists and can grant it. While it waits, the rank does not come to a collective call.
    Wish {
        /// The object's number.
        object: u32,
        /// Stands for the thread.
        who: u64,
        /// What for.
        wish: Wish,
    },
    /// A thread of this rank lets others go on. It may do so to this object.
    Deed {
        /// The object's number.
        object: u32,
        /// Stands for the thread.
        who: u64,
        /// How.
        deed: Deed,
    },
    /// A thread of this rank, which has a lock, gives it back, waits for a condition, and takes the lock again.
    Wait {
        /// The condition's number.
        condition: u32,
        /// The lock's number.
        lock: u32,
        /// Stands for the thread.
        who: u64,
    },
    /// A peer's word about an object of synchronisation.
    Sync(Rank, SyncMessage),
    /// This rank comes to a reduction with these values; [`Node::take_reduced`] has the result when all have come. Not while it is in another, or in a collective call.
    Reduce(Reduction, Vec<u64>),
    /// A peer's message of a reduction.
    Reducing(Rank, ReduceMessage),
    /// A thread of this rank wants to execute an atomic operation on a word of a page: [`Output::Operate`] follows, or an [`Output::Claim`], after whose
    /// answer the thread asks again. Between two memory barriers a word is either operated on, or read and written as plain memory.
    Operate {
        /// Which page.
        page: u32,
        /// Whether the operation may change the word.
        changes: bool,
    },
    /// An [`Output::Operate`] has marked the page.
    Marked(u32),
    /// A page of an [`Output::Push`] is marked in this interval: nothing was brought to anybody. To be answered only while [`Node::pushes_early`] says so.
    IsMarked {
        /// Which page.
        page: u32,
    },
    /// The answer to [`Output::Claim`]: whose the page is.
    Claimed {
        /// The page of the order.
        page: u32,
        /// Its home, if it has one now.
        home: Option<Rank>,
    },
    /// A message of an [`Output::Testify`] was sent to that rank.
    Testified(Rank),
    /// A peer has testified, in the meeting of the given number. To be heard when this was accepted.
    Testimony(Rank, u32),
}

/// What a node orders. Orders are to be carried out one after the other.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// Give frames, zeroed if new, and access. Only the last page of a run may be the one that faulted.
    MapZero(Pages, Access),
    /// Fetch pages from their home and map them for reading; then [`Input::Fetched`].
    Get {
        /// The home.
        from: Rank,
        /// Which pages, the one that faulted in the first run; at most [`MOST_RUNS`] runs.
        pages: Strided,
    },
    /// Give access to pages whose frames hold what they should.
    Map(Pages, Access),
    /// Change the access of mapped pages.
    Protect(Pages, Access),
    /// Take all access; the frames stay.
    Unmap(Pages),
    /// Take all access, and the frames.
    Discard(Pages),
    /// From now on remember which of these pages, which are writable, are written.
    Watch(Pages),
    /// Tell which of these pages, as far as they are watched, were written since the last time: [`Input::Written`], any number of times.
    Scan(Pages),
    /// Watch these pages no longer; they stay writable.
    Unwatch(Pages),
    /// Copy the page to a twin: to the one that it has, if it has one.
    Twin(u32),
    /// Forget the twin.
    DropTwin(u32),
    /// Another thread is fetching the page: wait until it has.
    Wait(u32),
    /// The page belongs to no allocation: a fault of the program.
    Denied(u32),
    /// Compare the page with its twin and send the home what differs; then [`Input::Compared`].
    Diff {
        /// Which page.
        page: u32,
        /// Its home.
        to: Rank,
        /// Send it even if nothing differs.
        force: bool,
    },
    /// As `Diff`, for a page that was all zeros before this interval and has no twin.
    DiffZero {
        /// Which page.
        page: u32,
        /// Its home.
        to: Rank,
    },
    /// Compare the page with its twin, bring what differs to all sharers ([`Node::update_sharers`]) and to the twin; then [`Input::Compared`].
    Push(u32),
    /// Bring the whole page to all sharers but one.
    PushWhole {
        /// Which page.
        page: u32,
        /// The sharer that has it already.
        except: Option<Rank>,
    },
    /// Bring the whole page to its new home.
    Hand {
        /// Which page.
        page: u32,
        /// The new home.
        to: Rank,
    },
    /// Compare the page with its twin and put what differs into the home's frame and into the twin; then [`Input::PutBack`].
    PutDiff {
        /// Which page.
        page: u32,
        /// Its home.
        to: Rank,
    },
    /// Get the page from its home; where page and twin agree, take the home's bytes into both.
    Refresh {
        /// Which page.
        page: u32,
        /// Its home.
        from: Rank,
    },
    /// Put whole pages into a peer's frames.
    PutPages {
        /// Which pages.
        pages: Pages,
        /// The peer.
        to: Rank,
    },
    /// Tell a peer that all pages of a broadcast whose home is `home` have been put.
    Parcel {
        /// The peer.
        to: Rank,
        /// Number of the meeting.
        meeting: u32,
        /// The pages' home.
        home: Rank,
    },
    /// Send a message.
    Control(Rank, u32, Control),
    /// Send a token.
    Token(Rank, Token),
    /// Answer with [`Input::Flushed`].
    Flushed,
    /// Send the home a diff with nothing in it: what was written is there, by [`Output::PutDiff`].
    Report {
        /// Which page.
        page: u32,
        /// Its home.
        to: Rank,
    },
    /// Answer with [`Input::Closed`] as soon as all puts are in place that were ordered before.
    Closed,
    /// A thread has what it waited for.
    Acquired {
        /// Which object. For a condition: the lock.
        object: u32,
        /// Which thread.
        who: u64,
    },
    /// A thread tried to get a lock that was not free.
    Refused {
        /// Which lock.
        object: u32,
        /// Which thread.
        who: u64,
    },
    /// Send a message about an object of synchronisation.
    Sync(Rank, SyncMessage),
    /// Send a message of a reduction.
    Reduce(Rank, ReduceMessage),
    /// Ask rank `at` whose the pages are whose claim has number `key` there; and, if they are nobody's, take them if `take`: [`Input::Claimed`].
    Claim {
        /// The page that faulted.
        page: u32,
        /// The first page of its block: the number of the claim.
        key: u32,
        /// Who keeps the claim.
        at: Rank,
        /// Whether this rank wants to be the home.
        take: bool,
    },
    /// Execute the atomic operation on the word in the frame of rank `at`: after the page has been marked there with the number of this interval, if `mark`; then
    /// [`Input::Marked`].
    Operate {
        /// The page of the [`Input::Operate`].
        page: u32,
        /// Whose frame.
        at: Rank,
        /// Whether the page is not marked yet.
        mark: bool,
    },
    /// Forget the claims of these pages that are kept here: the pages are free.
    ForgetClaims(Pages),
    /// Send what was written here to those who judge ([`Races::testify`](crate::races::Races::testify)); [`Input::Testified`] for each message.
    Testify,
    /// Find the data races of the epoch that ends ([`Races::judge`](crate::races::Races::judge)).
    Judge,
    /// The collective call is over.
    Done(Outcome),
}

impl Output {
    /// Whether it sends something that leaves with the transport's next flush.
    pub fn is_message(&self) -> bool {
        matches!(
            self,
            Output::Control(..)
                | Output::Token(..)
                | Output::Sync(..)
                | Output::Reduce(..)
                | Output::Parcel { .. }
        )
    }
}

/// How a collective call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As asked.
    Done,
    /// Memory was allocated.
    Allocated(Pages),
    /// Objects of synchronisation were made; this is the number of the first.
    Made(u32),
    /// The result of a reduction.
    Reduced(Vec<u64>),
    /// There are no numbers for that many.
    TooManyObjects,
    /// There was no room for it, at any rank.
    OutOfSpace(OutOfSpace),
    /// Ranks came for different things. Nothing was done, and nothing can be done any more.
    Mismatch([Attendance; 2]),
}

/// What a peer did that no correct peer does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Who.
    pub rank: Rank,
    /// What.
    pub what: &'static str,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} broke the protocol: {}", self.rank, self.what)
    }
}

impl std::error::Error for Violation {}

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
            slots: [Slot::new(cfg.size), Slot::new(cfg.size)],
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
        self.table.get(page).has(flag::FETCHING)
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
