//! What a rank learns from its own faults: how far to fetch ahead, and which copies are worth being kept up
//! to date.

use super::migrate::Migration;
use super::watch::Watched;
use super::write_runs::WriteRuns;
use super::{Collective, Config, MOST_AHEAD, Node, Protocol};
use crate::copyset::CopyMode;
use crate::page::{CachedPage, VAIN_DOUBT};
use crate::{Pages, Rank, Strided};
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

/// Runs of at most this many pages count as short ones.
const SHORT: u32 = 16;
/// Runs at one distance after which the next ones are expected there too.
const STEADY: u32 = 3;
/// Most runs that one fetch has.
pub const MOST_RUNS: u32 = 32;

/// Where faults went last in one allocation.
#[derive(Clone, Copy, Debug)]
struct FaultStream {
    /// The page behind the last fetch.
    next: u32,
    /// Pages of the run of consecutive fetches that ended there.
    run: u32,
    /// Pages of the last short run, and of the last long one.
    known: [u32; 2],
    /// Runs begun, to expect less from time to time.
    jumps: u32,
    /// The first page of the last run.
    start: u32,
    /// The distance from the run before it, and how many runs have come at that distance, one after the
    /// other.
    step: i32,
    runs: u32,
    /// How many did so the last time; 0: none, or not at this distance.
    series: u32,
    /// Runs that were fetched along with the last one.
    ahead: u32,
    /// When the last run began.
    interval: u32,
}

impl FaultStream {
    const EMPTY: FaultStream = FaultStream {
        next: u32::MAX,
        run: 0,
        known: [0; 2],
        jumps: 0,
        start: 0,
        step: 0,
        runs: 0,
        series: 0,
        ahead: 0,
        interval: 0,
    };

    /// A run begins at `page`, that is not where the last one ended.
    fn begin(&mut self, page: u32, interval: u32) {
        self.jumps += 1;
        let forgets = self.jumps.is_multiple_of(64);
        let less = |n: u32| if forgets { n / 2 } else { n };
        let ended = less(self.run);
        self.known[usize::from(ended > SHORT)] = ended;
        self.run = 0;
        let step = page.wrapping_sub(self.start).cast_signed();
        // What is fetched now is of no use in the next interval, so a series ends with its interval.
        let goes_on = interval == self.interval;
        if goes_on && step == self.step {
            self.runs += self.ahead + 1;
        } else {
            // What was fetched ahead counts if it was expected from the beginning.
            let series = less(self.runs.max(self.series.min(self.runs + self.ahead)));
            (self.series, self.step, self.runs) = match (series >= STEADY, goes_on) {
                (true, _) => (series, self.step, 1),
                (false, true) => (0, step, 2),
                (false, false) => (0, 0, 1),
            };
        }
        (self.start, self.ahead, self.interval) = (page, 0, interval);
    }

    /// How many runs are expected to follow the one that has begun, at the same distance.
    fn more(&self) -> u32 {
        match (self.runs, self.series) {
            (0..=1, _) => 0,
            (runs, 0) if runs < STEADY => 0,
            (runs, 0) => runs,
            (runs, series) => runs.abs_diff(series),
        }
    }
}

/// Fetch windows, learnt for each allocation (by its number, modulo a small table).
///
/// A run of consecutive faults is expected to be as long as the last short one before it. If it goes on, each
/// fetch is as long as what the run has had so far, yet ends where the last long run did. So blocks of k
/// consecutive pages that are read as wholes come in one fetch each, also between walks along many of them,
/// and what is fetched behind a run's end is never more than what was read of it.
///
/// Runs that begin in one interval at one distance from each other, as in a walk down a column of a matrix,
/// come several at a time: as many more as there have been; or, once the second of them shows that the
/// distance is the one of the last such series, as many as there were then.
#[derive(Clone, Debug)]
pub(super) struct FaultStreams {
    table: [FaultStream; 16],
    first: u32,
    /// The most pages that are worked on together.
    pub(super) most: u32,
}

impl FaultStreams {
    pub(super) fn new(first: u32, most: u32) -> Self {
        FaultStreams { table: [FaultStream::EMPTY; 16], first, most }
    }

    fn of_fetches(cfg: &Config) -> Self {
        let widest = if cfg.cache > 0 { (cfg.cache / 4).max(1) } else { u32::MAX };
        FaultStreams::new(cfg.fetch_first.min(widest), cfg.fetch_most.min(widest))
    }

    fn of_writes(cfg: &Config) -> Self {
        FaultStreams::new(1, cfg.fetch_most.min(MOST_AHEAD))
    }

    /// How many pages to fetch in this interval, beginning at `page` of allocation number `allocation`.
    pub(super) fn window(&mut self, allocation: u64, page: u32, interval: u32) -> u32 {
        let (first, most) = (self.first, self.most);
        let s = &mut self.table[(allocation % 16) as usize];
        if page != s.next {
            s.begin(page, interval);
        }
        let [short, long] = s.known.map(|pages| pages.saturating_sub(s.run));
        if short > 0 {
            return short.min(most);
        }
        let doubled = s.run.clamp(first, most);
        if long > 0 { doubled.min(long) } else { doubled }
    }

    /// Notes what was fetched after all. More than was `wanted` was fetched for other reasons, and says
    /// nothing of how long runs are.
    pub(super) fn fetched(&mut self, allocation: u64, pages: Pages, wanted: u32) {
        let s = &mut self.table[(allocation % 16) as usize];
        s.run = s.run.saturating_add(pages.count.min(wanted));
        s.next = pages.end();
    }

    /// The run of the fetch that was noted last, and those that are expected to follow it at a distance.
    pub(super) fn strided(&self, allocation: u64, first: Pages) -> Strided {
        let s = &self.table[(allocation % 16) as usize];
        let most = (self.most / first.count).min(MOST_RUNS);
        let times = (1 + s.more()).min(most);
        let apart = s.start == first.first && s.step.unsigned_abs() >= first.count;
        if apart && times > 1 { Strided { first, step: s.step, times } } else { first.into() }
    }

    /// Notes how many of these were fetched after all.
    pub(super) fn strided_fetched(&mut self, allocation: u64, pages: Strided) {
        let s = &mut self.table[(allocation % 16) as usize];
        if let Some(last) = pages.runs().last().filter(|_| pages.times > 1) {
            (s.start, s.next, s.ahead) = (last.first, last.end(), pages.times - 1);
        }
    }
}

/// What faults and writers have taught this rank.
#[derive(Clone, Debug)]
pub(super) struct Learning {
    /// Runs of pages that are fetched, or mapped at home, one after the other.
    pub(super) streams: FaultStreams,
    /// Runs of pages that are made writable one after the other, with their twins.
    pub(super) writes: FaultStreams,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_eight_pages_comes_in_one_fetch_once_its_length_is_known() {
        let mut s = FaultStreams::new(1, 64);
        let mut fetch = |page: u32, limit: u32| {
            let n = s.window(3, page, 0).min(limit);
            s.fetched(3, Pages { first: page, count: n }, n);
            n
        };
        let mut got = vec![];
        let mut page = 100;
        while page < 108 {
            got.push(fetch(page, 108 - page));
            page += got.last().unwrap();
        }
        assert_eq!(got, [1, 1, 2, 4]);
        assert_eq!(fetch(200, 8), 8);
        assert_eq!(fetch(300, 8), 8);
    }

    #[test]
    fn a_run_that_goes_on_past_a_short_one_doubles_up_to_the_end_of_the_last_long_one() {
        let mut s = FaultStreams::new(1, 32);
        let mut walk = |first: u32, pages: u32| {
            let mut got = vec![];
            let mut page = first;
            while page < first + pages {
                let n = s.window(3, page, 0);
                s.fetched(3, Pages { first: page, count: n }, n);
                got.push(n);
                page += n;
            }
            got
        };
        assert_eq!(walk(0, 8), [1, 1, 2, 4]);
        assert_eq!(walk(100, 8), [8]);
        assert_eq!(walk(200, 100), [8, 8, 16, 32, 32, 32]);
        assert_eq!(walk(400, 8), [8], "a long run does not make blocks come with what lies behind them");
        assert_eq!(walk(500, 16), [8, 8]);
        assert_eq!(walk(600, 128), [16, 16, 32, 32, 32]);
    }

    #[test]
    fn pages_that_come_for_other_reasons_say_nothing_of_runs() {
        let mut s = FaultStreams::new(1, 32);
        for first in [0, 100, 200] {
            assert_eq!(s.window(3, first, 0), 1);
            s.fetched(3, Pages { first, count: 9 }, 1);
        }
        assert_eq!(s.window(3, 209, 0), 1, "and yet the run goes on behind them");
    }

    /// Fetches what a walk over `runs` asks for; returns the runs and the pages of each fetch.
    fn walk(s: &mut FaultStreams, runs: impl Iterator<Item = Pages>) -> Vec<(u32, u32)> {
        let mut here = std::collections::BTreeSet::new();
        let mut got = vec![];
        for page in runs.flat_map(Pages::iter) {
            if here.contains(&page) {
                continue;
            }
            let run = Pages { first: page, count: s.window(3, page, 0) };
            s.fetched(3, run, run.count);
            let strided = s.strided(3, run);
            s.strided_fetched(3, strided);
            here.extend(strided.iter());
            got.push((strided.times, run.count));
        }
        got
    }

    /// `runs` runs of `count` pages, `step` pages apart.
    fn column(first: u32, count: u32, step: i32, times: u32) -> impl Iterator<Item = Pages> {
        Strided { first: Pages { first, count }, step, times }.runs()
    }

    #[test]
    fn runs_at_one_distance_come_several_at_a_time_and_the_next_such_series_as_a_whole() {
        for step in [100, -100] {
            let mut s = FaultStreams::new(1, 32);
            assert_eq!(walk(&mut s, column(5000, 1, step, 16)), [(1, 1), (1, 1), (4, 1), (8, 1), (16, 1)]);
            assert_eq!(walk(&mut s, column(9000, 1, step, 16)), [(1, 1), (14, 1), (2, 1)], "15 were seen");
            assert_eq!(walk(&mut s, column(8001, 1, step, 16)), [(1, 1), (15, 1)]);
            assert_eq!(walk(&mut s, column(4001, 1, step, 16)), [(1, 1), (15, 1)]);
        }
    }

    #[test]
    fn a_fetch_of_several_runs_has_no_more_pages_than_one_of_a_long_run() {
        let mut s = FaultStreams::new(1, 32);
        walk(&mut s, column(1000, 8, 100, 20));
        assert!(walk(&mut s, column(9000, 8, 100, 20)).iter().all(|&(runs, count)| runs * count <= 32));
    }

    #[test]
    fn pages_at_no_distance_that_stays_come_one_by_one() {
        let mut s = FaultStreams::new(1, 32);
        walk(&mut s, column(10, 1, 4, 16));
        let places = [7000, 400, 900, 5000, 1200, 3300, 2050, 610].map(Pages::one);
        assert_eq!(walk(&mut s, places.into_iter()), [(1, 1); 8]);
    }

    #[test]
    fn a_series_ends_with_its_interval() {
        let mut s = FaultStreams::new(1, 32);
        for (interval, page) in (0..20).zip((100..).step_by(10)) {
            let run = Pages { first: page, count: s.window(3, page, interval) };
            s.fetched(3, run, run.count);
            assert_eq!(s.strided(3, run), run.into());
        }
    }

    #[test]
    fn runs_that_would_overlap_are_no_series() {
        let mut s = FaultStreams::new(8, 32);
        let fetches = walk(&mut s, column(0, 1, 9, 12));
        assert!(fetches.iter().all(|&(runs, count)| runs == 1 || count <= 9), "{fetches:?}");
    }
}
