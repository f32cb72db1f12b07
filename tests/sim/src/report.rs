//! What a simulated run did, in numbers.

use super::deaths::Survived;
use super::program::Word;
use scash_proto::Output;
use scash_proto::node::Counters;
use scash_proto::races::Race;
use scash_proto::wire::Kind;

/// What travelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Meeting tokens.
    pub tokens: u64,
    /// Words between a home and a sharer.
    pub controls: u64,
    /// Parcels of broadcasts.
    pub parcels: u64,
    /// Messages with diffs for homes.
    pub diffs: u64,
    /// Messages with changes for sharers.
    pub updates: u64,
    /// Messages about locks.
    pub syncs: u64,
    /// Messages of reductions.
    pub reductions: u64,
    /// Messages for the search for data races.
    pub write_traces: u64,
    /// Bytes of all messages.
    pub message_bytes: u64,
    /// Pages of which bytes were put.
    pub puts: u64,
    /// Encoded bytes that were put.
    pub put_bytes: u64,
    /// Pages that were got in faults.
    pub gets: u64,
    /// Gets that brought copies up to date, of any number of pages each.
    pub refreshes: u64,
    /// Waits for what was put to one rank, at the ends of intervals.
    pub fences: u64,
}

impl Traffic {
    /// Messages of all kinds.
    pub fn messages(&self) -> u64 {
        self.tokens
            + self.controls
            + self.parcels
            + self.diffs
            + self.updates
            + self.syncs
            + self.reductions
            + self.write_traces
    }

    pub(super) fn message(&mut self, kind: Kind, bytes: usize) {
        match kind {
            Kind::Token => self.tokens += 1,
            Kind::Control => self.controls += 1,
            Kind::Parcel => self.parcels += 1,
            Kind::Diff => self.diffs += 1,
            Kind::Update => self.updates += 1,
            Kind::Sync => self.syncs += 1,
            Kind::Reduce => self.reductions += 1,
            // Of the runtime, not of the protocol.
            Kind::Stall => {}
            Kind::WriteTraces => self.write_traces += 1,
        }
        self.message_bytes += bytes as u64;
    }
}

/// What happened at all ranks between two barriers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Period {
    /// What travelled, by the sender's interval.
    pub traffic: Traffic,
    /// Sums of the nodes' counters at the end of the interval, since the beginning of the job.
    pub counters: Counters,
    /// Pages in the homes' directories at the end of the interval.
    pub directory: usize,
}

/// What a thread found in a word that it loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The interval.
    pub interval: u32,
    /// The thread's rank.
    pub rank: u32,
    /// Where.
    pub word: Word,
    /// What.
    pub value: u64,
}

/// What a run did.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// One entry an interval.
    pub periods: Vec<Period>,
    /// Bit i: the kind of output with number i (see [`output_number`]) occurred.
    pub outputs: u64,
    /// Bytes of memory that were compared with the oracle.
    pub checked: u64,
    /// Steps of the scheduler.
    pub steps: u64,
    /// Data races that were found, with the intervals in which the ranks were that found them.
    pub races: Vec<(u32, Race)>,
    /// What each [`Plainly`](super::program::Op::Plainly) found, in the order of the loads.
    pub seen: Vec<Seen>,
    /// Times that a rank that had come to a call without words saw on the board that another one had some,
    /// and that all had none.
    pub agreed: [u64; 2],
    /// Messages sent by each rank.
    pub sent: Vec<u64>,
    /// Ranks told that objects were destroyed.
    pub destroyed: u64,
    /// Ranks told that objects are in use and cannot be.
    pub in_use: u64,
    /// Objects that one rank has made and one rank has destroyed.
    pub unmade: u64,
    /// Those that were not, because somebody waited for them.
    pub kept: u64,
    /// Threads that asked for one that was no more.
    pub absent: u64,
    /// What happened to ranks that can come back.
    pub survived: Survived,
}

impl Report {
    pub(super) fn period(&mut self, interval: u32) -> &mut Period {
        let at = interval as usize;
        if self.periods.len() <= at {
            self.periods.resize(at + 1, Period::default());
        }
        &mut self.periods[at]
    }

    /// The sums at the end.
    pub fn counters(&self) -> Counters {
        self.periods.last().map(|p| p.counters).unwrap_or_default()
    }

    /// What the counters gained in an interval.
    pub fn gained(&self, interval: usize) -> Counters {
        let before = interval.checked_sub(1).map(|i| self.periods[i].counters).unwrap_or_default();
        combine(self.periods[interval].counters, before, u64::wrapping_sub)
    }
}

/// Adds up counters.
pub fn add(a: Counters, b: Counters) -> Counters {
    combine(a, b, u64::wrapping_add)
}

fn combine(a: Counters, b: Counters, f: impl Fn(u64, u64) -> u64) -> Counters {
    Counters {
        read_faults: f(a.read_faults, b.read_faults),
        write_faults: f(a.write_faults, b.write_faults),
        first_touches: f(a.first_touches, b.first_touches),
        fetched: f(a.fetched, b.fetched),
        prefetched: f(a.prefetched, b.prefetched),
        predicted: f(a.predicted, b.predicted),
        noticed: f(a.noticed, b.noticed),
        avoided: f(a.avoided, b.avoided),
        twins: f(a.twins, b.twins),
        diffs: f(a.diffs, b.diffs),
        updates: f(a.updates, b.updates),
        subscribed: f(a.subscribed, b.subscribed),
        invalidated: f(a.invalidated, b.invalidated),
        evicted: f(a.evicted, b.evicted),
        evicted_written: f(a.evicted_written, b.evicted_written),
        most_cached: f(a.most_cached, b.most_cached),
        renewed: f(a.renewed, b.renewed),
        brought: f(a.brought, b.brought),
        tracked: f(a.tracked, b.tracked),
        spared: f(a.spared, b.spared),
        migrated: f(a.migrated, b.migrated),
        locks: f(a.locks, b.locks),
        refused_locks: f(a.refused_locks, b.refused_locks),
        cached_locks: f(a.cached_locks, b.cached_locks),
        asked_ahead: f(a.asked_ahead, b.asked_ahead),
        taken_ahead: f(a.taken_ahead, b.taken_ahead),
        handed_locks: f(a.handed_locks, b.handed_locks),
        requests: f(a.requests, b.requests),
        signals: f(a.signals, b.signals),
        barriers: f(a.barriers, b.barriers),
        second_meetings: f(a.second_meetings, b.second_meetings),
        third_meetings: f(a.third_meetings, b.third_meetings),
    }
}

/// Names of the kinds of outputs, by number.
pub const OUTPUTS: [&str; 44] = [
    "MapZero",
    "Get",
    "Map",
    "Protect",
    "Unmap",
    "Discard",
    "Twin",
    "DropTwin",
    "Wait",
    "Denied",
    "Diff",
    "DiffZero",
    "Push",
    "PushWhole",
    "Hand",
    "PutDiff",
    "Refresh",
    "Control",
    "Token",
    "Flushed",
    "Done",
    "PutPages",
    "Parcel",
    "Watch",
    "Scan",
    "Unwatch",
    "Report",
    "Closed",
    "Acquired",
    "Sync",
    "Claim",
    "ForgetClaims",
    "Refused",
    "Operate",
    "Reduce",
    "SendWrites",
    "CompareWrites",
    "Stage",
    "Committed",
    "Unmade",
    "Absent",
    "MarkAll",
    "Come",
    "CompareToZeros",
];

/// The number of an output's kind in [`OUTPUTS`].
pub fn output_number(output: &Output) -> usize {
    match output {
        Output::MapZero(..) => 0,
        Output::Get { .. } => 1,
        Output::Map(..) => 2,
        Output::Protect(..) => 3,
        Output::Unmap(..) => 4,
        Output::Discard(..) => 5,
        Output::Twin(..) => 6,
        Output::DropTwin(..) => 7,
        Output::Wait(..) => 8,
        Output::Denied(..) => 9,
        Output::Diff { .. } => 10,
        Output::DiffZero { .. } => 11,
        Output::Push(..) => 12,
        Output::PushWhole { .. } => 13,
        Output::Hand { .. } => 14,
        Output::PutDiff { .. } => 15,
        Output::Refresh { .. } => 16,
        Output::Control(..) => 17,
        Output::Token(..) => 18,
        Output::Flushed => 19,
        Output::Done(..) => 20,
        Output::PutPages { .. } => 21,
        Output::Parcel { .. } => 22,
        Output::Watch(..) => 23,
        Output::Scan(..) => 24,
        Output::Unwatch(..) => 25,
        Output::Report { .. } => 26,
        Output::Closed { .. } => 27,
        Output::Acquired { .. } => 28,
        Output::Sync(..) => 29,
        Output::Claim { .. } => 30,
        Output::ForgetClaims(..) => 31,
        Output::Refused { .. } => 32,
        Output::Operate { .. } => 33,
        Output::Reduce(..) => 34,
        Output::SendWrites => 35,
        Output::CompareWrites => 36,
        Output::Stage => 37,
        Output::Committed(_) => 38,
        Output::Unmade { .. } => 39,
        Output::Absent { .. } => 40,
        Output::MarkAll(_) => 41,
        Output::Come { .. } => 42,
        Output::CompareToZeros(_) => 43,
    }
}

/// Counters with their names.
pub fn by_name(c: Counters) -> [(&'static str, u64); 32] {
    [
        ("read_faults", c.read_faults),
        ("write_faults", c.write_faults),
        ("first_touches", c.first_touches),
        ("fetched", c.fetched),
        ("prefetched", c.prefetched),
        ("predicted", c.predicted),
        ("noticed", c.noticed),
        ("avoided", c.avoided),
        ("twins", c.twins),
        ("diffs", c.diffs),
        ("updates", c.updates),
        ("subscribed", c.subscribed),
        ("invalidated", c.invalidated),
        ("evicted", c.evicted),
        ("evicted_written", c.evicted_written),
        ("most_cached", c.most_cached),
        ("renewed", c.renewed),
        ("brought", c.brought),
        ("tracked", c.tracked),
        ("spared", c.spared),
        ("migrated", c.migrated),
        ("locks", c.locks),
        ("refused_locks", c.refused_locks),
        ("cached_locks", c.cached_locks),
        ("asked_ahead", c.asked_ahead),
        ("taken_ahead", c.taken_ahead),
        ("handed_locks", c.handed_locks),
        ("requests", c.requests),
        ("signals", c.signals),
        ("barriers", c.barriers),
        ("second_meetings", c.second_meetings),
        ("third_meetings", c.third_meetings),
    ]
}
