//! The boot line: how a rank that was just started finds its job, and how the launcher watches over it.
//!
//! The launcher holds one Unix socket pair per rank. A rank inherits its end, and reads from its environment
//! who it is ([`vars`]). Over that line ranks say who they are, exchange blobs and file descriptors before
//! they have endpoints ([`scash_comm::Exchange`]), and say that they finished in order. Nothing else ever
//! travels on it: once endpoints stand, the line is silent.
//!
//! What the launcher learns about a rank's end it writes into the **job page**, a page of memory that every
//! rank maps read-only. "Is rank 3 still there?" is then one atomic load, from any thread, without asking
//! anybody ([`JobPage`]).
//!
//! ```text
//!   launcher                                        rank r
//!   Host ──────────── Start (job page) ───────────▶ Member::from_env      waits for nobody
//!        ◀─────────── Hello (identity) ──────────── Member::hello
//!        ──────────── Welcome ────────────────────▶                       when all have said hello
//!        ◀─────────── Gather (blob, fds) ────────── Member::all_gather
//!        ──────────── Gathered (all of them) ─────▶                       when all have given theirs
//!        ◀─────────── Finalized ─────────────────── Member::finalized
//!        ──────────── Abort (why) ────────────────▶                       at any time; ends every wait
//! ```
//!
//! # Several hosts
//! Where a job has several hosts, an agent on each holds the lines of its ranks and a job page, and the
//! launcher decides as before ([`LauncherRelay`], [`HostRelay`]). Ranks notice nothing but the numbers of
//! hosts in their Start message. Descriptors of a gather reach the ranks of their own host only.
//!
//! # Other launchers
//! Ranks that `scash run` has not started have no line yet. If another launcher has, they find each other and
//! make lines by themselves (`external`). A process that no launcher has started is a job of one rank, which
//! needs no line (`alone`).
//!
//! # The job's secret
//! The launcher draws 256 random bits for each job, and every rank finds them in its Start packet. Providers
//! whose connections a stranger could reach prove by them that both ends belong to the job
//! (`tcp/handshake.rs`). An inherited socket pair is the safest way there is to hand them over: it has no
//! name or address by which another process could reach it, and unlike command lines, files and the
//! environment it is neither listed in `/proc` nor, once the rank has joined, passed on to what it starts (it
//! closes the line on exec). A process that can take it from a rank could read the rank's memory anyway: the
//! same user, with the right to trace it. For the same reasons nothing on the line itself is authenticated:
//! whoever holds the other end has started this process. A process without a line has no secret of another's
//! job; a rank that is alone draws its own. Agents on other hosts get it through the stdin of the remote
//! shell that started them, and pass it on as above.
//!
//! # Packets
//! The sockets are `SOCK_SEQPACKET`: a packet arrives whole or not at all. A message of any size is cut into
//! packets of at most 64 KiB and 253 descriptors (the kernel's `SCM_MAX_FD` is 253). All numbers are
//! little-endian.
//!
//! ```text
//!  0         2       3       4                 8                 12                16
//!  +---------+-------+-------+-----------------+-----------------+-----------------+------------- - -
//!  | magic   | kind  | last  | sequence        | descriptors     | payload bytes   | payload …
//!  | 0x5C04  | 1 … 8 | 0 / 1 | (of the call)   | in this packet  | in this packet  |
//!  +---------+-------+-------+-----------------+-----------------+-----------------+------------- - -
//! ```
//!
//! | kind | name | direction | payload of the whole message | descriptors |
//! |---|---|---|---|---|
//! | 1 | Start | to the rank | rank `u32`, size `u32`, the job's secret (32 bytes), number of hosts `u32`, number of runs `u32`, for each its host and its number of ranks `u32`, the launcher's version (UTF-8) | the job page |
//! | 2 | Hello | to the launcher | ABI `u32`, then build id, version and path, each `u32` length + bytes | none |
//! | 3 | Welcome | to the rank | none | none |
//! | 4 | Gather | to the launcher | the blob | any |
//! | 5 | Gathered | to the rank | per rank: blob length `u64`, descriptors `u32` (0 for ranks of other hosts); then all blobs | those of its host, in rank order |
//! | 6 | Finalized | to the launcher | none | none |
//! | 7 | Abort | to the rank | reason `u8` (0 refused, 1 a rank is gone), rank `u32`, text (UTF-8) | none |
//! | 8 | Cut: the way to another rank broke, and that rank has not ended | to the launcher | 1 if the rank waits to be started again, 2 if it does and was joining, else 0; the other rank (u32); text (UTF-8) | none |
//!
//! `sequence` counts a rank's gathers from 0; it is 0 in the other kinds.
//!
//! # Invariants
//! - A rank can send anything at all; the launcher answers rubbish with a [`JobFailure`] that names the rank,
//!   and never panics.
//! - The launcher never waits for a rank: its sockets do not block, and what does not fit is queued.
//! - No waiting call of a rank outlives the job: the launcher's end, a rank's death and a refusal end it with
//!   an error.

mod alone;
mod claim;
mod external;
mod frame;
mod host;
mod identity;
mod invitation;
mod layout;
mod line;
mod member;
mod page;
mod rank_lines;
mod relay;
mod roster;
mod sections;

pub use alone::started_with_others;
pub use external::{Gathering, Keeper};
pub use host::Host;
pub use identity::Identity;
pub use invitation::{Invitation, Settings};
pub use layout::{Layout, MOST_HOSTS};
pub use member::Member;
pub use page::{JobPage, RankState};
pub use relay::{Decision, HostRelay, LauncherRelay, Report};
pub use roster::{Accusation, Exit, JobFailure};
pub use sections::ProgramSection;

/// The environment variables by which the launcher tells a rank who it is.
pub mod vars {
    /// This rank's number, from 0.
    pub const RANK: &str = "SCASH_RANK";
    /// Number of ranks of the job.
    pub const SIZE: &str = "SCASH_SIZE";
    /// The rank's end of the boot line, as `FD:NAME`: the descriptor's number, and what `/proc/self/fd/FD`
    /// must point to. The name keeps a grandchild, which inherits the variable but not the descriptor, from
    /// using a stranger's.
    pub const BOOT_FD: &str = "SCASH_BOOT_FD";
    /// Application threads that each rank should run.
    pub const THREADS: &str = "SCASH_THREADS";
    /// The provider that carries the ranks' traffic.
    pub const PROVIDER: &str = "SCASH_PROVIDER";
    /// Where a rank says what its user must see at once, if the launcher keeps back what it prints: a socket,
    /// as `FD:NAME`.
    pub const SAYS: &str = "SCASH_SAYS";
}

/// For `map_err`: what was being tried when the system said no.
fn io(what: &str) -> impl Fn(nix::errno::Errno) -> scash_comm::Error {
    move |errno| scash_comm::Error::Io { what: what.to_owned(), source: errno.into() }
}
