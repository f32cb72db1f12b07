//! The page table: one word a page, and three lists of pages: those that the next memory barrier must look at, those that were written since they were
//! last brought home, and the copies that their homes do not know of.
//!
//! The table is as large as the region but costs only what is touched: all arrays are zero-filled lazily by the
//! system, 20 bytes a page in use (0.5 %). Nothing here allocates after [`PageTable::new`], because faults are served inside a
//! signal handler.
//!
//! # The page word
//!
//! ```text
//! bits  0..20  home + 1        0: not known yet (first touch decides)
//! bits 20..22  access          0 none, 1 read, 2 write
//! bits 22..40  flags           see `flag`
//! bits 40..48  fetched         interval (mod 256) of the last fetch, meaningful with FETCHED
//! bits 48..52  score           home: barriers in which it was found written; reset when prediction is dropped
//!                              copy: times that it is still to be renewed by acquires rather than ended
//! bits 52..56  backoff         subscriber: how often it was found read, halves the rate of looking
//!                              home: times that it is still to stay writable at the end of an interval
//! bits 56..64  more flags
//! ```
//!
//! **Invariant:** a page is on a list if and only if that list's flag is set.

use crate::Rank;

pub(crate) mod check;

/// What the application may do with a page now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Every access faults.
    None,
    /// Reads succeed, writes fault.
    Read,
    /// Nothing faults.
    Write,
}

/// Flags of the page word.
pub(crate) mod flag {
    /// On the list of pages that the next barrier looks at.
    pub(crate) const LISTED: u64 = 1 << 22;
    /// Written in this interval while tracked.
    pub(crate) const DIRTY: u64 = 1 << 23;
    /// Has a twin.
    pub(crate) const TWIN: u64 = 1 << 24;
    /// A thread of this rank is fetching it.
    pub(crate) const FETCHING: u64 = 1 << 25;
    /// Valid in this interval only: its home does not know of this copy.
    pub(crate) const LEASE: u64 = 1 << 26;
    /// The home has this rank in the page's copyset.
    pub(crate) const SUBSCRIBED: u64 = 1 << 27;
    /// Valid and kept up to date, but taken out of the view to see whether it is read.
    pub(crate) const ARMED: u64 = 1 << 28;
    /// First touched here in this interval.
    pub(crate) const CLAIMED: u64 = 1 << 29;
    /// Home: some other rank is in the copyset, so writes must be noticed.
    pub(crate) const TRACKED: u64 = 1 << 30;
    /// Home: writes need a twin, because some sharer gets updates.
    pub(crate) const TWINNED: u64 = 1 << 31;
    /// Home: stays writable over barriers and is compared with its twin.
    pub(crate) const PREDICTED: u64 = 1 << 32;
    /// Written back early in this interval: the barrier must tell its home even if nothing more changed.
    pub(crate) const REPORTED: u64 = 1 << 33;
    /// `fetched` holds an interval.
    pub(crate) const FETCHED: u64 = 1 << 34;
    /// Was armed when last looked at.
    pub(crate) const WATCHED: u64 = 1 << 35;
    /// This copy will be subscribed to at the next barrier.
    pub(crate) const WANTED: u64 = 1 << 36;
    /// Someone else's write is known to this barrier: the copy ends with it.
    pub(crate) const STALE: u64 = 1 << 37;
    /// Home: in this barrier its changes went to sharers by message, though others go by put.
    pub(crate) const MESSAGED: u64 = 1 << 38;
    /// Home: the same, in the barrier before.
    pub(crate) const MESSAGED_BEFORE: u64 = 1 << 39;
    /// A subscribed page that was fetched in this interval, in which its home may have been writing it.
    pub(crate) const FRESH: u64 = 1 << 57;
    /// Made writable without having been written, since pages before it were.
    pub(crate) const AHEAD: u64 = 1 << 58;
    /// Home: writes are noticed without faults.
    pub(crate) const ASYNC: u64 = 1 << 56;
    /// On the list of pages that may have been written since they were last brought home, or last noticed at home.
    pub(crate) const OPEN: u64 = 1 << 59;
    /// On the list of copies that their homes do not know of.
    pub(crate) const LEASED: u64 = 1 << 60;
    /// The home has this rank in its copyset, but the copy here is older than an acquire: to be fetched again.
    pub(crate) const BEHIND: u64 = 1 << 61;
    /// Found unchanged when it was last brought home: to be protected if it is again.
    pub(crate) const QUIET: u64 = 1 << 62;
    /// An acquire has ended this copy, and it was not fetched since.
    pub(crate) const ENDED: u64 = 1 << 63;
}

const HOME_MASK: u64 = (1 << 20) - 1;
const ACCESS_SHIFT: u32 = 20;
const ACCESS_MASK: u64 = 0b11 << ACCESS_SHIFT;
const FETCHED_SHIFT: u32 = 40;
const SCORE_SHIFT: u32 = 48;
const BACKOFF_SHIFT: u32 = 52;
/// Most ranks that a page word can name.
pub const MAX_RANKS: u32 = (1 << 20) - 1;

/// One page's word, by value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) u64);

impl std::fmt::Debug for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const NAMES: [(u64, &str); 26] = [
            (flag::LISTED, "LISTED"),
            (flag::DIRTY, "DIRTY"),
            (flag::TWIN, "TWIN"),
            (flag::FETCHING, "FETCHING"),
            (flag::LEASE, "LEASE"),
            (flag::SUBSCRIBED, "SUBSCRIBED"),
            (flag::ARMED, "ARMED"),
            (flag::CLAIMED, "CLAIMED"),
            (flag::TRACKED, "TRACKED"),
            (flag::TWINNED, "TWINNED"),
            (flag::PREDICTED, "PREDICTED"),
            (flag::REPORTED, "REPORTED"),
            (flag::FETCHED, "FETCHED"),
            (flag::WATCHED, "WATCHED"),
            (flag::WANTED, "WANTED"),
            (flag::STALE, "STALE"),
            (flag::MESSAGED, "MESSAGED"),
            (flag::MESSAGED_BEFORE, "MESSAGED_BEFORE"),
            (flag::ASYNC, "ASYNC"),
            (flag::FRESH, "FRESH"),
            (flag::AHEAD, "AHEAD"),
            (flag::OPEN, "OPEN"),
            (flag::LEASED, "LEASED"),
            (flag::BEHIND, "BEHIND"),
            (flag::QUIET, "QUIET"),
            (flag::ENDED, "ENDED"),
        ];
        write!(f, "access {:?}", self.access())?;
        NAMES.iter().filter(|(bit, _)| self.has(*bit)).try_for_each(|(_, name)| write!(f, " {name}"))?;
        if let Some(interval) = self.fetched() {
            write!(f, ", fetched in {interval}")?;
        }
        write!(f, ", score {}, backoff {}", self.score(), self.backoff())
    }
}

impl Word {
    pub(crate) fn home(self) -> Option<Rank> {
        let h = u32::try_from(self.0 & HOME_MASK).unwrap_or(0);
        h.checked_sub(1).map(Rank)
    }

    pub(crate) fn set_home(&mut self, home: Option<Rank>) {
        self.0 = (self.0 & !HOME_MASK) | home.map_or(0, |r| u64::from(r.0) + 1);
    }

    pub(crate) fn access(self) -> Access {
        match (self.0 & ACCESS_MASK) >> ACCESS_SHIFT {
            0 => Access::None,
            1 => Access::Read,
            _ => Access::Write,
        }
    }

    pub(crate) fn set_access(&mut self, access: Access) {
        let bits = match access {
            Access::None => 0,
            Access::Read => 1,
            Access::Write => 2,
        };
        self.0 = (self.0 & !ACCESS_MASK) | (bits << ACCESS_SHIFT);
    }

    pub(crate) fn has(self, flags: u64) -> bool {
        self.0 & flags != 0
    }

    pub(crate) fn set(&mut self, flags: u64) {
        self.0 |= flags;
    }

    pub(crate) fn clear(&mut self, flags: u64) {
        self.0 &= !flags;
    }

    /// Interval (mod 256) of the last fetch.
    pub(crate) fn fetched(self) -> Option<u8> {
        self.has(flag::FETCHED).then_some((self.0 >> FETCHED_SHIFT).to_le_bytes()[0])
    }

    pub(crate) fn set_fetched(&mut self, interval: u32) {
        let byte = u64::from(interval.to_le_bytes()[0]);
        self.0 = (self.0 & !(0xff << FETCHED_SHIFT)) | (byte << FETCHED_SHIFT) | flag::FETCHED;
    }

    pub(crate) fn score(self) -> u64 {
        (self.0 >> SCORE_SHIFT) & 0xf
    }

    pub(crate) fn set_score(&mut self, score: u64) {
        self.0 = (self.0 & !(0xf << SCORE_SHIFT)) | (score.min(15) << SCORE_SHIFT);
    }

    pub(crate) fn backoff(self) -> u64 {
        (self.0 >> BACKOFF_SHIFT) & 0xf
    }

    pub(crate) fn set_backoff(&mut self, backoff: u64) {
        self.0 = (self.0 & !(0xf << BACKOFF_SHIFT)) | (backoff.min(15) << BACKOFF_SHIFT);
    }
}

/// A list of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    /// What the next barrier must look at.
    Touched,
    /// What may have been written since it was last brought home.
    Open,
    /// Copies that their homes do not know of.
    Leased,
}

impl List {
    fn flag(self) -> u64 {
        match self {
            List::Touched => flag::LISTED,
            List::Open => flag::OPEN,
            List::Leased => flag::LEASED,
        }
    }
}

/// The words of all pages of a region, and the lists threaded through them.
#[derive(Debug)]
pub(crate) struct PageTable {
    words: Vec<u64>,
    lists: [Links; 3],
}

/// A list, threaded through the table.
#[derive(Debug)]
struct Links {
    /// Next page on the list, plus one.
    next: Vec<u32>,
    /// First page, plus one.
    first: u32,
}

impl PageTable {
    pub(crate) fn new(pages: u32) -> Self {
        let n = pages as usize;
        PageTable { words: vec![0; n], lists: [(); 3].map(|()| Links { next: vec![0; n], first: 0 }) }
    }

    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.words.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn get(&self, page: u32) -> Word {
        Word(self.words[page as usize])
    }

    pub(crate) fn put(&mut self, page: u32, word: Word) {
        self.words[page as usize] = word.0;
    }

    pub(crate) fn update(&mut self, page: u32, change: impl FnOnce(&mut Word)) {
        let mut word = self.get(page);
        change(&mut word);
        self.put(page, word);
    }

    /// Puts a page on the touched list, once.
    pub(crate) fn touch(&mut self, page: u32) {
        self.enlist(page, List::Touched);
    }

    /// Puts a page on a list, once.
    pub(crate) fn enlist(&mut self, page: u32, list: List) {
        let word = &mut self.words[page as usize];
        let links = &mut self.lists[list as usize];
        if *word & list.flag() == 0 {
            *word |= list.flag();
            links.next[page as usize] = links.first;
            links.first = page + 1;
        }
    }

    /// Empties a list.
    pub(crate) fn clear(&mut self, list: List) {
        let links = &mut self.lists[list as usize];
        while let Some(page) = links.first.checked_sub(1) {
            links.first = links.next[page as usize];
            self.words[page as usize] &= !list.flag();
        }
    }

    /// Empties a list into `out`, in page order.
    pub(crate) fn take(&mut self, list: List, out: &mut Vec<u32>) {
        let links = &mut self.lists[list as usize];
        while let Some(page) = links.first.checked_sub(1) {
            links.first = links.next[page as usize];
            self.words[page as usize] &= !list.flag();
            out.push(page);
        }
        out.sort_unstable();
    }

    /// Empties the touched list into `out`, in page order.
    pub(crate) fn take_touched(&mut self, out: &mut Vec<u32>) {
        self.take(List::Touched, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_word_do_not_disturb_each_other() {
        let mut w = Word(0);
        w.set_home(Some(Rank(MAX_RANKS - 1)));
        w.set_access(Access::Write);
        w.set(flag::STALE | flag::LISTED);
        w.set_fetched(0x1ff);
        w.set_score(99);
        w.set_backoff(3);
        assert_eq!(w.home(), Some(Rank(MAX_RANKS - 1)));
        assert_eq!(w.access(), Access::Write);
        assert_eq!((w.fetched(), w.score(), w.backoff()), (Some(0xff), 15, 3));
        w.set_home(None);
        w.set_access(Access::Read);
        w.clear(flag::STALE);
        assert_eq!((w.home(), w.access()), (None, Access::Read));
        assert!(w.has(flag::LISTED) && !w.has(flag::STALE));
    }

    #[test]
    fn a_page_touched_twice_is_listed_once_and_in_order() {
        let mut t = PageTable::new(10);
        for p in [7, 3, 7, 0, 3] {
            t.touch(p);
        }
        let mut out = Vec::new();
        t.take_touched(&mut out);
        assert_eq!(out, [0, 3, 7]);
        out.clear();
        t.take_touched(&mut out);
        assert!(out.is_empty());
        t.touch(3);
        t.take_touched(&mut out);
        assert_eq!(out, [3]);
    }
}
