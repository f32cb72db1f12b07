//! Pages that come with a lock.
//!
//! Over a network a copy that is [renewed](super::intervals) costs a round trip, which the next holder of a
//! lock waits for after it has waited for the lock. So it says, when it asks for the lock, which copies it
//! would renew; and who hands the lock on sends what its frames hold of those whose home it is.
//!
//! What comes so is older than what a get would bring, and must not take the place of anything newer. So it
//! comes with what its home **knew** when it looked at the frames. All that it knew of was in these frames by
//! then: who is told of an interval is told when what was put is in place, or by a message behind it. Of what
//! a rank knows beyond that, records name each page that others than the home have written. So a rank that
//! knows of no such record, and of no later interval of the home, has seen nothing that the bytes lack,
//! unless it has itself put something into the page, or read it from home, of which there is no record yet.
//! Any other rank gets the page from its home, as ever.

use super::history::as_runs;
use super::{Node, Output, Violation};
use crate::page::List;
use crate::wire::sync::{Brought, KnownIntervals, MOST_BROUGHT, Record};
use crate::{Pages, Rank};

/// Leases that are looked at when a lock is asked for: a rank may have very many.
const MOST_LOOKED_AT: usize = 256;

impl Node {
    /// The copies that this rank would renew when it gets a lock.
    pub(super) fn wants_with_lock(&self) -> Vec<Pages> {
        // Where races are looked for, what a rank writes is compared with what its home has then.
        if !self.cfg.bring || self.cfg.races {
            return Vec::new();
        }
        // Those that were fetched or renewed last come first.
        let leased = self.table.listed(List::Leased).take(MOST_LOOKED_AT);
        let renewed = self.sync.intervals.renewed.iter().copied();
        let is_renewable = |&page: &u32| self.table.cached(page).is_some_and(|copy| copy.is_renewable());
        let likely = leased.chain(renewed).filter(is_renewable);
        let mut pages: Vec<u32> = likely.take(MOST_BROUGHT as usize).collect();
        pages.sort_unstable();
        pages.dedup();
        as_runs(&pages)
    }

    /// Refuses what no correct peer wants.
    pub(super) fn check_wants(&self, from: Rank, wants: &[Pages]) -> Result<(), Violation> {
        let len = self.table.len();
        let all = wants.iter().fold(0u32, |sum, run| sum.saturating_add(run.count));
        if all > MOST_BROUGHT || wants.iter().any(|run| run.end() > len) {
            return Err(Violation {
                rank: from,
                what: "copies to be renewed that do not exist, or too many",
            });
        }
        Ok(())
    }

    /// Of the pages that a rank wants with a lock, those that are at home here and that it renews for these
    /// records.
    pub(super) fn bring(&self, to: Rank, wants: &[Pages], records: &[Record]) -> Brought {
        let wrote = records.iter().any(|record| record.rank == self.cfg.rank);
        let named = |page: u32| records.iter().any(|record| record.names(page));
        let is_shared = |page| self.homes.sharers(page).is_some_and(|sharers| sharers.contains(to.0));
        let is_renewed = |page| named(page) || wrote && !is_shared(page) && !self.is_told_of_as_tracked(page);
        let pages: Vec<u32> = wants
            .iter()
            .flat_map(|run| run.iter())
            .filter(|&page| self.is_home(page) && is_renewed(page))
            .collect();
        if pages.is_empty() {
            return Brought::default();
        }
        Brought { known: self.sync.intervals.history.known(), pages, bytes: Vec::new() }
    }

    /// Whether what came of a page with a lock brings the copy up to date: this rank has seen nothing of it
    /// that its home, which knew that much, did not have.
    pub(crate) fn takes_brought(&mut self, page: u32, home: Rank, known: &KnownIntervals) -> bool {
        let intervals = &self.sync.intervals;
        let is_newer = intervals.history.wrote_since(known, page, home)
            || intervals.has_seen_more(page)
            || self.is_unrecorded(page);
        self.counters.brought += u64::from(!is_newer);
        !is_newer
    }

    /// Orders that copies, each with its home, be brought up to what the homes have: those of one home
    /// together, since over a network each order takes a round trip. `brought`: what came with a lock, from
    /// which home.
    pub(super) fn refresh(&mut self, mut copies: Vec<(Rank, u32)>, brought: Option<(Rank, Brought)>) {
        let (bringer, mut brought) = brought.unzip();
        copies.sort_unstable();
        for copies in copies.chunk_by(|(home, _), (next, _)| home == next) {
            let (pages, from) = (copies.iter().map(|&(_, page)| page).collect(), copies[0].0);
            let brought = brought.take_if(|_| bringer == Some(from)).unwrap_or_default();
            self.out.push_back(Output::Refresh { pages, from, brought });
        }
    }
}
