//! Drained for a checkpoint, so that all there is of messages is in the engines, which images have.
//!
//! The intuition: a cut through all channels (Chandy and Lamport, "Distributed Snapshots", 1985), of ranks
//! that stand still. Each rank sends what it was ordered to send, says so to every rank, itself among them
//! ([`MessageHead::Drained`]), and from then on keeps its orders. It takes what arrives until all have said
//! so. Messages between two ranks keep their order, so nothing is between them then. What was sent is at its
//! receiver, perhaps half a message; what was not is an order, or a piece that has not left. Both are values,
//! and go on in the process that was saved as in one that comes back.
//!
//! **Invariant:** nobody carries orders out between [`Engine::begin_drain`] and the end of the checkpoint at
//! all ranks: a message that one image has received and the other one has not sent would come twice.

use super::arrive::Checked;
use super::silence::Signs;
use super::{Engine, ReadAccess};
use crate::barrier::Groups;
use crate::requests::Request;
use crate::wire::MessageHead;
use std::ops::Range;

/// What a process that comes back finds, of ranks and registered memory.
pub(crate) struct Found<'a> {
    pub(crate) reads: &'a [ReadAccess],
    pub(crate) readable: &'a [ReadAccess],
    pub(crate) registered: Range<usize>,
    pub(crate) groups: Groups,
}

/// Why a rank that passes messages cannot be saved, and what is to be done about it.
#[derive(Clone, Copy, Debug)]
pub struct Hindrance {
    /// For people.
    pub why: &'static str,
    /// It may be gone the next time, without anything being done.
    pub is_passing: bool,
}

impl Hindrance {
    /// One that is there until the program does something about it.
    pub(crate) fn lasting(why: &'static str) -> Hindrance {
        Hindrance { why, is_passing: false }
    }

    /// One that may be gone the next time.
    pub(crate) fn passing(why: &'static str) -> Hindrance {
        Hindrance { why, is_passing: true }
    }
}

/// The job goes back to an epoch before anyway.
pub(crate) const MISSES: Hindrance =
    Hindrance { why: "it passes messages, and misses a rank", is_passing: true };

impl Engine {
    /// Says to all that nothing more comes of this rank. The last orders that are carried out.
    pub(crate) fn begin_drain(&mut self) {
        for to in (0..).take(self.peers.len()) {
            if !self.peers[to as usize].is_gone {
                self.say(to, MessageHead::Drained);
            }
        }
    }

    /// A rank says so.
    pub(super) fn was_drained(&mut self, from: u32) -> Checked {
        let is_again = std::mem::replace(&mut self.peers[from as usize].is_drained, true);
        if is_again { Err("it is drained twice for one checkpoint") } else { Ok(()) }
    }

    /// Whether nothing is on its way to this rank any more, or would ever come. The next time is another
    /// checkpoint's.
    pub(crate) fn ends_drain(&mut self) -> bool {
        let is_over = self.peers.iter().all(|peer| peer.is_drained || peer.is_gone);
        if is_over {
            self.peers.iter_mut().for_each(|peer| peer.is_drained = false);
        }
        is_over
    }

    /// Why an image of this engine would be of no use.
    pub(crate) fn hindrance(&mut self) -> Option<Hindrance> {
        if self.gone().next().is_some() {
            return Some(MISSES);
        }
        if self.has_running() {
            return Some(Hindrance::lasting(
                "it has a collective operation of messages under way: wait for it before the barrier",
            ));
        }
        let reads = self.requests.iter_mut().any(|request| matches!(request, Request::Read { .. }));
        reads.then_some(Hindrance::passing("it reads a message out of another rank's registered memory"))
    }

    /// Goes on in the process that has come back. What was posted on the board is gone with it, and nobody
    /// waits for that.
    pub(crate) fn reborn(&mut self, found: Found<'_>) {
        for (peer, (reads, readable)) in self.peers.iter_mut().zip(found.reads.iter().zip(found.readable)) {
            (peer.reads, peer.readable) = (*reads, *readable);
            peer.signs = Signs::default();
        }
        self.registered = found.registered;
        self.groups = found.groups;
        (self.seen, self.posted) = ([0; 2], [0; 2]);
    }
}
