//! What a network's endpoint offers beyond an [`Endpoint`] to be a member of a composite one: to wait for
//! the other member, too.

use crate::Endpoint;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// An endpoint that carries what goes between hosts.
///
/// Its atomic operations are executed by a processor of the host that owns the word, as those of that host's
/// ranks are (guarantee 6).
pub trait Network: Endpoint {
    /// As [`Endpoint::idle`], of a thread that waits for `companion`, too: it does not spin or serve on, and
    /// does not sleep, when that has news. Sleeps are as long as [`Companion::lie_down`] says, and others
    /// than the thread that called it sleep until that one gets up.
    fn idle_with(&self, companion: &dyn Companion, turn: u32, limit: Duration);

    /// Ends the sleeps of this rank's threads in [`idle_with`](Self::idle_with), and those that are about to
    /// begin: another thread has delivered what came through the companion, and they may wait for that.
    fn rouse(&self);

    /// From now on, who [ends a nap](Endpoint::end_nap) of this rank through the network has this done
    /// instead.
    fn on_end_of_nap(&self, instead: Box<dyn Fn() + Send + Sync>);
}

/// What a thread waits for besides while it waits in an endpoint of a [`Network`].
pub trait Companion: Sync {
    /// Whether a poll would find something there. Takes nanoseconds.
    fn has_news(&self) -> bool;

    /// Looks again and again, for about as long as a system call takes: whether there is news. For a thread
    /// that spins between such calls.
    fn watch(&self) -> bool;

    /// Says that a thread is about to sleep. From now on, until [`get_up`](Self::get_up), news makes the
    /// descriptor readable; for what came before, the thread asks [`has_news`](Self::has_news) once more.
    /// Also says how long the sleep may be, of `limit` at most. One thread at a time lies down.
    fn lie_down(&self, limit: Duration) -> (Option<BorrowedFd<'_>>, Duration);

    /// Says that the thread that lay down sleeps no more, and whether the descriptor was readable.
    fn get_up(&self, has_rung: bool);
}

/// No companion.
#[derive(Clone, Copy, Debug)]
pub struct NoCompanion;

impl Companion for NoCompanion {
    fn has_news(&self) -> bool {
        false
    }

    fn watch(&self) -> bool {
        false
    }

    fn lie_down(&self, limit: Duration) -> (Option<BorrowedFd<'_>>, Duration) {
        (None, limit)
    }

    fn get_up(&self, _: bool) {}
}
