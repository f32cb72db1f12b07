//! Locks that are asked for before a thread wants them.
//!
//! Over a network a lock that is elsewhere costs a round trip, and a program with a lock for each of many
//! things takes them mostly in the order of their numbers: each one a round trip. So a rank watches in what
//! steps its threads **walk** through the locks that were made together. Who walks, and misses one, also asks
//! for the next ones that are not here. Their requests leave in one piece with the first, and the answers
//! come back in one.
//!
//! What is asked for ahead is a *try* that no thread waits for ([`locks`](super::locks)): whoever has the
//! lock, or waits for it, refuses. So a rank never takes its place before a thread that waits, no thread waits
//! for what it does not want, and an answer comes soon, whatever programs do. A rank comes to a collective
//! call when it has all answers.
//!
//! A lock that has come lies here as if a thread had taken it and given it back. What comes with it is learnt
//! at once, and applied when a thread takes the lock: nobody else is disturbed.
//!
//! A lock that leaves again before a thread has taken it was asked for in vain, and cost its last holder a
//! round trip, too. How far ahead a rank asks grows while they are taken, and shrinks when they are not.

use super::own::OwnNumber;
use super::{Node, Violation};

/// Walks that are watched, at most: those of the threads that took a lock last.
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

/// What a rank asks for ahead.
#[derive(Clone, Debug)]
pub(super) struct Ahead {
    /// The one that was seen last comes last.
    walks: Vec<Walk>,
    /// How far ahead it asks, in locks; 0 while it rests.
    pub(super) reach: u32,
    /// Locks that were taken since the reach grew last.
    taken: u32,
    /// Steps that it rests yet.
    rests: u32,
    /// Locks that it has asked for and that no thread wants yet, of which there is no answer.
    unanswered: u32,
    /// All threads of this rank are in a collective call, to which it comes when there are all answers.
    arrives: bool,
}

impl Default for Ahead {
    fn default() -> Ahead {
        Ahead { walks: Vec::new(), reach: FIRST_REACH, taken: 0, rests: 0, unanswered: 0, arrives: false }
    }
}

impl Ahead {
    /// Whether answers are all that this rank waits for before it comes to a collective call.
    pub(super) fn keeps_from_arriving(&self) -> bool {
        self.arrives
    }

    /// A thread takes a lock of the run that ends there. Returns its step, if it has made the same one twice.
    fn step(&mut self, who: u64, end: u32, lock: u32) -> Option<i64> {
        let at = self.walks.iter().position(|walk| (walk.who, walk.end) == (who, end));
        let Some(at) = at else {
            if self.walks.len() == MOST_WALKS {
                self.walks.remove(0);
            }
            self.walks.push(Walk { who, end, at: lock, step: 0, steps: 0 });
            return None;
        };
        let mut walk = self.walks.remove(at);
        let step = i64::from(lock) - i64::from(walk.at);
        if step != 0 {
            walk.steps = if step == walk.step { walk.steps.saturating_add(1) } else { 1 };
            (walk.at, walk.step) = (lock, step);
        }
        self.walks.push(walk);
        (walk.steps >= 2).then_some(walk.step)
    }

    /// How far to ask ahead now.
    fn reach(&mut self) -> u32 {
        if self.rests > 0 {
            self.rests -= 1;
            if self.rests == 0 {
                self.reach = FIRST_REACH;
            }
        }
        self.reach
    }

    /// A thread has taken a lock that was asked for ahead.
    fn was_taken(&mut self, most: u32) {
        self.taken += 1;
        if self.taken >= self.reach {
            self.taken = 0;
            self.reach = (2 * self.reach).min(most);
        }
    }

    /// A lock was asked for in vain.
    fn was_in_vain(&mut self) {
        self.taken = 0;
        self.reach /= 2;
        if self.reach < FIRST_REACH {
            (self.reach, self.rests) = (0, REST);
        }
    }
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
        let reach = self.sync.ahead.reach();
        let next =
            (1..=i64::from(reach)).map_while(|steps| u32::try_from(i64::from(lock) + step * steps).ok());
        let next = next.take_while(|&lock| self.run_end(lock) == Some(end));
        let absent: Vec<u32> = next.filter(|&lock| !self.has_place(lock)).collect();
        let count = u32::try_from(absent.len()).unwrap_or(u32::MAX);
        // Together they cost little more than one.
        if missed || 2 * count >= reach {
            for lock in absent {
                self.sync.ahead.unanswered += 1;
                self.counters.asked_ahead += 1;
                let place = self.ask_for_nobody(lock);
                place.ok_or(Violation { rank: self.cfg.rank, what: "the end of a lock's queue is lost" })?;
            }
        }
        Ok(())
    }

    /// In which steps a thread walks, and where the run of locks ends.
    fn step_of(&mut self, lock: u32, who: u64) -> Option<(i64, u32)> {
        // Whoever destroys a lock of one rank would find this rank in its queue.
        if self.cfg.ahead == 0 || OwnNumber::of(lock).is_some() {
            return None;
        }
        let end = self.run_end(lock)?;
        Some((self.sync.ahead.step(who, end, lock)?, end))
    }

    /// There is an answer to such a request, or a thread waits for it now.
    pub(super) fn answered_ahead(&mut self) {
        let ahead = &mut self.sync.ahead;
        ahead.unanswered = ahead.unanswered.saturating_sub(1);
        if ahead.unanswered == 0 && std::mem::take(&mut ahead.arrives) {
            self.arrive(self.meetings.collective);
        }
    }

    /// Whether this rank may come to a collective call now. If not, it comes when all answers are there.
    pub(super) fn has_answers(&mut self) -> bool {
        let ahead = &mut self.sync.ahead;
        ahead.arrives = ahead.unanswered > 0;
        !ahead.arrives
    }

    /// A thread takes a lock that was asked for ahead.
    pub(super) fn took_ahead(&mut self) {
        self.counters.taken_ahead += 1;
        self.sync.ahead.was_taken(self.cfg.ahead);
    }

    /// A lock was asked for ahead in vain: it was refused, or leaves before a thread has taken it.
    pub(super) fn asked_in_vain(&mut self) {
        self.sync.ahead.was_in_vain();
    }
}
