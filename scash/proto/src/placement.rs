//! Where the pages of an allocation have their homes.
//!
//! A placement is a pure rule: every rank computes the home of any page for itself, without asking. Only
//! first touch has no rule; there the directory learns the home from whoever touches the page first.
//!
//! ```text
//!   10 pages, 4 ranks              0 1 2 3 4 5 6 7 8 9
//!   Block                          0 0 1 1 1 2 2 3 3 3
//!   Cyclic { pages: 2, first: 3 }  3 3 0 0 1 1 2 2 3 3
//!   Rank(2)                        2 2 2 2 2 2 2 2 2 2
//! ```
//!
//! **Invariant:** the home depends on nothing but the arguments of [`Placement::home_of`].

use std::fmt;
use std::num::NonZeroU32;

#[cfg(test)]
mod tests;

/// How homes are dealt out to the pages of one allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Placement {
    /// A page's home is the rank that touches it first.
    #[default]
    FirstTouch,
    /// Each rank has one contiguous part; the parts differ by one page at most.
    ///
    /// Rank r's part begins at page ⌊r · pages / ranks⌋: an array divided among the ranks in the same way by
    /// elements has all of a rank's elements on pages of that rank, but for the page in which one part ends
    /// and the next begins.
    Block,
    /// Runs of `pages` pages go round the ranks.
    Cyclic {
        /// Length of a run.
        pages: NonZeroU32,
        /// The rank of the first run.
        first: u32,
    },
    /// All pages have their home at one rank.
    Rank(u32),
}

impl Placement {
    /// Checks what a program asked for against the number of ranks there are.
    pub fn check(self, ranks: u32) -> Result<(), NoSuchRank> {
        match self {
            Self::Rank(rank) | Self::Cyclic { first: rank, .. } if rank >= ranks => {
                Err(NoSuchRank { rank, ranks })
            }
            _ => Ok(()),
        }
    }

    /// The home of page number `page` of an allocation of `pages` pages, or `None` if first touch decides.
    ///
    /// # Panics
    /// If `page` is not of the allocation, or the placement did not pass [`check`](Self::check) for `ranks`:
    /// errors of the caller, which has the record of the allocation.
    pub fn home_of(self, page: u32, pages: u32, ranks: u32) -> Option<u32> {
        assert!(page < pages, "page {page} of an allocation of {pages} pages");
        let home = match self {
            Self::FirstTouch => return None,
            Self::Block => block_owner(page, pages, ranks),
            Self::Cyclic { pages: run, first } => {
                let turn = u64::from(page / run) + u64::from(first);
                // Below `ranks`.
                u32::try_from(turn % u64::from(ranks)).unwrap_or(u32::MAX)
            }
            Self::Rank(rank) => rank,
        };
        assert!(home < ranks, "{self:?} gives home {home} among {ranks} ranks");
        Some(home)
    }
}

/// The r for which ⌊r · pages / ranks⌋ ≤ page < ⌊(r + 1) · pages / ranks⌋.
///
/// For integers, page ≥ ⌊x⌋ is page + 1 > x; so r is the largest for which r · pages < (page + 1) · ranks.
fn block_owner(page: u32, pages: u32, ranks: u32) -> u32 {
    let product = (u64::from(page) + 1) * u64::from(ranks);
    // As page < pages, the quotient is below `ranks`, which fits.
    u32::try_from((product - 1) / u64::from(pages)).unwrap_or(u32::MAX)
}

/// A placement names a rank that the job does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchRank {
    /// The rank asked for.
    pub rank: u32,
    /// How many ranks there are.
    pub ranks: u32,
}

impl fmt::Display for NoSuchRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, ranks } = self;
        write!(f, "there is no rank {rank} to be home: this job's ranks are 0 to {}", ranks.saturating_sub(1))
    }
}

impl std::error::Error for NoSuchRank {}
