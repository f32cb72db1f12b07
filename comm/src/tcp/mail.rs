//! Tells the polling thread of messages that did not come by its sockets: this rank's own, and those that the service thread met
//! while it worked for a fence.
//!
//! `flag` says that there is mail, `sleepers` how many threads sleep or are about to. The protocol:
//! 1. A poster queues the message, sets `flag`, and then reads `sleepers`; if there are any it rings the bell.
//! 2. A sleeper counts itself in, and then reads `flag`; if it is set it does not sleep.
//! 3. The polling thread clears `flag`, and then looks at all queues.
//!
//! With 1 and 2 in one total order (SeqCst) at least one of poster and sleeper sees the other, so no mail is slept over; and
//! nobody rings while all are awake. The bell stays rung until a sleeper has heard it.

use super::sys::{self, Awaited};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// The flag and the bell.
pub(super) struct Mail {
    flag: AtomicBool,
    sleepers: AtomicU32,
    bell: EventFd,
}

impl Mail {
    /// No mail.
    pub(super) fn new() -> nix::Result<Self> {
        let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self { flag: AtomicBool::new(false), sleepers: AtomicU32::new(0), bell })
    }

    /// Says that something was queued.
    pub(super) fn post(&self) {
        self.flag.store(true, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // It can only fail when the count is at its maximum, and then the bell is rung.
            let _ = self.bell.write(1);
        }
    }

    /// Whether something was queued since the last call.
    pub(super) fn take(&self) -> bool {
        self.flag.load(Ordering::Relaxed) && self.flag.swap(false, Ordering::SeqCst)
    }

    /// Sleeps until there is mail, one of the first `count` of `sockets` is ready, or `limit` has passed. The bell takes the place
    /// behind them.
    pub(super) fn sleep(&self, sockets: &mut [Awaited], count: usize, limit: Duration) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        if !self.flag.load(Ordering::SeqCst) {
            sockets[count] = sys::awaited(self.bell.as_fd(), libc::POLLIN);
            sys::wait(&mut sockets[..=count], limit);
            if sockets[count].revents != 0 {
                // Another sleeper may have been faster.
                let _ = self.bell.read();
            }
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}
