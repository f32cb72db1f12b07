//! Reader–writer locks, semaphores, conditions and flags: a manager for each.
//!
//! Rank (number mod ranks) keeps the state of an object, and the queue of those who wait for it. There are
//! two kinds of messages to it:
//!
//! 1. A **request** waits for an answer. With it comes what the asker knows; with the answer, all that the
//!    manager knows and the asker does not. The asker takes the copies that it names out of view before its
//!    thread goes on, as with a lock.
//! 2. A **signal** lets others go on, and waits for nothing. The interval ends, and its records go to the
//!    manager with the signal. The manager learns them for those whom it lets go on; its own program's copies
//!    stay until one of its own threads goes on. A signal after which others need not see anything (the
//!    signal of a condition, whose lock tells all) has no records, and ends no interval.
//!
//! Nobody waits for a signal's arrival, so the memory barrier does: signals are *counted*, like diffs, and
//! the first meeting is not over before all have arrived. So none is ever overtaken by a memory barrier, or
//! by the end of the job, and a signal from before a memory barrier finds nobody who waits after it.

mod condition;
mod flag;
mod rwlock;
mod semaphore;

use super::intervals::After;
use super::maps::cut_out;
use super::{Node, ObjectKind, Violation};
use crate::Rank;
use crate::wire::stall::{Activity, Relation};
use crate::wire::sync::{Brought, KnownIntervals, QueuePlace, Record, Request, Signal, SyncBody};
use condition::Condition;
use flag::Flag;
use rwlock::RwLock;
use semaphore::Semaphore;
use std::collections::BTreeMap;
use std::ops::Range;

/// Who waits at a manager, and what that one knows.
#[derive(Clone, Debug)]
struct Waiter {
    place: QueuePlace,
    known: KnownIntervals,
}

/// Manager: the state of an object.
#[derive(Clone, Debug)]
enum State {
    RwLock(RwLock),
    Semaphore(Semaphore),
    Condition(Condition),
    Flag(Flag),
}

impl State {
    /// As it is in the beginning. `None` for kinds that are not served by a manager.
    fn new(kind: ObjectKind) -> Option<State> {
        Some(match kind {
            ObjectKind::Lock => return None,
            ObjectKind::RwLock => State::RwLock(RwLock::default()),
            ObjectKind::Semaphore(count) => State::Semaphore(Semaphore::new(count)),
            ObjectKind::Condition => State::Condition(Condition::default()),
            ObjectKind::Flag => State::Flag(Flag::default()),
        })
    }

    /// Takes a request, and lists who goes on. `None` if it is none for such an object.
    fn ask(&mut self, request: Request, waiter: Waiter, go: &mut Vec<Waiter>) -> Option<()> {
        match (self, request) {
            (State::RwLock(lock), Request::Read) => lock.ask(false, waiter, go),
            (State::RwLock(lock), Request::Write) => lock.ask(true, waiter, go),
            (State::Semaphore(semaphore), Request::Take) => semaphore.ask(waiter, go),
            (State::Condition(condition), Request::Wakeup) => condition.ask(waiter),
            (State::Flag(flag), Request::AtLeast(least)) => flag.ask(least, waiter, go),
            _ => return None,
        }
        Some(())
    }

    /// Takes a signal, and lists who goes on. `None` if it is none for such an object, or none that this rank
    /// may do now.
    fn take(&mut self, from: Rank, signal: Signal, go: &mut Vec<Waiter>) -> Option<()> {
        match (self, signal) {
            (State::RwLock(lock), Signal::HasRead) => return lock.has_read(from, go),
            (State::RwLock(lock), Signal::HasWritten) => return lock.has_written(from, go),
            (State::Semaphore(semaphore), Signal::Post(count)) => semaphore.post(count, go),
            (State::Condition(condition), Signal::WakeOne) => condition.signal(false, go),
            (State::Condition(condition), Signal::WakeAll) => condition.signal(true, go),
            (State::Flag(flag), Signal::Raise(to)) => flag.raise(to, go),
            _ => return None,
        }
        Some(())
    }
}

/// A request of a thread of this rank.
#[derive(Clone, Debug)]
struct Asked {
    object: u32,
    ticket: u32,
    who: u64,
    /// How the thread gives back what it asks for, if it is to be given back.
    back: Option<Signal>,
    /// Copies are being taken out of view.
    entering: bool,
}

/// What a thread of this rank has, and how it gives it back.
#[derive(Clone, Debug)]
struct HeldObject {
    object: u32,
    who: u64,
    signal: Signal,
}

/// All objects that are served by managers, as far as this rank has to do with them.
#[derive(Clone, Debug, Default)]
pub(super) struct Served {
    /// Manager: those that were used.
    states: BTreeMap<u32, State>,
    tickets: u32,
    asked: Vec<Asked>,
    holding: Vec<HeldObject>,
}

impl Served {
    /// A new number for a request of this rank.
    pub(super) fn ticket(&mut self) -> u32 {
        let ticket = self.tickets;
        self.tickets = ticket.wrapping_add(1);
        ticket
    }

    /// Objects whose state is kept here.
    #[cfg(test)]
    pub(super) fn known(&self) -> usize {
        self.states.len()
    }

    /// Nothing is known of these objects any more.
    pub(super) fn forget(&mut self, objects: Range<u32>) {
        cut_out(&mut self.states, objects);
    }

    /// Nothing is known of this object any more.
    pub(super) fn forget_one(&mut self, object: u32) {
        self.states.remove(&object);
    }

    /// Manager: the rank of the first thread that waits for an object.
    pub(super) fn first_waiter(&self, object: u32) -> Option<Rank> {
        let first = match self.states.get(&object)? {
            State::RwLock(lock) => lock.first(),
            State::Semaphore(semaphore) => semaphore.first(),
            State::Condition(condition) => condition.first(),
            State::Flag(flag) => flag.first(),
        };
        first.map(|waiter| waiter.place.rank)
    }

    /// A thread of this rank has an object no longer.
    pub(super) fn no_longer_holds(&mut self, object: u32, who: u64) {
        self.holding.retain(|h| (h.object, h.who) != (object, who));
    }

    /// A request of this rank was in vain. Returns the thread.
    pub(super) fn no_longer_asks(&mut self, object: u32, ticket: u32) -> Option<u64> {
        let sought = |a: &Asked| (a.object, a.ticket, a.entering) == (object, ticket, false);
        let at = self.asked.iter().position(sought)?;
        Some(self.asked.swap_remove(at).who)
    }

    /// What threads of this rank have and wait for.
    pub(super) fn activities(&self) -> impl Iterator<Item = Activity> {
        let has =
            self.holding.iter().map(|h| Activity { who: h.who, relation: Relation::Holds, object: h.object });
        let awaits =
            self.asked.iter().map(|a| Activity { who: a.who, relation: Relation::Awaits, object: a.object });
        has.chain(awaits)
    }

    /// An object that a thread of this rank waits for, if one does.
    pub(super) fn awaited(&self) -> Option<u32> {
        self.asked.first().map(|asked| asked.object)
    }
}

impl Node {
    /// What a thread of this rank has of a reader–writer lock, as the signal that gives it back.
    pub fn holding(&self, object: u32, who: u64) -> Option<Signal> {
        let held = |h: &&HeldObject| (h.object, h.who) == (object, who);
        self.sync.served.holding.iter().find(held).map(|h| h.signal)
    }

    /// A thread has a request: [`Output::Acquired`] follows.
    pub(super) fn request(&mut self, object: u32, who: u64, request: Request) -> Result<(), Violation> {
        let back = match request {
            Request::Read => Some(Signal::HasRead),
            Request::Write => Some(Signal::HasWritten),
            Request::Take | Request::AtLeast(_) | Request::Wakeup => None,
        };
        let ticket = self.sync.served.ticket();
        self.sync.served.asked.push(Asked { object, ticket, who, back, entering: false });
        self.ask_manager(object, ticket, request)
    }

    /// Brings a request to whom it concerns.
    pub(super) fn ask_manager(
        &mut self,
        object: u32,
        ticket: u32,
        request: Request,
    ) -> Result<(), Violation> {
        self.counters.requests += 1;
        let known = self.sync.intervals.history.known();
        let (manager, me) = (self.manager(object), self.cfg.rank);
        if manager == me {
            return self.serve_request(
                object,
                request,
                Waiter { place: QueuePlace { rank: me, ticket }, known },
            );
        }
        self.tell(manager, object, SyncBody::Request { ticket, request, known });
        Ok(())
    }

    /// A thread lets others go on.
    pub(super) fn signal(&mut self, object: u32, who: u64, signal: Signal) -> Result<(), Violation> {
        self.counters.signals += 1;
        self.sync.served.holding.retain(|h| (h.object, h.who, h.signal) != (object, who, signal));
        if signal.orders_memory() && self.cfg.size > 1 {
            self.close(After::Signal { object, signal });
            return Ok(());
        }
        self.send_signal(object, signal)
    }

    /// Brings a signal to whom it concerns: what was written before it is at home, and recorded.
    pub(super) fn send_signal(&mut self, object: u32, signal: Signal) -> Result<(), Violation> {
        let (manager, me) = (self.manager(object), self.cfg.rank);
        if manager == me {
            // While puts were waited for, another thread may have destroyed it.
            return if self.kind(object).is_some() { self.serve_signal(me, object, signal) } else { Ok(()) };
        }
        let records =
            if signal.orders_memory() { self.sync.intervals.history.news_for(manager) } else { Vec::new() };
        self.tell(manager, object, SyncBody::Signal { signal, records });
        self.sync.objects.count_signal(manager);
        Ok(())
    }

    /// Manager: the state of an object of which somebody said something.
    fn state(&mut self, object: u32) -> Option<&mut State> {
        use std::collections::btree_map::Entry;
        let kind = self.kind(object)?;
        match self.sync.served.states.entry(object) {
            Entry::Occupied(entry) => Some(entry.into_mut()),
            Entry::Vacant(entry) => Some(entry.insert(State::new(kind)?)),
        }
    }

    fn serve_request(&mut self, object: u32, request: Request, waiter: Waiter) -> Result<(), Violation> {
        let QueuePlace { rank, ticket } = waiter.place;
        let mut go = Vec::new();
        let asked = self.state(object).and_then(|state| state.ask(request, waiter, &mut go));
        asked.ok_or(Violation { rank, what: "a request that no such object can grant" })?;
        if request == Request::Wakeup {
            if rank == self.cfg.rank {
                return self.queued(rank, object, ticket);
            }
            self.tell(rank, object, SyncBody::Queued { ticket });
        }
        self.let_go_on(object, go)
    }

    fn serve_signal(&mut self, from: Rank, object: u32, signal: Signal) -> Result<(), Violation> {
        let mut go = Vec::new();
        let taken = self.state(object).and_then(|state| state.take(from, signal, &mut go));
        taken.ok_or(Violation { rank: from, what: "a signal that it may not do now to such an object" })?;
        self.let_go_on(object, go)
    }

    fn let_go_on(&mut self, object: u32, go: Vec<Waiter>) -> Result<(), Violation> {
        for Waiter { place: QueuePlace { rank, ticket }, known } in go {
            let to = QueuePlace { rank, ticket };
            if rank == self.cfg.rank {
                self.granted(rank, object, ticket, Vec::new())?;
            } else if self.may_hear(rank) {
                self.send_served(object, to, &known);
            } else {
                self.await_puts(After::Served { object, to, known });
            }
        }
        Ok(())
    }

    /// Tells a peer that its request is granted, with all that is known here and not there.
    pub(super) fn send_served(&mut self, object: u32, to: QueuePlace, known: &KnownIntervals) {
        let records = self.sync.intervals.history.missing(known);
        self.tell(
            to.rank,
            object,
            SyncBody::Grant { ticket: to.ticket, records, brought: Brought::default() },
        );
    }

    /// The manager has granted a request.
    fn granted(
        &mut self,
        from: Rank,
        object: u32,
        ticket: u32,
        records: Vec<Record>,
    ) -> Result<(), Violation> {
        if self.kind(object) == Some(ObjectKind::Condition) {
            return self.woken(from, object, ticket);
        }
        let sought = (object, ticket, false);
        let asked = self.sync.served.asked.iter_mut().find(|a| (a.object, a.ticket, a.entering) == sought);
        let Some(asked) = asked else {
            return Err(Violation {
                rank: from,
                what: "the granting of a request that this rank does not have",
            });
        };
        asked.entering = true;
        self.learn(from, records)?;
        self.enter(object, ticket);
        Ok(())
    }

    /// Copies are out of view that must be: the thread goes on.
    pub(super) fn entered_served(&mut self, object: u32, ticket: u32) -> Option<()> {
        let asked = &mut self.sync.served.asked;
        let at = asked.iter().position(|a| (a.object, a.ticket) == (object, ticket))?;
        let Asked { who, back, .. } = asked.swap_remove(at);
        self.sync.served.holding.extend(back.map(|signal| HeldObject { object, who, signal }));
        self.got(object, who, ticket).ok()
    }

    /// A peer's word about an object that a manager serves.
    pub(super) fn served_message(
        &mut self,
        from: Rank,
        object: u32,
        body: SyncBody,
    ) -> Result<(), Violation> {
        let manages = self.manager(object) == self.cfg.rank;
        match body {
            SyncBody::Request { ticket, request, known } if manages => self.serve_request(
                object,
                request,
                Waiter { place: QueuePlace { rank: from, ticket }, known },
            ),
            SyncBody::Signal { signal, records } if manages => {
                self.signal_arrives(from)?;
                self.learn(from, records)?;
                self.serve_signal(from, object, signal)?;
                self.advance()
            }
            SyncBody::Queued { ticket } if self.manager(object) == from => self.queued(from, object, ticket),
            SyncBody::Grant { ticket, records, .. } if self.manager(object) == from => {
                self.granted(from, object, ticket, records)
            }
            _ => Err(Violation {
                rank: from,
                what: "a word about an object that is none for it, or not for this rank",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn waiter(rank: u32) -> Waiter {
        Waiter { place: QueuePlace { rank: Rank(rank), ticket: 0 }, known: KnownIntervals::new() }
    }

    pub(super) fn ranks(waiters: &[Waiter]) -> Vec<u32> {
        waiters.iter().map(|waiter| waiter.place.rank.0).collect()
    }
}
