//! Which cached pages go.

use super::queue::{Links, Queue};

/// What to do next to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EvictionAction {
    /// This page goes.
    Evict(u32),
    /// This page stays for now, but is taken out of the view to see whether it is used.
    Probe(u32),
}

/// Which page goes.
pub(super) trait EvictionPolicy: std::fmt::Debug + Send {
    /// A page has come, or has become another class.
    fn enter(&mut self, page: u32, written: bool);
    /// A page has gone.
    fn leave(&mut self, page: u32);
    /// A page that was probed is used.
    fn used(&mut self, page: u32);
    /// What to do; `None` if there is no page.
    fn next(&mut self) -> Option<EvictionAction>;
    /// Another one that is at the same point.
    fn boxed(&self) -> Box<dyn EvictionPolicy>;
}

impl Clone for Box<dyn EvictionPolicy> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}

/// [`Eviction::Fifo`](super::Eviction::Fifo).
#[derive(Clone, Debug)]
pub(super) struct Fifo {
    links: Links,
    /// Pages that were only read, and those that were written.
    queues: [Queue; 2],
}

impl Fifo {
    /// Of a region of so many pages.
    pub(super) fn new(pages: usize) -> Fifo {
        Fifo { links: Links::new(pages), queues: Default::default() }
    }
}

impl EvictionPolicy for Fifo {
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

    fn next(&mut self) -> Option<EvictionAction> {
        self.queues.iter().find_map(Queue::oldest).map(EvictionAction::Evict)
    }

    fn boxed(&self) -> Box<dyn EvictionPolicy> {
        Box::new(self.clone())
    }
}

/// [`Eviction::Sieve`](super::Eviction::Sieve).
#[derive(Clone, Debug)]
pub(super) struct Sieve {
    links: Links,
    queue: Queue,
    /// Where the hand is; from the oldest again when there is nothing.
    hand: Option<u32>,
    used: Vec<bool>,
}

impl Sieve {
    /// Of a region of so many pages.
    pub(super) fn new(pages: usize) -> Sieve {
        Sieve { links: Links::new(pages), queue: Queue::default(), hand: None, used: vec![false; pages] }
    }
}

impl EvictionPolicy for Sieve {
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

    fn next(&mut self) -> Option<EvictionAction> {
        let page = self.hand.or_else(|| self.queue.oldest())?;
        if !std::mem::take(&mut self.used[page as usize]) {
            return Some(EvictionAction::Evict(page));
        }
        self.hand = self.links.newer(page);
        Some(EvictionAction::Probe(page))
    }

    fn boxed(&self) -> Box<dyn EvictionPolicy> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pages that go, one after the other, and those that are probed in between.
    fn order(policy: &mut dyn EvictionPolicy) -> (Vec<u32>, Vec<u32>) {
        let (mut gone, mut probed) = (Vec::new(), Vec::new());
        while let Some(choice) = policy.next() {
            match choice {
                EvictionAction::Evict(page) => {
                    policy.leave(page);
                    gone.push(page);
                }
                EvictionAction::Probe(page) => probed.push(page),
            }
        }
        (gone, probed)
    }

    #[test]
    fn fifo_gives_up_what_was_read_before_what_was_written_each_in_its_order() {
        let mut policy = Fifo::new(16);
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
        let mut policy = Sieve::new(16);
        for page in 0..5 {
            policy.enter(page, false);
        }
        policy.used(0);
        policy.used(2);
        assert_eq!(policy.next(), Some(EvictionAction::Probe(0)));
        assert_eq!(policy.next(), Some(EvictionAction::Evict(1)));
        policy.leave(1);
        policy.enter(5, false);
        assert_eq!(policy.next(), Some(EvictionAction::Probe(2)));
        assert_eq!(order(&mut policy), (vec![3, 4, 5, 0, 2], vec![]));
    }

    #[test]
    fn a_page_that_leaves_under_the_hand_is_not_returned_to() {
        let mut policy = Sieve::new(16);
        for page in 0..3 {
            policy.enter(page, false);
        }
        policy.used(0);
        assert_eq!(policy.next(), Some(EvictionAction::Probe(0)));
        policy.leave(1);
        assert_eq!(order(&mut policy), (vec![2, 0], vec![]));
    }
}
