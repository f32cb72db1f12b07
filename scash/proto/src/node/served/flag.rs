//! A flag: a number that only grows.

use super::Waiter;

/// The number, and who waits until it is how large.
#[derive(Clone, Debug, Default)]
pub(super) struct Flag {
    value: u64,
    waiting: Vec<(u64, Waiter)>,
}

impl Flag {
    /// Somebody goes on when the number is at least so large.
    pub(super) fn ask(&mut self, least: u64, waiter: Waiter, go: &mut Vec<Waiter>) {
        if least <= self.value {
            go.push(waiter);
        } else {
            self.waiting.push((least, waiter));
        }
    }

    /// The first who waits.
    pub(super) fn first(&self) -> Option<&Waiter> {
        self.waiting.first().map(|(_, waiter)| waiter)
    }

    /// The number is at least so large.
    pub(super) fn raise(&mut self, to: u64, go: &mut Vec<Waiter>) {
        self.value = self.value.max(to);
        go.extend(self.waiting.extract_if(.., |(least, _)| *least <= self.value).map(|(_, waiter)| waiter));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ranks, waiter};
    use super::*;

    #[test]
    fn all_go_on_whose_number_is_reached_and_it_never_falls() {
        let mut flag = Flag::default();
        let mut go = Vec::new();
        for (rank, least) in [(1, 3), (2, 5), (3, 0), (4, 3)] {
            flag.ask(least, waiter(rank), &mut go);
        }
        assert_eq!(ranks(&go), [3], "it is 0 in the beginning");
        flag.raise(4, &mut go);
        assert_eq!(ranks(&go), [3, 1, 4]);
        flag.raise(2, &mut go);
        flag.ask(4, waiter(5), &mut go);
        assert_eq!(ranks(&go), [3, 1, 4, 5]);
        flag.raise(u64::MAX, &mut go);
        assert_eq!(ranks(&go), [3, 1, 4, 5, 2]);
    }
}
