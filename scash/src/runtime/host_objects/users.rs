//! Threads in calls on objects.
//!
//! Where the rank can come back, they are counted: it comes to a collective call, in which it may be saved,
//! when none is at the words any more. One that comes later sees that the rank meets, and leaves them alone.
//! Else words could be saved with a guard that a thread has taken, and the thread when it has given it back.

use crate::runtime::within::{self, Inside};
use scash_comm::give_way;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

/// See [the module](self).
pub(super) struct Users {
    are_counted: bool,
    now: AtomicU32,
}

/// A thread that is in such a call.
#[must_use = "the thread is in the call as long as this lives"]
pub(super) struct User<'a> {
    users: &'a Users,
    _inside: Inside,
}

impl Users {
    pub(super) fn new(are_counted: bool) -> Users {
        Users { are_counted, now: AtomicU32::new(0) }
    }

    /// The calling thread begins a call. It looks whether the rank meets after that.
    #[inline]
    pub(super) fn come(&self) -> User<'_> {
        let inside = within::enter_words();
        if self.are_counted {
            self.now.fetch_add(1, SeqCst);
        }
        User { users: self, _inside: inside }
    }

    /// Whether any thread is in a call.
    pub(super) fn are_there(&self) -> bool {
        self.now.load(SeqCst) > 0
    }

    /// Waits until no thread is in a call. The rank is known to meet.
    pub(super) fn await_none(&self) {
        // It may be this one, below a signal handler.
        drop(within::enter_words());
        let mut turn = 0;
        while self.are_there() {
            give_way(turn);
            turn += 1;
        }
    }
}

impl Drop for User<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.users.are_counted {
            self.users.now.fetch_sub(1, SeqCst);
        }
    }
}
