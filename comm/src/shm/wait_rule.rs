//! How long a waiting thread spins, yields and sleeps.
//!
//! Measured on virtual machines: a look at a ring costs nanoseconds, a cache line from another core 0.13 µs,
//! waking a sleeper on another core 18–60 µs. So a thread that has a core of its own spins, and goes on for
//! some milliseconds: ranks whose work is not quite balanced wait that long in every barrier, and each sleep
//! would cost a waking. After the first moments it offers its core now and then: other programs run, too, and
//! the rank that is waited for may share the core with this thread after all. Where busy threads outnumber
//! cores, the one that is waited for may be the one that has no core because of the spinning: there a thread
//! yields almost at once. To give the core to another thread takes 2 µs, to be woken far more, so it sleeps
//! only after hundreds of turns.

use std::time::Duration;

/// The longest sleep. Bounds how late the death of a peer is noticed by who waits for it.
pub(super) const LONGEST_SLEEP: Duration = Duration::from_millis(10);
/// The longest sleep while messages wait for room in a peer's ring, of which nothing tells.
pub(super) const BACKLOG_SLEEP: Duration = Duration::from_micros(100);

/// Vain polls before a thread with a core of its own sleeps: some milliseconds.
const SPINS: u32 = 100_000;
/// Vain polls after which it offers its core now and then,
const POLITE_AFTER: u32 = 1_000;
/// and how often: an offer that nobody takes costs 0.7 µs.
const POLITE_EVERY: u32 = 64;
/// Vain polls before a thread gives its core away where cores are scarce.
const SPINS_SCARCE: u32 = 4;
/// Times that a thread then gives its core away before it sleeps.
const YIELDS_SCARCE: u32 = 400;

/// What to do in a turn of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitAction {
    Spin,
    Yield,
    Sleep,
}

/// A host's rule for waiting.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitRule {
    scarce: bool,
}

impl WaitRule {
    /// The rule for so many busy threads on so many cores.
    pub(super) fn new(threads: u32, cores: u32) -> Self {
        Self::when(threads > cores)
    }

    /// The rule where busy threads outnumber cores, or not.
    pub(super) fn when(scarce: bool) -> Self {
        Self { scarce }
    }

    /// Whether threads outnumber cores.
    pub(super) fn is_scarce(self) -> bool {
        self.scarce
    }

    /// What to do after `turn` vain polls in a row.
    pub(super) fn step(self, turn: u32) -> WaitAction {
        match (self.scarce, turn) {
            (false, POLITE_AFTER..SPINS) if turn.is_multiple_of(POLITE_EVERY) => WaitAction::Yield,
            (false, ..SPINS) | (true, ..SPINS_SCARCE) => WaitAction::Spin,
            (true, turn) if turn < SPINS_SCARCE + YIELDS_SCARCE => WaitAction::Yield,
            _ => WaitAction::Sleep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_a_core_each_threads_spin_then_offer_it_now_and_then_and_sleep_at_last() {
        let rule = WaitRule::new(2, 2);
        assert_eq!(
            [0, 64, 1_024, 1_025, SPINS - 1, SPINS, u32::MAX].map(|turn| rule.step(turn)),
            [
                WaitAction::Spin,
                WaitAction::Spin,
                WaitAction::Yield,
                WaitAction::Spin,
                WaitAction::Spin,
                WaitAction::Sleep,
                WaitAction::Sleep
            ]
        );
    }

    #[test]
    fn where_cores_are_scarce_threads_yield_almost_at_once_and_sleep_at_last() {
        let rule = WaitRule::new(3, 2);
        assert_eq!(
            [0, 4, 403, 404].map(|turn| rule.step(turn)),
            [WaitAction::Spin, WaitAction::Yield, WaitAction::Yield, WaitAction::Sleep]
        );
    }
}
