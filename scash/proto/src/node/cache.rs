//! A limit on cached pages (the embedded SCASH's "only remote pages are released").
//!
//! Home pages stay. Of the pages of other homes, those that are no good any more go *at once*: their frames go back to the system where they would otherwise
//! only leave the view. When there are more good ones than the limit allows, a [`Policy`] says which go; what was written in such a page goes home first.
//!
//! A page that its home keeps up to date and that goes is left at the next memory barrier: until then its home may bring changes to a frame that is not there, which
//! is given back once more.
//!
//! What was written goes home in the middle of an interval, so the rules of jobs with locks hold for all jobs with a limit: see [`intervals`](super::intervals).
//!
//! Runs in signal handlers: all memory is there from the beginning.

use super::{Collective, Node, Output, runs};
use crate::Pages;
use crate::page::{Access, List, flag};
use queue::{Links, Queue};

mod queue;

/// How cached pages are chosen that have to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// Pages that were only read go first, then those that were written; in each class in the order in which they came.
    #[default]
    Fifo,
    /// SIEVE (Zhang et al., NSDI 2024): a hand goes from the oldest to the newest; pages that were used since it last passed stay. Whether a page is used shows when it is
    /// taken out of the view for a while.
    Sieve,
}

/// What to do next to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// This page goes.
    Evict(u32),
    /// This page stays for now, but is taken out of the view to see whether it is used.
    Probe(u32),
}

/// Which page goes.
trait Policy: std::fmt::Debug + Send {
    /// A page has come, or has become another class.
    fn enter(&mut self, page: u32, written: bool);
    /// A page has gone.
    fn leave(&mut self, page: u32);
    /// A page that was probed is used.
    fn used(&mut self, page: u32);
    /// What to do; `None` if there is no page.
    fn next(&mut self) -> Option<Choice>;
}

/// [`Eviction::Fifo`].
#[derive(Debug)]
struct Fifo {
    links: Links,
    /// Pages that were only read, and those that were written.
    queues: [Queue; 2],
}

impl Policy for Fifo {
    fn enter(&mut self, page: u32, written: bool) {
        self.leave(page);
        self.queues[usize::from(written)].push(&mut self.links, page, u8::from(written));
    }

    fn leave(&mut self, page: u32) {
        if let Some(queue) = self.links.owner(page) {
            self.queues[usize::from(queue)].remove(&mut self.links, page);
        }
    }

    fn used(&mut self, _: u32) {}

    fn next(&mut self) -> Option<Choice> {
        self.queues.iter().find_map(Queue::oldest).map(Choice::Evict)
    }
}

/// [`Eviction::Sieve`].
#[derive(Debug)]
struct Sieve {
    links: Links,
    queue: Queue,
    /// Where the hand is; from the oldest again when there is nothing.
    hand: Option<u32>,
    used: Vec<bool>,
}

impl Policy for Sieve {
    fn enter(&mut self, page: u32, written: bool) {
        if self.links.owner(page).is_some() {
            self.used[page as usize] |= written;
        } else {
            self.used[page as usize] = false;
            self.queue.push(&mut self.links, page, 0);
        }
    }

    fn leave(&mut self, page: u32) {
        if self.links.owner(page).is_some() {
            if self.hand == Some(page) {
                self.hand = self.links.newer(page);
            }
            self.queue.remove(&mut self.links, page);
        }
    }

    fn used(&mut self, page: u32) {
        self.used[page as usize] = true;
    }

    fn next(&mut self) -> Option<Choice> {
        let page = self.hand.or_else(|| self.queue.oldest())?;
        if !std::mem::take(&mut self.used[page as usize]) {
            return Some(Choice::Evict(page));
        }
        self.hand = self.links.newer(page);
        Some(Choice::Probe(page))
    }
}

/// The page is held.
const HELD: u8 = 1;
/// Changes of the page went home when it was given up, and are in no record yet.
const UNRECORDED: u8 = 2;

/// The cached pages of a rank with a limit.
#[derive(Debug)]
pub(super) struct Cache {
    /// Most pages; 0: no limit.
    most: u32,
    held: u32,
    /// Of each page: [`HELD`], [`UNRECORDED`].
    state: Vec<u8>,
    policy: Box<dyn Policy>,
}

impl Cache {
    /// At most so many of a region's pages; 0: no limit.
    pub(super) fn new(most: u32, pages: u32, eviction: Eviction) -> Cache {
        let pages = if most > 0 { pages as usize } else { 0 };
        let links = Links::new(pages);
        let policy: Box<dyn Policy> = match eviction {
            Eviction::Fifo => Box::new(Fifo { links, queues: Default::default() }),
            Eviction::Sieve => {
                Box::new(Sieve { links, queue: Queue::default(), hand: None, used: vec![false; pages] })
            }
        };
        Cache { most, held: 0, state: vec![0; pages], policy }
    }

    /// Whether there is a limit.
    pub(super) fn is_limited(&self) -> bool {
        self.most > 0
    }

    fn enter(&mut self, page: u32, written: bool) {
        let state = &mut self.state[page as usize];
        self.held += u32::from(*state & HELD == 0);
        *state |= HELD;
        self.policy.enter(page, written);
    }

    fn leave(&mut self, page: u32) {
        let state = &mut self.state[page as usize];
        if *state & HELD != 0 {
            *state &= !HELD;
            self.held -= 1;
            self.policy.leave(page);
        }
    }
}

impl Node {
    /// Cached pages that are held.
    pub fn cached(&self) -> u32 {
        self.cache.held
    }

    /// A page of another home takes a frame here, or is written for the first time since it was last home.
    pub(super) fn hold(&mut self, page: u32, written: bool) {
        if self.cache.is_limited() {
            self.cache.enter(page, written);
        }
    }

    /// Its frame is given back, or the page is no other's any more.
    pub(super) fn let_go(&mut self, page: u32) {
        if self.cache.is_limited() {
            self.cache.leave(page);
        }
    }

    /// A page that was out of the view is used.
    pub(super) fn found_used(&mut self, page: u32) {
        if self.cache.is_limited() {
            self.cache.policy.used(page);
        }
    }

    /// Takes pages out of the view that are no good any more; with a limit, the frames of those of other homes too. `pages` is sorted.
    pub(super) fn dismiss(&mut self, pages: &[u32]) {
        if !self.cache.is_limited() {
            runs(pages, |run| self.out.push_back(Output::Unmap(run)));
            return;
        }
        // What was broadcast is in its frame already; what was subscribed to just now, its home brings changes to.
        let brought = match self.collective {
            Collective::Broadcast(range) => range.iter(),
            _ => 0..0,
        };
        let stays = |page: &&u32| {
            self.is_home(**page) || brought.contains(*page) || self.table.get(**page).has(flag::SUBSCRIBED)
        };
        let (stay, others): (Vec<u32>, Vec<u32>) = pages.iter().partition(stays);
        runs(&stay, |run| self.out.push_back(Output::Unmap(run)));
        others.iter().for_each(|&page| self.cache.leave(page));
        runs(&others, |run| self.out.push_back(Output::Discard(run)));
    }

    /// Pages that were fetched in vain are no good.
    pub(super) fn dismiss_fetched(&mut self, pages: Pages) {
        let limited = self.cache.is_limited();
        pages.iter().for_each(|page| self.let_go(page));
        self.out.push_back(if limited { Output::Discard(pages) } else { Output::Unmap(pages) });
    }

    /// Copies that an acquire has ended have no use for their frames, unless their homes bring changes there.
    pub(super) fn release_ended(&mut self, pages: &[u32]) {
        if !self.cache.is_limited() {
            return;
        }
        for &page in pages.iter().filter(|&&page| !self.table.get(page).has(flag::BEHIND)) {
            self.cache.leave(page);
            self.out.push_back(Output::Discard(Pages::one(page)));
        }
    }

    /// Makes room for so many pages more.
    pub(super) fn make_room(&mut self, pages: u32) {
        if !self.cache.is_limited() {
            return;
        }
        // Every page is probed once and passed over once at most.
        let mut patience = 2 * u64::from(self.cache.held) + 1;
        while self.cache.held.saturating_add(pages) > self.cache.most && patience > 0 {
            patience -= 1;
            match self.cache.policy.next() {
                Some(Choice::Evict(page)) if self.table.get(page).has(flag::FETCHING) => {
                    // As if it had come just now.
                    self.cache.policy.leave(page);
                    self.cache.policy.enter(page, false);
                }
                Some(Choice::Evict(page)) => self.evict(page),
                Some(Choice::Probe(page)) => self.probe(page),
                None => return,
            }
        }
    }

    /// Takes a page out of the view that is good, to see whether it is used.
    fn probe(&mut self, page: u32) {
        let mut word = self.table.get(page);
        if word.access() == Access::Read
            && !word.has(flag::TWIN | flag::FETCHING)
            && self.home(page).is_some()
        {
            word.set(flag::ARMED);
            word.set_access(Access::None);
            self.table.put(page, word);
            self.out.push_back(Output::Unmap(Pages::one(page)));
        }
    }

    /// Gives a page up. What was written in it goes home.
    fn evict(&mut self, page: u32) {
        let mut word = self.table.get(page);
        self.counters.evicted += 1;
        if word.access() != Access::None {
            self.out.push_back(Output::Unmap(Pages::one(page)));
        }
        if let (true, Some(to)) = (word.has(flag::DIRTY) && word.has(flag::TWIN), self.home(page)) {
            self.counters.evicted_written += 1;
            self.out.push_back(Output::PutDiff { page, to });
        }
        if word.has(flag::TWIN) {
            self.out.push_back(Output::DropTwin(page));
        }
        self.out.push_back(Output::Discard(Pages::one(page)));
        word.set_access(Access::None);
        word.set_score(0);
        word.clear(
            flag::LEASE
                | flag::WANTED
                | flag::ARMED
                | flag::BEHIND
                | flag::ENDED
                | flag::DIRTY
                | flag::AHEAD
                | flag::TWIN
                | flag::QUIET,
        );
        if word.has(flag::SUBSCRIBED) {
            word.set(flag::STALE);
        }
        self.table.put(page, word);
        self.table.touch(page);
        self.cache.leave(page);
    }

    /// Changes of a page that is out of the view have gone home: they are for the next record.
    pub(super) fn record_later(&mut self, page: u32) {
        if self.cache.is_limited() {
            // This may be a signal handler, where nothing allocates.
            self.cache.state[page as usize] |= UNRECORDED;
            self.table.enlist(page, List::Open);
        } else {
            self.brought_home(page);
        }
    }

    /// Whether there are such changes of a page.
    pub(super) fn is_unrecorded(&self, page: u32) -> bool {
        self.cache.state.get(page as usize).is_some_and(|state| state & UNRECORDED != 0)
    }

    /// Such changes are recorded now.
    pub(super) fn take_unrecorded(&mut self) {
        if !self.cache.is_limited() {
            return;
        }
        let mut open = Vec::new();
        self.table.take(List::Open, &mut open);
        for page in open {
            let state = &mut self.cache.state[page as usize];
            if *state & UNRECORDED != 0 {
                *state &= !UNRECORDED;
                self.brought_home(page);
            }
            if self.table.get(page).has(flag::DIRTY) {
                self.table.enlist(page, List::Open);
            }
        }
    }

    /// Whether this rank is to tell the home that it is a sharer of the page no longer, because it gave it up.
    pub(super) fn gave_up(&self, page: u32) -> bool {
        self.cache.is_limited()
            && self.table.get(page).has(flag::SUBSCRIBED)
            && self.table.get(page).has(flag::STALE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fifo() -> Fifo {
        Fifo { links: Links::new(16), queues: Default::default() }
    }

    fn sieve() -> Sieve {
        Sieve { links: Links::new(16), queue: Queue::default(), hand: None, used: vec![false; 16] }
    }

    /// The pages that go, one after the other, and those that are probed in between.
    fn order(policy: &mut dyn Policy) -> (Vec<u32>, Vec<u32>) {
        let (mut gone, mut probed) = (Vec::new(), Vec::new());
        while let Some(choice) = policy.next() {
            match choice {
                Choice::Evict(page) => {
                    policy.leave(page);
                    gone.push(page);
                }
                Choice::Probe(page) => probed.push(page),
            }
        }
        (gone, probed)
    }

    #[test]
    fn fifo_gives_up_what_was_read_before_what_was_written_each_in_its_order() {
        let mut policy = fifo();
        for page in [3, 9, 1, 7] {
            policy.enter(page, false);
        }
        policy.enter(9, true);
        policy.enter(3, true);
        policy.leave(1);
        policy.enter(1, false);
        assert_eq!(order(&mut policy), (vec![7, 1, 9, 3], vec![]));
    }

    #[test]
    fn sieve_spares_what_was_used_once_and_keeps_new_pages_behind_the_hand() {
        let mut policy = sieve();
        for page in 0..5 {
            policy.enter(page, false);
        }
        policy.used(0);
        policy.used(2);
        assert_eq!(policy.next(), Some(Choice::Probe(0)));
        assert_eq!(policy.next(), Some(Choice::Evict(1)));
        policy.leave(1);
        policy.enter(5, false);
        assert_eq!(policy.next(), Some(Choice::Probe(2)));
        assert_eq!(order(&mut policy), (vec![3, 4, 5, 0, 2], vec![]));
    }

    #[test]
    fn a_page_that_leaves_under_the_hand_is_not_returned_to() {
        let mut policy = sieve();
        for page in 0..3 {
            policy.enter(page, false);
        }
        policy.used(0);
        assert_eq!(policy.next(), Some(Choice::Probe(0)));
        policy.leave(1);
        assert_eq!(order(&mut policy), (vec![2, 0], vec![]));
    }
}
