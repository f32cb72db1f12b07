//! Whether all ranks call the same collective operations.
//!
//! Messages bear [stamps](Stamp), by which they are received; so one of another operation of the same number
//! finds no receive, and is looked at here. It fails the operation, whose other ranks are told so
//! (`running`). A message of an operation that is through already, and went well, is one too many: it fails
//! that operation where others still wait in it, and here the next one.
//!
//! Ranks may also wait for each other without any message: two that each take the other one for the root of a
//! broadcast, or one that is in a barrier in shared memory. So who waits for a rank for more than a tick asks
//! it whether it plays the same, now and then.

use super::{Engine, Peer};
use crate::collective::Stamp;
use crate::wire::MessageHead;
use scash_comm::Error;

/// Operations of others that this rank has not come to, of which it remembers what they are.
const MOST_EARLY: usize = 1 << 12;

/// What is known of operations that this rank does not play now.
#[derive(Debug, Default)]
pub(super) struct Alike {
    /// Those that others have begun and this rank has not.
    early: Vec<(u32, Stamp)>,
    /// Those before this one may have failed here, so that some of their messages are for nobody.
    failed: u64,
}

impl Engine {
    /// A message has come for which there is no receive; whether there never will be one.
    pub(super) fn is_in_vain(&mut self, from: u32, context: u16, tag: u64) -> bool {
        let Some(stamp) = Stamp::of(context, tag) else { return false };
        if !self.compare(from, stamp) && stamp.number() >= self.alike.failed {
            self.is_one_too_many(from, stamp);
        }
        self.is_stale(stamp)
    }

    /// A message of an operation has come that is through here. Others may be waiting in it for what this
    /// one's sender has sent here; and as it is too late for this rank to fail it, it fails the next one.
    fn is_one_too_many(&mut self, from: u32, stamp: Stamp) {
        let number = stamp.number();
        self.has_failed(number);
        let why = format!("it sent a message of {stamp} to a rank that was through with another operation");
        self.abort(number, &Error::Protocol { rank: from, why });
        let next = self.running.iter().map(|one| one.number()).filter(|&later| later > number).min();
        self.aborted(from, next.unwrap_or(self.collectives), from);
    }

    /// A rank plays this operation: the one of that number fails here if it is another one. Whether this rank
    /// plays it, or has not come to it.
    pub(super) fn compare(&mut self, from: u32, stamp: Stamp) -> bool {
        if let Some(one) = self.running.iter_mut().find(|one| one.number() == stamp.number()) {
            one.compare(from, stamp);
            return true;
        }
        let is_early = stamp.number() >= self.collectives;
        if is_early && self.alike.early.len() < MOST_EARLY {
            self.alike.early.push((from, stamp));
        }
        is_early
    }

    /// This rank begins an operation: why it cannot succeed, if others have called another one.
    pub(super) fn unlike_early(&mut self, stamp: Stamp) -> Option<Error> {
        let early = &mut self.alike.early;
        if early.is_empty() {
            return None;
        }
        let theirs = early.iter().find(|(_, theirs)| theirs.number() == stamp.number() && *theirs != stamp);
        let failure = theirs.map(|&(from, theirs)| unlike(from, theirs, stamp));
        early.retain(|(_, theirs)| theirs.number() > stamp.number());
        failure
    }

    /// An operation has failed here.
    pub(super) fn has_failed(&mut self, number: u64) {
        self.alike.failed = self.alike.failed.max(number + 1);
    }

    /// Time goes on: asks those for whom collective operations have waited for long whether they play the
    /// same. After twice as long each time, as most are only late.
    pub(crate) fn ask_alike(&mut self) {
        let mut running = std::mem::take(&mut self.running);
        let mut asked = Vec::new();
        for one in &mut running {
            one.ticks += 1;
            if one.ticks >= 2 && one.ticks.is_power_of_two() {
                asked.extend(self.awaited_in(one).into_iter().map(|rank| (rank, one.stamp)));
            }
        }
        self.running = running;
        for (rank, stamp) in asked {
            if !self.peers[rank as usize].is_gone {
                self.say(rank, MessageHead::Playing { context: stamp.context(), tag: stamp.tag() });
            }
        }
    }
}

impl Peer {
    /// Whether a collective operation that has not begun cannot succeed, for want of this rank.
    pub(super) fn is_absent(&self, operation: u64) -> bool {
        self.is_gone || self.missed_from.is_some_and(|first| first <= operation)
    }
}

/// Another rank calls another operation than this one.
pub(super) fn unlike(from: u32, theirs: Stamp, mine: Stamp) -> Error {
    let (theirs, mine) = (theirs.to_string(), mine.to_string());
    let differs = if theirs == mine {
        "with other numbers".to_owned()
    } else {
        format!("where this rank calls {mine}")
    };
    let why = format!(
        "it calls {theirs} {differs}: all ranks call the same collective operations, in the same order and with the same numbers"
    );
    Error::Protocol { rank: from, why }
}

/// A rank has sent less than was to come from it.
pub(super) fn too_short(from: u32, came: usize, expected: usize) -> Error {
    let why = format!("it sent {came} bytes in a collective operation where {expected} were to come");
    Error::Protocol { rank: from, why }
}
