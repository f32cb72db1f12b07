//! The machine that ranks are simulated on: LogGP for its network, and what the rest takes.
//!
//! LogGP (Alexandrov, Ionescu, Schauser, Scheiman; SPAA 1995) describes a network by four numbers. A message
//! of k bytes occupies its sender's processor for o and its port for the longer of g and kG, is L on its way,
//! occupies the receiver's port likewise and its processor for o:
//!
//! ```text
//!   sender     ├ o ┤
//!   its port        ├── max(g, kG) ──┤
//!   wire            ├──── L ────┤
//!   its port                    ├── max(g, kG) ──┤        later if the port is busy
//!   receiver                             kG ┤├ o ┤        later if the processor is busy
//! ```
//!
//! Every rank has a processor and a port of its own: hosts with several ranks are not modelled, nor are
//! switches that are too slow for all ports at once, nor caches.

use super::time::Time;
use scash_proto::PAGE_SIZE;
use serde::Serialize;

/// What carries messages, puts and gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Network {
    /// L: from port to port.
    pub latency: Time,
    /// o: of a processor, to send or to take a message, to issue a put, to issue a get or to take its answer.
    pub overhead: Time,
    /// g: between two messages through one port.
    pub gap: Time,
    /// G: a byte through a port.
    pub per_byte: Time,
    /// What the home's endpoint takes to answer a get. Its processor does nothing for it.
    pub serve: Time,
    /// Memory of others can be accessed: puts and gets are copies that the issuer makes, and there when it
    /// goes on.
    pub direct: bool,
}

/// What work on pages takes a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PageCosts {
    /// Into the fault handler and back.
    pub fault: Time,
    /// A call that maps, unmaps or protects a run of pages.
    pub call: Time,
    /// A new page of zeros.
    pub zero: Time,
    /// A copy of a page: a twin.
    pub copy: Time,
    /// A comparison of a page with its twin.
    pub compare: Time,
    /// Writing down the changes of a page that has changed throughout; in proportion if fewer bytes have.
    pub encode: Time,
    /// Merging these changes into a page, likewise.
    pub apply: Time,
}

/// What the programs' arithmetic takes, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Compute {
    /// One element of LAPLACE in one iteration.
    pub cell: f64,
    /// One floating-point operation of LU.
    pub flop: f64,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// Its name, for people.
    pub name: String,
    /// Its network.
    pub network: Network,
    /// What work on pages takes.
    pub pages: PageCosts,
    /// What arithmetic takes.
    pub compute: Compute,
}

/// Arithmetic of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Elements of LAPLACE, each in one iteration.
    Cells(u64),
    /// Floating-point operations of LU.
    Flops(u64),
}

impl Network {
    /// How long a port is occupied by so many bytes: nothing else goes through meanwhile.
    pub(super) fn occupied(&self, bytes: u64) -> Time {
        self.gap.max(self.per_byte * bytes)
    }
}

impl PageCosts {
    pub(super) fn encoding(&self, bytes: u64) -> Time {
        self.encode.share(bytes, PAGE_SIZE as u64)
    }

    pub(super) fn applying(&self, bytes: u64) -> Time {
        self.apply.share(bytes, PAGE_SIZE as u64)
    }
}

impl Compute {
    pub(super) fn time(&self, work: Arithmetic) -> Time {
        Time::seconds(match work {
            Arithmetic::Cells(count) => self.cell * count as f64,
            Arithmetic::Flops(count) => self.flop * count as f64,
        })
    }
}
