//! Objects of synchronisation of ranks that share frames: words in memory that they share as well.
//!
//! | module | what it is |
//! |---|---|
//! | `record` | an object, and a slot in which a thread waits |
//! | `table` | what is done with one under its guard: the rules of all kinds of objects |
//! | `wait_slots` | which slots a rank has left |
//! | `own` | those that one rank makes, and one destroys |
//! | `memory` | where they lie |
//! | `users` | threads in calls, for a rank that may be saved |
//! | `counts` | what is counted |
//!
//! A thread takes an object's guard, makes one step, and gives it back. If it has to wait, it has a slot in
//! the object's queue by then, and whoever comes to its turn opens the slot's gate. Who lets it go on has
//! made it the owner already, so nobody is passed over. What was written before is seen after, because the
//! guard and the gate order it; nothing else has to be brought to anybody.
//!
//! A rank that dies may leave a guard taken, or a slot in a queue. The job is over then, and the others do
//! not wait for it: they look, each 10 ms, whether all ranks live.

mod counts;
mod memory;
mod own;
mod record;
mod table;
#[cfg(test)]
mod tests;
mod users;
mod wait_slots;

use self::counts::{Counts, count};
pub(crate) use self::memory::MOST;
use self::memory::{Memory, RECORDS, place};
use self::own::{EndStart, MadeHere};
use self::record::{FREE, READS, Request, ThreadId, WAITS, WaitSlot, encode};
use self::table::{Chain, Guarded, ObjectAnswer, Table};
use self::users::Users;
use self::wait_slots::WaitSlots;
use crate::error::{Error, Result};
use crate::runtime::checks::{absent, is_meeting, must_be, not_the_holder, taken_twice, waits_without_lock};
use crate::runtime::objects::{Ask, Objects, Words};
use crate::runtime::stall::WaitTimer;
use crate::runtime::{Runtime, answer::this_thread, lock, within};
use scash_comm::shm::Parking;
use scash_proto::Rank;
use scash_proto::node::{Counters, InUse, ObjectKind, OwnNumber};
use scash_proto::wire::stall::{Activity, Relation};
use scash_proto::wire::sync::Signal;
use std::any::Any;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32};

/// The objects of a job, as one of its ranks has them.
pub(crate) struct HostObjects {
    memory: Memory,
    rank: u32,
    parking: Parking,
    slots: WaitSlots,
    /// Threads of this rank that wait.
    waiting: AtomicU32,
    /// A thread of this rank is in a collective call: objects are not for use now.
    meeting: AtomicBool,
    users: Users,
    made_here: MadeHere,
    /// How often objects were destroyed.
    destructions: AtomicU32,
    counts: Counts,
}

impl HostObjects {
    /// The objects of a job of so many ranks: none was made yet.
    pub(crate) fn new(
        rank: u32,
        ranks: u32,
        cores_are_scarce: bool,
        comes_back: bool,
    ) -> Result<HostObjects> {
        Ok(HostObjects {
            memory: Memory::new(ranks)?,
            rank,
            parking: Parking::new(cores_are_scarce),
            slots: WaitSlots::of(rank),
            waiting: AtomicU32::new(0),
            meeting: AtomicBool::new(false),
            users: Users::new(comes_back),
            made_here: MadeHere::default(),
            destructions: AtomicU32::new(0),
            counts: Counts::default(),
        })
    }

    /// As those of the process that was saved, in which no thread was in a call.
    fn go_on_as(&self, old: &HostObjects) {
        self.slots.go_on_as(&old.slots);
        self.made_here.go_on_as(&old.made_here);
        self.waiting.store(old.waiting.load(Relaxed), Relaxed);
        self.meeting.store(old.meeting.load(Relaxed), SeqCst);
        self.destructions.store(old.destructions.load(Relaxed), Relaxed);
        self.counts.go_on_as(&old.counts);
    }

    /// The file in which they lie.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.memory.fd()
    }

    /// From here on they lie in another rank's file.
    pub(crate) fn adopt(&mut self, file: OwnedFd) -> Result<()> {
        self.memory.adopt(file)
    }

    fn table(&self) -> Table<'_> {
        self.memory.table()
    }

    fn me(&self) -> ThreadId {
        ThreadId::new(self.rank, this_thread())
    }

    /// Takes the guard of an object that must exist, be of that kind, and be for use now.
    #[inline]
    fn enter(&self, around: &impl Around, number: u32, kind: ObjectKind) -> Result<Guarded<'_>> {
        // Nothing is touched while the rank meets: a thread that comes back from a checkpoint has no words
        // before its rank has.
        if !self.meeting.load(SeqCst)
            && let Some(guarded) = self.guard(around, number)?
        {
            let known = guarded.record.kind.load(Relaxed) == encode(number, kind);
            if known && !self.meeting.load(SeqCst) {
                return Ok(guarded);
            }
        }
        self.introduce(around, number, kind)
    }

    #[inline]
    fn guard(&self, around: &impl Around, number: u32) -> Result<Option<Guarded<'_>>> {
        let table = self.table();
        let Some(record) = table.records.get(place(number) as usize) else { return Ok(None) };
        let mut stall = None;
        let look = || around.look(&mut stall);
        table.guard(self.parking, record, look).map(Some)
    }

    /// As [`enter`](Self::enter), of an object that nobody has used, or that is not what the caller thinks.
    #[cold]
    fn introduce(&self, around: &impl Around, number: u32, kind: ObjectKind) -> Result<Guarded<'_>> {
        let damaged = || Error::Broken(format!("what ranks share of object {number} is damaged"));
        loop {
            let destructions = self.destructions.load(SeqCst);
            if self.meeting.load(SeqCst) {
                return Err(is_meeting(number, kind));
            }
            let kind = around.kind(number, kind)?;
            let guarded = self.guard(around, number)?.ok_or_else(damaged)?;
            // Another thread may have destroyed it meanwhile.
            if self.meeting.load(SeqCst) || self.destructions.load(SeqCst) != destructions {
                continue;
            }
            let record = guarded.record;
            let is_own = OwnNumber::of(number).is_some();
            if record.kind.load(Relaxed) == 0 && !is_own {
                record.begin(number, kind);
            }
            return match record.kind.load(Relaxed) == encode(number, kind) {
                true => Ok(guarded),
                false if is_own => Err(absent(number, kind)),
                false => Err(damaged()),
            };
        }
    }

    /// Grants a thread what it asks for, or puts it into the object's queue.
    #[inline]
    fn begin(&self, around: &impl Around, number: u32, ask: Ask, me: ThreadId) -> Result<CallStart> {
        let kind = ask.kind();
        let guarded = self.enter(around, number, kind)?;
        let request = ask.into();
        if matches!(kind, ObjectKind::Lock | ObjectKind::RwLock) {
            if guarded.owner() == Some(me) {
                return Err(taken_twice(number, kind, "write"));
            }
            if kind == ObjectKind::RwLock && guarded.reader(me).is_some() {
                return Err(taken_twice(number, kind, "read"));
            }
        }
        let is_lock = kind == ObjectKind::Lock;
        if !is_lock {
            count(&self.counts.requests);
        }
        // A reader needs a slot in any case.
        if request != Request::Read && guarded.grants(me, request) {
            if is_lock {
                count(&self.counts.free);
            }
            return Ok(CallStart::Granted);
        }
        if ask == Ask::TryLock {
            count(&self.counts.refused);
            return Ok(CallStart::Refused);
        }
        self.queue(guarded, number, kind, request, me)
    }

    fn queue(
        &self,
        guarded: Guarded<'_>,
        number: u32,
        kind: ObjectKind,
        request: Request,
        me: ThreadId,
    ) -> Result<CallStart> {
        let slot = self.sit(number, kind, request, me)?;
        let answer = guarded.ask(number, slot, me, request);
        drop(guarded);
        if answer == ObjectAnswer::Granted {
            // A reader, who keeps the slot.
            self.waiting.fetch_sub(1, SeqCst);
            return Ok(CallStart::Granted);
        }
        if kind == ObjectKind::Lock {
            count(&self.counts.waited);
        }
        Ok(CallStart::Waits { slot, keeps: request == Request::Read })
    }

    /// A slot in which a thread is about to wait for an object; not while another thread of this rank is in a
    /// collective call: either that one sees that this one waits ([`awaited`](Objects::awaited)), or this one
    /// that it meets.
    fn sit(&self, number: u32, kind: ObjectKind, request: Request, me: ThreadId) -> Result<u32> {
        let slot = self.slots.take().ok_or_else(|| {
            Error::Argument(format!(
                "more than {} threads of this rank wait for objects, or have reader-writer locks to read: give some back first",
                wait_slots::A_RANK
            ))
        })?;
        self.waiting.fetch_add(1, SeqCst);
        self.table().slot(slot).note(number, WAITS, me, request);
        if self.meeting.load(SeqCst) {
            self.table().slot(slot).role.store(FREE, SeqCst);
            self.waiting.fetch_sub(1, SeqCst);
            self.slots.give_back(slot);
            return Err(is_meeting(number, kind));
        }
        Ok(slot)
    }

    /// Waits until the gate of a thread's slot is open.
    fn await_gate(&self, around: &impl Around, slot: u32) -> Result<()> {
        let mut stall = None;
        self.parking.wait(&self.table().slot(slot).gate, || around.look(&mut stall))
    }

    /// Waits until the gate of a thread's slot is open, and gives the slot back, unless the thread keeps it
    /// as long as it reads. If it fails, the job is over, and the slot stays where it is.
    fn wait_in(&self, around: &impl Around, slot: u32, keeps: bool) -> Result<()> {
        self.await_gate(around, slot)?;
        if !keeps {
            let _inside = within::stay();
            self.slots.give_back(slot);
        }
        self.waiting.fetch_sub(1, SeqCst);
        Ok(())
    }

    /// Waits until a thread that was in a condition's queue has its lock again.
    fn wait_for_lock(&self, around: &impl Around, slot: u32, number: u32) -> Result<()> {
        self.await_gate(around, slot)?;
        let is_gone = self.table().slot(slot).request() == Request::Gone;
        let _inside = within::stay();
        self.slots.give_back(slot);
        self.waiting.fetch_sub(1, SeqCst);
        if is_gone { Err(absent(number, ObjectKind::Lock)) } else { Ok(()) }
    }

    /// Gives the guard back, and lets others go on.
    #[inline]
    fn leave(&self, guarded: Guarded<'_>, chain: Chain) {
        let table = guarded.table;
        drop(guarded);
        table.open(chain);
    }

    /// Gives back an object that the calling thread has alone.
    #[inline]
    fn disown(&self, guarded: Guarded<'_>) {
        let chain = guarded.disown();
        if guarded.owner().is_some_and(|owner| owner.rank() != self.rank) {
            count(&self.counts.handed);
        }
        self.leave(guarded, chain);
    }

    fn give_back_rwlock(&self, around: &impl Around, number: u32, me: ThreadId) -> Result<()> {
        let guarded = self.enter(around, number, ObjectKind::RwLock)?;
        if guarded.owner() == Some(me) {
            self.disown(guarded);
            return Ok(());
        }
        let slot = guarded.reader(me).ok_or_else(|| not_the_holder(number, ObjectKind::RwLock, false))?;
        let chain = guarded.has_read(slot);
        self.leave(guarded, chain);
        self.slots.give_back(slot);
        Ok(())
    }

    /// A thread gives a lock or a reader–writer lock back.
    #[inline]
    fn end(&self, around: &impl Around, number: u32, kind: ObjectKind, me: ThreadId) -> Result<()> {
        if kind == ObjectKind::RwLock {
            count(&self.counts.signals);
            return self.give_back_rwlock(around, number, me);
        }
        let guarded = self.enter(around, number, kind)?;
        match guarded.owner() {
            Some(owner) if owner == me => {
                self.disown(guarded);
                Ok(())
            }
            owner => Err(not_the_holder(number, kind, owner.is_some_and(|owner| owner.rank() == self.rank))),
        }
    }

    fn let_go_on(&self, around: &impl Around, number: u32, kind: ObjectKind, signal: Signal) -> Result<()> {
        let guarded = self.enter(around, number, kind)?;
        count(&self.counts.signals);
        let chain = match signal {
            Signal::Post(more) => guarded.change(|count| count.saturating_add(more.into())),
            Signal::Raise(to) => guarded.change(|number| number.max(to)),
            Signal::WakeOne => return self.wake(around, guarded, false),
            Signal::WakeAll => return self.wake(around, guarded, true),
            // Locks are given back otherwise.
            Signal::HasRead | Signal::HasWritten => return Ok(()),
        };
        self.leave(guarded, chain);
        Ok(())
    }

    /// A thread that has a lock comes into a condition's queue, and gives the lock back. Returns its slot.
    fn begin_wait(&self, around: &impl Around, condition: u32, number: u32, me: ThreadId) -> Result<u32> {
        drop(self.enter(around, condition, ObjectKind::Condition)?);
        let owner = self.enter(around, number, ObjectKind::Lock)?.owner();
        if owner != Some(me) {
            return Err(waits_without_lock(condition, number));
        }
        count(&self.counts.requests);
        let guarded = self.enter(around, condition, ObjectKind::Condition)?;
        let request = Request::Wakeup(number);
        let slot = self.sit(condition, ObjectKind::Condition, request, me)?;
        guarded.ask(condition, slot, me, request);
        drop(guarded);
        // Only now: no signal is lost that is given by somebody who has the lock after this thread. Nothing
        // can fail from here on, unless a rank is gone.
        if let Some(lock) = self.guard(around, number)? {
            self.disown(lock);
        }
        Ok(slot)
    }

    /// The first of these objects that a thread of this rank uses.
    fn in_use_of(&self, around: &impl Around, objects: Range<u32>) -> Result<Option<InUse>> {
        let _inside = within::stay();
        // Slots first: a thread goes from its slot to be the owner, and not back.
        let slots = self.slots.used(self.table().slots);
        let mut used: Vec<(u32, Relation)> = slots.flat_map(uses).collect();
        used.retain(|(object, _)| objects.contains(object));
        for object in self.memory.touched(objects).flatten() {
            // The guard: a thread that takes the object at this moment has it, or finds that it must not.
            if self.guard(around, object)?.is_some_and(|guarded| guarded.is_owned_by(self.rank)) {
                used.push((object, Relation::Holds));
            }
        }
        let first = used.into_iter().min();
        Ok(first.map(|(object, relation)| InUse { rank: Rank(self.rank), object, relation }))
    }

    /// Lets threads go on that waited for a condition: they ask for their locks.
    fn wake(&self, around: &impl Around, guarded: Guarded<'_>, all: bool) -> Result<()> {
        let mut woken = guarded.signal(all);
        drop(guarded);
        let table = self.table();
        while let Some(slot) = woken.pop(table) {
            let Request::Wakeup(number) = table.slot(slot).request() else { continue };
            let Some(guarded) = self.guard(around, number)? else { continue };
            let is_there = guarded.record.kind.load(Relaxed) == encode(number, ObjectKind::Lock);
            let waits = is_there && !guarded.ask_again(number, slot);
            if !is_there {
                guarded.tell_gone(slot);
            }
            drop(guarded);
            if !waits {
                Parking::open(&table.slot(slot).gate);
            }
        }
        Ok(())
    }
}

/// How a call has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallStart {
    Granted,
    Refused,
    /// The thread is in a queue; whether it keeps its slot when it has got what it waits for.
    Waits {
        slot: u32,
        keeps: bool,
    },
}

/// What is around the objects: their rank.
trait Around {
    /// What an object is; an error if there is none of that number and kind, or now is no time to use it.
    fn kind(&self, number: u32, kind: ObjectKind) -> Result<ObjectKind>;

    /// What a thread does now and then while it waits: an error if a rank is gone.
    fn look(&self, stall: &mut Option<WaitTimer>) -> Result<()>;
}

impl Around for Runtime {
    fn kind(&self, number: u32, kind: ObjectKind) -> Result<ObjectKind> {
        let core = lock(&self.core);
        must_be(&core, number, kind)?;
        Ok(core.node.kind(number).unwrap_or(kind))
    }

    fn look(&self, stall: &mut Option<WaitTimer>) -> Result<()> {
        self.look_for_news(stall.get_or_insert_with(|| WaitTimer::new(self)))
    }
}

impl Objects for HostObjects {
    fn words(&self) -> Option<Words<'_>> {
        Some(self.memory.words())
    }

    fn inherit(&self, old: &dyn Objects) {
        if let Some(old) = old.as_any().downcast_ref() {
            self.go_on_as(old);
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    #[inline]
    fn ask(&self, runtime: &Runtime, number: u32, ask: Ask) -> Result<bool> {
        let user = self.users.come();
        match self.begin(runtime, number, ask, self.me())? {
            CallStart::Granted => Ok(true),
            CallStart::Refused => Ok(false),
            CallStart::Waits { slot, keeps } => {
                drop(user);
                self.wait_in(runtime, slot, keeps)?;
                Ok(true)
            }
        }
    }

    #[inline]
    fn give_back(&self, runtime: &Runtime, number: u32, kind: ObjectKind) -> Result<()> {
        let _user = self.users.come();
        self.end(runtime, number, kind, self.me())
    }

    fn signal(&self, runtime: &Runtime, number: u32, kind: ObjectKind, signal: Signal) -> Result<()> {
        let _user = self.users.come();
        self.let_go_on(runtime, number, kind, signal)
    }

    fn wait(&self, runtime: &Runtime, condition: u32, number: u32) -> Result<()> {
        let user = self.users.come();
        let slot = self.begin_wait(runtime, condition, number, self.me())?;
        drop(user);
        self.wait_for_lock(runtime, slot, number)
    }

    fn begin_own(&self, runtime: &Runtime, number: u32, kind: ObjectKind) -> Result<()> {
        let _user = self.users.come();
        self.begin_own_with(runtime, number, kind)
    }

    fn gone_own(&self, of_all: bool) -> Vec<u32> {
        let _inside = within::stay();
        self.find_gone(of_all)
    }

    fn unmake(&self, runtime: &Runtime, number: u32, kind: ObjectKind) -> Result<Option<Rank>> {
        let mut user = self.users.come();
        match self.begin_end(runtime, number, kind, self.me())? {
            EndStart::Over(user) => return Ok(user),
            EndStart::Taken => {}
            EndStart::Waits(slot) => {
                drop(user);
                self.await_gate(runtime, slot)?;
                // Before it waits no more: it is either known to wait or to be in a call.
                user = self.users.come();
                self.slots.give_back(slot);
                self.waiting.fetch_sub(1, SeqCst);
            }
        }
        let ended = self.end_owned(runtime, number);
        drop(user);
        ended
    }

    fn activities(&self) -> Vec<Activity> {
        let _inside = within::stay();
        let table = self.table();
        let of_slots = self.slots.used(table.slots).filter_map(|slot| {
            let relation = match slot.role.load(Relaxed) {
                WAITS => Relation::Awaits,
                READS => Relation::Holds,
                _ => return None,
            };
            Some(Activity { who: slot.who().thread(), relation, object: slot.object.load(Relaxed) })
        });
        // What another thread does at this moment may be missed: it is for people who ask who waits for whom.
        let of_owners = self.memory.touched(0..RECORDS).flatten().filter_map(|at| {
            let record = &table.records[at as usize];
            let owner = ThreadId(record.owner.load(Relaxed));
            let mine = owner.0 != 0 && owner.rank() == self.rank;
            let object = if at < MOST { at } else { record.kind.load(Relaxed) };
            mine.then(|| Activity { who: owner.thread(), relation: Relation::Holds, object })
        });
        of_slots.chain(of_owners).collect()
    }

    fn awaited(&self) -> Option<u32> {
        if self.waiting.load(SeqCst) == 0 {
            return None;
        }
        let _inside = within::stay();
        let mut slots = self.slots.used(self.table().slots);
        slots.find(|slot| slot.role.load(SeqCst) == WAITS).map(|slot| slot.object.load(Relaxed))
    }

    fn has_leavers(&self) -> bool {
        // In this order: one that has waited is in a call again before it waits no more.
        self.waiting.load(SeqCst) > 0 || self.users.are_there()
    }

    fn in_use(&self, runtime: &Runtime, objects: Range<u32>) -> Result<Option<InUse>> {
        self.in_use_of(runtime, objects)
    }

    fn meets(&self, meets: bool) {
        self.meeting.store(meets, SeqCst);
        if meets {
            self.users.await_none();
        }
    }

    fn forget(&self, objects: Range<u32>) -> Result<()> {
        self.destructions.fetch_add(1, SeqCst);
        self.memory.forget(objects)
    }

    fn add_counts(&self, counters: &mut Counters) {
        self.counts.add_to(counters);
    }
}

/// What the thread of a slot uses, and how: with a condition also the lock that it will take again.
fn uses(slot: &WaitSlot) -> impl Iterator<Item = (u32, Relation)> + use<> {
    let (relation, request) = match slot.role.load(SeqCst) {
        FREE => (None, None),
        READS => (Some(Relation::Holds), None),
        _ => (Some(Relation::Awaits), Some(slot.request())),
    };
    // After the request: where that is for a lock already, this is the lock.
    let object = slot.object.load(Relaxed);
    let lock = if let Some(Request::Wakeup(lock)) = request { Some((lock, Relation::Awaits)) } else { None };
    relation.map(|relation| (object, relation)).into_iter().chain(lock)
}

impl From<Ask> for Request {
    fn from(ask: Ask) -> Request {
        match ask {
            Ask::Lock | Ask::TryLock => Request::Lock,
            Ask::Read => Request::Read,
            Ask::Write => Request::Write,
            Ask::Take => Request::Take,
            Ask::AtLeast(least) => Request::AtLeast(least),
        }
    }
}
