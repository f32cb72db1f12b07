//! The words of all pages of a region, and the lists threaded through them.

use super::word::{Word, flag};
use super::{CachedPage, HomePage, Page, UnclaimedPage};
use std::ops::Range;

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

/// See [the module](super).
#[derive(Clone, Debug)]
pub(crate) struct PageTable {
    words: Vec<u64>,
    /// Groups of pages of which a word was ever written: those of all others are blank.
    used: Vec<bool>,
    lists: [Links; 3],
}

/// A list, threaded through the table.
#[derive(Clone, Debug)]
struct Links {
    /// Next page on the list, plus one.
    next: Vec<u32>,
    /// First page, plus one.
    first: u32,
}

/// Pages of a group.
const GROUP: u32 = 1024;

impl PageTable {
    pub(crate) fn new(pages: u32) -> Self {
        let n = pages as usize;
        let used = vec![false; pages.div_ceil(GROUP) as usize];
        PageTable { words: vec![0; n], used, lists: [(); 3].map(|()| Links { next: vec![0; n], first: 0 }) }
    }

    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.words.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn get(&self, page: u32) -> Word {
        Word(self.words[page as usize])
    }

    pub(crate) fn put(&mut self, page: u32, word: impl Into<Word>) {
        self.words[page as usize] = word.into().0;
        self.used[(page / GROUP) as usize] = true;
    }

    /// Of these pages, at least those whose words are not blank, in ascending order. Costs little for
    /// pages that are far from all of these.
    pub(crate) fn used(&self, pages: Range<u32>) -> impl Iterator<Item = u32> + '_ {
        let groups = pages.start / GROUP..pages.end.div_ceil(GROUP);
        groups.filter(|&group| self.used[group as usize]).flat_map(move |group| {
            let end = group.saturating_add(1).saturating_mul(GROUP);
            pages.start.max(group * GROUP)..pages.end.min(end)
        })
    }

    /// The page, if its home is this rank.
    pub(crate) fn at_home(&self, page: u32) -> Option<HomePage> {
        match self.get(page).page() {
            Page::Home(page) => Some(page),
            _ => None,
        }
    }

    /// The page, if its home is known to be another rank.
    pub(crate) fn cached(&self, page: u32) -> Option<CachedPage> {
        match self.get(page).page() {
            Page::Copy(page) => Some(page),
            _ => None,
        }
    }

    /// Changes the page, if its home is this rank.
    pub(crate) fn change_home<T>(&mut self, page: u32, change: impl FnOnce(&mut HomePage) -> T) -> Option<T> {
        let mut home = self.at_home(page)?;
        let result = change(&mut home);
        self.put(page, home);
        Some(result)
    }

    /// Changes the page, if its home is known to be another rank.
    pub(crate) fn change_copy<T>(
        &mut self,
        page: u32,
        change: impl FnOnce(&mut CachedPage) -> T,
    ) -> Option<T> {
        let mut copy = self.cached(page)?;
        let result = change(&mut copy);
        self.put(page, copy);
        Some(result)
    }

    /// Changes the page, if this rank has not met a home of it.
    pub(crate) fn change_unclaimed(&mut self, page: u32, change: impl FnOnce(&mut UnclaimedPage)) {
        if let Page::Unclaimed(mut unclaimed) = self.get(page).page() {
            change(&mut unclaimed);
            self.put(page, unclaimed);
        }
    }

    /// Notes whether a thread of this rank is fetching the page, or asks whose it is.
    pub(crate) fn set_fetching(&mut self, page: u32, fetching: bool) {
        let mut word = self.get(page);
        word.set_fetching(fetching);
        self.put(page, word);
    }

    /// Nothing is known of the page any more. (It is on no list.)
    pub(crate) fn forget(&mut self, page: u32) {
        self.put(page, Word::default());
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
            self.used[(page / GROUP) as usize] = true;
            links.next[page as usize] = links.first;
            links.first = page + 1;
        }
    }

    /// A page whose word says that it is on a list and is not, or the other way round, if there is one.
    pub(super) fn misplaced(&self, list: List) -> Option<u32> {
        let listed = |page: u32| self.words[page as usize] & list.flag() != 0;
        let mut left = (0..self.len()).filter(|&page| listed(page)).count();
        let links = &self.lists[list as usize];
        let mut at = links.first;
        while let Some(page) = at.checked_sub(1) {
            if left == 0 || !listed(page) {
                return Some(page);
            }
            left -= 1;
            at = links.next[page as usize];
        }
        (0..self.len()).find(|&page| left > 0 && listed(page))
    }

    /// The pages of a list, those that were put there last first.
    pub(crate) fn listed(&self, list: List) -> impl Iterator<Item = u32> + '_ {
        let links = &self.lists[list as usize];
        let first = links.first.checked_sub(1);
        std::iter::successors(first, |&page| links.next[page as usize].checked_sub(1))
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
    fn pages_in_use_are_found_by_groups() {
        let mut t = PageTable::new(5000);
        assert_eq!(t.used(0..5000).count(), 0);
        t.touch(4999);
        t.put(1030, Word(1));
        assert!(t.used(0..5000).eq((1024..2048).chain(4096..5000)));
        assert!(t.used(1500..4097).eq((1500..2048).chain(4096..4097)));
        assert_eq!((t.used(2048..4096).count(), t.used(7..7).count()), (0, 0));
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
