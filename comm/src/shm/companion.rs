//! Waiting for what comes through shared memory while asleep in a network's provider: the rings' side of
//! [`composite`](crate::composite).

use super::endpoint::ShmEndpoint;
use super::wait_rule::{BACKLOG_SLEEP, LONGEST_SLEEP};
use crate::network::Companion;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Looks at the rings between two system calls, where a thread has a core of its own.
const LOOKS: u32 = 32;

impl Companion for ShmEndpoint {
    fn has_news(&self) -> bool {
        self.has_any()
    }

    fn watch(&self) -> bool {
        let is_alone = self.outboxes.len() == 1;
        if is_alone {
            return self.has_any();
        }
        let looks = if self.wait_rule.is_scarce() { 1 } else { LOOKS };
        (0..looks).any(|_| {
            std::hint::spin_loop();
            self.has_any()
        })
    }

    fn lie_down(&self, limit: Duration) -> (Option<BorrowedFd<'_>>, Duration) {
        // An error is kept in the peer's state: the next call that concerns the peer tells.
        let _ = self.drain();
        let longest = if self.backlogs.load(Ordering::Relaxed) > 0 { BACKLOG_SLEEP } else { LONGEST_SLEEP };
        // Whether the word was there before is of no matter to who waits for the alarm.
        let _ = self.inbox.bell().announce();
        (self.inbox.alarm(), limit.min(longest))
    }

    fn get_up(&self, has_rung: bool) {
        if let Some(alarm) = self.inbox.alarm().filter(|_| has_rung) {
            // Only who leads in the sleep reads, so there is something.
            let _ = nix::unistd::read(alarm, &mut [0; 8]);
        }
        self.peers.look_closely();
    }
}
