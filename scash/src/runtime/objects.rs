//! Locks, reader–writer locks, semaphores, conditions and flags: the calls.
//!
//! All objects of synchronisation have numbers from one series. A call with the number of an object of
//! another kind is an error. How calls are carried out is chosen once, when the rank joins ([`Objects`]): by
//! the node, which sends messages, or on words of memory that ranks share.

use super::Runtime;
use crate::error::{Error, Result};
use crate::fault::PAGE;
use scash_comm::SharedMemory;
use scash_ft::inject::Point;
use scash_proto::Rank;
use scash_proto::node::{Collective, Counters, InUse, ObjectKind, Outcome};
use scash_proto::wire::stall::Activity;
use scash_proto::wire::sync::Signal;
use std::any::Any;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// What users call an object of that kind.
pub(super) fn name(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Lock => "lock",
        ObjectKind::RwLock => "reader-writer lock",
        ObjectKind::Semaphore(_) => "semaphore",
        ObjectKind::Condition => "condition",
        ObjectKind::Flag => "flag",
    }
}

/// What C calls an object of that kind, in the names of functions.
pub(super) fn c_name(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::RwLock => "rwlock",
        kind => name(kind),
    }
}

/// What a thread asks an object for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Lock,
    /// A lock, if nobody has it.
    TryLock,
    /// A reader–writer lock, to read.
    Read,
    /// A reader–writer lock, to write.
    Write,
    /// One of a semaphore's count.
    Take,
    /// A flag's number that is at least so large.
    AtLeast(u64),
}

/// Any semaphore: the number is no part of what an object is to be.
const SEMAPHORE: ObjectKind = ObjectKind::Semaphore(0);

impl Ask {
    /// What is asked.
    pub(crate) fn kind(self) -> ObjectKind {
        match self {
            Ask::Lock | Ask::TryLock => ObjectKind::Lock,
            Ask::Read | Ask::Write => ObjectKind::RwLock,
            Ask::Take => SEMAPHORE,
            Ask::AtLeast(_) => ObjectKind::Flag,
        }
    }
}

/// Words of objects, by pages.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a>(pub(crate) &'a SharedMemory);

impl Words<'_> {
    /// The file in which they lie.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }

    pub(crate) fn pages(&self) -> u32 {
        u32::try_from(self.0.segment().len / PAGE).unwrap_or(0)
    }

    pub(crate) fn page(&self, page: u32) -> *mut u8 {
        self.0.at(page as usize * PAGE)
    }
}

/// Carries out the calls of this rank's threads on objects. Each call is refused if there is no such object,
/// or while another thread is in a collective call.
pub(crate) trait Objects: Send + Sync {
    /// Waits until the calling thread has what it asks for. `false` only if it has only tried.
    ///
    /// # Errors
    /// It has that lock already; a rank is gone.
    fn ask(&self, runtime: &Runtime, number: u32, ask: Ask) -> Result<bool>;

    /// Gives a lock or a reader–writer lock back.
    ///
    /// # Errors
    /// The calling thread does not have it; a rank is gone.
    fn give_back(&self, runtime: &Runtime, number: u32, kind: ObjectKind) -> Result<()>;

    /// Lets others go on with a semaphore, a condition or a flag.
    ///
    /// # Errors
    /// A rank is gone.
    fn signal(&self, runtime: &Runtime, number: u32, kind: ObjectKind, signal: Signal) -> Result<()>;

    /// Gives a lock back, waits for a condition, and takes the lock again.
    ///
    /// # Errors
    /// The calling thread does not have the lock; a rank is gone.
    fn wait(&self, runtime: &Runtime, condition: u32, number: u32) -> Result<()>;

    /// An object that this rank has made by itself is there from now on.
    ///
    /// # Errors
    /// A rank is gone.
    fn begin_own(&self, _: &Runtime, _number: u32, _kind: ObjectKind) -> Result<()> {
        Ok(())
    }

    /// Numbers of objects that this rank has made by itself and some rank has destroyed, as far as the node
    /// does not know, each of them once: of a few that it has made, or of all.
    fn gone_own(&self, _of_all: bool) -> Vec<u32> {
        Vec::new()
    }

    /// Destroys an object that one rank has made by itself; a lock, or a reader–writer lock, when nobody has
    /// it. If a thread waits for it then, nothing is done, and that one's rank is returned.
    ///
    /// # Errors
    /// There is none; the calling thread has it; a rank is gone.
    fn unmake(&self, runtime: &Runtime, number: u32, kind: ObjectKind) -> Result<Option<Rank>>;

    /// What this rank's threads have and wait for, as far as the node does not know.
    fn activities(&self) -> Vec<Activity> {
        Vec::new()
    }

    /// An object that a thread of this rank waits for, as far as the node does not know.
    fn awaited(&self) -> Option<u32> {
        None
    }

    /// For who is in a collective call, to which nobody comes while a thread of this rank waits: whether one
    /// that has waited still looks at memory where ranks have it together.
    fn has_leavers(&self) -> bool {
        false
    }

    /// The first of these objects that a thread of this rank uses, as far as the node does not know.
    ///
    /// # Errors
    /// A rank is gone.
    fn in_use(&self, _: &Runtime, _: Range<u32>) -> Result<Option<InUse>> {
        Ok(None)
    }

    /// A thread of this rank is in a collective call from now on, or is no more: objects are not for use
    /// meanwhile.
    fn meets(&self, _: bool) {}

    /// These objects were destroyed.
    ///
    /// # Errors
    /// The system refuses to take memory back.
    fn forget(&self, _: Range<u32>) -> Result<()> {
        Ok(())
    }

    /// The words that the host's ranks share, if objects are words.
    fn words(&self) -> Option<Words<'_>> {
        None
    }

    /// These objects of a process that has come back, whose words are those that were saved, go on where the
    /// others were in the process that was saved.
    fn inherit(&self, _: &dyn Objects) {}

    /// The value behind the trait.
    fn as_any(&self) -> &dyn Any;

    /// Adds what was counted, as far as the node does not know.
    fn add_counts(&self, _: &mut Counters) {}
}

impl Runtime {
    /// Makes `count` objects of synchronisation of a kind, and returns the number of the first; the others
    /// have those that follow. Collective, and includes a memory barrier.
    pub fn make_objects(&self, kind: ObjectKind, count: u32) -> Result<u32> {
        if count == 0 {
            return Err(Error::Argument(format!("0 {}s asked for: ask for at least one", name(kind))));
        }
        self.collective_then(Collective::Make(kind, count), |outcome| match outcome {
            Outcome::Made(first) => {
                self.attend()?;
                Ok(first)
            }
            Outcome::TooManyObjects(most) => Err(Error::Argument(format!(
                "{count} more {}s: there are numbers for {most} locks, semaphores and the like in all, those destroyed among them",
                name(kind)
            ))),
            _ => Err(Error::Broken("the making of objects had no outcome".to_owned())),
        })
    }

    /// Makes `count` locks, and returns the number of the first; the others have those that follow.
    /// Collective, and includes a memory barrier.
    pub fn make_locks(&self, count: u32) -> Result<u32> {
        self.make_objects(ObjectKind::Lock, count)
    }

    /// Takes a lock: returns when the calling thread has it, and sees all that was written before it was last
    /// given back, by whichever rank.
    ///
    /// # Errors
    /// There is no such lock; the calling thread has it already; a rank is gone.
    pub fn lock(&self, number: u32) -> Result<()> {
        self.ask(number, Ask::Lock).map(drop)
    }

    /// Takes a lock if nobody has it, and returns whether. Does not wait for whoever has it: only for answers
    /// of peers, if the lock is not here.
    ///
    /// # Errors
    /// As those of [`lock`](Self::lock).
    pub fn try_lock(&self, number: u32) -> Result<bool> {
        self.ask(number, Ask::TryLock)
    }

    /// Gives a lock back.
    ///
    /// # Errors
    /// There is no such lock; the calling thread does not have it; a rank is gone.
    pub fn unlock(&self, number: u32) -> Result<()> {
        self.guarded(|| self.context.objects.give_back(self, number, ObjectKind::Lock))?;
        self.passes(Point::LockReleased);
        Ok(())
    }

    /// Takes a reader–writer lock to read: returns when nobody has it to write, and nobody waits for it who
    /// came before.
    ///
    /// # Errors
    /// There is no such lock; the calling thread has it already; a rank is gone.
    pub fn read_lock(&self, number: u32) -> Result<()> {
        self.ask(number, Ask::Read).map(drop)
    }

    /// Takes a reader–writer lock to write: returns when nobody else has it.
    ///
    /// # Errors
    /// As those of [`read_lock`](Self::read_lock).
    pub fn write_lock(&self, number: u32) -> Result<()> {
        self.ask(number, Ask::Write).map(drop)
    }

    /// Gives a reader–writer lock back.
    ///
    /// # Errors
    /// There is no such lock; the calling thread does not have it; a rank is gone.
    pub fn rw_unlock(&self, number: u32) -> Result<()> {
        self.guarded(|| self.context.objects.give_back(self, number, ObjectKind::RwLock))
    }

    /// Takes one from a semaphore's count: waits until there is one, and sees what was written before it was
    /// posted.
    ///
    /// # Errors
    /// There is no such semaphore; a rank is gone.
    pub fn semaphore_wait(&self, number: u32) -> Result<()> {
        self.ask(number, Ask::Take).map(drop)
    }

    /// Adds so many to a semaphore's count: as many who wait go on, in the order in which they came.
    ///
    /// # Errors
    /// There is no such semaphore; `count` is 0; a rank is gone.
    pub fn semaphore_post(&self, number: u32, count: u32) -> Result<()> {
        if count == 0 {
            return Err(Error::Argument(format!(
                "semaphore {number} is posted 0 times: post it once at least"
            )));
        }
        self.signal_to(number, SEMAPHORE, Signal::Post(count))
    }

    /// Gives a lock back, waits for the signal of a condition, and takes the lock again. No signal is lost
    /// that is given by somebody who has had the lock since. The call may also return without a signal: look
    /// whether what was waited for is so.
    ///
    /// # Errors
    /// There is no such condition or lock; the calling thread does not have the lock; a rank is gone.
    pub fn condition_wait(&self, condition: u32, number: u32) -> Result<()> {
        self.guarded(|| self.context.objects.wait(self, condition, number))
    }

    /// Lets one go on that waits for a condition: the one who came first. If nobody waits, nothing happens.
    ///
    /// # Errors
    /// There is no such condition; a rank is gone.
    pub fn condition_signal(&self, condition: u32) -> Result<()> {
        self.signal_to(condition, ObjectKind::Condition, Signal::WakeOne)
    }

    /// Lets all go on that wait for a condition.
    ///
    /// # Errors
    /// As those of [`condition_signal`](Self::condition_signal).
    pub fn condition_broadcast(&self, condition: u32) -> Result<()> {
        self.signal_to(condition, ObjectKind::Condition, Signal::WakeAll)
    }

    /// Waits until a flag's number is at least so large, and sees what was written before it was raised so
    /// far. It is 0 in the beginning.
    ///
    /// # Errors
    /// There is no such flag; a rank is gone.
    pub fn flag_wait(&self, number: u32, least: u64) -> Result<()> {
        self.ask(number, Ask::AtLeast(least)).map(drop)
    }

    /// Raises a flag's number. (It never falls: if it is larger already, it stays so.) Waits for nobody.
    ///
    /// # Errors
    /// There is no such flag; a rank is gone.
    pub fn flag_raise(&self, number: u32, to: u64) -> Result<()> {
        self.signal_to(number, ObjectKind::Flag, Signal::Raise(to))
    }

    #[inline]
    fn ask(&self, number: u32, ask: Ask) -> Result<bool> {
        self.passes(Point::LockAsked);
        let got = self.guarded(|| self.context.objects.ask(self, number, ask))?;
        self.passes(Point::LockGot);
        Ok(got)
    }

    fn signal_to(&self, object: u32, kind: ObjectKind, signal: Signal) -> Result<()> {
        self.guarded(|| self.context.objects.signal(self, object, kind, signal))
    }
}
