//! Objects of synchronisation that one rank makes by itself, at any time, and that one rank destroys.
//!
//! The maker is the manager, so making one takes no message. All that other ranks must know of it is in its
//! number ([`OwnNumber`]): what it is, and who manages it. Whether it is there, the manager alone knows: it
//! tells a rank that asks for one that is [absent](SyncBody::Absent).
//!
//! Who **destroys** one asks the manager, and waits for the answer. A lock, or a reader–writer lock, it takes
//! first, to write: so nobody has it, and only those who came later can wait for it. If somebody does wait,
//! nothing is destroyed.
//!
//! A signal may arrive after the end of its object, although the program ordered it before: nobody waits for
//! signals. It is lost then, and was counted. So a **number means another object only after a memory
//! barrier**, which no signal outlives. A place in the series of numbers is used again at once, and has
//! another number each time; when it has had all, it rests until the barrier.

use super::{Node, ObjectKind, Output, Violation};
use crate::Rank;
use crate::wire::sync::{QueuePlace, Request, Signal, SyncBody};
use std::collections::BTreeMap;

/// The number of an object that one rank made.
///
/// | bits | what |
/// |---|---|
/// | 31 | set, as in no number that all ranks have made together |
/// | 28–30 | what the object is |
/// | 24–27 | how often the place was used before |
/// | 0–23 | the place; (place mod ranks) is the rank that made it |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnNumber(u32);

/// The least of these numbers.
pub const LEAST_OWN: u32 = 1 << 31;
/// Places that there are, for all ranks together.
pub const OWN_PLACES: u32 = 1 << 24;
/// Numbers that a place has.
const USES: u32 = 16;
const KIND_SHIFT: u32 = 28;
const _: () = assert!(OWN_PLACES * USES == 1 << KIND_SHIFT);

impl OwnNumber {
    /// The number, if it is such a one.
    pub fn of(number: u32) -> Option<OwnNumber> {
        let own = OwnNumber(number);
        (number >= LEAST_OWN && own.kind().is_some()).then_some(own)
    }

    fn new(kind: ObjectKind, place: u32, uses: u32) -> OwnNumber {
        let [kind, _] = kind.numbers();
        let kind = u32::try_from(kind).unwrap_or(0);
        OwnNumber(LEAST_OWN | kind << KIND_SHIFT | (uses * OWN_PLACES) | place)
    }

    /// What the object is; a semaphore's first count is not in the number.
    pub fn kind(self) -> Option<ObjectKind> {
        Some(match (self.0 - LEAST_OWN) >> KIND_SHIFT {
            0 => ObjectKind::Lock,
            1 => ObjectKind::RwLock,
            2 => ObjectKind::Semaphore(0),
            3 => ObjectKind::Condition,
            4 => ObjectKind::Flag,
            _ => return None,
        })
    }

    /// Its place among all such objects: less than [`OWN_PLACES`].
    pub fn place(self) -> u32 {
        self.0 % OWN_PLACES
    }

    /// The rank that made it, of so many.
    pub fn maker(self, ranks: u32) -> Rank {
        Rank(self.place() % ranks)
    }

    fn uses(self) -> u32 {
        self.0 / OWN_PLACES % USES
    }
}

/// The objects that this rank has made.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnObjects {
    there: BTreeMap<u32, ObjectKind>,
    /// Places that this rank has used.
    pub(super) places: u32,
    /// Of these, those that have no object and may get one, with the number of their uses.
    free: Vec<(u32, u32)>,
    /// Those that have had all their numbers since the last memory barrier, or before.
    resting: Vec<u32>,
}

impl OwnObjects {
    /// A new object of the rank, of so many ranks. `None` if there is no number for it.
    pub(super) fn make(&mut self, kind: ObjectKind, rank: Rank, ranks: u32) -> Option<u32> {
        let (place, uses) = match self.free.pop() {
            Some(free) => free,
            None => {
                let place = u64::from(self.places) * u64::from(ranks) + u64::from(rank.0);
                let place = u32::try_from(place).ok().filter(|&place| place < OWN_PLACES)?;
                self.places += 1;
                (place, 0)
            }
        };
        let OwnNumber(number) = OwnNumber::new(kind, place, uses);
        self.there.insert(number, kind);
        Some(number)
    }

    /// An object is no more. `false` if there is none of that number.
    pub(super) fn remove(&mut self, number: u32) -> bool {
        let Some(own) = OwnNumber::of(number).filter(|_| self.there.remove(&number).is_some()) else {
            return false;
        };
        match own.uses() + 1 {
            USES => self.resting.push(own.place()),
            uses => self.free.push((own.place(), uses)),
        }
        true
    }

    /// Objects that are there.
    #[cfg(test)]
    pub(super) fn there(&self) -> usize {
        self.there.len()
    }

    /// A memory barrier is over: all signals from before have arrived.
    pub(super) fn rested(&mut self) {
        self.free.extend(self.resting.drain(..).map(|place| (place, 0)));
    }
}

/// An object that a thread of this rank is about to destroy.
#[derive(Clone, Debug)]
pub(super) struct Unmaking {
    object: u32,
    who: u64,
    /// What the manager was asked by; `None` while the object is waited for.
    ticket: Option<u32>,
}

impl Unmaking {
    pub(super) fn object(&self) -> u32 {
        self.object
    }
}

impl Node {
    /// Makes an object by this rank alone, and returns its number, if there is one left. Not before all ranks
    /// have made one together: until then, pages have their homes in ways that do without.
    pub fn make_own(&mut self, kind: ObjectKind) -> Option<u32> {
        let (rank, size) = (self.cfg.rank, self.cfg.size);
        self.sync.own.make(kind, rank, size)
    }

    /// An object that this rank has made was destroyed by others than its node, which carry out what is done
    /// with objects.
    pub fn forget_own(&mut self, number: u32) {
        self.sync.own.remove(number);
    }

    /// Whether an object of that number is one of this rank's, there or not.
    pub(super) fn has_made(&self, object: u32) -> bool {
        OwnNumber::of(object).is_some_and(|own| own.maker(self.cfg.size) == self.cfg.rank)
    }

    /// What an object of that number is. Elsewhere than at its maker, it may be no more.
    pub(super) fn own_kind(&self, own: OwnNumber) -> Option<ObjectKind> {
        if self.has_made(own.0) { self.sync.own.there.get(&own.0).copied() } else { own.kind() }
    }

    /// A thread destroys an object that one rank has made: [`Output::Unmade`] or [`Output::Absent`] follows.
    pub(super) fn unmake(&mut self, object: u32, who: u64) -> Result<(), Violation> {
        self.sync.unmaking.push(Unmaking { object, who, ticket: None });
        match self.kind(object) {
            None => {
                self.tell_absent(object, who, object);
                Ok(())
            }
            Some(ObjectKind::Lock) => self.take_last_place(object, who),
            Some(ObjectKind::RwLock) => self.request(object, who, Request::Write),
            Some(_) => {
                let ticket = self.sync.served.ticket();
                self.ask_to_unmake(object, who, ticket)
            }
        }
    }

    /// A thread has got an object. If that is to destroy it, the manager is asked for that.
    pub(super) fn got(&mut self, object: u32, who: u64, ticket: u32) -> Result<(), Violation> {
        if self.sync.unmaking.iter().any(|u| (u.object, u.who) == (object, who)) {
            return self.ask_to_unmake(object, who, ticket);
        }
        self.out.push_back(Output::Acquired { object, who });
        Ok(())
    }

    fn ask_to_unmake(&mut self, object: u32, who: u64, ticket: u32) -> Result<(), Violation> {
        let sought = self.sync.unmaking.iter_mut().find(|u| (u.object, u.who) == (object, who));
        sought.into_iter().for_each(|u| u.ticket = Some(ticket));
        let (manager, me) = (self.manager(object), self.cfg.rank);
        if manager == me {
            let user = self.serve_unmake(me, object, ticket);
            return self.unmade(me, object, ticket, user);
        }
        self.tell(manager, object, SyncBody::Unmake { ticket });
        Ok(())
    }

    /// Manager: an object is no more, unless a thread waits for it, whose rank is returned then. Who destroys
    /// it has it, if it can be had.
    fn serve_unmake(&mut self, from: Rank, object: u32, ticket: u32) -> Option<Rank> {
        let user = match self.kind(object) {
            Some(ObjectKind::Lock) => {
                let last = self.last_place(object);
                (last != QueuePlace { rank: from, ticket }).then_some(last.rank)
            }
            _ => self.sync.served.first_waiter(object),
        };
        if user.is_none() {
            self.sync.locks.remove(&object);
            self.sync.served.forget_one(object);
            self.sync.own.remove(object);
        }
        user
    }

    /// The manager has answered: an object is no more, or a thread of that rank waits for it.
    fn unmade(&mut self, from: Rank, object: u32, ticket: u32, user: Option<Rank>) -> Result<(), Violation> {
        let sought = |u: &Unmaking| (u.object, u.ticket) == (object, Some(ticket));
        let at = self.sync.unmaking.iter().position(sought);
        let at = at.ok_or(Violation { rank: from, what: "the end of an object that this rank keeps" })?;
        let Unmaking { who, .. } = self.sync.unmaking.swap_remove(at);
        match OwnNumber::of(object).and_then(OwnNumber::kind) {
            Some(ObjectKind::Lock) if user.is_some() => self.release(object),
            Some(ObjectKind::Lock) => self.end_place(object, ticket),
            Some(ObjectKind::RwLock) if user.is_some() => self.signal(object, who, Signal::HasWritten)?,
            Some(ObjectKind::RwLock) => self.sync.served.no_longer_holds(object, who),
            _ => {}
        }
        self.out.push_back(Output::Unmade { object, who, user });
        Ok(())
    }

    /// Tells a thread that an object which it waits for, `missing`, is no more; `object` is what its call was
    /// for.
    pub(super) fn tell_absent(&mut self, object: u32, who: u64, missing: u32) {
        self.sync.unmaking.retain(|u| (u.object, u.who) != (missing, who));
        self.out.push_back(Output::Absent { object, who, missing });
    }

    /// Manager: a word about an object that this rank has made, or not, and that is no more.
    pub(super) fn about_absent(&mut self, from: Rank, object: u32, body: SyncBody) -> Result<(), Violation> {
        match body {
            SyncBody::Ask { ticket, .. } | SyncBody::Request { ticket, .. } | SyncBody::Unmake { ticket } => {
                self.tell(from, object, SyncBody::Absent { ticket });
                Ok(())
            }
            SyncBody::Signal { records, .. } => {
                self.signal_arrives(from)?;
                self.learn(from, records)?;
                self.advance()
            }
            _ => Err(Violation { rank: from, what: "a word about an object that was destroyed" }),
        }
    }

    /// A peer's word about the end of an object that one rank has made.
    pub(super) fn own_message(&mut self, from: Rank, object: u32, body: SyncBody) -> Result<(), Violation> {
        let by_manager = self.manager(object) == from;
        match body {
            SyncBody::Unmake { ticket } if self.manager(object) == self.cfg.rank => {
                let user = self.serve_unmake(from, object, ticket);
                self.tell(from, object, SyncBody::Unmade { ticket, user });
                Ok(())
            }
            SyncBody::Unmade { ticket, user } if by_manager => self.unmade(from, object, ticket, user),
            SyncBody::Absent { ticket } if by_manager => {
                let who = self.no_longer_asks(object, ticket);
                let (call, who) = who
                    .ok_or(Violation { rank: from, what: "the want of an object that was not asked for" })?;
                self.tell_absent(call, who, object);
                Ok(())
            }
            _ => Err(Violation { rank: from, what: "a word about the end of an object by the wrong rank" }),
        }
    }

    /// Takes back what a thread has asked the manager of an object. Returns what its call was for, and the
    /// thread.
    fn no_longer_asks(&mut self, object: u32, ticket: u32) -> Option<(u32, u64)> {
        let who = match OwnNumber::of(object)?.kind()? {
            ObjectKind::Lock => self.leave_queue(object, ticket)?,
            _ => {
                if let Some(wait) = self.no_longer_waits(object, ticket) {
                    return Some(wait);
                }
                let sought = |u: &&Unmaking| (u.object, u.ticket) == (object, Some(ticket));
                let asked = self.sync.served.no_longer_asks(object, ticket);
                asked.or_else(|| self.sync.unmaking.iter().find(sought).map(|u| u.who))?
            }
        };
        Some((object, who))
    }
}
