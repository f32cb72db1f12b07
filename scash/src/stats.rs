//! What a rank has counted and timed.

use scash_comm::Traffic;
use scash_proto::node::Counters;
use std::time::Duration;

/// The three parts of the memory barrier (the SCASH paper's Figures 3 and 4), added up over all barriers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BarrierTime {
    /// Waiting until all ranks have come.
    pub sync: Duration,
    /// Comparing written pages with their twins and sending the diffs home.
    pub diff: Duration,
    /// Bringing pages to their sharers, and taking stale ones out of view.
    pub update: Duration,
}

/// Everything that [`Dsm::stats`](crate::Dsm::stats) tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// What the protocol counted.
    pub protocol: Counters,
    /// What the endpoint moved.
    pub traffic: Traffic,
    /// Where barriers spent their time.
    pub barrier: BarrierTime,
    /// Signals taken for faults in shared memory.
    pub faults: u64,
}
