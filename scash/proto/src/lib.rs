//! The coherence protocol of scash as a value.
//!
//! A [`Node`] is one rank's half of the protocol: it takes [`Input`]s (faults, arrivals at the memory
//! barrier, messages of other ranks) and hands out [`Output`]s (fetch this page, make a twin, compare and
//! send a diff, protect, send). It does no IO, has no threads, reads no clock, draws no random number and
//! touches no shared memory, so the runtime and the seeded simulator run the very same code.
//!
//! # The protocol in short
//!
//! Home-based release consistency with multiple writers, after SCASH (Harada et al., RWCP 1999). Every page
//! has a **home**, whose frame is the truth at each memory barrier. Other ranks hold **cached pages**.
//!
//! * A cached page is fetched by a one-sided *get*: the home's processor is not asked. The copy is at first a
//!   **lease**: good until the next barrier, unknown to the home. So data that are read once (LU's perimeter
//!   blocks) cost their home nothing: no directory entry, no tracking, no write faults, no notices.
//! * A page that is fetched again soon is **subscribed** to: the home enters this rank in the page's
//!   **copyset**, and from the next interval on tracks its own writes to it. Under *update* the home then
//!   writes what changed straight into the sharers' frames on its way into the barrier; under *invalidate* it
//!   sends a notice. A subscriber looks from time to time whether it still reads what it is sent
//!   (`Protocol::Adaptive`), and leaves if not.
//! * A rank that writes a cached page makes a **twin** first, and sends the **diff** to the home on its way
//!   into the barrier.
//! * A page that nobody subscribed to is **not tracked** at its home: its writes never fault.
//!
//! The memory barrier is described in `node/barrier.rs`, its messages in [`wire`].

#![forbid(unsafe_code)]

pub mod codec;
pub mod copyset;
pub mod diff;
pub mod heap;
pub mod interpreter;
pub mod node;
mod page;
pub mod part;
pub mod placement;
pub mod races;
pub mod stall;
pub mod wire;

pub use node::{AllocOptions, Config, Input, Node, Output, Protocol, Sharing, Transfer};
pub use page::{Access, MAX_RANKS};
pub use placement::Placement;

/// Bytes of a DSM page.
pub const PAGE_SIZE: usize = 4096;

/// A rank's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub u32);

impl std::fmt::Display for Rank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {}", self.0)
    }
}

/// A run of consecutive pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pages {
    /// Number of the first page, counted from the region's start.
    pub first: u32,
    /// How many pages.
    pub count: u32,
}

impl Pages {
    /// One page.
    pub fn one(page: u32) -> Self {
        Pages { first: page, count: 1 }
    }

    /// The first page behind the run.
    pub fn end(self) -> u32 {
        self.first + self.count
    }

    /// The pages of the run in order.
    pub fn iter(self) -> std::ops::Range<u32> {
        self.first..self.end()
    }

    /// Those of the run from this one on, which is one of them.
    pub fn rest_from(self, page: u32) -> Self {
        Pages { first: page, count: self.end() - page }
    }

    /// Appends a page to a list of runs.
    pub(crate) fn append(list: &mut Vec<Pages>, page: u32) {
        match list.last_mut() {
            Some(run) if run.end() == page => run.count += 1,
            _ => list.push(Pages::one(page)),
        }
    }
}

/// Runs of pages of the same length at the same distance, as a program meets them that walks down a column of
/// a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strided {
    /// The run that comes first; not always the one at the lowest page.
    pub first: Pages,
    /// Pages from the beginning of a run to that of the next; no run overlaps another.
    pub step: i32,
    /// How many runs.
    pub times: u32,
}

impl Strided {
    /// Pages of all runs together.
    pub fn count(self) -> u32 {
        self.first.count * self.times
    }

    /// The runs, one after the other.
    pub fn runs(self) -> impl Iterator<Item = Pages> {
        let run = move |i: u32| Pages {
            first: self.first.first.wrapping_add(i.wrapping_mul(self.step.cast_unsigned())),
            ..self.first
        };
        (0..self.times).map(run)
    }

    /// All pages, run after run.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        self.runs().flat_map(Pages::iter)
    }
}

impl From<Pages> for Strided {
    fn from(first: Pages) -> Self {
        Strided { first, step: 0, times: 1 }
    }
}
