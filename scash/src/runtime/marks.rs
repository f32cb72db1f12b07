//! Pages with words that other ranks operate on: a word of the home for each page, the number of the interval
//! of the last operation.
//!
//! 1. A rank that operates on a page of another rank for the first time in an interval sets the page's mark
//!    there, and operates then.
//! 2. A home on its way into the barrier reads a page, and its mark then. If what it read holds something of
//!    an operation, the mark was set before.

use crate::error::Result;
use crate::runtime::page_words::PageWords;
use scash_comm::{Endpoint, Rmw};
use scash_proto::Rank;
use std::sync::atomic::{Ordering, fence};

/// The marks of a job.
pub(crate) struct Marks(pub(crate) PageWords);

/// The mark of the interval that follows so many memory barriers. (Once in 2³² of them it is that of no
/// interval: then pages are taken for marked that are not, which costs a meeting.)
fn mark(epoch: u32) -> u32 {
    epoch.wrapping_add(1)
}

impl Marks {
    /// Step 1, at rank `home`.
    pub(crate) fn set(&self, endpoint: &dyn Endpoint, home: Rank, page: u32, epoch: u32) -> Result<()> {
        self.0.operate(endpoint, home, page, Rmw::Swap(mark(epoch))).map(drop)
    }

    /// Step 2, after the page was read.
    pub(crate) fn is_set(&self, page: u32, epoch: u32) -> bool {
        // The bytes of the page were plain loads, which this one must not overtake.
        fence(Ordering::SeqCst);
        self.0.mine(page) == mark(epoch)
    }
}
