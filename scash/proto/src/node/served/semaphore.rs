//! A counting semaphore.

use super::Waiter;
use std::collections::VecDeque;

/// A count and who waits until it is positive, in the order in which they came.
#[derive(Clone, Debug)]
pub(super) struct Semaphore {
    count: u64,
    queue: VecDeque<Waiter>,
}

impl Semaphore {
    pub(super) fn new(count: u32) -> Semaphore {
        Semaphore { count: u64::from(count), queue: VecDeque::new() }
    }

    /// Somebody wants to take one.
    pub(super) fn ask(&mut self, waiter: Waiter, go: &mut Vec<Waiter>) {
        self.queue.push_back(waiter);
        self.let_go_on(go);
    }

    /// So many more.
    pub(super) fn post(&mut self, count: u32, go: &mut Vec<Waiter>) {
        self.count = self.count.saturating_add(u64::from(count));
        self.let_go_on(go);
    }

    /// The first who waits.
    pub(super) fn first(&self) -> Option<&Waiter> {
        self.queue.front()
    }

    fn let_go_on(&mut self, go: &mut Vec<Waiter>) {
        while self.count > 0
            && let Some(waiter) = self.queue.pop_front()
        {
            self.count -= 1;
            go.push(waiter);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ranks, waiter};
    use super::*;

    #[test]
    fn as_many_go_on_as_were_posted_in_the_order_in_which_they_came() {
        let mut semaphore = Semaphore::new(2);
        let mut go = Vec::new();
        (0..6).for_each(|rank| semaphore.ask(waiter(rank), &mut go));
        assert_eq!(ranks(&go), [0, 1]);
        semaphore.post(3, &mut go);
        assert_eq!(ranks(&go), [0, 1, 2, 3, 4]);
        semaphore.post(3, &mut go);
        assert_eq!(ranks(&go), [0, 1, 2, 3, 4, 5]);
        (6..9).for_each(|rank| semaphore.ask(waiter(rank), &mut go));
        assert_eq!(ranks(&go), [0, 1, 2, 3, 4, 5, 6, 7], "two were left over");
    }
}
