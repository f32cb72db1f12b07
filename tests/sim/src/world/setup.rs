//! What a run is made of, besides its program.

use crate::deaths::Deaths;
use scash_proto::interpreter::MOST_GOT;
use scash_proto::node::Eviction;
use scash_proto::{Sharing, Transfer};

/// What a run is made of, besides its program.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Decides the schedule.
    pub seed: u64,
    /// Number of ranks.
    pub size: u32,
    /// Ranks of a host, which lie side by side: what they send, put and fetch among themselves is not
    /// counted.
    pub ranks_a_host: u32,
    /// Pages of the region.
    pub pages: u32,
    /// A put is in the peer's memory when it was ordered, as it is between ranks of one host.
    pub puts_at_once: bool,
    /// How changed pages reach their sharers.
    pub transfer: Transfer,
    /// See [`scash_proto::Config::fetch_first`].
    pub fetch_first: u32,
    /// See [`scash_proto::Config::fetch_most`].
    pub fetch_most: u32,
    /// How often, in a hundred, a page's changes go by message although the transfer is zero copy.
    pub messaged: u32,
    /// See [`scash_proto::Config::predict`].
    pub predict: bool,
    /// See [`scash_proto::Config::cache`].
    pub cache: u32,
    /// See [`scash_proto::Config::eviction`].
    pub eviction: Eviction,
    /// See [`scash_proto::Config::migrate_after`].
    pub migrate_after: u32,
    /// See [`scash_proto::Config::renewals`].
    pub renewals: u64,
    /// See [`scash_proto::Config::exact_after`].
    pub exact_after: u64,
    /// See [`scash_proto::Config::bring`].
    pub bring: bool,
    /// See [`scash_proto::Config::ahead`].
    pub ahead: u32,
    /// Pages that one get brings at most where copies are brought up to date.
    pub most_got: usize,
    /// See [`scash_proto::Config::watch_from`].
    pub watch_from: u32,
    /// Base of the dissemination of tokens.
    pub base: u32,
    /// See [`scash_proto::Config::races`].
    pub races: bool,
    /// See [`scash_proto::Config::sharing`].
    pub sharing: Sharing,
    /// See [`scash_proto::Config::board`].
    pub board: bool,
    /// The program has data races. (Without this, to find one is a failure.)
    pub racy: bool,
    /// The program destroys objects that threads wait for, or waits for objects that were destroyed. (Without
    /// this, it is a failure that one is told so.)
    pub untimely: bool,
    /// Whether a put waits for a get of the same page by the rank it goes to, as it does with the providers
    /// of `scash-comm`. The protocol can do without.
    pub exclusion: bool,
    /// How often, in a hundred, threads and puts go on in the middle of an order, and then once more.
    pub tears: u32,
    /// How often, in a hundred, what took a step takes the next one too.
    pub burst: u32,
    /// How many, in a hundred, of the threads, drivers and connections are slow.
    pub slow: u32,
    /// How many times slower these are.
    pub slowness: u32,
    /// How many, in ten thousand, of the messages are replaced by lies.
    pub lies: u32,
    /// How ranks die, if they can come back.
    pub deaths: Option<Deaths>,
    /// Whether to tell every step on the standard error.
    pub trace: bool,
}

impl Setup {
    /// A quiet job: zero copy over shared memory.
    pub fn new(size: u32, pages: u32) -> Self {
        Setup {
            seed: 0,
            size,
            ranks_a_host: 1,
            pages,
            puts_at_once: true,
            transfer: Transfer::ZeroCopy,
            messaged: 0,
            fetch_first: 1,
            fetch_most: 64,
            predict: true,
            cache: 0,
            eviction: Eviction::Fifo,
            migrate_after: 0,
            renewals: 0,
            exact_after: 0,
            bring: false,
            ahead: 0,
            most_got: MOST_GOT,
            watch_from: 0,
            base: 2,
            races: false,
            sharing: Sharing::Off,
            board: false,
            racy: false,
            untimely: false,
            exclusion: true,
            tears: 0,
            burst: 0,
            slow: 0,
            slowness: 25,
            lies: 0,
            deaths: None,
            trace: false,
        }
    }
}
