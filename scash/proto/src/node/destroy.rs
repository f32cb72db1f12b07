//! The end of objects of synchronisation.
//!
//! Objects are destroyed by all ranks together, or by none. Whether a thread uses one is known at its rank
//! alone, so there are two steps:
//!
//! 1. **Announcement**, a [reduction](super::reduce) and no memory barrier: a rank may come to it while its
//!    threads wait for the very objects. Each rank says what it uses, and all learn the least of it: of the
//!    lowest rank, the object with the lowest number. If there is one, that is the outcome at every rank, and
//!    nothing else has happened. A rank that uses none lets no thread begin to until the call is over; it
//!    still serves the others, whose threads may use the objects until they come.
//! 2. **Memory barrier.** Nobody has or wants an object any more, and a rank that has asked for locks
//!    [ahead](super::ahead) flushes when it has all answers. So nothing is on its way but signals, which the
//!    barrier waits for. At its end each rank forgets what it knew.
//!
//! A rank uses an object if a thread has it, waits or tries for it, or has given it back to wait for a
//! condition. The count of a semaphore and the number of a flag are nobody's use.

use super::collective::purpose;
use super::maps::cut_out;
use super::{InUse, Node, Outcome, Phase};
use crate::Rank;
use crate::page::MAX_RANKS;
use crate::wire::stall::{Activity, Relation};
use std::ops::Range;

/// What a rank announces that uses nothing: greater than all else.
const NOTHING: u64 = u64::MAX;

// A rank, an object and a bit are less than that.
const _: () = assert!(MAX_RANKS < 1 << 31);

impl InUse {
    /// The number that is announced: of two, the lesser has the lower rank, or the lower object.
    fn word(self) -> u64 {
        u64::from(self.rank.0) << 33
            | u64::from(self.object) << 1
            | u64::from(self.relation == Relation::Awaits)
    }

    fn from_word(word: u64) -> Option<InUse> {
        let low = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        (word != NOTHING).then(|| InUse {
            rank: Rank(low(word >> 33)),
            object: low(word >> 1),
            relation: if word & 1 == 0 { Relation::Holds } else { Relation::Awaits },
        })
    }
}

impl Node {
    /// The first of these objects that a thread of this rank uses, if one does, and how.
    pub fn in_use(&self, objects: Range<u32>) -> Option<InUse> {
        let locks =
            self.sync.locks.range(objects.clone()).flat_map(|(&object, lock)| lock.activities(object));
        let awaits = |who, object| Activity { who, relation: Relation::Awaits, object };
        let waits =
            self.sync.waits.iter().flat_map(|w| [w.condition(), w.lock()].map(|o| awaits(w.who(), o)));
        let all = locks.chain(self.sync.served.activities()).chain(waits);
        let ours = all.map(|d| InUse { rank: self.cfg.rank, object: d.object, relation: d.relation });
        let used = ours.chain(self.sync.used).filter(|used| objects.contains(&used.object));
        used.min_by_key(|used| (used.object, used.relation))
    }

    /// Says whether this rank uses one of the objects that are to be destroyed.
    pub(super) fn announce_use(&mut self, objects: Range<u32>) {
        let word = self.in_use(objects).map_or(NOTHING, InUse::word);
        if word == NOTHING {
            self.meetings.phase = Phase::Announcing;
        }
        self.announce(purpose(self.meetings.collective), word);
    }

    /// What all ranks use together is known: the memory barrier follows, or there is none.
    pub(super) fn announced(&mut self, outcome: Outcome) {
        self.meetings.phase = Phase::Running;
        let outcome = match outcome {
            Outcome::Reduced(words) => match words.first().and_then(|&word| InUse::from_word(word)) {
                Some(in_use) => Outcome::InUse(in_use),
                None => return self.come(),
            },
            other => other,
        };
        self.sync.reductions.end(outcome);
    }

    /// Nothing is known of these objects any more.
    pub(super) fn destroy(&mut self, objects: Range<u32>) {
        cut_out(&mut self.sync.locks, objects.clone());
        self.sync.served.forget(objects.clone());
        self.sync.objects.remove(objects);
    }
}
