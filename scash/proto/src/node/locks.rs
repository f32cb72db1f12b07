//! Locks: a distributed queue for each.
//!
//! Every lock has a **manager**, rank (lock mod ranks), that knows only who is last in its queue. Who wants the lock asks the manager, which tells the last one who follows it. The
//! lock goes straight from its holder to the next in the queue. A rank that nobody follows keeps the lock when it is released, and takes it again without
//! a message. So the queue is in the order in which the manager was asked, and nobody is ever passed over: a holder that has a follower hands the lock on at its
//! first release, and stands at the end of the queue if it wants it again.
//!
//! Each thread that has to wait has a place of its own in the queue, so that threads of one rank take turns with those of others.

use super::intervals::After;
use super::{Node, Output, Violation};
use crate::Rank;
use crate::wire::sync::{Known, Place, SyncBody, SyncMessage};
use std::collections::{BTreeMap, VecDeque};

/// A place in a queue, at the rank whose place it is.
#[derive(Debug)]
struct Spot {
    ticket: u32,
    state: State,
    /// Who follows, and what that one knows.
    next: Option<(Place, Known)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// This thread waits.
    Waiting(u64),
    /// The lock is here for this thread; its copies are being taken out of view.
    Entering(u64),
    /// This thread has the lock.
    Held(u64),
    /// The lock is here, and nobody has it.
    Idle,
}

/// What a rank knows of a lock.
#[derive(Debug)]
struct Lock {
    /// Manager: the last place in the queue.
    last: Place,
    /// Tickets that this rank has given.
    tickets: u32,
    /// This rank's places. Only the first one can have the lock.
    spots: VecDeque<Spot>,
}

impl Lock {
    /// In the beginning every lock is at its manager.
    fn new(manager: Rank, me: Rank) -> Lock {
        let first = Spot { ticket: 0, state: State::Idle, next: None };
        let spots = if manager == me { VecDeque::from([first]) } else { VecDeque::new() };
        Lock { last: Place { rank: manager, ticket: 0 }, tickets: 1, spots }
    }
}

/// All locks of a job, as far as this rank has had to do with them.
#[derive(Debug, Default)]
pub(super) struct Locks {
    count: u32,
    known: BTreeMap<u32, Lock>,
    /// Messages of ranks that have left the memory barrier before this one.
    early: Vec<(Rank, SyncMessage)>,
}

impl Locks {
    /// Whether the job has any.
    pub(super) fn any(&self) -> bool {
        self.count > 0
    }

    /// Makes so many more. Returns the number of the first, or nothing if there are no numbers for them.
    pub(super) fn add(&mut self, count: u32) -> Option<u32> {
        let first = self.count;
        self.count = first.checked_add(count)?;
        Some(first)
    }
}

impl Node {
    fn manager(&self, lock: u32) -> Rank {
        Rank(lock % self.cfg.size)
    }

    fn lock(&mut self, lock: u32) -> &mut Lock {
        let (manager, me) = (self.manager(lock), self.cfg.rank);
        self.locks.known.entry(lock).or_insert_with(|| Lock::new(manager, me))
    }

    /// Number of locks of the job.
    pub fn locks(&self) -> u32 {
        self.locks.count
    }

    /// The thread of this rank that has the lock, if one does.
    pub fn holder(&self, lock: u32) -> Option<u64> {
        match self.locks.known.get(&lock)?.spots.front()?.state {
            State::Held(who) => Some(who),
            _ => None,
        }
    }

    /// A thread wants a lock: [`Output::Acquired`] follows.
    pub(super) fn acquire(&mut self, lock: u32, who: u64) {
        self.counters.locks += 1;
        let known = self.intervals.history.known();
        let entry = self.lock(lock);
        if let Some(first) = entry.spots.front_mut().filter(|s| s.state == State::Idle) {
            first.state = State::Held(who);
            self.counters.cached_locks += 1;
            self.out.push_back(Output::Acquired { lock, who });
            return;
        }
        let ticket = entry.tickets;
        entry.tickets = ticket.wrapping_add(1);
        entry.spots.push_back(Spot { ticket, state: State::Waiting(who), next: None });
        let (manager, me) = (self.manager(lock), self.cfg.rank);
        if manager == me {
            self.line_up(lock, Place { rank: me, ticket }, known);
        } else {
            self.tell(manager, lock, SyncBody::Ask { ticket, known });
        }
    }

    /// Its holder gives a lock back. Returns whether there was one.
    pub(super) fn release(&mut self, lock: u32) {
        let Some(first) = self.lock(lock).spots.front_mut() else { return };
        if matches!(first.state, State::Held(_)) {
            first.state = State::Idle;
            self.hand_on(lock);
        }
    }

    fn tell(&mut self, to: Rank, lock: u32, body: SyncBody) {
        self.out.push_back(Output::Sync(to, SyncMessage { epoch: self.interval, lock, body }));
    }

    /// Manager: somebody wants the lock.
    fn line_up(&mut self, lock: u32, place: Place, known: Known) {
        let last = std::mem::replace(&mut self.lock(lock).last, place);
        if last.rank != self.cfg.rank {
            self.tell(last.rank, lock, SyncBody::Follow { ticket: last.ticket, next: place, known });
        } else if self.follow(lock, last.ticket, place, known).is_none() {
            debug_assert!(false, "the manager's own place {last:?} is gone");
        }
    }

    /// One of this rank's places has a follower. `None` if there is no such place, or if it has one already.
    fn follow(&mut self, lock: u32, ticket: u32, next: Place, known: Known) -> Option<()> {
        let spot = self.lock(lock).spots.iter_mut().find(|s| s.ticket == ticket)?;
        if spot.next.is_some() {
            return None;
        }
        spot.next = Some((next, known));
        self.hand_on(lock);
        Some(())
    }

    /// Lets a lock go that nobody has here and somebody wants.
    fn hand_on(&mut self, lock: u32) {
        let spots = &mut self.lock(lock).spots;
        let Some((to, known)) =
            spots.front_mut().filter(|s| s.state == State::Idle).and_then(|s| s.next.take())
        else {
            return;
        };
        spots.pop_front();
        if to.rank == self.cfg.rank {
            self.entered(lock, to.ticket);
        } else {
            self.counters.handed_locks += 1;
            self.close(After::Grant { lock, to, known });
        }
    }

    /// An interval was closed for this: the lock leaves, with all that its next holder does not know.
    pub(super) fn send_grant(&mut self, lock: u32, to: Place, known: &Known) {
        let records = self.intervals.history.missing(known);
        self.tell(to.rank, lock, SyncBody::Grant { ticket: to.ticket, records });
    }

    /// The lock is the thread's that waits at that place.
    pub(super) fn entered(&mut self, lock: u32, ticket: u32) {
        let Some(spot) = self.lock(lock).spots.iter_mut().find(|s| s.ticket == ticket) else { return };
        if let State::Waiting(who) | State::Entering(who) = spot.state {
            spot.state = State::Held(who);
            self.out.push_back(Output::Acquired { lock, who });
        }
    }

    /// Takes a peer's message, or keeps it until the memory barrier is over.
    pub(super) fn sync(&mut self, from: Rank, message: SyncMessage) -> Result<(), Violation> {
        // What came early stays in front of what comes now.
        if self.epoch_of(from, message.epoch)? && !self.has_early() {
            return self.take_sync(from, message);
        }
        self.locks.early.push((from, message));
        Ok(())
    }

    /// After a memory barrier: what came early is taken now.
    pub(super) fn take_early(&mut self) -> Result<(), Violation> {
        let early = std::mem::take(&mut self.locks.early);
        early.into_iter().try_for_each(|(from, message)| self.sync(from, message))
    }

    /// Whether something came early.
    pub(super) fn has_early(&self) -> bool {
        !self.locks.early.is_empty()
    }

    fn take_sync(&mut self, from: Rank, message: SyncMessage) -> Result<(), Violation> {
        let lie = |what| Err(Violation { rank: from, what });
        let SyncMessage { lock, body, .. } = message;
        if from.0 >= self.cfg.size || lock >= self.locks.count {
            return lie("a message about a lock that does not exist");
        }
        match body {
            SyncBody::Ask { ticket, known } if self.manager(lock) == self.cfg.rank => {
                self.line_up(lock, Place { rank: from, ticket }, known);
            }
            SyncBody::Follow { ticket, next, known }
                if self.manager(lock) == from && next.rank.0 < self.cfg.size =>
            {
                if self.follow(lock, ticket, next, known).is_none() {
                    return lie("a follower of a place in a queue that this rank does not have");
                }
            }
            SyncBody::Grant { ticket, records } => {
                let first = self.lock(lock).spots.front_mut();
                let Some((spot, who)) = first.filter(|s| s.ticket == ticket).and_then(|s| match s.state {
                    State::Waiting(who) => Some((s, who)),
                    _ => None,
                }) else {
                    return lie("a lock that this rank does not wait for");
                };
                spot.state = State::Entering(who);
                self.learn(from, records)?;
                self.enter(lock, ticket);
            }
            SyncBody::Ask { .. } | SyncBody::Follow { .. } => {
                return lie("a message about a lock that another rank manages");
            }
        }
        Ok(())
    }
}
