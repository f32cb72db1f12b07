//! Queues of pages that are threaded through one table, so that a page can leave from the middle.
//!
//! The table is as large as the region. It is made of plain numbers that are zero in the beginning, so that
//! the system gives memory for what is used only.

/// The links of all pages, each of which is in one queue at most. Pages are counted from 1; 0 is none.
#[derive(Clone, Debug)]
pub(super) struct Links {
    older: Vec<u32>,
    newer: Vec<u32>,
    /// Number of the queue, counted from 1.
    owner: Vec<u8>,
}

impl Links {
    /// No page is in a queue.
    pub(super) fn new(pages: usize) -> Links {
        Links { older: vec![0; pages], newer: vec![0; pages], owner: vec![0; pages] }
    }

    /// The queue that a page is in.
    pub(super) fn owner(&self, page: u32) -> Option<u8> {
        self.owner[page as usize].checked_sub(1)
    }

    /// The page that came after this one.
    pub(super) fn newer(&self, page: u32) -> Option<u32> {
        self.newer[page as usize].checked_sub(1)
    }
}

/// A queue of pages, from the oldest to the newest.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    /// Counted from 1, as in [`Links`].
    oldest: u32,
    newest: u32,
}

impl Queue {
    /// The page that came first.
    pub(super) fn oldest(&self) -> Option<u32> {
        self.oldest.checked_sub(1)
    }

    /// Appends a page that is in no queue. `number`: of this queue.
    pub(super) fn push(&mut self, links: &mut Links, page: u32, number: u8) {
        let at = page as usize;
        (links.older[at], links.newer[at], links.owner[at]) = (self.newest, 0, number + 1);
        match self.newest.checked_sub(1) {
            Some(before) => links.newer[before as usize] = page + 1,
            None => self.oldest = page + 1,
        }
        self.newest = page + 1;
    }

    /// Takes a page out that is in this queue.
    pub(super) fn remove(&mut self, links: &mut Links, page: u32) {
        let at = page as usize;
        let (older, newer) = (links.older[at], links.newer[at]);
        links.owner[at] = 0;
        match older.checked_sub(1) {
            Some(before) => links.newer[before as usize] = newer,
            None => self.oldest = newer,
        }
        match newer.checked_sub(1) {
            Some(after) => links.older[after as usize] = older,
            None => self.newest = older,
        }
    }
}
