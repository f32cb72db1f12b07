//! Runs of pages that a rank reads, or writes, one after the other: how far to fetch ahead.

use super::{Config, MOST_AHEAD};
use crate::{Pages, Strided};

/// Runs of at most this many pages count as short ones.
const SHORT: u32 = 16;
/// Runs at one distance after which the next ones are expected there too.
const STEADY: u32 = 3;
/// Guesses that are not looked at after one that was read to its end.
const REST: u32 = 16;
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
    /// Where the first of several columns side by side begins, and how many pages of a row those have
    /// together that the walk has gone down.
    head: u32,
    wide: u32,
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
    /// With how many pages a run begins of which nothing is known: in the beginning, and now.
    first: u32,
    guess: u32,
    /// The last fetch, if it was a guess that is looked at.
    guess_at: Option<Guess>,
    /// The last guess was not read to its end: how far the next fault was from its first page.
    skipped: Option<u32>,
    /// Guesses until one is looked at.
    rest: u32,
}

/// More pages than are known to be read, of which the last ones are out of view.
#[derive(Clone, Copy, Debug)]
struct Guess {
    pages: Pages,
    interval: u32,
}

impl Guess {
    /// The pages that are out of view: two, as others between may be the ones that nobody reads.
    fn hidden(self) -> Pages {
        let count = (self.pages.count / 2).min(2);
        Pages { first: self.pages.end() - count, count }
    }
}

impl FaultStream {
    fn new(first: u32) -> FaultStream {
        FaultStream {
            next: u32::MAX,
            run: 0,
            known: [0; 2],
            jumps: 0,
            start: 0,
            head: 0,
            wide: 0,
            step: 0,
            runs: 0,
            series: 0,
            ahead: 0,
            interval: 0,
            first,
            guess: first,
            guess_at: None,
            skipped: None,
            rest: 0,
        }
    }

    /// A run begins at `page`, that is not where the last one ended.
    fn begin(&mut self, page: u32, interval: u32) {
        self.jumps = self.jumps.wrapping_add(1);
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
            if series >= STEADY {
                self.end_series(page, ended, goes_on);
            } else {
                (self.head, self.wide) = (if goes_on { self.start } else { page }, 0);
            }
            (self.series, self.step, self.runs) = match (series >= STEADY, goes_on) {
                (true, _) => (series, self.step, 1),
                (false, true) => (0, step, 2),
                (false, false) => (0, 0, 1),
            };
        }
        if forgets {
            // How many series are side by side can be seen anew from here on.
            self.head = page;
            self.wide = 0;
            self.guess = self.first;
        }
        (self.start, self.ahead, self.interval) = (page, 0, interval);
    }

    /// A series of runs has ended, of so many pages each, and a run begins at `page`. If that goes on where
    /// the first one of the series ended, as a walk down one column after the other does, all of them are
    /// going to: next time they come together.
    fn end_series(&mut self, page: u32, pages: u32, goes_on: bool) {
        let wide = self.wide + pages;
        if goes_on && page == self.head.saturating_add(wide) {
            self.wide = wide;
            return;
        }
        // Columns that fill whole rows say nothing of others.
        if self.wide > 0 && wide <= SHORT && wide < self.step.unsigned_abs() {
            self.known[0] = wide;
        }
        (self.head, self.wide) = (page, 0);
    }

    /// The first fault after a guess is at `page`. If no hidden page was read, and the fault is as far from
    /// the guess's first page as the one after the last guess was, the walk does not read what lies between.
    /// Runs then begin with one page.
    fn judge(&mut self, page: u32, interval: u32, is_read: impl Fn(u32) -> Option<bool>) {
        let Some(guess) = self.guess_at.take().filter(|guess| guess.interval == interval) else { return };
        let looks = guess.hidden().iter().map(is_read);
        let (was_read, was_skipped) = looks.fold((false, true), |(read, skipped), look| {
            (read || look == Some(true), skipped && look == Some(false))
        });
        if was_read {
            (self.skipped, self.rest) = (None, REST);
            return;
        }
        if !was_skipped {
            return;
        }
        let distance = page.wrapping_sub(guess.pages.first);
        match (self.skipped, page == self.next) {
            (Some(last), _) if last == distance => {
                (self.guess, self.skipped) = (1, None);
                (self.run, self.start, self.next) = (1, guess.pages.first, u32::MAX);
                // Distances between guesses are no distances between runs.
                (self.step, self.runs, self.series) = (0, 1, 0);
            }
            (None, goes_on) => {
                self.skipped = Some(distance);
                // One more guess, even if nothing follows it.
                if !goes_on {
                    self.run = 0;
                }
            }
            _ => self.skipped = None,
        }
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
/// distance is the one of the last such series, as many as there were then. If a walk goes down one column of
/// pages after the other, and then elsewhere, the next one takes all these columns together.
///
/// Where a fetch is a round trip, a run begins with several pages although nothing is known of it. Such a
/// guess is wrong where a walk goes by single pages, and looks like a run in order if each fault is right
/// behind the last fetch. So a guess's last pages are left out of view now and then. If they are not read
/// before the next fault, which is as far away as the one after the last guess was, runs of this allocation
/// begin with one page, until one of them has become twice as long as a guess, or 64 have begun.
#[derive(Clone, Debug)]
pub(super) struct FaultStreams {
    table: [FaultStream; 16],
    /// The most pages that are worked on together.
    pub(super) most: u32,
}

impl FaultStreams {
    pub(super) fn new(first: u32, most: u32) -> Self {
        FaultStreams { table: [FaultStream::new(first); 16], most }
    }

    pub(super) fn of_fetches(cfg: &Config) -> Self {
        let widest = if cfg.cache > 0 { (cfg.cache / 4).max(1) } else { u32::MAX };
        FaultStreams::new(cfg.fetch_first.min(widest), cfg.fetch_most.min(widest))
    }

    pub(super) fn of_writes(cfg: &Config) -> Self {
        FaultStreams::new(1, cfg.fetch_most.min(MOST_AHEAD))
    }

    /// Whether a fault at `page` goes on where the last one ended.
    pub(super) fn goes_on(&self, allocation: u64, page: u32) -> bool {
        self.table[(allocation % 16) as usize].next == page
    }

    /// How many pages to fetch in this interval, beginning at `page` of allocation number `allocation`.
    pub(super) fn window(&mut self, allocation: u64, page: u32, interval: u32) -> u32 {
        let most = self.most;
        let s = &mut self.table[(allocation % 16) as usize];
        if page != s.next {
            s.begin(page, interval);
        }
        let [short, long] = s.known.map(|pages| pages.saturating_sub(s.run));
        if short > 0 {
            return short.min(most);
        }
        let doubled = s.run.clamp(s.guess, most);
        if long > 0 { doubled.min(long) } else { doubled }
    }

    /// Notes what was fetched after all. More than was `wanted` was fetched for other reasons, and says
    /// nothing of how long runs are.
    pub(super) fn fetched(&mut self, allocation: u64, pages: Pages, wanted: u32) {
        let s = &mut self.table[(allocation % 16) as usize];
        s.run = s.run.saturating_add(pages.count.min(wanted));
        s.next = pages.end();
        if s.run >= 2 * s.first && s.guess < s.first {
            (s.guess, s.rest) = (s.first, REST);
        }
    }

    /// There is a fault at `page`, before it is asked how much to fetch. `is_read`: whether a page that was
    /// out of view has been read, if that can be told.
    pub(super) fn judge(
        &mut self,
        allocation: u64,
        page: u32,
        interval: u32,
        is_read: impl Fn(u32) -> Option<bool>,
    ) {
        self.table[(allocation % 16) as usize].judge(page, interval, is_read);
    }

    /// These pages are fetched. If they are more than are known to be read, the last ones are left out of
    /// view ([`hides`](Self::hides)), now and then.
    pub(super) fn guesses(&mut self, allocation: u64, pages: Pages, interval: u32) {
        let s = &mut self.table[(allocation % 16) as usize];
        let is_known = s.known.iter().any(|&known| known >= s.run);
        if s.guess < 2 || pages.count < 2 || is_known {
            return;
        }
        if s.rest > 0 {
            s.rest -= 1;
        } else {
            s.guess_at = Some(Guess { pages, interval });
        }
    }

    /// Whether a page of the last fetch is left out of view, to see whether it is read.
    pub(super) fn hides(&self, allocation: u64, page: u32) -> bool {
        let guess = self.table[(allocation % 16) as usize].guess_at;
        guess.is_some_and(|guess| guess.hidden().iter().any(|hidden| hidden == page))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

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

    /// What a rank has of an allocation, from one fault to the next.
    struct Rank {
        streams: FaultStreams,
        here: BTreeSet<u32>,
        hidden: BTreeSet<u32>,
        fetches: Vec<Strided>,
    }

    impl Rank {
        fn new(first: u32, most: u32) -> Rank {
            let streams = FaultStreams::new(first, most);
            Rank { streams, here: BTreeSet::new(), hidden: BTreeSet::new(), fetches: vec![] }
        }

        fn read(&mut self, page: u32, interval: u32) {
            let s = &mut self.streams;
            if self.here.contains(&page) {
                self.hidden.remove(&page);
                return;
            }
            s.judge(3, page, interval, |page| Some(!self.hidden.contains(&page)));
            let run = Pages { first: page, count: s.window(3, page, interval) };
            s.fetched(3, run, run.count);
            let fetch = s.strided(3, run);
            s.strided_fetched(3, fetch);
            if fetch.times == 1 {
                s.guesses(3, run, interval);
            }
            self.here.extend(fetch.iter());
            self.hidden.extend(fetch.iter().filter(|&page| s.hides(3, page)));
            self.fetches.push(fetch);
        }

        /// Reads pages in an interval of its own. Returns how many fetches it takes, and pages.
        fn interval(&mut self, number: u32, pages: impl Iterator<Item = u32>) -> (usize, u32) {
            self.here.clear();
            self.hidden.clear();
            self.fetches.clear();
            pages.for_each(|page| self.read(page, number));
            (self.fetches.len(), self.fetches.iter().map(|fetch| fetch.count()).sum())
        }
    }

    /// Fetches what a walk over `runs` asks for; returns the runs and the pages of each fetch.
    fn walk(s: &mut FaultStreams, runs: impl Iterator<Item = Pages>) -> Vec<(u32, u32)> {
        let mut rank = Rank { streams: s.clone(), ..Rank::new(1, 1) };
        rank.interval(0, runs.flat_map(Pages::iter));
        *s = rank.streams;
        rank.fetches.iter().map(|fetch| (fetch.times, fetch.first.count)).collect()
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

    /// What a transposition reads of a matrix whose rows have four pages: two pages of each row, in tiles of
    /// 16 rows, one page of all rows of a tile after the other.
    fn transposed(rows: u32) -> impl Iterator<Item = u32> {
        let tiles = (0..rows).step_by(16);
        let columns = tiles.flat_map(|tile| (0..2).map(move |column| (tile, column)));
        columns.flat_map(|(tile, column)| (tile..tile + 16).map(move |row| 4 * row + column))
    }

    #[test]
    fn columns_side_by_side_come_together_once_a_walk_has_gone_down_one_after_the_other() {
        for first in [1, 8] {
            let mut rank = Rank::new(first, 64);
            let (fetches, pages) = rank.interval(0, transposed(512));
            assert!(fetches <= 36 && pages <= 1100, "{fetches} {pages}");
            for number in 1..10 {
                let (fetches, pages) = rank.interval(number, transposed(512));
                assert!(fetches <= 24 && pages <= 1100, "{fetches} {pages}");
            }
        }
    }

    /// Pages of the runs of each fetch.
    fn lengths(rank: &Rank) -> Vec<u32> {
        rank.fetches.iter().map(|fetch| fetch.first.count).collect()
    }

    #[test]
    fn a_walk_by_single_pages_is_not_guessed_to_read_those_between() {
        for distance in [4, 5, 8, 9, 16] {
            let walk = |first: u32| (0..25).map(move |page| first + distance * page);
            let mut rank = Rank::new(8, 64);
            rank.interval(0, walk(0));
            assert!(lengths(&rank)[2..].iter().all(|&pages| pages == 1), "{distance}: {:?}", rank.fetches);
            rank.interval(1, walk(1000));
            assert!(lengths(&rank).iter().all(|&pages| pages == 1), "{distance}: {:?}", rank.fetches);
        }
    }

    #[test]
    fn a_run_that_begins_with_one_page_grows_and_is_guessed_when_it_is_long() {
        let mut rank = Rank::new(8, 64);
        rank.interval(0, [0, 8].into_iter().chain(16..24));
        assert_eq!((lengths(&rank), rank.streams.table[3].guess), (vec![8, 8, 1, 1, 2, 4], 1));
        (24..32).for_each(|page| rank.read(page, 0));
        assert_eq!((lengths(&rank)[6..].to_vec(), rank.streams.table[3].guess), (vec![8], 8));
    }

    #[test]
    fn rows_of_which_a_part_is_read_come_several_at_a_time() {
        for pages in 1..=6 {
            let rows =
                |first: u32| (0..64).flat_map(move |row| (0..pages).map(move |page| first + 16 * row + page));
            let mut rank = Rank::new(8, 32);
            let (fetches, fetched) = rank.interval(0, rows(0));
            assert!(
                fetches <= 26 && fetched <= 64 * (pages.next_power_of_two() + 1),
                "{pages}: {fetches} {fetched}"
            );
            let (fetches, fetched) = rank.interval(1, rows(5000));
            assert!(
                fetches <= 20 && fetched <= 64 * (pages.next_power_of_two() + 1),
                "{pages}: {fetches} {fetched}"
            );
        }
    }

    #[test]
    fn a_column_after_all_columns_of_whole_rows_comes_alone() {
        let column = |page: u32| (0..64).map(move |row| 16 * row + page);
        let mut rank = Rank::new(1, 32);
        rank.interval(0, (0..16).flat_map(column));
        let (fetches, pages) = rank.interval(1, column(5));
        assert!(fetches <= 4 && pages <= 70, "{fetches} {pages}");
    }

    #[test]
    fn two_walks_in_turn_come_in_larger_pieces_again_after_a_walk_by_single_pages() {
        let mut rank = Rank::new(8, 32);
        rank.interval(0, (0..40).map(|row| 16 * row));
        let (fetches, _) = rank.interval(1, (0..400).flat_map(|page| [page, 5000 + page]));
        assert!(fetches <= 200, "{fetches}");
    }

    #[test]
    fn faults_at_no_distance_that_stays_or_in_other_intervals_say_nothing_of_guesses() {
        let mut rank = Rank::new(8, 64);
        rank.interval(0, [7000, 400, 900, 5000, 1200, 3300].into_iter());
        assert!(lengths(&rank).iter().all(|&pages| pages == 8), "{:?}", rank.fetches);
        let mut rank = Rank::new(8, 64);
        (0..3).for_each(|number| rank.read(8 * number, number));
        assert_eq!(lengths(&rank), [8, 8, 16]);
    }

    #[test]
    fn where_most_pages_are_read_all_are_fetched_in_order() {
        for skipped in 0..4 {
            let mut rank = Rank::new(8, 32);
            let (fetches, _) = rank.interval(0, (0..96).filter(|page| page % 4 != skipped));
            assert!(fetches <= 6, "{skipped}: {:?}", rank.fetches);
        }
    }

    #[test]
    fn one_guess_of_many_is_looked_at_where_guesses_are_read_to_their_ends() {
        let mut rank = Rank::new(8, 8);
        let mut looks = 0;
        for page in 0..800 {
            looks += u32::from(rank.hidden.contains(&page));
            rank.read(page, 0);
        }
        assert_eq!((rank.fetches.len(), looks), (100, 2 * 6));
    }

    #[test]
    fn what_cannot_be_told_of_a_guess_says_nothing() {
        let guesses = |is_read: [Option<bool>; 2]| {
            let mut s = FaultStreams::new(8, 32);
            (0..4).for_each(|n| {
                s.judge(3, 8 * n, 0, |page| is_read[(page % 2) as usize]);
                let run = Pages { first: 8 * n, count: s.window(3, 8 * n, 0).min(8) };
                s.fetched(3, run, run.count);
                s.guesses(3, run, 0);
            });
            s.table[3]
        };
        assert_eq!(guesses([Some(false); 2]).guess, 1);
        let open = [None, Some(false)];
        assert_eq!((guesses(open).guess, guesses(open).rest), (8, 0));
        assert_eq!((guesses([Some(true), Some(false)]).guess, guesses([Some(true); 2]).rest), (8, REST - 3));
    }
}
