//! How many pages are written one after the other, where many such runs grow at the same time: a radix sort
//! writes behind each of 256 places in turn.
//!
//! What faults show of one run at a time is for [`super::streams`]: there each fault elsewhere begins a new
//! run. Here a run is what lies side by side in the page table. Each barrier counts how many runs of changed
//! copies have reached which length. A write fault opens as many pages as at least half of the runs have had
//! that came as far as its page. While nothing is known, a run that goes on after faults elsewhere opens a
//! few pages at once.
//!
//! To open pages together that are written together is the aggregation of Amza, Cox, Rajamani and Zwaenepoel
//! (*Tradeoffs between False Sharing and Aggregation in Software Distributed Shared Memory*, `PPoPP` 1997).

use super::{MOST_AHEAD, Node};
use crate::Pages;
use crate::page::{Access, CachedPage, Page};

/// Runs that must have come so far before anything is opened ahead.
const ENOUGH: u32 = 8;
/// Or so many that have [`MOST_AHEAD`] pages: few, but of more pages.
const ENOUGH_LONG: u32 = 2;
/// So far a run is followed back. A page has up to 31 pages before it in its piece of [`MOST_AHEAD`], and 32
/// in the piece before.
const FARTHEST: u32 = 2 * MOST_AHEAD - 1;
/// While nothing is known, a run that goes on is taken to go on for so many times as many pages as it has,
/// and for no more than so many.
const GROWTH: u32 = 4;
const MOST_UNKNOWN: u32 = 8;
/// Runs from which on those of older intervals count half in each new one.
const MANY: u32 = 128;

/// Runs of one allocation.
#[derive(Clone, Copy, Debug, Default)]
struct Runs {
    /// How many have more pages than this.
    longer: [u32; MOST_AHEAD as usize],
    /// The interval that was counted last.
    counted: u32,
    /// Pages opened ahead in an interval: nobody knows before its end whether they are written.
    ahead: u32,
    interval: u32,
}

impl Runs {
    /// How many have more than so many pages.
    fn longer(&self, pages: u32) -> u32 {
        self.longer.get(pages as usize).copied().unwrap_or(0)
    }

    /// Whether several of them have [`MOST_AHEAD`] pages.
    fn are_long(&self) -> bool {
        self.longer(MOST_AHEAD - 1) >= ENOUGH_LONG
    }

    fn are_known(&self) -> bool {
        self.longer(0) >= ENOUGH || self.are_long()
    }

    /// How many pages to open, if enough is known: those that half of the runs have that have one more than
    /// `behind`. Of runs with more than [`MOST_AHEAD`] pages only that is known.
    fn window(&self, behind: u32) -> Option<u32> {
        if behind >= MOST_AHEAD {
            return self.are_long().then_some(MOST_AHEAD / 2);
        }
        let runs = self.longer(behind);
        let goes_on = |&ahead: &u32| self.longer(behind + ahead) >= runs.div_ceil(2);
        let is_enough = runs >= ENOUGH || self.are_long();
        is_enough.then(|| (1..MOST_AHEAD).take_while(goes_on).last().unwrap_or(0) + 1)
    }

    /// Counts a page that was written, behind which its run goes back so many pages.
    fn wrote(&mut self, behind: u32, interval: u32) {
        if self.counted != interval && self.longer.iter().any(|&runs| runs >= MANY) {
            self.longer.iter_mut().for_each(|runs| *runs /= 2);
        }
        self.counted = interval;
        if let Some(runs) = self.longer.get_mut(behind as usize) {
            *runs = runs.saturating_add(1);
        }
    }

    /// Pages opened ahead in this interval.
    fn ahead(&mut self, interval: u32) -> &mut u32 {
        if self.interval != interval {
            (self.interval, self.ahead) = (interval, 0);
        }
        &mut self.ahead
    }
}

/// Runs of copies that this rank writes, for each allocation (by its number, modulo a small table).
#[derive(Clone, Debug, Default)]
pub(super) struct WriteRuns {
    table: [Runs; 16],
    /// The one that was counted last and has enough runs: others are taken to be alike until as much is known
    /// of them. Programs have arrays that change roles.
    last: usize,
}

impl WriteRuns {
    /// How many pages to open, from one on behind which the run goes back so many pages. In one interval no
    /// more than twice as many are opened ahead as there were pages in the runs that this is known from;
    /// while nothing is known, a few at once. `jumps`: the fault is elsewhere than where the last one ended.
    fn window(&mut self, allocation: u64, behind: u32, jumps: bool, interval: u32) -> u32 {
        let own = index(allocation);
        let known = self.table[if self.table[own].are_known() { own } else { self.last }];
        if !known.are_known() {
            return if jumps { behind.saturating_mul(GROWTH).clamp(1, MOST_UNKNOWN) } else { 1 };
        }
        let most = known.longer.iter().fold(0, |sum: u32, &runs| sum.saturating_add(runs)).saturating_mul(2);
        let left = most.saturating_sub(*self.table[own].ahead(interval));
        known.window(behind).unwrap_or(1).min(left.saturating_add(1))
    }

    /// Notes that so many pages were opened ahead.
    fn opened_ahead(&mut self, allocation: u64, pages: u32, interval: u32) {
        let ahead = self.table[index(allocation)].ahead(interval);
        *ahead = ahead.saturating_add(pages);
    }

    /// Counts a page that was written.
    fn wrote(&mut self, allocation: u64, behind: u32, interval: u32) {
        let runs = &mut self.table[index(allocation)];
        runs.wrote(behind, interval);
        if runs.are_known() {
            self.last = index(allocation);
        }
    }
}

fn index(allocation: u64) -> usize {
    (allocation % 16) as usize
}

impl Node {
    /// Whether runs open as wholes. Not where intervals end between barriers: each lock that leaves would
    /// have all of them compared.
    pub(super) fn opens_runs(&self) -> bool {
        self.cfg.predict && !self.keeps_back()
    }

    /// How many pages are worth being opened together for writing, beginning at a copy that is not writable
    /// yet. `jumps`: its fault is elsewhere than where the last one ended.
    pub(super) fn worth_opening(&mut self, page: u32, id: u64, range: Pages, jumps: bool) -> u32 {
        if !self.opens_runs() {
            return 1;
        }
        let behind = self.behind(page, range, MOST_AHEAD, |_| true);
        self.learning.runs.window(id, behind, jumps, self.interval).min(self.learning.writes.most)
    }

    /// Notes that so many pages of a fault were opened for the sake of their run.
    pub(super) fn opened_ahead(&mut self, id: u64, pages: u32) {
        self.learning.runs.opened_ahead(id, pages, self.interval);
    }

    /// A barrier has found that this rank has written a copy.
    pub(super) fn wrote(&mut self, page: u32) {
        if !self.opens_runs() {
            return;
        }
        let Some(a) = self.heap.find(page) else { return };
        let (id, range) = (a.id, Pages { first: a.first, count: a.pages });
        let behind = self.behind(page, range, FARTHEST, |copy| !copy.is_ahead() || copy.has_changed());
        if let Some(at) = place_in_run(behind, page - range.first) {
            self.learning.runs.wrote(id, at, self.interval);
        }
    }

    /// How many such copies right behind this page are writable: its run, as far as it goes back, but not
    /// more than `most`.
    fn behind(&self, page: u32, range: Pages, most: u32, counts: impl Fn(CachedPage) -> bool) -> u32 {
        let first = page.saturating_sub(most).max(range.first);
        let is_one = |&p: &u32| match self.table.get(p).page() {
            Page::Copy(copy) => copy.access() == Access::Write && counts(copy),
            _ => false,
        };
        let run = (first..page).rev().take_while(is_one).count();
        u32::try_from(run).unwrap_or(most)
    }
}

/// As what a page counts whose run goes back so many pages: the page of a run that has so many before it. A
/// run that is longer than is counted counts as several, which begin at round numbers of the allocation's
/// pages: so nobody need look for the beginning. What is left between the first one and these says nothing;
/// what is left at the end counts as a short run.
fn place_in_run(behind: u32, offset: u32) -> Option<u32> {
    let place = offset % MOST_AHEAD;
    match behind {
        0..MOST_AHEAD => Some(behind),
        _ => (behind >= MOST_AHEAD + place).then_some(place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Intervals, one after the other, in each of which runs of so many pages grow in turn.
    #[derive(Default)]
    struct Scatter {
        runs: WriteRuns,
        interval: u32,
    }

    impl Scatter {
        /// Returns the faults of one interval, and how many pages were opened in vain.
        fn interval(&mut self, allocation: u64, lengths: &[u32]) -> (u32, u32) {
            self.interval += 1;
            let mut open = vec![0; lengths.len()];
            let (mut faults, jumps) = (0, lengths.len() > 1);
            for place in 0..*lengths.iter().max().unwrap() {
                for (open, &length) in open.iter_mut().zip(lengths) {
                    if place < length && *open <= place {
                        let window = self.runs.window(allocation, *open, jumps, self.interval);
                        self.runs.opened_ahead(allocation, window - 1, self.interval);
                        *open += window;
                        faults += 1;
                    }
                }
            }
            for behind in lengths.iter().flat_map(|&length| 0..length) {
                self.runs.wrote(allocation, behind.min(MOST_AHEAD), self.interval);
            }
            (faults, open.iter().zip(lengths).map(|(open, length)| open - length).sum())
        }

        /// The interval after some that are alike.
        fn learnt(&mut self, allocation: u64, lengths: &[u32]) -> (u32, u32) {
            (0..8).for_each(|_| _ = self.interval(allocation, lengths));
            self.interval(allocation, lengths)
        }
    }

    #[test]
    fn a_run_opens_in_one_fault_once_it_is_known_how_long_runs_are() {
        let mut scatter = Scatter::default();
        assert_eq!(scatter.interval(1, &[5; 128]), (2 * 128, 0), "the first ones show that they go on");
        assert_eq!(scatter.interval(1, &[5; 128]), (128, 0));
        assert_eq!(scatter.interval(2, &[5; 128]), (128, 0), "another array is taken to be alike");
        assert_eq!(scatter.interval(2, &[5; 128]), (128, 0));
    }

    #[test]
    fn runs_that_become_longer_or_shorter_are_noticed() {
        let mut scatter = Scatter::default();
        for length in [3, 9, 2, 32] {
            assert_eq!(scatter.learnt(1, &[length; 100]), (100, 0), "{length}");
        }
    }

    #[test]
    fn a_few_long_runs_say_as_much_as_many_short_ones() {
        let mut scatter = Scatter::default();
        assert_eq!(scatter.interval(1, &[MOST_AHEAD]), (MOST_AHEAD, 0), "in order: for others to see");
        assert_eq!(scatter.interval(1, &[MOST_AHEAD]), (MOST_AHEAD, 0));
        assert_eq!(scatter.interval(1, &[MOST_AHEAD]), (1, 0));
    }

    #[test]
    fn a_run_that_is_a_little_longer_than_what_is_counted_counts_once() {
        for first in 0..2 * MOST_AHEAD {
            for pages in [MOST_AHEAD + 1, 2 * MOST_AHEAD - 1, 10 * MOST_AHEAD] {
                let last = (0..pages).filter(|&behind| {
                    place_in_run(behind.min(FARTHEST), first + behind) == Some(MOST_AHEAD - 1)
                });
                let wholes = if pages < 2 * MOST_AHEAD { 1..=1 } else { 9..=10 };
                assert!(wholes.contains(&last.count()), "{pages} from {first} on");
            }
        }
    }

    #[test]
    fn runs_that_are_longer_than_what_is_counted_go_on_in_halves() {
        let mut scatter = Scatter::default();
        assert_eq!(scatter.learnt(1, &[MOST_AHEAD + 20; 100]), (300, 1200), "32, 16 and 16 pages");
    }

    #[test]
    fn pages_are_opened_that_at_least_half_of_the_runs_have() {
        let lengths = |short, long| [vec![1; short], vec![20; long]].concat();
        let mut scatter = Scatter::default();
        assert_eq!(scatter.learnt(1, &lengths(90, 10)), (90 + 2 * 10, 0), "who has two pages has twenty");
        assert_eq!(scatter.learnt(1, &lengths(49, 51)), (100, 49 * 19));
    }

    #[test]
    fn an_array_that_is_not_alike_costs_no_more_than_twice_what_the_last_one_had() {
        let mut scatter = Scatter::default();
        scatter.interval(1, &[5; 20]);
        assert_eq!(scatter.interval(2, &[1; 1000]), (1000, 2 * 5 * 20));
        assert_eq!(scatter.interval(2, &[1; 1000]), (1000, 0));
    }

    #[test]
    fn a_few_runs_say_nothing() {
        let mut scatter = Scatter::default();
        let faults: Vec<u32> = (0..10).map(|_| scatter.interval(1, &[3]).0).collect();
        assert_eq!(faults, [3, 3, 3, 3, 3, 3, 3, 3, 1, 1]);
    }

    #[test]
    fn runs_that_grow_side_by_side_open_a_few_pages_at_once_before_anything_is_known() {
        assert_eq!(
            Scatter::default().interval(1, &[20; 3]),
            (4 * 3, 3),
            "1, 4, 8 and 8 pages, one of them in vain"
        );
    }

    #[test]
    fn single_pages_open_nothing_before_anything_is_known() {
        assert_eq!(Scatter::default().interval(1, &[1; 1000]), (1000, 0));
    }
}
