//! What ranks have written since the last memory barrier: their records, and who knows which.

use super::collective::union;
use super::runs;
use crate::wire::sync::{KnownIntervals, Record};
use crate::{Pages, Rank};
use std::collections::BTreeMap;

/// Records of one rank that are kept apart; of more, the older half is joined. A rank that is far behind then
/// hears of more pages than it must.
const MOST_RECORDS: usize = 64;

/// What has been written since the last memory barrier, as far as it is known here.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// By rank, in the order of their numbers.
    records: BTreeMap<Rank, Vec<Record>>,
    /// Records whose pages have not been taken out of view.
    pub(super) news: Vec<Record>,
    /// What each rank has told or was told: at least that much is known there.
    told: BTreeMap<Rank, BTreeMap<Rank, u64>>,
}

impl History {
    /// The vector time.
    pub(super) fn known(&self) -> KnownIntervals {
        self.records.iter().filter_map(|(&rank, list)| Some((rank, list.last()?.number))).collect()
    }

    /// Whether one that knows that much does not know of a write of this page: of any rank in an interval
    /// whose record names it, or of its home in any interval.
    pub(super) fn wrote_since(&self, known: &KnownIntervals, page: u32, home: Rank) -> bool {
        let wrote = |(&rank, list): (&Rank, &Vec<Record>)| {
            let have = known.iter().find(|&&(r, _)| r == rank).map_or(0, |&(_, number)| number);
            let mut newer = list.iter().rev().take_while(|record| record.number > have);
            newer.any(|record| rank == home || record.names(page))
        };
        self.records.iter().any(wrote)
    }

    /// Whether nothing was written.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.news.is_empty()
    }

    /// The number of a rank's newest record that is known.
    pub(super) fn number(&self, rank: Rank) -> u64 {
        self.records.get(&rank).and_then(|list| list.last()).map_or(0, |last| last.number)
    }

    /// What one that knows that much does not know.
    pub(super) fn missing(&self, known: &KnownIntervals) -> Vec<Record> {
        let known: BTreeMap<Rank, u64> = known.iter().copied().collect();
        let unknown = |(rank, list): (&Rank, &Vec<Record>)| {
            let have = known.get(rank).copied().unwrap_or(0);
            let from = list.partition_point(|record| record.number <= have);
            list[from..].to_vec()
        };
        self.records.iter().flat_map(unknown).collect()
    }

    /// What a rank was not told yet and did not tell. It is told now.
    pub(super) fn news_for(&mut self, to: Rank) -> Vec<Record> {
        let known = self.told.get(&to).into_iter().flatten().map(|(&rank, &number)| (rank, number)).collect();
        let news = self.missing(&known);
        news.iter().for_each(|record| self.has_heard(to, record));
        news
    }

    /// Notes that a rank knows a record.
    pub(super) fn has_heard(&mut self, who: Rank, record: &Record) {
        let number = self.told.entry(who).or_default().entry(record.rank).or_default();
        *number = record.number.max(*number);
    }

    /// Adds a rank's next record.
    pub(super) fn add(&mut self, record: Record) {
        let list = self.records.entry(record.rank).or_default();
        list.push(record);
        if list.len() > MOST_RECORDS {
            let newer = list.split_off(MOST_RECORDS / 2);
            if let Some(joined) = std::mem::replace(list, newer).into_iter().reduce(join) {
                list.insert(0, joined);
            }
        }
    }
}

/// Two records of one rank, the second the newer, as one.
fn join(older: Record, newer: Record) -> Record {
    let pages = union([older.pages, newer.pages].concat());
    let tracked = union([older.tracked, newer.tracked].concat());
    Record { rank: newer.rank, number: newer.number, pages, tracked }
}

/// Sorted pages as runs.
pub(super) fn as_runs(pages: &[u32]) -> Vec<Pages> {
    let mut list = Vec::new();
    runs(pages, |run| list.push(run));
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(rank: u32, number: u64, page: u64) -> Record {
        let page = u32::try_from(page).unwrap();
        Record { rank: Rank(rank), number, pages: vec![Pages::one(page)], tracked: vec![] }
    }

    #[test]
    fn who_knows_something_hears_the_rest() {
        let mut history = History::default();
        for number in 1..=3 {
            history.add(record(1, number, number));
            history.add(record(5, number, 10 + number));
        }
        assert_eq!(history.known(), [(Rank(1), 3), (Rank(5), 3)]);
        let missing = history.missing(&vec![(Rank(5), 2), (Rank(7), 9)]);
        let numbers: Vec<_> = missing.iter().map(|r| (r.rank.0, r.number)).collect();
        assert_eq!(numbers, [(1, 1), (1, 2), (1, 3), (5, 3)]);
        assert!(history.missing(&history.known()).is_empty());
    }

    /// A rank that comes to no barrier for hours has so many.
    #[test]
    fn intervals_are_told_apart_behind_the_four_billionth() {
        let mut history = History::default();
        let many = u64::from(u32::MAX);
        (0..3).for_each(|more| history.add(record(1, many + more, more)));
        let missing = history.missing(&vec![(Rank(1), many)]);
        assert_eq!(missing, [record(1, many + 1, 1), record(1, many + 2, 2)]);
        assert_eq!(history.number(Rank(1)), many + 2);
    }

    #[test]
    fn nobody_is_told_what_it_has_told_or_was_told_before() {
        let mut history = History::default();
        (1..=3).for_each(|number| history.add(record(1, number, number)));
        assert_eq!(history.news_for(Rank(7)).len(), 3);
        assert_eq!(history.news_for(Rank(7)), []);
        history.add(record(1, 4, 9));
        history.add(record(2, 1, 5));
        history.has_heard(Rank(7), &record(2, 1, 5));
        assert_eq!(history.news_for(Rank(7)), [record(1, 4, 9)]);
        assert_eq!(history.news_for(Rank(8)).len(), 5);
    }

    #[test]
    fn a_long_history_is_joined_and_nobody_misses_a_page_for_it() {
        let mut history = History::default();
        // More records than are kept.
        let last = if cfg!(miri) { 300 } else { 10_000 };
        for number in 1..=last {
            let tracked = if number == 9 { vec![Pages::one(77)] } else { vec![] };
            history.add(Record { tracked, ..record(1, number, number % 100) });
        }
        assert!(history.records[&Rank(1)].len() <= MOST_RECORDS);
        let missing = history.missing(&KnownIntervals::new());
        let mut pages: Vec<u32> = missing.iter().flat_map(|r| &r.pages).flat_map(|run| run.iter()).collect();
        pages.sort_unstable();
        pages.dedup();
        assert_eq!(pages, (0..100).collect::<Vec<_>>());
        let tracked = |records: &[Record]| records.iter().any(|r| r.tracked == [Pages::one(77)]);
        assert!(tracked(&missing), "the record that says so was joined with others long ago");
        let newest = history.missing(&vec![(Rank(1), last - 1)]);
        assert_eq!(newest, [record(1, last, last % 100)]);
    }
}
