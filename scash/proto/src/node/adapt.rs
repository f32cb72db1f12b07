//! What a rank learns from its own faults, and which copies are worth being kept up to date.

use super::first_touch::TouchRuns;
use super::migrate::Migration;
use super::streams::FaultStreams;
use super::watch::Watched;
use super::write_runs::WriteRuns;
use super::{Collective, Config, MOST_AHEAD, Node, Protocol};
use crate::Rank;
use crate::copyset::CopyMode;
use crate::page::{CachedPage, VAIN_DOUBT};
use std::collections::BTreeMap;

/// A page fetched again within this many intervals is subscribed to. More than 2, because programs with two
/// arrays that change roles read each one in every second interval.
const REUSE_WITHIN: u64 = 4;
/// A page that is fetched again within so many intervals after its home wrote it is used soon after that.
pub(super) const SOON: u64 = 4;

/// A copy that is predicted to be written is protected once in so many intervals, to see whether it still is:
/// its home may put its own changes into the frame before the barrier compares it, and they look like this
/// rank's.
const DOUBT_AFTER: u32 = 16;
/// Pages in a row of which this happens in the same interval, so that their faults go together.
const TOGETHER: u32 = 16;

/// What faults and writers have taught this rank.
#[derive(Clone, Debug)]
pub(super) struct Learning {
    /// Runs of pages that are fetched, or mapped at home, one after the other.
    pub(super) streams: FaultStreams,
    /// Runs of pages that are made writable one after the other, with their twins.
    pub(super) writes: FaultStreams,
    /// The same at home.
    pub(super) home_writes: FaultStreams,
    /// Runs of pages that are touched first one after the other.
    pub(super) first_touches: TouchRuns,
    /// How long such runs are where many of them grow at the same time.
    pub(super) runs: WriteRuns,
    /// Home pages whose writes are noticed without faults.
    pub(super) watched: Vec<Watched>,
    pub(super) migration: Migration,
    /// Pages that this rank asked to be moved, with their new homes.
    pub(super) moves: BTreeMap<u32, (Rank, bool)>,
}

impl Learning {
    pub(super) fn new(cfg: &Config) -> Learning {
        Learning {
            streams: FaultStreams::of_fetches(cfg),
            writes: FaultStreams::of_writes(cfg),
            home_writes: FaultStreams::of_writes(cfg),
            first_touches: TouchRuns::new(cfg.fetch_most.min(MOST_AHEAD)),
            runs: WriteRuns::default(),
            watched: Vec::new(),
            migration: Migration::new(cfg.migrate_after, cfg.pages),
            moves: BTreeMap::new(),
        }
    }

    /// This rank has come back: all is to be learnt anew. What is to be moved at the next barrier stays.
    pub(super) fn reborn(&mut self, cfg: &Config) {
        self.streams = FaultStreams::of_fetches(cfg);
        self.writes = FaultStreams::of_writes(cfg);
        self.home_writes = FaultStreams::of_writes(cfg);
        self.first_touches = TouchRuns::new(cfg.fetch_most.min(MOST_AHEAD));
        self.runs = WriteRuns::default();
        self.watched.clear();
        self.migration.reborn();
    }
}

impl Node {
    pub(super) fn protocol(&self, page: u32) -> Protocol {
        self.heap.find(page).map_or(Protocol::Adaptive, |a| a.options.protocol)
    }

    /// The mode in which this rank wants to be a sharer of a page, of which it has this copy.
    pub(super) fn wanted_mode(&self, page: u32, copy: CachedPage) -> CopyMode {
        match self.protocol(page) {
            Protocol::Adaptive if copy.is_updated() => CopyMode::Update,
            Protocol::Invalidate | Protocol::Adaptive => CopyMode::Invalidate,
            Protocol::Update => CopyMode::Update,
        }
    }

    /// Whether a copy that was just fetched is worth a subscription, and in which mode.
    ///
    /// One that is only read here was most likely written at home since it was fetched the last time, and
    /// will be again: it is kept up to date. One that is written here may be nobody else's. So its home first
    /// only tells when it has written it; if the page is used here soon after that, both use it, and it is
    /// kept up to date, too. Soon is the very next interval where no network makes a fetch cost more than the
    /// twins and comparisons of both.
    ///
    /// What was kept up to date in vain is so again only after it was used soon after a write, once or more
    /// often ([`doubt`](CachedPage::doubt)).
    pub(super) fn worth_keeping(&self, page: u32, protocol: Protocol) -> Option<CopyMode> {
        let copy = self.table.cached(page)?;
        let told = copy.told(self.interval);
        let again = copy.last_fetched(self.interval).is_some_and(|ago| ago <= REUSE_WITHIN);
        let is_only_read = copy.doubt() == 0 && !copy.has_changed();
        let soon = if copy.has_changed() && self.cfg.puts_at_once { 1 } else { SOON };
        let updated = match told {
            Some(_) if is_only_read => true,
            Some(ago) => copy.doubt() < VAIN_DOUBT && ago <= soon,
            None => is_only_read && again,
        };
        match protocol {
            Protocol::Update => Some(CopyMode::Update),
            Protocol::Invalidate => Some(CopyMode::Invalidate),
            Protocol::Adaptive if updated => Some(CopyMode::Update),
            Protocol::Adaptive => again.then_some(CopyMode::Invalidate),
        }
    }

    /// Whether a copy stays writable at the end of this barrier if it is written in each interval. Not where
    /// intervals end between barriers: each lock that leaves would have it compared with its twin. And not if
    /// this call makes locks, or frees the page.
    pub(super) fn predicts_writes(&self, page: u32) -> bool {
        use Collective::{Barrier, Broadcast, Divide, Publish};
        let plain = matches!(self.meetings.collective, Barrier | Publish(_) | Divide { .. } | Broadcast(_));
        let doubts = (self.interval.wrapping_add(page / TOGETHER)).is_multiple_of(DOUBT_AFTER);
        self.cfg.predict && !self.cfg.races && !self.keeps_back() && plain && !doubts
    }
}
