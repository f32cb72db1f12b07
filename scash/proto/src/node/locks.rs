//! Locks: a distributed queue for each.
//!
//! Every lock has a **manager**, rank (lock mod ranks), that knows only who is last in its queue. A rank that
//! wants the lock asks the manager, which tells the last one who follows it. The lock goes straight from its
//! holder to the next in the queue. A rank that nobody follows keeps the lock when it is released, and takes
//! it again without a message. So the queue is in the order in which the manager was asked, and nobody is
//! ever passed over: a holder that has a follower hands the lock on at its first release, and stands at the
//! end of the queue if it wants it again.
//!
//! Each thread that has to wait has a place of its own in the queue, so that threads of one rank take turns
//! with those of others.
//!
//! A thread that only **tries** takes a place, too, but follows *impatiently*: whoever has the lock, or waits
//! for it, refuses. The place is gone then, although the manager may take it for the last one. So its rank
//! keeps a **signpost** for it: the one follower that the manager can still send there is sent on, to the
//! place before, whose follower it now is. The next one to ask for the lock, whoever it is, so takes the
//! signpost away, and there is at most one at rest for a lock.
//!
//! What is asked for [ahead](super::ahead) is such a try, for no thread yet. A thread that comes before the
//! answer has no place of its own in the queue: if the try is refused, it asks as anybody else, behind those
//! that have asked meanwhile.

use super::intervals::After;
use super::own::OwnNumber;
use super::{Node, Output, Violation};
use crate::wire::stall::{Activity, Relation};
use crate::wire::sync::{Brought, Follower, KnownIntervals, QueuePlace, Record, SyncBody};
use crate::{Pages, Rank};
use std::collections::{BTreeMap, VecDeque};

/// A place in a queue, at the rank whose place it is.
#[derive(Clone, Debug)]
struct Spot {
    ticket: u32,
    state: State,
    next: Option<Follower>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// This thread waits.
    Waiting(u64),
    /// This thread tries, and has not heard yet.
    Trying(u64),
    /// The lock is here for this thread; its copies are being taken out of view.
    Entering(u64),
    /// This thread has the lock.
    Held(u64),
    /// The lock is here, and nobody has it.
    Idle,
    /// Asked for [ahead](super::ahead): nobody of this rank wants it yet.
    Ahead,
    /// Asked for ahead, and this thread wants it by now. If it is refused, a patient thread asks anew.
    Hoping { who: u64, patient: bool },
    /// Asked for ahead, it is here, and nobody has had it. What came with it is not applied yet.
    Fresh,
}

impl State {
    /// The lock is here, and nobody has it.
    fn is_free(self) -> bool {
        matches!(self, State::Idle | State::Fresh)
    }

    /// This place may yet be given up.
    fn is_try(self) -> bool {
        matches!(self, State::Trying(_)) || self.is_asked_ahead()
    }

    /// Asked for ahead, and there is no answer.
    fn is_asked_ahead(self) -> bool {
        matches!(self, State::Ahead | State::Hoping { .. })
    }

    /// The lock has been asked for, and has not come.
    fn is_asked(self) -> bool {
        self.is_try() || matches!(self, State::Waiting(_))
    }

    /// What a thread does here, if one does anything.
    fn activity(self) -> Option<(u64, Relation)> {
        match self {
            State::Held(who) => Some((who, Relation::Holds)),
            State::Waiting(who) | State::Trying(who) | State::Hoping { who, .. } | State::Entering(who) => {
                Some((who, Relation::Awaits))
            }
            State::Idle | State::Ahead | State::Fresh => None,
        }
    }
}

/// What a rank knows of a lock.
#[derive(Clone, Debug)]
pub(super) struct Lock {
    /// Manager: the last place in the queue.
    last: QueuePlace,
    /// Tickets that this rank has given.
    tickets: u32,
    /// This rank's places. Only the first one can have the lock.
    spots: VecDeque<Spot>,
    /// Places of this rank that were given up before anybody followed, and where their followers belong.
    signposts: BTreeMap<u32, QueuePlace>,
    /// How many intervals had begun to end when a thread of this rank last gave it back, if one has had it
    /// since it came.
    given_back: Option<u64>,
}

impl Lock {
    /// In the beginning every lock is at its manager.
    fn new(manager: Rank, me: Rank) -> Lock {
        let first = Spot { ticket: 0, state: State::Idle, next: None };
        let spots = if manager == me { VecDeque::from([first]) } else { VecDeque::new() };
        let last = QueuePlace { rank: manager, ticket: 0 };
        Lock { last, tickets: 1, spots, signposts: BTreeMap::new(), given_back: None }
    }
}

impl Lock {
    /// Whether a thread of this rank waits for it.
    pub(super) fn is_awaited(&self) -> bool {
        self.spots.iter().any(|spot| matches!(spot.state.activity(), Some((_, Relation::Awaits))))
    }
}

impl Lock {
    /// What threads of this rank do with it, if it is this one.
    pub(super) fn activities(&self, object: u32) -> impl Iterator<Item = Activity> {
        let all = self.spots.iter().filter_map(|spot| spot.state.activity());
        all.map(move |(who, relation)| Activity { who, relation, object })
    }
}

/// A lock that leaves this rank.
#[derive(Clone, Debug)]
pub(super) struct LeavingLock {
    lock: u32,
    /// To where.
    pub(super) to: QueuePlace,
    /// What is known there.
    known: KnownIntervals,
    /// Copies that are renewed there.
    wants: Vec<Pages>,
}

/// All locks of a job, as far as this rank has had to do with them.
pub(super) type Locks = BTreeMap<u32, Lock>;

impl Node {
    fn lock(&mut self, lock: u32) -> &mut Lock {
        let (manager, me) = (self.manager(lock), self.cfg.rank);
        self.sync.locks.entry(lock).or_insert_with(|| Lock::new(manager, me))
    }

    /// The thread of this rank that has the lock, if one does.
    pub fn holder(&self, lock: u32) -> Option<u64> {
        match self.sync.locks.get(&lock)?.spots.front()?.state {
            State::Held(who) => Some(who),
            _ => None,
        }
    }

    /// A thread wants a lock: [`Output::Acquired`] follows, or, if the thread is not patient and the lock is
    /// not free, [`Output::Refused`].
    pub(super) fn acquire(&mut self, lock: u32, who: u64, patient: bool) -> Result<(), Violation> {
        self.counters.locks += 1;
        // It may have waited for a condition since it had the lock.
        if OwnNumber::of(lock).is_some() && self.kind(lock).is_none() {
            self.tell_absent(lock, who, lock);
            return Ok(());
        }
        match self.lock(lock).spots.front_mut() {
            Some(first) if first.state == State::Idle => {
                first.state = State::Held(who);
                self.counters.cached_locks += 1;
                self.out.push_back(Output::Acquired { object: lock, who });
                self.walk_on(lock, who);
            }
            Some(first) if first.state == State::Fresh => {
                first.state = State::Entering(who);
                let ticket = first.ticket;
                self.counters.cached_locks += 1;
                self.took_ahead(lock);
                self.enter(lock, ticket);
                self.ask_ahead(lock, who, false)?;
            }
            Some(first) if first.state == State::Ahead => {
                first.state = State::Hoping { who, patient };
                self.ask_ahead(lock, who, false)?;
            }
            Some(first) if !patient && matches!(first.state, State::Held(_) | State::Entering(_)) => {
                self.refused(lock, who);
            }
            _ => {
                let place = self.ask(lock, who, patient);
                place.ok_or(Violation { rank: self.cfg.rank, what: "the end of a lock's queue is lost" })?;
                self.ask_ahead(lock, who, true)?;
            }
        }
        Ok(())
    }

    /// Whether this rank has the lock, or has asked for it.
    pub(super) fn has_place(&self, lock: u32) -> bool {
        match self.sync.locks.get(&lock) {
            Some(entry) => !entry.spots.is_empty(),
            None => self.manager(lock) == self.cfg.rank,
        }
    }

    /// Whether it was asked for ahead, and no thread has come for it yet.
    pub(super) fn was_asked_for_ahead(&self, lock: u32) -> bool {
        let first = self.sync.locks.get(&lock).and_then(|entry| entry.spots.front());
        first.is_some_and(|spot| matches!(spot.state, State::Ahead | State::Fresh))
    }

    fn refused(&mut self, lock: u32, who: u64) {
        self.counters.refused_locks += 1;
        self.out.push_back(Output::Refused { object: lock, who });
    }

    /// A thread wants a lock, to destroy it: it takes a place at the end of the queue although the lock may
    /// be here. So whoever has tried to get the lock, and has left, is behind it no longer.
    pub(super) fn take_last_place(&mut self, lock: u32, who: u64) -> Result<(), Violation> {
        self.counters.locks += 1;
        let place = self.ask(lock, who, true);
        place.ok_or(Violation { rank: self.cfg.rank, what: "the end of a lock's queue is lost" })
    }

    /// Manager: the last place in a lock's queue.
    pub(super) fn last_place(&mut self, lock: u32) -> QueuePlace {
        self.lock(lock).last
    }

    /// A lock is no more that a thread of this rank waits for, at that place: its rank was told so. Returns
    /// the thread.
    pub(super) fn leave_queue(&mut self, lock: u32, ticket: u32) -> Option<u64> {
        let spots = &mut self.sync.locks.get_mut(&lock)?.spots;
        let at = spots.iter().position(|s| s.ticket == ticket)?;
        let (State::Waiting(who) | State::Trying(who)) = spots[at].state else { return None };
        spots.remove(at);
        self.forget_if_unused(lock);
        Some(who)
    }

    /// A lock is no more that a thread of this rank has destroyed, at that place. Others of this rank that
    /// asked for it meanwhile have yet to hear so.
    pub(super) fn end_place(&mut self, lock: u32, ticket: u32) {
        if let Some(entry) = self.sync.locks.get_mut(&lock) {
            entry.spots.retain(|spot| spot.ticket != ticket);
            self.forget_if_unused(lock);
        }
    }

    /// Forgets a lock that one rank has made if nothing of its queue is here any more.
    fn forget_if_unused(&mut self, lock: u32) {
        if OwnNumber::of(lock).is_some()
            && self.manager(lock) != self.cfg.rank
            && let Some(entry) = self.sync.locks.get(&lock)
            && entry.spots.is_empty()
            && entry.signposts.is_empty()
        {
            self.sync.locks.remove(&lock);
        }
    }

    /// Asks the manager for a place at the end of the queue. `None` if that is this rank, and the end is a
    /// place that does not exist.
    fn ask(&mut self, lock: u32, who: u64, patient: bool) -> Option<()> {
        let state = if patient { State::Waiting(who) } else { State::Trying(who) };
        let wants = self.wants_with_lock();
        self.take_place(lock, state, wants)
    }

    /// Tries to get a lock for no thread: the manager is asked for a place. `None` as for
    /// [`ask`](Self::ask).
    pub(super) fn ask_for_nobody(&mut self, lock: u32) -> Option<()> {
        self.take_place(lock, State::Ahead, Vec::new())
    }

    fn take_place(&mut self, lock: u32, state: State, wants: Vec<Pages>) -> Option<()> {
        let (known, patient) = (self.sync.intervals.history.known(), !state.is_try());
        let (manager, me) = (self.manager(lock), self.cfg.rank);
        let entry = self.lock(lock);
        let ticket = entry.tickets;
        entry.tickets = ticket.wrapping_add(1);
        entry.spots.push_back(Spot { ticket, state, next: None });
        if manager == me {
            let place = QueuePlace { rank: me, ticket };
            return self.line_up(lock, Follower { place, known, patient, wants });
        }
        self.tell(manager, lock, SyncBody::Ask { ticket, known, patient, wants });
        Some(())
    }

    /// Its holder gives a lock back.
    pub(super) fn release(&mut self, lock: u32) {
        let now = self.sync.intervals.ends_begun();
        let entry = self.lock(lock);
        let Some(first) = entry.spots.front_mut() else { return };
        if matches!(first.state, State::Held(_)) {
            first.state = State::Idle;
            entry.given_back = Some(now);
            self.hand_on(lock);
        }
    }

    /// Manager: somebody wants the lock.
    fn line_up(&mut self, lock: u32, next: Follower) -> Option<()> {
        let last = std::mem::replace(&mut self.lock(lock).last, next.place);
        self.send_behind(lock, last, next)
    }

    /// Tells a place, of whichever rank, who follows. `None` if it should be here and is not.
    fn send_behind(&mut self, lock: u32, place: QueuePlace, next: Follower) -> Option<()> {
        if place.rank == self.cfg.rank {
            return self.follow(lock, place.ticket, next);
        }
        self.tell(place.rank, lock, SyncBody::Follow { ticket: place.ticket, next });
        Some(())
    }

    /// One of this rank's places has a follower. `None` if there is no such place, or if it has one already.
    fn follow(&mut self, lock: u32, ticket: u32, next: Follower) -> Option<()> {
        if let Some(before) = self.lock(lock).signposts.remove(&ticket) {
            self.forget_if_unused(lock);
            return self.send_behind(lock, before, next);
        }
        let spot = self.lock(lock).spots.iter_mut().find(|s| s.ticket == ticket)?;
        if spot.next.is_some() {
            return None;
        }
        spot.next = Some(next);
        self.refuse(lock, ticket)?;
        self.hand_on(lock)
    }

    /// Refuses the follower of a place if it does not want to wait and has to. (A place that may be given up
    /// itself does not know yet.)
    fn refuse(&mut self, lock: u32, ticket: u32) -> Option<()> {
        let me = self.cfg.rank;
        let spot = self.lock(lock).spots.iter_mut().find(|s| s.ticket == ticket)?;
        if spot.state.is_free() || spot.state.is_try() {
            return Some(());
        }
        let Some(next) = spot.next.take_if(|next| !next.patient) else { return Some(()) };
        let before = QueuePlace { rank: me, ticket };
        if next.place.rank == me {
            return self.give_up(lock, next.place.ticket, before);
        }
        self.tell(next.place.rank, lock, SyncBody::Refused { ticket: next.place.ticket, before });
        Some(())
    }

    /// A place of this rank is refused: its thread does not wait there, and whoever follows belongs behind
    /// the place before. `None` if that is no try, or the place before should be here and is not.
    fn give_up(&mut self, lock: u32, ticket: u32, before: QueuePlace) -> Option<()> {
        let entry = self.lock(lock);
        let at = entry.spots.iter().position(|s| s.ticket == ticket)?;
        let state = Some(entry.spots[at].state).filter(|state| state.is_try())?;
        let next = entry.spots.remove(at)?.next;
        match next {
            Some(next) => self.send_behind(lock, before, next)?,
            None => {
                self.lock(lock).signposts.insert(ticket, before);
            }
        }
        match state {
            State::Hoping { who, patient: true } => self.ask(lock, who, true)?,
            State::Trying(who) | State::Hoping { who, .. } => self.refused(lock, who),
            _ => {}
        }
        if state.is_asked_ahead() {
            self.asked_in_vain(lock);
            self.answered_ahead();
        }
        Some(())
    }

    /// Lets a lock go that nobody has here and somebody wants. `None` if that is a place of this rank that
    /// does not exist.
    fn hand_on(&mut self, lock: u32) -> Option<()> {
        let me = self.cfg.rank;
        let entry = self.lock(lock);
        let Some(first) = entry.spots.front_mut().filter(|s| s.state.is_free()) else { return Some(()) };
        let Some(Follower { place: to, known, wants, .. }) = first.next.take() else { return Some(()) };
        let is_fresh = first.state == State::Fresh;
        entry.spots.pop_front();
        if to.rank == me {
            return self.entered(lock, to.ticket);
        }
        let given_back = entry.given_back.take();
        self.forget_if_unused(lock);
        self.counters.handed_locks += 1;
        if is_fresh {
            self.asked_in_vain(lock);
        }
        self.part_with(LeavingLock { lock, to, known, wants }, given_back);
        Some(())
    }

    /// A lock leaves this rank, with all that was written before it was `given_back`. An interval ends for
    /// that, unless one has begun to end since: then all that is recorded already, or is about to be.
    fn part_with(&mut self, leaving: LeavingLock, given_back: Option<u64>) {
        let intervals = &self.sync.intervals;
        if self.cfg.races || given_back == Some(intervals.ends_begun()) {
            self.close(After::Grant(leaving));
        } else if intervals.is_any_ending() || !self.may_hear(leaving.to.rank) {
            self.await_puts(After::GrantOnly(leaving));
        } else {
            self.send_grant(leaving);
        }
    }

    /// The lock leaves, with all that its next holder does not know.
    pub(super) fn send_grant(&mut self, LeavingLock { lock, to, known, wants }: LeavingLock) {
        let records = self.sync.intervals.history.missing(&known);
        let brought = self.bring(to.rank, &wants, &records);
        self.tell(to.rank, lock, SyncBody::Grant { ticket: to.ticket, records, brought });
    }

    /// A lock has come that was asked for.
    fn lock_comes(
        &mut self,
        from: Rank,
        lock: u32,
        ticket: u32,
        records: Vec<Record>,
        brought: Brought,
    ) -> Result<(), Violation> {
        let lie = |what| Err(Violation { rank: from, what });
        let first = self.lock(lock).spots.front_mut();
        let Some(spot) = first.filter(|s| s.ticket == ticket && s.state.is_asked()) else {
            return lie("a lock that this rank does not wait for");
        };
        let (was_asked_ahead, who) = (spot.state.is_asked_ahead(), spot.state.activity().map(|(who, _)| who));
        spot.state = who.map_or(State::Fresh, State::Entering);
        self.learn(from, records)?;
        if who.is_some() {
            self.sync.intervals.brought = Some((from, brought));
            self.enter(lock, ticket);
        } else if self.hand_on(lock).is_none() {
            return lie("a follower of a place in a queue that this rank does not have");
        }
        if was_asked_ahead {
            if who.is_some() {
                self.took_ahead(lock);
            }
            self.answered_ahead();
        }
        Ok(())
    }

    /// The lock is the thread's that waits at that place. `None` if there is no such place, or if a follower
    /// of it that is refused should be here and is not.
    pub(super) fn entered(&mut self, lock: u32, ticket: u32) -> Option<()> {
        let spot = self.lock(lock).spots.iter_mut().find(|s| s.ticket == ticket)?;
        if let Some((who, Relation::Awaits)) = spot.state.activity() {
            spot.state = State::Held(who);
            self.refuse(lock, ticket)?;
            return self.got(lock, who, ticket).ok();
        }
        self.refuse(lock, ticket)
    }

    /// A peer's word about a lock.
    pub(super) fn lock_message(&mut self, from: Rank, lock: u32, body: SyncBody) -> Result<(), Violation> {
        let lie = |what| Err(Violation { rank: from, what });
        match body {
            SyncBody::Ask { ticket, known, patient, wants } => {
                self.check_wants(from, &wants)?;
                if self.manager(lock) != self.cfg.rank {
                    return lie("a request for a lock that another rank manages");
                }
                let next = Follower { place: QueuePlace { rank: from, ticket }, known, patient, wants };
                if self.line_up(lock, next).is_none() {
                    return lie("a request for a lock whose queue has lost its end");
                }
            }
            SyncBody::Follow { ticket, next } => {
                self.check_wants(from, &next.wants)?;
                if next.place.rank.0 >= self.cfg.size || self.follow(lock, ticket, next).is_none() {
                    return lie("a follower of a place in a queue that this rank does not have");
                }
            }
            SyncBody::Refused { ticket, before } => {
                if before.rank.0 >= self.cfg.size || self.give_up(lock, ticket, before).is_none() {
                    return lie("the refusal of a lock that this rank does not try to get");
                }
            }
            SyncBody::Grant { ticket, records, brought } => {
                self.lock_comes(from, lock, ticket, records, brought)?;
            }
            SyncBody::Request { .. }
            | SyncBody::Queued { .. }
            | SyncBody::Signal { .. }
            | SyncBody::Track { .. }
            | SyncBody::Unmake { .. }
            | SyncBody::Unmade { .. }
            | SyncBody::Absent { .. } => {
                return lie("a word about a lock that is none for locks");
            }
        }
        Ok(())
    }
}
