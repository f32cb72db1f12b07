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

    /// Notes what was fetched after all, with what is behind it and was fetched before. More than was
    /// `wanted` was fetched for other reasons, and says nothing of how long runs are.
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
mod tests;
