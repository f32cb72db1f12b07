//! The provider for ranks of one host: shared memory, without system calls while nobody sleeps (but for
//! `read_peer_once`).
//!
//! Every rank makes an inbox in a memfd and maps everybody's. A **message** is written into the ring that its
//! sender has in the receiver's inbox. **Put** and **get** are copies to and from the peer's registered
//! memory, which is mapped here as well; a pair's puts and gets are kept apart by a window. An **atomic
//! operation** is the processor's own, on that mapping, without a system call. A rank with nothing to do
//! spins, then sleeps, and its bell says so. What is known of the peers decides whether a call fails with
//! [`Error::Down`](crate::Error::Down).
//!
//! | module | what it is |
//! |---|---|
//! | `inbox` | the memory of a rank that others write into, and where things are in it |
//! | `ring`, `outbox`, `intake` | frames; messages into rings and their backlog; messages out of rings |
//! | `segments`, `one_sided`, `masked`, `copy` | registered memory; put, get, atomic operations and direct reads |
//! | `window` | the word by which puts and gets of a pair exclude each other |
//! | `bell`, `futex`, `wait_rule`, `waiting` | who sleeps and who wakes; when to spin, yield, sleep |
//! | `gate`, `parking` | words at which threads of several processes wait, for who shares more than messages |
//! | `board`, `expected` | words by which ranks meet without messages; what this rank waits for among them |
//! | `companion` | the same for threads that sleep in another provider, which an eventfd wakes |
//! | `peers` | who is alive, and who says so |
//! | `hello`, `endpoint` | how ranks come together and part |
//!
//! # Who may join
//! Nobody can connect: there is no socket with a name or address here, and no file with a name. What ranks
//! share are descriptors of memfds, which go from rank to rank through the lines that they have inherited
//! from the launcher (`scash_join::boot`). So there is nothing to challenge, and no peer whose credentials
//! would tell more than that the launcher has started it.
//!
//! # Invariants
//! - Nothing that a peer writes is believed: positions, lengths and kinds are copied once and checked. A peer
//!   that breaks the rules is treated as gone ([`Error::Protocol`](crate::Error::Protocol) once, then
//!   [`Event::Down`](crate::Event::Down)).
//! - No call waits for a peer, except a put for the end of the peer's present gets from this rank.
//! - Locks are internal, held for the length of a copy into a ring, and taken in the order intake, outbox.
//!   Nothing under a lock calls the caller, except `poll`, whose sink may call everything (a `poll` inside it
//!   gives 0).
//! - Memory is allocated for messages that do not fit their ring, and for received messages of several
//!   frames. Never otherwise.
//! - Every call may be made in a handler of a synchronous fault, unless the fault was in memory that was
//!   handed to the endpoint.

mod bell;
mod board;
mod companion;
mod copy;
mod endpoint;
mod expected;
mod futex;
mod gate;
mod hello;
mod inbox;
mod intake;
mod map;
mod masked;
mod messages;
mod one_sided;
mod outbox;
mod parking;
mod peers;
mod ring;
mod segments;
mod sync;
mod wait_rule;
mod waiting;
mod window;

pub use endpoint::ShmEndpoint;
pub use parking::Parking;
pub use peers::AliveHook;

/// What can be chosen. All ranks must choose the same `ring`.
#[derive(Clone, Default)]
pub struct ShmOptions {
    /// Bytes of the ring from one rank to another; by default a fair part of 1 MiB a receiver, between 16 and
    /// 256 KiB.
    pub ring: Option<usize>,
    /// Threads that each rank keeps busy, for the decision whether cores are scarce; 0 counts as 1.
    pub threads: u32,
    /// Cores that the ranks of this host have between them; by default what their affinity masks and quotas
    /// say.
    pub cores: Option<u32>,
    /// Asked now and then whether a rank is still alive, besides the endpoint's own means. Must be quick and
    /// must not call the endpoint.
    pub alive: Option<AliveHook>,
}

impl std::fmt::Debug for ShmOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { ring, threads, cores, alive } = self;
        f.debug_struct("ShmOptions")
            .field("ring", ring)
            .field("threads", threads)
            .field("cores", cores)
            .field("alive", &alive.is_some())
            .finish()
    }
}
