//! Pages with words that other ranks operate on: a word of the home for each page, the number of the interval
//! of the last operation; and one for all pages of a home, some of which others have written back.
//!
//! 1. A rank that operates on a page of another rank for the first time in an interval sets the page's mark
//!    there, and operates then; and so with the mark of all, if it writes pages back.
//! 2. A home on its way into the barrier reads a page, and its mark then. If what it read holds something of
//!    an operation, the mark was set before.

use crate::error::Result;
use crate::runtime::page_words::PageWords;
use scash_comm::{Endpoint, Exchange, Rmw};
use scash_proto::Rank;
use std::sync::atomic::{Ordering, fence};

/// The marks of a job.
pub(crate) struct Marks {
    words: PageWords,
    /// The number of the word for all pages.
    all: u32,
}

/// The mark of the interval that follows so many memory barriers. (Once in 2³² of them it is that of no
/// interval: then pages are taken for marked that are not, which costs a meeting.)
fn mark(epoch: u32) -> u32 {
    epoch.wrapping_add(1)
}

impl Marks {
    /// For a region of so many pages: none. Collective.
    pub(crate) fn new(pages: u32, endpoint: &dyn Endpoint, exchange: &mut dyn Exchange) -> Result<Marks> {
        Ok(Marks { words: PageWords::new(pages.saturating_add(1), endpoint, exchange)?, all: pages })
    }

    /// Step 1, at rank `home`.
    pub(crate) fn set(&self, endpoint: &dyn Endpoint, home: Rank, page: u32, epoch: u32) -> Result<()> {
        self.words.operate(endpoint, home, page, Rmw::Swap(mark(epoch))).map(drop)
    }

    /// Step 1, for all pages.
    pub(crate) fn set_all(&self, endpoint: &dyn Endpoint, home: Rank, epoch: u32) -> Result<()> {
        self.set(endpoint, home, self.all, epoch)
    }

    /// Step 2, after the page was read.
    pub(crate) fn is_set(&self, page: u32, epoch: u32) -> bool {
        // The bytes of the page were plain loads, which this one must not overtake.
        fence(Ordering::SeqCst);
        [page, self.all].into_iter().any(|word| self.words.mine(word) == mark(epoch))
    }
}
