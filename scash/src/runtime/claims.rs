//! First touches that are decided at once: who claimed which pages.
//!
//! Without locks, whose a page is that nobody had touched is settled at the next memory barrier. With them,
//! the next holder of a lock must find what the one before it wrote in a page that was nobody's; and atomic
//! operations on a word must all be executed in one place. So there a first touch is decided at once, by one
//! atomic operation on a word of the rank that keeps the claim: the claimant's number plus one.

use crate::error::Result;
use crate::runtime::page_words::PageWords;
use crate::runtime::within;
use scash_comm::{Endpoint, Rmw};
use scash_proto::interpreter::Claim;
use scash_proto::{Pages, Rank};

/// The claims of a job.
pub(crate) struct Claims(pub(crate) PageWords);

impl Claims {
    /// Whose a page is, and makes it this rank's if it is nobody's and the claim says so.
    pub(crate) fn ask(&self, endpoint: &dyn Endpoint, claim: Claim) -> Result<Option<Rank>> {
        let mine = endpoint.rank() + 1;
        let op = if claim.take { Rmw::CompareSwap { expected: 0, new: mine } } else { Rmw::Load };
        let _inside = within::enter_for(endpoint, claim.at.0);
        let was = self.0.operate(endpoint, claim.at, claim.key, op)?;
        let now = if was == 0 && claim.take { mine } else { was };
        Ok(now.checked_sub(1).map(Rank))
    }

    /// The pages are free. Nobody claims one of them before this rank has left the memory barrier that freed
    /// them.
    pub(crate) fn forget(&self, pages: Pages) -> Result<()> {
        self.0.clear(pages)
    }
}
