//! What the search for data races ([`races`](crate::races)) must know of the protocol's state: which interval
//! it is, which rank compares, which pages were zeros.
//!
//! With races off nothing here is ever asked.

use super::collective::union;
use super::{AllocOptions, Node, Output, Violation};
use crate::heap::{Allocation, RESERVED};
use crate::races::Stamp;
use crate::wire::sync::KnownIntervals;
use crate::wire::{News, Notice};
use crate::{Pages, Rank};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Pages at most that one search for pages at home looks at.
const SEARCHED: usize = 4096;

/// An epoch's part of that.
#[derive(Clone, Debug, Default)]
pub(super) struct RaceEpoch {
    /// The intervals so far, and what was known in each. Numbers in this list go into traces, for they can be
    /// taken in a signal handler.
    stamps: Vec<Stamp>,
    /// Pages that got new homes in this barrier, with the ranks that compare.
    moved: BTreeMap<u32, Rank>,
    /// Pages that are zeros when the next epoch begins, or were when the present one did: allocated, or
    /// touched first.
    zeros: Vec<Pages>,
    /// The same of the epoch that is looked at.
    were_zeros: Vec<Pages>,
    /// Home pages with words that were ever operated on: in frames that this rank may never have touched.
    operated: BTreeSet<u32>,
    /// The vector time at its end.
    known: KnownIntervals,
}

impl RaceEpoch {
    pub(super) fn new() -> RaceEpoch {
        RaceEpoch { stamps: vec![Stamp { number: 1, known: KnownIntervals::new() }], ..RaceEpoch::default() }
    }
}

impl Node {
    /// Ranks of the job.
    pub fn size(&self) -> u32 {
        self.cfg.size
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.cfg.rank
    }

    /// The other ranks.
    pub(crate) fn peers(&self) -> impl Iterator<Item = Rank> {
        let me = self.cfg.rank;
        (0..self.cfg.size).map(Rank).filter(move |&rank| rank != me)
    }

    /// Stands for the present interval and what is known in it. Allocates nothing.
    pub(crate) fn stamp(&self) -> u32 {
        u32::try_from(self.epoch_of_races.stamps.len() - 1).unwrap_or(u32::MAX)
    }

    /// The interval that a number stands for.
    pub(crate) fn stamp_at(&self, number: u32) -> &Stamp {
        &self.epoch_of_races.stamps[number as usize]
    }

    /// The rank that compares what others wrote in a page: its home, and before that moves.
    pub(crate) fn comparer_of(&self, page: u32) -> Option<Rank> {
        let moved = self.epoch_of_races.moved.get(&page).copied();
        moved.or_else(|| self.home(page)).filter(|&comparer| comparer != self.cfg.rank)
    }

    /// What this rank knew at the end of the epoch that is looked at.
    pub(crate) fn known_at_end(&self) -> &KnownIntervals {
        &self.epoch_of_races.known
    }

    /// Whether a page held zeros when the epoch began that is looked at.
    pub(crate) fn was_zero(&self, page: u32) -> bool {
        let runs = &self.epoch_of_races.were_zeros;
        let run = runs.get(runs.partition_point(|run| run.end() <= page));
        run.is_some_and(|run| run.first <= page)
    }

    /// Whether this rank has never touched a page, nor heard that it moved, nor that it was operated on.
    pub(crate) fn is_untouched(&self, page: u32) -> bool {
        self.table.get(page).is_blank() && !self.epoch_of_races.operated.contains(&page)
    }

    /// Some pages that are at home here, from where the last search ended.
    pub(crate) fn pages_at_home(&self, cursor: &mut u32, most: usize) -> Vec<u32> {
        let start = *cursor;
        let behind = self.heap.iter().flat_map(|a| self.with_homes(a, start..u32::MAX));
        let before = self.heap.iter().flat_map(|a| self.with_homes(a, 0..start));
        let mut found = Vec::new();
        for page in behind.chain(before).take(SEARCHED) {
            if found.len() == most {
                break;
            }
            *cursor = page + 1;
            // Also those that this rank has never touched itself: others may have them.
            if self.is_home(page) {
                found.push(page);
            }
        }
        found
    }

    /// Pages of an allocation, of these, that can have homes: of the reservation only those that somebody has
    /// touched.
    fn with_homes(&self, a: &Allocation<AllocOptions>, within: Range<u32>) -> impl Iterator<Item = u32> + '_ {
        let (first, end) = (a.first.max(within.start), (a.first + a.pages).min(within.end));
        let (all, used) = if a.id == RESERVED { (0..0, first..end.max(first)) } else { (first..end, 0..0) };
        all.chain(self.table.used(used))
    }

    /// A new interval begins, or more is known in it from now on.
    pub(super) fn stamp_again(&mut self, known: Option<KnownIntervals>) {
        if !self.cfg.races {
            return;
        }
        let number = self.sync.intervals.history.number(self.cfg.rank) + 1;
        let stamps = &mut self.epoch_of_races.stamps;
        let known = known.unwrap_or_else(|| stamps.last().map(|last| last.known.clone()).unwrap_or_default());
        stamps.push(Stamp { number, known });
    }

    /// First touches that everybody has heard of.
    pub(super) fn note_first_touches(&mut self, notices: &[Notice]) {
        if self.cfg.races {
            let claims = notices.iter().filter(|n| n.news == News::FirstTouch).map(|n| n.pages);
            self.epoch_of_races.zeros.extend(claims);
        }
    }

    /// Pages at home here that somebody has operated on.
    pub(super) fn note_operated(&mut self, pages: &[(u32, Rank)]) {
        if self.cfg.races {
            self.epoch_of_races.operated.extend(pages.iter().map(|&(page, _)| page));
        }
    }

    /// Pages that were allocated just now.
    pub(super) fn note_new_pages(&mut self, pages: Pages) {
        if self.cfg.races {
            self.epoch_of_races.zeros.push(pages);
        }
    }

    /// The home of a page moves.
    pub(super) fn note_move(&mut self, page: u32, from: Option<Rank>) {
        if let Some(from) = from.filter(|_| self.cfg.races) {
            self.epoch_of_races.moved.entry(page).or_insert(from);
        }
    }

    /// All have come to the barrier: orders that homes are told what was written.
    pub(super) fn send_writes(&mut self) {
        if self.cfg.races {
            self.out.push_back(Output::SendWrites);
        }
    }

    /// A message of an [`Output::SendWrites`] was sent.
    pub(super) fn writes_sent(&mut self, to: Rank) {
        self.meetings.now.sent(to, 1);
    }

    /// Somebody has writes_sent.
    pub(super) fn write_traces(&mut self, from: Rank, meeting: u32) -> Result<(), Violation> {
        self.item_for(from, meeting)?;
        self.advance()
    }

    /// The barrier ends: orders the judgement, before anything else happens to frames.
    pub(super) fn compare_writes(&mut self) {
        if !self.cfg.races {
            return;
        }
        let known = self.sync.intervals.history.known();
        let epoch = &mut self.epoch_of_races;
        let were_zeros = union(std::mem::take(&mut epoch.zeros));
        let operated = std::mem::take(&mut epoch.operated);
        *epoch = RaceEpoch { were_zeros, known, operated, ..RaceEpoch::new() };
        self.out.push_back(Output::CompareWrites);
    }
}
