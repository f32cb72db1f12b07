//! Reader–writer locks, semaphores, conditions and flags: the calls.
//!
//! All objects of synchronisation, locks among them, have numbers from one series. A call with the number of
//! an object of another kind is an error.

use super::checks::{must_be, name};
use super::locks::this_thread;
use super::{Runtime, lock};
use crate::error::{Error, Result};
use crate::runtime::core::Core;
use crate::runtime::owned::Guard;
use scash_proto::node::{Collective, Input, ObjectKind, Outcome};
use scash_proto::wire::sync::{Request, Signal};

/// Any semaphore: the number is no part of what an object is to be.
const SEMAPHORE: ObjectKind = ObjectKind::Semaphore(0);

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
            Outcome::TooManyObjects => Err(Error::Argument(format!(
                "{count} more {}s: there are numbers for 4294967295 locks, semaphores and the like in all, those destroyed among them",
                name(kind)
            ))),
            _ => Err(Error::Broken("the making of objects had no outcome".to_owned())),
        })
    }

    /// Takes a reader–writer lock to read: returns when nobody has it to write, and nobody waits for it who
    /// came before.
    ///
    /// # Errors
    /// There is no such lock; the calling thread has it already; a rank is gone.
    pub fn read_lock(&self, number: u32) -> Result<()> {
        self.enter_rwlock(number, Request::Read)
    }

    /// Takes a reader–writer lock to write: returns when nobody else has it.
    ///
    /// # Errors
    /// As those of [`read_lock`](Self::read_lock).
    pub fn write_lock(&self, number: u32) -> Result<()> {
        self.enter_rwlock(number, Request::Write)
    }

    fn enter_rwlock(&self, number: u32, request: Request) -> Result<()> {
        self.guarded(|| {
            let core = lock(&self.core);
            must_be(&core, number, ObjectKind::RwLock)?;
            let how = match core.node.holding(number, this_thread()) {
                None => return self.request(core, number, request),
                Some(Signal::HasRead) => "read",
                Some(_) => "write",
            };
            Err(Error::Argument(format!(
                "reader-writer lock {number} is taken by the thread that has it to {how}: give it back first (it is not recursive, and no reader becomes a writer)"
            )))
        })
    }

    /// Gives a reader–writer lock back.
    ///
    /// # Errors
    /// There is no such lock; the calling thread does not have it; a rank is gone.
    pub fn rw_unlock(&self, number: u32) -> Result<()> {
        self.guarded(|| {
            let core = lock(&self.core);
            must_be(&core, number, ObjectKind::RwLock)?;
            let signal = core.node.holding(number, this_thread()).ok_or_else(|| {
                Error::Argument(format!(
                    "reader-writer lock {number} is given back by a thread that does not have it"
                ))
            })?;
            self.signal(core, number, signal)
        })
    }

    /// Takes one from a semaphore's count: waits until there is one, and sees what was written before it was
    /// posted.
    ///
    /// # Errors
    /// There is no such semaphore; a rank is gone.
    pub fn semaphore_wait(&self, number: u32) -> Result<()> {
        self.request_of(number, SEMAPHORE, Request::Take)
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
        self.guarded(|| {
            let mut core = lock(&self.core);
            must_be(&core, condition, ObjectKind::Condition)?;
            must_be(&core, number, ObjectKind::Lock)?;
            let who = this_thread();
            if core.node.holder(number) != Some(who) {
                return Err(Error::Argument(format!(
                    "a thread waits for condition {condition} with lock {number}, which it does not have: take the lock first"
                )));
            }
            core.node.handle(Input::Wait { condition, lock: number, who })?;
            self.answer_to(core, number).map(drop)
        })
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
        self.request_of(number, ObjectKind::Flag, Request::AtLeast(least))
    }

    /// Raises a flag's number. (It never falls: if it is larger already, it stays so.) Waits for nobody.
    ///
    /// # Errors
    /// There is no such flag; a rank is gone.
    pub fn flag_raise(&self, number: u32, to: u64) -> Result<()> {
        self.signal_to(number, ObjectKind::Flag, Signal::Raise(to))
    }

    fn request_of(&self, object: u32, kind: ObjectKind, request: Request) -> Result<()> {
        self.guarded(|| {
            let core = lock(&self.core);
            must_be(&core, object, kind)?;
            self.request(core, object, request)
        })
    }

    fn request<'a>(&'a self, mut core: Guard<'a, Core>, object: u32, request: Request) -> Result<()> {
        core.node.handle(Input::Request { object, who: this_thread(), request })?;
        self.answer_to(core, object).map(drop)
    }

    fn signal_to(&self, object: u32, kind: ObjectKind, signal: Signal) -> Result<()> {
        self.guarded(|| {
            let core = lock(&self.core);
            must_be(&core, object, kind)?;
            self.signal(core, object, signal)
        })
    }

    fn signal(&self, mut core: Guard<'_, Core>, object: u32, signal: Signal) -> Result<()> {
        core.node.handle(Input::Signal { object, who: this_thread(), signal })?;
        self.look_around(&mut core)?;
        self.settle(&mut core)
    }
}
