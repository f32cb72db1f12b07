//! Who wrote which byte of a page, and whether anything ordered the writes.

use super::log::Trace;
use super::{Race, Writer};
use crate::diff::{Changes, PageBytes};
use crate::wire::sync::KnownIntervals;
use crate::{PAGE_SIZE, Rank};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Bytes of a page, a bit each.
type Mask = [u64; PAGE_SIZE / 64];

/// A trace whose values stand where they belong in the page.
pub(super) struct Writes<'a> {
    trace: &'a Trace,
    new: Box<PageBytes>,
    old: Box<PageBytes>,
    /// What the home held before the changes were merged or put there, if that is known.
    met: Option<Cow<'a, PageBytes>>,
}

/// Everything that is known of one page at the end of an epoch.
pub(super) struct PageWrites<'a> {
    /// The page's home, which compares.
    pub(super) home: Rank,
    /// The last interval of each other rank that the home has heard of.
    pub(super) known: &'a KnownIntervals,
    /// What the page held when the epoch began.
    pub(super) base: Option<&'a PageBytes>,
    /// What it holds after all merges and puts.
    pub(super) after: Option<&'a PageBytes>,
    /// All traces of this epoch are here.
    pub(super) complete: bool,
    /// Those of one rank in the order in which it wrote.
    pub(super) writes: Vec<Writes<'a>>,
}

/// The two that race for a byte: a number in [`PageWrites::writes`] each, `None` for the home.
type Pair = (Option<usize>, usize);

impl<'a> Writes<'a> {
    /// `before`: what the home held before it merged what this rank sent.
    pub(super) fn of(trace: &'a Trace, before: Option<&'a PageBytes>) -> Writes<'a> {
        let spread = |values| spread(&trace.changes, values);
        let (new, old) = (spread(&trace.new), spread(&trace.old));
        let met = match &trace.met {
            Some(met) => Some(Cow::Owned(*spread(met))),
            None => before.map(Cow::Borrowed),
        };
        Writes { trace, new, old, met }
    }

    fn covers(&self, at: usize) -> bool {
        self.trace.changes.masks()[at / 64] >> (at % 64) & 1 == 1
    }

    fn rank(&self) -> Rank {
        self.trace.rank
    }

    /// Whether a rank with that vector time has heard of it.
    fn is_known(&self, known: &KnownIntervals) -> bool {
        known.iter().any(|&(rank, number)| rank == self.rank() && number >= self.trace.number)
    }

    fn is_ordered_with(&self, other: &Writes<'_>) -> bool {
        self.rank() == other.rank() || self.is_known(&other.trace.known) || other.is_known(&self.trace.known)
    }

    fn has_heard_of(&self, rank: Rank) -> bool {
        self.trace.known.iter().any(|&(r, _)| r == rank)
    }
}

fn spread(changes: &Changes, mut values: &[u8]) -> Box<PageBytes> {
    let mut page = Box::new([0; PAGE_SIZE]);
    for run in changes.runs() {
        let (here, rest) = values.split_at(usize::from(run.len));
        page[run.range()].copy_from_slice(here);
        values = rest;
    }
    page
}

impl PageWrites<'_> {
    /// The races for bytes of the page. `own` says where the home wrote it.
    pub(super) fn compare_writes(&self, page: u32, own: impl Fn() -> String) -> Vec<Race> {
        let mut places: BTreeMap<Pair, Vec<usize>> = BTreeMap::new();
        for at in ones(&self.suspects()) {
            for pair in self.pairs(at) {
                places.entry(pair).or_default().push(at);
            }
        }
        let mut races = Vec::new();
        for ((first, second), places) in places {
            let second = self.writer(second);
            let first = match first {
                Some(first) => self.writer(first),
                None => Writer { rank: self.home, site: own() },
            };
            let mut writers = [first, second];
            writers.sort_unstable();
            let neighbours = places.chunk_by(|a, b| a + 1 == *b);
            races.extend(neighbours.map(|run| Race {
                page,
                offset: run[0],
                len: run.len(),
                writers: writers.clone(),
            }));
        }
        races.sort_by_key(|race| race.offset);
        races
    }

    fn writer(&self, number: usize) -> Writer {
        let trace = self.writes[number].trace;
        Writer { rank: trace.rank, site: trace.site.clone() }
    }

    /// The bytes that may be raced for: all others are as they should be if only one wrote them. This is all
    /// that happens to most pages.
    fn suspects(&self) -> Mask {
        let (mut any, mut suspects): (Mask, Mask) = ([0; _], [0; _]);
        for writes in &self.writes {
            let masks = writes.trace.changes.masks();
            for (line, &mask) in masks.iter().enumerate() {
                suspects[line] |= any[line] & mask;
                any[line] |= mask;
            }
            let mut compare = |a: &PageBytes, b: Option<&PageBytes>| {
                let Some(b) = b else { return };
                let differ = Changes::between(a, b);
                for (line, (&differ, &mask)) in differ.masks().iter().zip(masks).enumerate() {
                    suspects[line] |= differ & mask;
                }
            };
            compare(&writes.old, self.base);
            compare(&writes.old, writes.met.as_deref());
            compare(&writes.new, self.after);
        }
        suspects
    }

    /// The ranks that race for a byte. If ranks do that left traces, the home is not looked at: nothing is as
    /// it should be there.
    fn pairs(&self, at: usize) -> Vec<Pair> {
        let covering: Vec<usize> = (0..self.writes.len()).filter(|&i| self.writes[i].covers(at)).collect();
        let mut pairs: BTreeMap<[Rank; 2], Pair> = BTreeMap::new();
        for (n, &i) in covering.iter().enumerate() {
            for &j in &covering[n + 1..] {
                let (a, b) = (&self.writes[i], &self.writes[j]);
                if a.new[at] != b.new[at] && !a.is_ordered_with(b) {
                    let mut ranks = [a.rank(), b.rank()];
                    ranks.sort_unstable();
                    pairs.entry(ranks).or_insert((Some(i), j));
                }
            }
        }
        if pairs.is_empty() {
            for &i in covering.iter().filter(|&&i| self.races_with_home(i, &covering, at)) {
                pairs.entry([self.home, self.writes[i].rank()]).or_insert((None, i));
            }
        }
        pairs.into_values().collect()
    }

    /// Whether the home has written a byte that a trace has, and is not ordered with it.
    fn races_with_home(&self, i: usize, covering: &[usize], at: usize) -> bool {
        self.was_met(i, at)
            || self.complete
                && (self.was_written_before(i, covering, at) || self.was_written_after(i, covering, at))
    }

    /// The changes were to take the place of something that was not there any more.
    fn was_met(&self, i: usize, at: usize) -> bool {
        let writes = &self.writes[i];
        writes.met.as_ref().is_some_and(|met| met[at] != writes.old[at] && met[at] != writes.new[at])
    }

    /// The writer had a copy with a byte that only the home can have written in this epoch, and has heard
    /// nothing of the home since. (What another rank wrote early in the next epoch can already be in the
    /// base.)
    fn was_written_before(&self, i: usize, covering: &[usize], at: usize) -> bool {
        let Some(base) = self.base else { return false };
        let writes = &self.writes[i];
        let old = writes.old[at];
        let others = |&&j: &&usize| j != i && self.writes[j].new[at] == old;
        base[at] != old
            && !writes.has_heard_of(self.home)
            && !covering.iter().any(|&j| self.writes[j].new[at] == base[at])
            && !covering.iter().any(|j| others(&j))
    }

    /// What was written last is not there any more, and the home has not heard of it.
    fn was_written_after(&self, i: usize, covering: &[usize], at: usize) -> bool {
        let (Some(after), writes) = (self.after, &self.writes[i]) else { return false };
        let comes_last = covering.iter().all(|&j| {
            let other = &self.writes[j];
            let earlier = other.rank() == writes.rank() && j <= i;
            earlier || other.is_known(&writes.trace.known)
        });
        comes_last && after[at] != writes.new[at] && !writes.is_known(self.known)
    }
}

/// The places of the ones.
fn ones(mask: &Mask) -> impl Iterator<Item = usize> {
    let bits = |&(_, word): &(usize, &u64)| *word != 0;
    mask.iter().enumerate().filter(bits).flat_map(|(line, &word)| {
        (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| line * 64 + bit)
    })
}
