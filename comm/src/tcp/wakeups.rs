//! Wakes sleepers for what did not come by their sockets: this rank's messages to itself, those that the
//! service thread met while it worked for a fence, and what *another thread* of this rank took out of the
//! sockets and delivered.
//!
//! `flag` says that there is something to be looked for, `delivered` counts the deliveries, `sleepers` the
//! threads that sleep or are about to.
//! 1. A poster queues the message, sets `flag`, and then reads `sleepers`; if there are any it wakes them.
//! 2. The polling thread clears `flag`, and then looks at all queues. When it has delivered something it
//!    counts `delivered` up, and then reads `sleepers`; if there are any it wakes them.
//! 3. A sleeper counts itself in, and then reads `flag` and `delivered`; if the one is set, or the other is
//!    not what it was at the look before its last one, it does not sleep. (What another thread delivered
//!    between those two looks, its caller may have asked for too early.)
//!
//! With each pair of accesses in one total order (SeqCst), at least one of waker and sleeper sees the other,
//! so nothing is slept over; and while all are awake nobody makes a system call.
//!
//! Of several sleepers, one leads: it sleeps on the sockets and the bell, and for what the endpoint's
//! [`Companion`] waits for. The others sleep on a condition variable. When the leader gets up it calls the
//! others, one of which will lead.
//!
//! A sleeper that was woken may wait for a core for as long as those who are awake spin, and deliveries
//! follow each other in microseconds. So the bell is rung once: until the leader has heard it, it is known to
//! ring. The leader silences it before it says that it does; who thought in between that it rang has
//! delivered before the leader's next look. Of the others, who waits on the condition variable is counted, as
//! in step 3.

use super::lock;
use super::sys::{self, Awaited};
use crate::network::Companion;
use nix::sys::eventfd::EventFd;
use std::cell::Cell;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

thread_local! {
    /// `delivered` as this thread saw it at its last look around, and at the one before. (If the thread waits
    /// at two endpoints in turn they share this, and a sleep may end early, or last for its limit.)
    static SEEN: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// The counters, the bell and the condition variable.
pub(super) struct Wakeups {
    flag: AtomicBool,
    delivered: AtomicU64,
    sleepers: AtomicU32,
    bell: EventFd,
    /// Whether it rings.
    rings: AtomicBool,
    /// Locked by the sleeper that leads.
    lead: Mutex<()>,
    /// What the others sleep on.
    others: Mutex<()>,
    call: Condvar,
    /// How many do.
    listeners: AtomicU32,
}

impl Wakeups {
    /// Nothing has come.
    pub(super) fn new() -> nix::Result<Self> {
        Ok(Self {
            flag: AtomicBool::new(false),
            delivered: AtomicU64::new(0),
            sleepers: AtomicU32::new(0),
            bell: sys::bell()?,
            rings: AtomicBool::new(false),
            lead: Mutex::new(()),
            others: Mutex::new(()),
            call: Condvar::new(),
            listeners: AtomicU32::new(0),
        })
    }

    /// Says that something was queued.
    pub(super) fn post(&self) {
        self.flag.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Says that something was delivered, of which other threads may be waiting to hear.
    pub(super) fn delivered(&self) {
        self.delivered.fetch_add(1, Ordering::SeqCst);
        self.wake();
    }

    /// Notes that this thread looks around now.
    pub(super) fn look(&self) {
        let (last, _) = SEEN.get();
        SEEN.set((self.delivered.load(Ordering::Acquire), last));
    }

    /// Whether something was queued since the last call.
    pub(super) fn take(&self) -> bool {
        self.flag.load(Ordering::Relaxed) && self.flag.swap(false, Ordering::SeqCst)
    }

    /// Sleeps until there is news, here or at the companion, one of the first `count` of `sockets` is ready,
    /// or `limit` has passed. The two bells take the places behind them.
    pub(super) fn sleep(
        &self,
        sockets: &mut [Awaited],
        count: usize,
        companion: &dyn Companion,
        limit: Duration,
    ) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        if let Ok(lead) = self.lead.try_lock() {
            self.sleep_on(sockets, count, companion, limit);
            drop(lead);
            if self.sleepers.load(Ordering::SeqCst) > 1 {
                self.call_others();
            }
        } else {
            // Their callers lock, so no call comes between the look and the sleep.
            let others = lock(&self.others);
            self.listeners.fetch_add(1, Ordering::SeqCst);
            if !self.has_news() {
                let _ = self.call.wait_timeout(others, limit);
            }
            self.listeners.fetch_sub(1, Ordering::SeqCst);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// The sleep of the one that leads.
    fn sleep_on(&self, sockets: &mut [Awaited], count: usize, companion: &dyn Companion, limit: Duration) {
        let (its_bell, limit) = companion.lie_down(limit);
        let mut has_rung = false;
        if !self.has_news() && !companion.has_news() {
            let sockets = &mut sockets[..count + 2];
            sockets[count] = sys::awaited(self.bell.as_fd(), libc::POLLIN);
            sockets[count + 1] = its_bell.map_or(sys::NOTHING, |bell| sys::awaited(bell, libc::POLLIN));
            sys::wait(sockets, limit);
            if sockets[count].revents != 0 {
                // Only the leader reads, so it cannot fail.
                let _ = self.bell.read();
                self.rings.store(false, Ordering::SeqCst);
            }
            has_rung = sockets[count + 1].revents != 0;
        } else {
            // Whoever takes the news may be waiting for this thread's core.
            sys::yield_core();
        }
        companion.get_up(has_rung);
    }

    /// Whether there is something to be looked for, or something was delivered since the look before this
    /// thread's last one.
    pub(super) fn has_news(&self) -> bool {
        let (_, before) = SEEN.get();
        self.flag.load(Ordering::SeqCst) || self.delivered.load(Ordering::SeqCst) != before
    }

    fn wake(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            if !self.rings.swap(true, Ordering::SeqCst) {
                // It can only fail when the count is at its maximum, and then the bell is rung.
                let _ = self.bell.write(1);
            }
            self.call_others();
        }
    }

    fn call_others(&self) {
        if self.listeners.load(Ordering::SeqCst) > 0 {
            let _others = lock(&self.others);
            self.call.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_deliver_between_two_looks_is_news_until_the_thread_has_looked_once_more() {
        let wakeups = Wakeups::new().unwrap();
        wakeups.look();
        wakeups.look();
        assert!(!wakeups.has_news());
        // The thread has asked for what it waits for, and asks the endpoint next.
        wakeups.delivered();
        wakeups.look();
        assert!(wakeups.has_news(), "it would sleep over what it did not find before");
        wakeups.look();
        assert!(!wakeups.has_news());
    }

    #[test]
    fn a_sleeper_that_has_been_woken_is_not_woken_again_before_it_has_heard_that() {
        let wakeups = Wakeups::new().unwrap();
        wakeups.sleepers.fetch_add(1, Ordering::SeqCst);
        (0..3).for_each(|_| wakeups.delivered());
        assert_eq!(wakeups.bell.read(), Ok(1), "it was rung once");
        wakeups.rings.store(false, Ordering::SeqCst);
        wakeups.delivered();
        assert_eq!(wakeups.bell.read(), Ok(1));
    }
}
