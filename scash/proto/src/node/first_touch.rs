//! First touches at a memory barrier: who becomes the home.
//!
//! A rank that touches a page of nobody is its home at once, and says so at the next barrier. Several ranks
//! may have done so, as where rows of a matrix end and begin in the middle of pages. All ranks hear all
//! claims, so each of them finds the same home.
//!
//! A home pays less than another rank that writes the page: no twin, no diff. Where ranks dispute many pages,
//! they are divided among these ranks, so that none of them pays for all ([`DEAL`]).

use super::collective::union;
use super::{Node, runs};
use crate::page::Page;
use crate::wire::{News, Notice};
use crate::{Pages, Rank};
use std::collections::BTreeMap;

/// Of the pages that the same ranks dispute, in ascending order, so many become those of the lowest rank, as
/// many those of the next one, and so on, round after round. Enough that orders still go by runs of pages,
/// and that the few pages between two parts of an array stay with the lower rank: then each of many ranks in
/// a row has those at one end of its part.
const DEAL: u32 = 16;

impl Node {
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
