//! Walks, and the fetches that they take.

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
        let wanted = s.window(3, page, interval);
        let is_here = |&n: &u32| self.here.contains(&(page + n));
        let count = (1..wanted).find(is_here).unwrap_or(wanted);
        let here = (count..wanted).take_while(is_here).count();
        let run = Pages { first: page, count };
        s.fetched(3, Pages { count: count + u32::try_from(here).unwrap(), ..run }, wanted);
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
    for (first, most) in [(1, 64), (8, 64), (1, 32), (8, 32)] {
        let least = 1024 / most as usize;
        let mut rank = Rank::new(first, most);
        let (fetches, pages) = rank.interval(0, transposed(512));
        assert!(fetches <= least + 20 && pages <= 1100, "{fetches} {pages}");
        for number in 1..20 {
            let (fetches, pages) = rank.interval(number, transposed(512));
            assert!(fetches <= least + 8 && pages <= 1100, "{fetches} {pages}");
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
