//! Wakes threads that sleep because nothing had arrived.
//!
//! 1. A thread that has put something into the inbox, or has delivered what others may be waiting to hear of,
//!    counts `news` up, and then reads `sleepers`; if there are any, it calls them under the lock.
//! 2. A sleeper counts itself in, and then, under the lock, reads `news`; if that is not what it was before
//!    the sleeper last looked around, it does not sleep.
//!
//! Both pairs of accesses are in one total order (SeqCst): at least one of the two sees the other.

use super::lock;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

thread_local! {
    /// `news` as this thread saw it before it last looked around. (If the thread waits at two endpoints in
    /// turn, a sleep may end early, or last for its limit.)
    static SEEN: Cell<u64> = const { Cell::new(0) };
}

/// The counters, and what sleepers sleep on.
#[derive(Default)]
pub(super) struct Bell {
    news: AtomicU64,
    sleepers: AtomicU32,
    sleep: Mutex<()>,
    call: Condvar,
}

impl Bell {
    /// Says that there is news.
    pub(super) fn ring(&self) {
        self.news.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _sleep = lock(&self.sleep);
            self.call.notify_all();
        }
    }

    /// Notes that this thread looks around now.
    pub(super) fn look(&self) {
        SEEN.set(self.news.load(Ordering::SeqCst));
    }

    /// Sleeps until there is news, or `limit` has passed.
    pub(super) fn sleep(&self, limit: Duration) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let sleep = lock(&self.sleep);
        if self.news.load(Ordering::SeqCst) == SEEN.get() {
            let _ = self.call.wait_timeout(sleep, limit);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}
