//! Signs of life. A rank that ends is missed at once; one that is stopped, or whose link is cut, is not: its
//! kernel takes what is sent to it, or nobody does, and no connection tells. So who waits for a rank that
//! says nothing asks it, and gives it up when no answer comes. A rank that waits for nobody asks nobody.
//!
//! Any message is a sign of life. An engine answers whatever its application does: a helper makes progress
//! when nobody else does.
//!
//! **Time is counted in ticks of the engine's owner**, and so is only the time in which this rank ran itself:
//! when all ranks were stopped together, and go on, none of them accuses another.

use super::{Engine, Peer};
use crate::requests::Awaited;
use crate::wire::MessageHead;

/// Ticks without a sign of life until a rank is given up.
pub(crate) const SILENT_TICKS: u32 = 8;

/// What shows that a rank lives.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signs {
    /// It has said something since the last tick.
    has_spoken: bool,
    /// Ticks in a row in which it was waited for and gave no sign.
    silent: u32,
    /// What the endpoint said last of what it moves to or from there.
    moved: Option<u64>,
    /// Threads that wait for a message from there, and receive none,
    probing: u32,
    /// and whether one has looked for it in vain since the last tick.
    was_probed: bool,
}

impl Signs {
    /// The rank has said something.
    #[inline]
    pub(super) fn has_spoken(&mut self) {
        self.has_spoken = true;
    }

    /// A tick, at which the rank is waited for or not; for how many it has been in vain.
    fn tick(&mut self, is_awaited: bool, moved: Option<u64>) -> u32 {
        let is_moving = std::mem::replace(&mut self.moved, moved) != moved;
        let gives_sign = std::mem::take(&mut self.has_spoken) || is_moving;
        self.silent = if is_awaited && !gives_sign { self.silent + 1 } else { 0 };
        self.silent
    }
}

impl Engine {
    /// A thread begins to wait until there is a message of a rank, or of any; or it has ended.
    pub(crate) fn is_probing(&mut self, source: Option<u32>, begins: bool) {
        let count = match source {
            Some(rank) => &mut self.peers[rank as usize].signs.probing,
            None => &mut self.probing,
        };
        *count = if begins { *count + 1 } else { count.saturating_sub(1) };
    }

    /// A thread has looked for a message of a rank, or of any, in vain: it may do so again and again.
    pub(crate) fn has_probed(&mut self, source: Option<u32>) {
        match source {
            Some(rank) => self.peers[rank as usize].signs.was_probed = true,
            None => self.peers.iter_mut().for_each(|peer| peer.signs.was_probed = true),
        }
    }

    /// Time goes on. Asks ranks that are waited for in silence; those that were asked in vain for too long,
    /// which the owner is to give up.
    ///
    /// `below` tells of the endpoint's calls that wait for a rank, if there are any, a number that changes
    /// whenever something moves.
    pub(crate) fn tick(&mut self, below: impl Fn(u32) -> Option<u64>) -> Vec<u32> {
        let awaited = self.awaited();
        let mut lost = Vec::new();
        for (rank, is_awaited) in (0..).zip(awaited) {
            let peer = &mut self.peers[rank as usize];
            if peer.is_gone || rank == self.rank {
                continue;
            }
            let moved = below(rank);
            match peer.signs.tick(is_awaited || moved.is_some(), moved) {
                0 => {}
                1 => self.say(rank, MessageHead::Ask),
                silent if silent > SILENT_TICKS => lost.push(rank),
                _ => {}
            }
        }
        lost
    }

    /// By rank: whether anything waits for it.
    fn awaited(&mut self) -> Vec<bool> {
        let is_any = self.probing > 0;
        let of_peer = |peer: &mut Peer| {
            let is_probed = std::mem::take(&mut peer.signs.was_probed) || peer.signs.probing > 0;
            is_any || is_probed || !peer.held.is_empty() || !peer.leaving.is_empty()
        };
        let mut awaited: Vec<bool> = self.peers.iter_mut().map(of_peer).collect();
        for rank in self.awaited_at_board() {
            awaited[rank as usize] = true;
        }
        for request in self.requests.iter_mut() {
            match request.awaits() {
                Some(Awaited::Rank(rank)) => awaited[rank as usize] = true,
                Some(Awaited::Any) => awaited.fill(true),
                None => {}
            }
        }
        awaited
    }
}
