//! Locks that are asked for before a thread wants them.
//!
//! Over a network a lock that is elsewhere costs a round trip, and a program with a lock for each of many
//! things takes them mostly in the order of their numbers: each one a round trip. So a rank watches in what
//! steps its threads **walk** through the locks that were made together. Who walks, and misses one, also asks
//! for the next ones that are not here. Requests to one rank leave in one piece.
//!
//! What is asked for ahead is a *try* that no thread waits for ([`locks`](super::locks)): whoever has the
//! lock, or waits for it, refuses. So no thread waits for what it does not want, and an answer comes soon,
//! whatever programs do. A rank flushes for a memory barrier when it has all answers.
//!
//! What comes with such a lock is learnt at once, and applied when a thread takes the lock: nobody else is
//! disturbed.
//!
//! A lock that was refused, or that leaves again before a thread has taken it, was asked for in vain, and may
//! have cost its last holder a round trip, too. How far ahead a rank asks grows while they are taken, and
//! shrinks when they are not.

use super::own::OwnNumber;
use super::{MeetingStage, Node, Phase, Violation};

/// Walks that are watched, at most: those of the threads that took a lock last. As many runs of locks.
const MOST_WALKS: usize = 8;
/// How far ahead a rank asks in the beginning, in locks, and at least. Of two locks side by side one is
/// another rank's.
const FIRST_REACH: u32 = 2;
/// Locks that threads wait for on their walks before a rank asks ahead again for which that was in vain.
const REST: u32 = 64;

/// How a thread goes through locks that were made together.
#[derive(Clone, Copy, Debug)]
struct Walk {
    who: u64,
    /// Where the run of locks ends.
    end: u32,
    /// The lock that it took last.
    at: u32,
    /// From one lock to the next.
    step: i64,
    /// How often it has gone so, one time after the other.
    steps: u32,
}

/// How far ahead a rank asks for locks that were made together.
#[derive(Clone, Copy, Debug)]
struct Reach {
    /// Where the run of locks ends.
    end: u32,
    /// In locks; 0 while it rests.
    locks: u32,
    /// Locks that were taken since it grew last.
    taken: u32,
    /// Locks that are waited for until the rest is over.
    rests: u32,
    /// Whether locks were asked for since it shrank last: several that were in vain together count once.
    asked: bool,
}

impl Reach {
    fn new(end: u32) -> Reach {
        Reach { end, locks: FIRST_REACH, taken: 0, rests: 0, asked: false }
    }

    /// How far to ask now.
    fn now(&mut self) -> u32 {
        if self.rests > 0 {
            self.rests -= 1;
            if self.rests == 0 {
                self.locks = FIRST_REACH;
            }
        }
        self.locks
    }

    fn was_taken(&mut self, most: u32) {
        self.taken += 1;
        if self.locks > 0 && self.taken >= self.locks {
            self.taken = 0;
            self.locks = (2 * self.locks).min(most);
        }
    }

    fn was_in_vain(&mut self) {
        self.taken = 0;
        if std::mem::take(&mut self.asked) {
            self.locks /= 2;
            if self.locks < FIRST_REACH {
                (self.locks, self.rests) = (0, REST);
            }
        }
    }
}

/// What a rank asks for ahead.
#[derive(Clone, Debug, Default)]
pub(super) struct Ahead {
    /// The one that was seen last comes last.
    walks: Vec<Walk>,
    /// Likewise.
    reaches: Vec<Reach>,
    /// Locks that were asked for ahead, of which there is no answer.
    unanswered: u32,
    /// This rank has come to a memory barrier, and flushes when there are all answers.
    is_awaited: bool,
}

impl Ahead {
    /// A thread takes a lock of the run that ends there. Returns its step, if it has made the same one twice.
    fn step(&mut self, who: u64, end: u32, lock: u32) -> Option<i64> {
        let first = Walk { who, end, at: lock, step: 0, steps: 0 };
        let walk = last(&mut self.walks, |walk| (walk.who, walk.end) == (who, end), first);
        let step = i64::from(lock) - i64::from(walk.at);
        if step != 0 {
            walk.steps = if step == walk.step { walk.steps.saturating_add(1) } else { 1 };
            (walk.at, walk.step) = (lock, step);
        }
        (walk.steps >= 2).then_some(walk.step)
    }

    fn reach(&mut self, end: u32) -> &mut Reach {
        last(&mut self.reaches, |reach| reach.end == end, Reach::new(end))
    }

    /// How far a rank asks ahead in the run of locks that ends there.
    #[cfg(test)]
    pub(super) fn reach_of(&self, end: u32) -> Option<u32> {
        self.reaches.iter().find(|reach| reach.end == end).map(|reach| reach.locks)
    }

    /// Whether all answers are there.
    pub(super) fn is_answered(&self) -> bool {
        self.unanswered == 0
    }
}

/// The one that is sought, or a new one, comes last in the list, and the first one goes if there are many.
fn last<T>(list: &mut Vec<T>, is_it: impl Fn(&T) -> bool, new: T) -> &mut T {
    let found = list.iter().position(is_it).map(|at| list.remove(at));
    if list.len() == MOST_WALKS {
        list.remove(0);
    }
    list.push(found.unwrap_or(new));
    let end = list.len() - 1;
    &mut list[end]
}

impl Node {
    /// A thread takes a lock that is here: where it goes is noted.
    pub(super) fn walk_on(&mut self, lock: u32, who: u64) {
        self.step_of(lock, who);
    }

    /// A thread takes a lock that is elsewhere, or was asked for ahead: asks for the next ones, if it walks.
    /// `missed`: a request for this one leaves now in any case.
    ///
    /// # Errors
    /// The end of a queue is lost.
    pub(super) fn ask_ahead(&mut self, lock: u32, who: u64, missed: bool) -> Result<(), Violation> {
        let Some((step, end)) = self.step_of(lock, who) else { return Ok(()) };
        let most = self.cfg.ahead;
        let reach = self.sync.ahead.reach(end).now().min(most);
        let next = (1..=i64::from(reach)).map_while(|n| u32::try_from(i64::from(lock) + step * n).ok());
        let next = next.take_while(|&lock| self.run_end(lock) == Some(end));
        let (mut absent, mut unused) = (Vec::new(), 0);
        for lock in next {
            if self.has_place(lock) {
                unused += usize::from(self.was_asked_for_ahead(lock));
            } else {
                absent.push(lock);
            }
        }
        // Together they cost little more than one.
        if absent.is_empty() || !missed && absent.len() < unused {
            return Ok(());
        }
        self.sync.ahead.reach(end).asked = true;
        for lock in absent {
            self.sync.ahead.unanswered += 1;
            self.counters.asked_ahead += 1;
            let place = self.ask_for_nobody(lock);
            place.ok_or(Violation { rank: self.cfg.rank, what: "the end of a lock's queue is lost" })?;
        }
        Ok(())
    }

    /// In which steps a thread walks, and where the run of locks ends.
    fn step_of(&mut self, lock: u32, who: u64) -> Option<(i64, u32)> {
        // Whoever destroys a lock of one rank would find this rank in its queue. Where races are looked for,
        // what a rank has learnt orders what its threads do.
        if self.cfg.ahead == 0 || self.cfg.races || OwnNumber::of(lock).is_some() {
            return None;
        }
        let end = self.run_end(lock)?;
        Some((self.sync.ahead.step(who, end, lock)?, end))
    }

    /// A lock has come that was asked for ahead, or was refused.
    pub(super) fn answered_ahead(&mut self) {
        let ahead = &mut self.sync.ahead;
        ahead.unanswered -= 1;
        if ahead.is_answered() && std::mem::take(&mut ahead.is_awaited) {
            // Unless the call was broken off.
            if self.meetings.phase == Phase::Flushing(MeetingStage::Flush) {
                self.begin_flush();
            }
        }
    }

    /// This rank has come to a memory barrier, and begins to flush now or when it has all answers.
    pub(super) fn flush_when_answered(&mut self) {
        if self.sync.ahead.is_answered() {
            self.begin_flush();
        } else {
            self.sync.ahead.is_awaited = true;
        }
    }

    /// A thread has a lock that was asked for ahead.
    pub(super) fn took_ahead(&mut self, lock: u32) {
        self.counters.taken_ahead += 1;
        let most = self.cfg.ahead;
        if let Some(end) = self.run_end(lock) {
            self.sync.ahead.reach(end).was_taken(most);
        }
    }

    /// A lock was asked for ahead in vain.
    pub(super) fn asked_in_vain(&mut self, lock: u32) {
        if let Some(end) = self.run_end(lock) {
            self.sync.ahead.reach(end).was_in_vain();
        }
    }
}
