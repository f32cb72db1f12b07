//! A condition variable.

use super::Waiter;
use std::collections::VecDeque;

/// Who waits, in the order in which they came. A signal that nobody waits for is lost.
#[derive(Clone, Debug, Default)]
pub(super) struct Condition {
    queue: VecDeque<Waiter>,
}

impl Condition {
    pub(super) fn ask(&mut self, waiter: Waiter) {
        self.queue.push_back(waiter);
    }

    /// The first who waits.
    pub(super) fn first(&self) -> Option<&Waiter> {
        self.queue.front()
    }

    /// The first goes on, or all do.
    pub(super) fn signal(&mut self, all: bool, go: &mut Vec<Waiter>) {
        let count = if all { self.queue.len() } else { self.queue.len().min(1) };
        go.extend(self.queue.drain(..count));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ranks, waiter};
    use super::*;

    #[test]
    fn a_signal_is_for_the_first_who_waits_and_a_broadcast_for_all() {
        let mut condition = Condition::default();
        let mut go = Vec::new();
        condition.signal(false, &mut go);
        (0..4).for_each(|rank| condition.ask(waiter(rank)));
        assert_eq!(ranks(&go), [], "a signal that nobody waited for is kept");
        condition.signal(false, &mut go);
        assert_eq!(ranks(&go), [0]);
        condition.signal(true, &mut go);
        assert_eq!(ranks(&go), [0, 1, 2, 3]);
        condition.signal(true, &mut go);
        condition.ask(waiter(4));
        assert_eq!(ranks(&go), [0, 1, 2, 3]);
    }
}
