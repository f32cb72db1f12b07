//! Wakes sleepers for what did not come by their sockets: this rank's messages to itself, those that the
//! service thread met while it worked for a fence, and what *another thread* of this rank took out of the
//! sockets and delivered.
//!
//! `flag` says that there is mail to be looked for, `delivered` counts the deliveries, `sleepers` the threads
//! that sleep or are about to.
//! 1. A poster queues the message, sets `flag`, and then reads `sleepers`; if there are any it wakes them.
//! 2. The polling thread clears `flag`, and then looks at all queues. When it has delivered something it
//!    counts `delivered` up, and then reads `sleepers`; if there are any it wakes them.
//! 3. A sleeper counts itself in, and then reads `flag` and `delivered`; if the one is set, or the other is
//!    not what it was before the sleeper last looked around, it does not sleep.
//!
//! With each pair of accesses in one total order (SeqCst), at least one of waker and sleeper sees the other,
//! so nothing is slept over; and while all are awake nobody makes a system call.
//!
//! Of several sleepers, one leads: it sleeps on the sockets and the bell. The others sleep on a condition
//! variable. When the leader gets up it calls the others, one of which will lead.

use super::lock;
use super::sys::{self, Awaited};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::cell::Cell;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

thread_local! {
    /// `delivered` as this thread saw it before it last looked around. (If the thread waits at two endpoints
    /// in turn they share this, and a sleep may end early, or last for its limit.)
    static SEEN: Cell<u64> = const { Cell::new(0) };
}

/// The counters, the bell and the condition variable.
pub(super) struct Mail {
    flag: AtomicBool,
    delivered: AtomicU64,
    sleepers: AtomicU32,
    bell: EventFd,
    /// Locked by the sleeper that leads.
    lead: Mutex<()>,
    /// What the others sleep on.
    others: Mutex<()>,
    call: Condvar,
}

impl Mail {
    /// No mail.
    pub(super) fn new() -> nix::Result<Self> {
        Ok(Self {
            flag: AtomicBool::new(false),
            delivered: AtomicU64::new(0),
            sleepers: AtomicU32::new(0),
            bell: EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?,
            lead: Mutex::new(()),
            others: Mutex::new(()),
            call: Condvar::new(),
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
        SEEN.set(self.delivered.load(Ordering::Acquire));
    }

    /// Whether something was queued since the last call.
    pub(super) fn take(&self) -> bool {
        self.flag.load(Ordering::Relaxed) && self.flag.swap(false, Ordering::SeqCst)
    }

    /// Sleeps until there is news, one of the first `count` of `sockets` is ready, or `limit` has passed. The
    /// bell takes the place behind them.
    pub(super) fn sleep(&self, sockets: &mut [Awaited], count: usize, limit: Duration) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        if let Ok(lead) = self.lead.try_lock() {
            if !self.has_news() {
                sockets[count] = sys::awaited(self.bell.as_fd(), libc::POLLIN);
                sys::wait(&mut sockets[..=count], limit);
                if sockets[count].revents != 0 {
                    // Only the leader reads, so it cannot fail.
                    let _ = self.bell.read();
                }
            }
            drop(lead);
            if self.sleepers.load(Ordering::SeqCst) > 1 {
                self.call_others();
            }
        } else {
            // Who calls them locks, so no call comes between the look and the sleep.
            let others = lock(&self.others);
            if !self.has_news() {
                let _ = self.call.wait_timeout(others, limit);
            }
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether there is mail, or something was delivered since this thread last looked around.
    pub(super) fn has_news(&self) -> bool {
        self.flag.load(Ordering::SeqCst) || self.delivered.load(Ordering::SeqCst) != SEEN.get()
    }

    fn wake(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // It can only fail when the count is at its maximum, and then the bell is rung.
            let _ = self.bell.write(1);
            self.call_others();
        }
    }

    fn call_others(&self) {
        let _others = lock(&self.others);
        self.call.notify_all();
    }
}
