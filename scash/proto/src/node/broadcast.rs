//! Broadcast: pages are brought to all ranks, from each page's home down a binomial tree.
//!
//! A broadcast is a barrier of three meetings at least. After the first one every home has all that was
//! written; before the last but one each home sends its pages of the range to its children in the tree that
//! is rooted at it, and each rank that got them passes them on. In the tree of home h, rank r has number v =
//! (r − h) mod n, and its children are v + 2ᵏ for all 2ᵏ > v: so nobody sends more than log₂ n times.
//!
//! The last meeting keeps homes in the barrier until every rank has its pages. Otherwise a home could go on,
//! change a page, and bring the change to a sharer that the old page, sent by way of other ranks, has yet to
//! reach.
//!
//! How many parcels a rank is to get is not announced: it is the number of other ranks that are homes of
//! pages of the range, which all ranks know alike.

use super::{Collective, Node, Output, Violation, runs};
use crate::page::{Access, List};
use crate::{Pages, Rank};
use std::collections::BTreeMap;

/// The broadcast that this rank is in.
#[derive(Clone, Debug, Default)]
pub(super) struct Parcels {
    /// The pages of the range by home; empty until this rank is as far as to send.
    by_home: BTreeMap<Rank, Vec<Pages>>,
    /// Homes whose parcels arrived, whether or not this rank is as far.
    pub(super) arrived: Vec<Rank>,
}

impl Node {
    /// The last part of the barrier begins: sends this home's pages, and passes on what has arrived early.
    pub(super) fn begin_broadcast(&mut self) {
        let Collective::Broadcast(range) = self.meetings.collective else { return };
        let mut homes: BTreeMap<Rank, Vec<u32>> = BTreeMap::new();
        for page in range.iter() {
            if let Some(home) = self.home(page) {
                homes.entry(home).or_default().push(page);
            }
        }
        for (home, pages) in homes {
            let list = self.meetings.parcels.by_home.entry(home).or_default();
            runs(&pages, |run| list.push(run));
        }
        self.pass_parcel(self.cfg.rank);
        for home in self.meetings.parcels.arrived.clone() {
            self.pass_parcel(home);
        }
    }

    /// Sends a home's pages to this rank's children in its tree.
    fn pass_parcel(&mut self, home: Rank) {
        let Some(pages) = self.meetings.parcels.by_home.get(&home) else { return };
        let size = self.cfg.size;
        let number = (self.cfg.rank.0 + size - home.0) % size;
        let distances = (0..32)
            .map(|k| 1u32 << k)
            .skip_while(|&distance| distance <= number)
            .take_while(|&distance| distance < size - number);
        for distance in distances {
            let to = Rank((self.cfg.rank.0 + distance) % size);
            for &run in pages {
                self.counters.updates += u64::from(run.count);
                self.out.push_back(Output::PutPages { pages: run, to });
            }
            self.out.push_back(Output::Parcel { to, meeting: self.meetings.meeting, home });
        }
    }

    /// The pages of a home are in this rank's frames.
    pub(super) fn parcel(&mut self, from: Rank, meeting: u32, home: Rank) -> Result<(), Violation> {
        let ahead = meeting.wrapping_sub(self.meetings.meeting);
        let sound = ahead <= 1 && home.0 < self.cfg.size && home != self.cfg.rank;
        if !sound || self.meetings.parcels.arrived.contains(&home) {
            return Err(Violation {
                rank: from,
                what: "a parcel of a broadcast that does not concern this rank",
            });
        }
        self.meetings.parcels.arrived.push(home);
        self.pass_parcel(home);
        self.advance()
    }

    /// Whether all parcels that this rank is to get have arrived.
    pub(super) fn parcels_complete(&self) -> bool {
        let others = self.meetings.parcels.by_home.keys().filter(|&&home| home != self.cfg.rank).count();
        self.meetings.parcels.arrived.len() >= others
    }

    /// The barrier ends: what was brought is readable, until the next barrier unless it is kept up to date
    /// anyway.
    pub(super) fn end_broadcast(&mut self) {
        let parcels = std::mem::take(&mut self.meetings.parcels);
        let mut mapped = Vec::new();
        let me = self.cfg.rank;
        for (&home, list) in parcels.by_home.iter().filter(|&(&home, _)| home != me) {
            for page in list.iter().flat_map(|run| run.iter()) {
                if self.table.get(page).access() != Access::None {
                    continue;
                }
                let Some(mut copy) = self.cached_page(page, home).filter(|copy| !copy.is_asked()) else {
                    continue;
                };
                copy.broadcast();
                self.table.put(page, copy);
                self.table.touch(page);
                self.hold(page, false);
                if copy.is_leased() {
                    self.list(page, List::Leased);
                }
                mapped.push(page);
            }
        }
        mapped.sort_unstable();
        runs(&mapped, |run| self.out.push_back(Output::Map(run, Access::Read)));
    }
}
