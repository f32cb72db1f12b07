//! The nap of a thread that what arrives does not concern: until somebody ends it, or some time has passed.

use super::lock;
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::Duration;

/// The nap of one thread, and what ends it.
#[derive(Default)]
pub(super) struct IdleSleep {
    /// Whether it was ended and nobody has noticed that yet.
    is_ended: Mutex<bool>,
    call: Condvar,
    /// What is to be done instead of ending it: the thread naps elsewhere.
    instead: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl IdleSleep {
    /// Sleeps until `limit` has passed or the nap is ended: whether that is so, or was since the last one.
    pub(super) fn sleep(&self, limit: Duration) -> bool {
        let mut is_ended = lock(&self.is_ended);
        if !*is_ended {
            let woken = self.call.wait_timeout(is_ended, limit);
            is_ended = woken.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        std::mem::take(&mut is_ended)
    }

    /// Ends the nap, or the next one.
    pub(super) fn end(&self) {
        if let Some(instead) = self.instead.get() {
            return instead();
        }
        *lock(&self.is_ended) = true;
        self.call.notify_one();
    }

    /// The thread naps elsewhere.
    pub(super) fn have_instead(&self, instead: Box<dyn Fn() + Send + Sync>) {
        // The first one who says so is obeyed.
        let _ = self.instead.set(instead);
    }
}
