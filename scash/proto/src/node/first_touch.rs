//! First touches at a memory barrier: who becomes the home.
//!
//! A rank that touches a page of nobody is its home at once, and says so at the next barrier. Several ranks
//! may have done so, as where rows of a matrix end and begin in the middle of pages. All ranks hear all
//! claims, so each of them finds the same home.
//!
//! A home pays less than another rank that writes the page: no twin, no diff. Where ranks dispute many pages,
//! they are divided among these ranks, so that none of them pays for all ([`DEAL`]).

use super::collective::union;
use super::{Node, Output, Phase, runs};
use crate::page::{Access, Page};
use crate::wire::{News, Notice};
use crate::{Pages, Rank};
use std::collections::BTreeMap;

/// Of the pages that the same ranks dispute, in ascending order, so many become those of the lowest rank, as
/// many those of the next one, and so on, round after round. Enough that orders still go by runs of pages,
/// and that the few pages between two parts of an array stay with the lower rank: then each of many ranks in
/// a row has those at one end of its part.
const DEAL: u32 = 16;

/// How far runs of first touches have come, for each allocation (by its number, modulo a small table). A run
/// opens as many pages as it has had so far. How long others were is no help: what was opened in vain would
/// be known as touched.
#[derive(Clone, Debug)]
pub(super) struct TouchRuns {
    /// The page behind the last fault's pages, and how many the run has had.
    table: [(u32, u32); 16],
    most: u32,
    /// Pages were opened ahead in this interval.
    opens: bool,
}

impl TouchRuns {
    pub(super) fn new(most: u32) -> TouchRuns {
        TouchRuns { table: [(u32::MAX, 0); 16], most, opens: false }
    }

    /// How many pages a first touch of `page` opens.
    fn window(&mut self, allocation: u64, page: u32) -> u32 {
        let (next, run) = &mut self.table[(allocation % 16) as usize];
        if *next != page {
            *run = 0;
        }
        (*run).clamp(1, self.most)
    }

    /// Notes what was opened after all.
    fn opened(&mut self, allocation: u64, pages: Pages) {
        let (next, run) = &mut self.table[(allocation % 16) as usize];
        (*next, *run) = (pages.end(), run.saturating_add(pages.count));
    }
}

impl Node {
    /// This rank touches a page that nobody has. Where pages are touched first one after the other, those
    /// that follow become writable with it, as if they were: a fault takes longer than to fill several pages
    /// with zeros. Whether they are touched is seen by the next fault of the run, which is behind them, or
    /// [at the barrier](Self::doubt_claims).
    pub(super) fn touch_first(&mut self, page: u32, id: u64, range: Pages, block: u32, want: Access) {
        self.claim(page, range, block, false);
        // Who only reads has been here before: nothing new begins.
        let opens = block == 1 && want == Access::Write && !self.cfg.races;
        if !opens || self.meetings.phase != Phase::Running {
            return;
        }
        let mut before = page;
        while before > range.first && self.prove(before - 1) {
            before -= 1;
        }
        let end = page.saturating_add(self.learning.first_touches.window(id, page)).min(range.end());
        let last = (page + 1..end).find(|&next| !self.claim_ahead(next)).unwrap_or(end);
        self.learning.first_touches.opened(id, Pages { first: page, count: last - page });
    }

    pub(super) fn was_opened_in_vain(&self, page: u32) -> bool {
        matches!(self.table.get(page).page(), Page::Unclaimed(unclaimed) if unclaimed.was_opened_in_vain())
    }

    /// Opens a page along with those before it, if it is nobody's and out of view.
    fn claim_ahead(&mut self, page: u32) -> bool {
        let word = self.table.get(page);
        let Page::Unclaimed(unclaimed) = word.page() else { return false };
        if word.access() != Access::None || word.is_fetching() || self.home(page).is_some() {
            return false;
        }
        self.learning.first_touches.opens = true;
        self.own(page, unclaimed.claim_ahead(self.cfg.rank));
        self.table.touch(page);
        self.open_claimed(page, Access::None);
        true
    }

    /// A page that may have been opened ahead is touched. Returns whether that was not known.
    pub(super) fn prove(&mut self, page: u32) -> bool {
        let Some(mut home) = self.table.at_home(page).filter(|home| home.is_claimed_ahead()) else {
            return false;
        };
        home.prove();
        self.table.put(page, home);
        self.counters.first_touches += 1;
        true
    }

    /// On the way into the barrier: pages at the end of a run that did not go on are nobody's again, unless
    /// they [hold something](Self::doubt_ends). A program may have written zeros there. That is not seen, and
    /// as good as nothing, but that whoever comes to the page next becomes its home.
    pub(super) fn doubt_claims(&mut self, due: &[u32]) {
        if !std::mem::take(&mut self.learning.first_touches.opens) {
            return;
        }
        if self.cfg.size == 1 {
            // Nobody else can become the home.
            due.iter().for_each(|&page| _ = self.prove(page));
            return;
        }
        let mut doubtful = Vec::new();
        for &page in due {
            let Some(home) = self.table.at_home(page).filter(|home| home.is_claimed_ahead()) else {
                continue;
            };
            self.homes.loses_untracked(true);
            self.table.put(page, home.give_up());
            doubtful.push(page);
        }
        doubtful.sort_unstable();
        runs(&doubtful, |pages| {
            // Out of view first: what is stored behind the look is a first touch again.
            self.out.push_back(Output::Unmap(pages));
            self.out.push_back(Output::CompareToZeros(pages));
        });
    }

    /// It is known now whether a page that was opened ahead was touched. If not, its frame goes, too.
    pub(super) fn doubt_ends(&mut self, page: u32, touched: bool) {
        match self.table.get(page).page() {
            Page::Unclaimed(unclaimed) if touched => {
                self.own(page, unclaimed.claim(self.cfg.rank));
                self.table.touch(page);
                self.counters.first_touches += 1;
                match self.out.back_mut() {
                    Some(Output::Map(run, Access::Write)) if run.end() == page => run.count += 1,
                    _ => self.out.push_back(Output::Map(Pages::one(page), Access::Write)),
                }
            }
            Page::Unclaimed(_) => {
                match self.out.back_mut() {
                    Some(Output::Discard(run)) if run.end() == page => run.count += 1,
                    _ => self.out.push_back(Output::Discard(Pages::one(page))),
                }
                return;
            }
            // Another thread came to it while it was out of view.
            Page::Home(home) if home.is_claimed() => {}
            Page::Home(_) | Page::Copy(_) => return,
        }
        let (origin, notices) = (self.cfg.rank, &mut self.meetings.now.notices);
        match notices.last_mut() {
            Some(Notice { pages, news: News::FirstTouch, .. }) if pages.end() == page => pages.count += 1,
            _ => notices.push(Notice { origin, pages: Pages::one(page), news: News::FirstTouch }),
        }
    }

    /// First touches of this interval become notices for everybody.
    pub(super) fn claims(&mut self, due: &[u32]) {
        let rank = self.cfg.rank;
        let is_claimed = |p: &u32| self.table.at_home(*p).is_some_and(|home| home.is_claimed());
        let claimed: Vec<u32> = due.iter().copied().filter(is_claimed).collect();
        let notices = &mut self.meetings.now.notices;
        runs(&claimed, |pages| notices.push(Notice { origin: rank, pages, news: News::FirstTouch }));
    }

    /// Everybody's first touches of this interval: each page gets a home. Returns whether a page was claimed
    /// twice or is to move.
    pub(super) fn settle(&mut self, notices: &[Notice]) -> bool {
        if self.shares_frames() {
            self.note_given_homes(notices);
            return false;
        }
        let me = self.cfg.rank;
        let claims: Vec<&Notice> = notices.iter().filter(|n| n.news == News::FirstTouch).collect();
        let winners = winners(&claims);
        let mut disputed = claims.len() < notices.len() || !winners.is_empty();
        for n in claims {
            for page in n.pages.iter() {
                let winner = winners.get(&page).copied().unwrap_or(n.origin);
                match self.table.get(page).page() {
                    Page::Unclaimed(unclaimed) if winner != me => {
                        self.table.put(page, unclaimed.learn(winner))
                    }
                    Page::Home(home) if winner != me && home.is_claimed() => {
                        self.table.put(page, home.lose(winner));
                        self.meetings.lost.push(page);
                        self.homes.loses_untracked(true);
                    }
                    _ => {}
                }
                disputed |= self.table.get(page).home() != Some(winner);
            }
        }
        // In the order in which they were claimed.
        self.meetings.lost.sort_unstable();
        disputed
    }
}

/// The home of each page that several ranks claim.
fn winners(claims: &[&Notice]) -> BTreeMap<u32, Rank> {
    let disputed = overlaps(claims.iter().map(|n| n.pages).collect());
    if disputed.is_empty() {
        return BTreeMap::new();
    }
    let mut claimants: BTreeMap<u32, Vec<Rank>> = BTreeMap::new();
    for n in claims {
        let first = disputed.partition_point(|run| run.end() <= n.pages.first);
        for run in disputed[first..].iter().take_while(|run| run.first < n.pages.end()) {
            for page in run.first.max(n.pages.first)..run.end().min(n.pages.end()) {
                claimants.entry(page).or_default().push(n.origin);
            }
        }
    }
    let mut dealt: BTreeMap<Vec<Rank>, u32> = BTreeMap::new();
    let deal = |(page, mut ranks): (u32, Vec<Rank>)| {
        ranks.sort_unstable();
        ranks.dedup();
        let before = dealt.entry(ranks.clone()).or_default();
        let winner = ranks[(*before / DEAL) as usize % ranks.len()];
        *before += 1;
        (page, winner)
    };
    claimants.into_iter().map(deal).collect()
}

/// The pages that more than one of these runs has, as runs in ascending order.
fn overlaps(mut claimed: Vec<Pages>) -> Vec<Pages> {
    claimed.sort_unstable();
    let (mut end, mut twice) = (0, Vec::new());
    for run in claimed {
        if run.first < end {
            twice.push(Pages { first: run.first, count: run.end().min(end) - run.first });
        }
        end = end.max(run.end());
    }
    union(twice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(origin: u32, first: u32, count: u32) -> Notice {
        Notice { origin: Rank(origin), pages: Pages { first, count }, news: News::FirstTouch }
    }

    /// Who becomes the home of each page that is disputed, page by page.
    fn homes(claims: &[Notice]) -> Vec<(u32, u32)> {
        let winners = winners(&claims.iter().collect::<Vec<_>>());
        winners.into_iter().map(|(page, rank)| (page, rank.0)).collect()
    }

    #[test]
    fn a_page_between_two_parts_stays_with_the_lower_rank() {
        let parts = [claim(2, 19, 11), claim(1, 9, 11), claim(0, 0, 10), claim(3, 29, 2)];
        assert_eq!(homes(&parts), [(9, 0), (19, 1), (29, 2)]);
        assert!(homes(&[claim(0, 0, 10), claim(1, 10, 10), claim(0, 20, 1)]).is_empty());
    }

    #[test]
    fn pages_that_the_same_ranks_dispute_are_dealt_out_in_runs() {
        let homes = homes(&[claim(3, 0, 80), claim(1, 0, 80), claim(7, 0, 80)]);
        let ranks: Vec<u32> = homes.iter().map(|&(_, rank)| rank).collect();
        let runs = [1, 3, 7, 1, 3].map(|rank| vec![rank; DEAL as usize]).concat();
        assert_eq!(ranks, runs);
    }

    #[test]
    fn each_set_of_ranks_is_dealt_its_own_pages() {
        let mut claims = vec![claim(0, 0, 4 * DEAL), claim(1, 0, 2 * DEAL), claim(2, 2 * DEAL, 2 * DEAL)];
        let expected: Vec<(u32, u32)> =
            (0..4 * DEAL).map(|page| (page, [0, 1, 0, 2][(page / DEAL) as usize])).collect();
        assert_eq!(homes(&claims), expected);
        claims.reverse();
        claims.push(claim(0, 3, 1));
        assert_eq!(
            homes(&claims),
            expected,
            "the order of claims, and one that came twice, make no difference"
        );
    }
}
