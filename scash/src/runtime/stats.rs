//! What a rank has counted and timed.

use crate::runtime::checkpoint::CheckpointStats;
use crate::runtime::frame_sharing::FrameSharing;
use scash_comm::Traffic;
use scash_proto::node::Counters;
use std::time::Duration;

/// KiB of memory that this process shares with others, each page divided by the number of those that have it
/// (PSS); `None` if the kernel does not tell.
pub(super) fn shared_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix("Pss_Shmem:"))?;
    rest.split_whitespace().next()?.parse().ok()
}

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

/// Everything that [`Dsm::stats`](crate::Dsm::stats) tells. Where ranks share frames, no access to what is
/// allocated faults and no page moves: these counts are 0.
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
    /// Whose frames the pages have (`SCASH_SHARE`).
    pub frames: FrameSharing,
    /// Data races found (`SCASH_RACES`): neighbouring bytes of pages whose home is here, once an epoch and
    /// pair of ranks.
    pub races: u64,
    /// What was counted of checkpoints, if ranks come back (`scash run --replicas`).
    pub checkpoints: Option<CheckpointStats>,
}

impl std::fmt::Display for Stats {
    /// One line for people: faults taken, faults that were not, pages moved, and where barriers spent their
    /// time.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (p, t, b) = (&self.protocol, &self.traffic, &self.barrier);
        write!(
            f,
            "faults: {} taken ({} read, {} write), {} pages touched first, {} predicted, \
             {} noticed without, {} fetched ahead, {} home pages left untracked; ",
            self.faults,
            p.read_faults,
            p.write_faults,
            p.first_touches,
            p.predicted,
            p.noticed,
            p.prefetched,
            p.avoided
        )?;
        write!(
            f,
            "pages: {} fetched, {} twins, {} diffs, {} subscribed, {} updates, {} renewed \
             ({} with the lock), {} spared, {} tracked, {} invalidated, {} migrated, {} evicted ({} of them written); ",
            p.fetched,
            p.twins,
            p.diffs,
            p.subscribed,
            p.updates,
            p.renewed,
            p.brought,
            p.spared,
            p.tracked,
            p.invalidated,
            p.migrated,
            p.evicted,
            p.evicted_written
        )?;
        write!(
            f,
            "barriers: {} ({} with a second meeting, {} with a third), sync {:.3?}, diff {:.3?}, update {:.3?}; ",
            p.barriers, p.second_meetings, p.third_meetings, b.sync, b.diff, b.update
        )?;
        write!(
            f,
            "locks: {} asked for ({} were here), {} ahead of threads ({} of these in time), {} handed on; ",
            p.locks, p.cached_locks, p.asked_ahead, p.taken_ahead, p.handed_locks
        )?;
        write!(
            f,
            "traffic: {} messages, {} puts, {} gets, {} atomic operations, {} bytes",
            t.messages, t.puts, t.gets, t.atomics, t.bytes
        )?;
        if self.races > 0 {
            write!(f, "; {} data races", self.races)?;
        }
        if let Some(checkpoints) = &self.checkpoints {
            write!(f, "; {checkpoints}")?;
        }
        match self.frames {
            FrameSharing::Own => write!(f, "; frames: each rank's own (SCASH_SHARE=off)")?,
            FrameSharing::Shared => write!(f, "; frames: shared by all ranks")?,
            FrameSharing::NotShared(why) => write!(f, "; frames: not shared, for {why}")?,
        }
        Ok(())
    }
}
