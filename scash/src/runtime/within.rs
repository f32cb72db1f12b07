//! Signal handlers of the program that come to the library while their thread is in it.
//!
//! Such a handler may touch shared memory: where its thread has no lock that serving the fault needs, all is
//! as if another thread had touched it. Where it has, the two would wait for each other for ever. That is
//! noticed, said in a line, and ends the rank.
//!
//! The locks are two: the one on the protocol's state knows whose it is
//! ([`Owned`](crate::runtime::owned::Owned)), and a thread notes that it is in the endpoint ([`enter`]) where
//! it is without the former, and the endpoint has locks of its own: it has none where it goes to peers'
//! memory directly.

use crate::fault::line::Line;
use crate::runtime::current;
use scash_comm::{Caps, Endpoint};
use scash_proto::Strided;
use std::cell::Cell;

/// Exit status of a rank whose thread would wait for itself (`EX_SOFTWARE`).
const EXIT_WITHIN: i32 = 70;

thread_local!(static IS_IN: Cell<bool> = const { Cell::new(false) });

thread_local!(static BRINGS: Cell<Option<Strided>> = const { Cell::new(None) });

/// Notes that this thread brings pages, or asks whose they are, until what is returned is dropped.
pub(crate) fn brings(pages: Strided) -> Bringing {
    Bringing { before: BRINGS.replace(Some(pages)) }
}

/// See [`brings`].
#[must_use = "the thread brings pages as long as this lives"]
pub(crate) struct Bringing {
    before: Option<Strided>,
}

impl Drop for Bringing {
    fn drop(&mut self) {
        BRINGS.set(self.before);
    }
}

/// Ends the rank if this thread is about to wait for a page that it brings itself, below a signal handler.
pub(crate) fn waits_for(page: u32) {
    if BRINGS.get().is_some_and(|pages| pages.iter().any(|brought| brought == page)) {
        end();
    }
}

/// That this thread is in the endpoint, until it is dropped.
#[must_use = "the thread is in the endpoint as long as this lives"]
pub(crate) struct Inside(());

/// Notes that this thread goes into the endpoint for something that may take its locks.
pub(crate) fn enter(endpoint: &dyn Endpoint) -> Option<Inside> {
    enter_by(endpoint.caps())
}

/// As [`enter`], for something that concerns this peer only.
pub(crate) fn enter_for(endpoint: &dyn Endpoint, peer: u32) -> Option<Inside> {
    enter_by(endpoint.caps_to(peer))
}

fn enter_by(caps: Caps) -> Option<Inside> {
    if caps.contains(Caps::DIRECT) { None } else { Some(enter_words()) }
}

/// Notes that this thread is about to take locks that do not know whose they are: guards of objects
/// ([`HostObjects`](crate::runtime::host_objects::HostObjects)), or what belongs to them.
#[inline]
pub(crate) fn enter_words() -> Inside {
    if IS_IN.replace(true) {
        end();
    }
    Inside(())
}

/// As [`enter_words`], for one that may be inside already.
pub(crate) fn stay() -> Stay {
    Stay { was_in: IS_IN.replace(true) }
}

/// See [`stay`].
#[must_use = "the thread is inside as long as this lives"]
pub(crate) struct Stay {
    was_in: bool,
}

impl Drop for Stay {
    fn drop(&mut self) {
        IS_IN.set(self.was_in);
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        IS_IN.set(false);
    }
}

/// Ends a rank of which a thread would wait for itself. It may be in a signal handler.
#[cold]
pub(crate) fn end() -> ! {
    let rank = current().map_or(0, |runtime| runtime.rank() as usize);
    Line::new()
        .words("rank ")
        .number(rank)
        .words(": a signal handler of the program touched shared memory, or called scash, while its thread was in a function of scash, and each would wait for the other: ")
        .words("let the handler only set a flag, or block the signal around such calls")
        .tell();
    // SAFETY: ends the process at once, running no code of the program.
    unsafe { libc::_exit(EXIT_WITHIN) }
}
