//! What a node must know of its job, and what can be asked of an allocation.

use crate::{Placement, Rank};

/// How cached pages are chosen that have to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// Pages that were only read go first, then those that were written; in each class in the order in which
    /// they came.
    #[default]
    Fifo,
    /// SIEVE (Zhang et al., NSDI 2024): a hand goes from the oldest to the newest; pages that were used since
    /// it last passed stay. Whether a page is used shows when it is taken out of the view for a while.
    Sieve,
}

/// How the pages of an allocation are kept coherent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Copies are leases until they prove to be used again; then their home updates them for as long as they
    /// are read.
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

/// Which memory ranks have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// None: each rank has a frame of its own for each page that it uses, and the protocol brings bytes from
    /// one to the other.
    #[default]
    Off,
    /// The frames: a page has one, which all ranks of the job map. What a rank stores is there for all.
    Frames,
}

/// What a node must know of its job.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// This rank.
    pub rank: Rank,
    /// Number of ranks, at most [`MAX_RANKS`](crate::MAX_RANKS).
    pub size: u32,
    /// Base in which tokens are disseminated, from 2 to 16. In base 2 a rank sends the fewest; in that of the
    /// number of ranks it waits only once. The same at all ranks.
    pub base: u32,
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
    /// Times (at most 15) that a copy which is used again and again in critical sections is renewed by
    /// acquires, and a home page left writable by releases, until it is looked at whether it still is. 0:
    /// never.
    pub renewals: u64,
    /// Times (at most 7) that a lease is renewed over a network in vain until its home is asked to track the
    /// page, so that it ends only when its home has written the page; 0: never.
    pub exact_after: u64,
    /// Whether copies of the next holder of a lock come with it, where their home hands it on: so they do
    /// over a network, where a renewal is a round trip.
    pub bring: bool,
    /// How far ahead of a thread that takes locks in steps its rank asks for the next ones, in locks, at
    /// most; 0: never.
    pub ahead: u32,
    /// Memory barriers at which one other rank alone wrote a page, until it becomes that rank's; 0: never.
    pub migrate_after: u32,
    /// Shortest run of home pages whose writes are noticed without faults; 0 where the system cannot.
    pub watch_from: u32,
    /// Whether data races are looked for ([`races`](crate::races)). The same at all ranks.
    pub races: bool,
    /// Objects of synchronisation that the job can have in all. The same at all ranks.
    pub most_objects: u32,
    /// Which memory ranks have in common. The same at all ranks; none while races are looked for, which only
    /// show where each rank has frames of its own.
    pub sharing: Sharing,
    /// Whether all ranks have words that all of them see, by which they meet where none has anything to say
    /// ([`Output::Come`](super::Output::Come)). The same at all ranks.
    pub board: bool,
    /// On how many hosts beside its own there is a copy of what a rank saves at a checkpoint, or 1 in a job
    /// of one host. 0: ranks that die do not come back, and there are no checkpoints. The same at all ranks.
    pub replicas: u32,
}

impl Config {
    /// For a rank of a job over memory that ranks reach directly, which learns nothing and limits nothing:
    /// what simulations and tests begin with.
    pub fn plain(rank: Rank, size: u32, pages: u32) -> Config {
        Config {
            rank,
            size,
            base: 2,
            pages,
            puts_at_once: true,
            transfer: Transfer::ZeroCopy,
            fetch_first: 1,
            fetch_most: 1,
            predict: true,
            cache: 0,
            eviction: Eviction::Fifo,
            renewals: 0,
            exact_after: 0,
            bring: false,
            ahead: 0,
            migrate_after: 0,
            watch_from: 0,
            races: false,
            most_objects: u32::MAX,
            sharing: Sharing::Off,
            board: false,
            replicas: 0,
        }
    }
}
