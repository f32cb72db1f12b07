//! Idle: what a thread does while nothing arrives.
//!
//! A thread sleeps in two turns: in the first it announces itself at the bell and returns, so that its caller
//! looks once more at all that it waits for; in the second, if nobody has rung since, it sleeps. So a thread
//! also hears of what *another thread of its process* has taken out of the rings meanwhile: who delivers an
//! event rings the own bell too. (With three or more waiting threads one of them can mistake another's
//! announcement for its own, and sleep until the next event or [`LONGEST_SLEEP`].)

use super::endpoint::ShmEndpoint;
use super::futex;
use super::inbox::Inbox;
use super::wait_rule::{BACKLOG_SLEEP, LONGEST_SLEEP, WaitAction};
use crate::Board;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::yield_now;
use std::time::Duration;

impl ShmEndpoint {
    /// [`idle`](crate::Endpoint::idle).
    #[inline]
    pub(super) fn wait(&self, turn: u32, limit: Duration) {
        match self.wait_rule.step(turn) {
            WaitAction::Spin => spin_loop(),
            WaitAction::Yield => yield_now(),
            WaitAction::Sleep => self.sleep(limit),
        }
    }

    #[cold]
    fn sleep(&self, limit: Duration) {
        // An error is kept in the peer's state: the next call that concerns the peer tells.
        let _ = self.drain();
        let longest = if self.backlogs.load(Ordering::Relaxed) > 0 { BACKLOG_SLEEP } else { LONGEST_SLEEP };
        let limit = limit.min(longest);
        if limit.is_zero() {
            return yield_now();
        }
        let Some(word) = self.inbox.bell().announce() else { return };
        if self.has_any() {
            return yield_now();
        }
        // SeqCst, as is the look at it after a delivery: a delivery that counts no sleeper has changed the
        // word before this thread waits for it.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        futex::wait(self.inbox.bell_word(), word, limit);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        self.peers.look_closely();
    }

    /// [`nap`](crate::Endpoint::nap): apart from the bell, so that what arrives rouses nobody while other
    /// threads take it.
    pub(super) fn doze(&self, limit: Duration) -> bool {
        let roused = self.inbox.roused();
        if roused.swap(0, Ordering::Relaxed) == 0 {
            // Whoever has stored a 1 meanwhile has changed the word.
            futex::wait(roused, 0, limit);
            return roused.swap(0, Ordering::Relaxed) != 0;
        }
        true
    }

    /// [`end_nap`](crate::Endpoint::end_nap).
    #[cold]
    pub(super) fn shake(peer: &Inbox) {
        if peer.roused().swap(1, Ordering::Relaxed) == 0 {
            futex::wake_all(peer.roused());
        }
        Self::wake(peer);
    }

    /// What [ends a nap](crate::Endpoint::end_nap) of this rank, for whoever cannot call the endpoint.
    pub(crate) fn rouser(&self) -> impl Fn() + Send + Sync + use<> {
        let inbox = Arc::clone(&self.inbox);
        move || Self::shake(&inbox)
    }

    /// Turn 2 of the bell's protocol: whether a poll would deliver something, or is delivering now.
    pub(super) fn has_any(&self) -> bool {
        let Some(intake) = self.intake.try_lock() else { return true };
        intake.has_any()
            || self.peers.any_unreported()
            || self.expected.is_met(|mark| self.reached(mark))
            || self.decided().is_some()
    }
}
