//! Active messages: what applications call, and how handlers are run.
//!
//! A handler runs in a thread that makes progress: one that waits or tests, or else the helper. The engine is
//! not locked meanwhile, so what a handler sends is sent at once, or held until there is credit, as far as
//! [`Options::held`](super::Options::held) bounds it; it never waits. One handler of a rank runs at a time,
//! so active messages of a rank are handled in the order they were sent.

use super::communicator::Communicator;
use super::driver::Goal;
use super::driver::Shared;
use super::engine::{Engine, HandlerCall};
use super::span::Source;
use scash_comm::biased::Guard;
use scash_comm::{Error, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// How long handlers are run, one after the other, until their thread does what else it does.
const AT_ONCE: Duration = Duration::from_millis(1);

type Handler = dyn Fn(&Caller<'_>, &[u8]) + Send + Sync;

/// A rank's handlers, by number.
#[derive(Default)]
pub(super) struct Handlers(RwLock<BTreeMap<u16, Arc<Handler>>>);

/// Whose active message a handler has got, and the way to answer.
#[derive(Debug)]
pub struct Caller<'a> {
    shared: &'a Shared,
    from: u32,
}

impl Communicator {
    /// Registers a handler of active messages under a number. Collective: all ranks register handlers of the
    /// same numbers in the same order, and the call returns when all have.
    ///
    /// It is called with each active message of that number, whether or not the application calls in: by a
    /// thread that waits or tests, or a thread of the communicator's. While it runs, other active messages
    /// wait, and messages may too; so it should be short, and must wait for nothing that other ranks do. It
    /// answers and sends by its [`Caller`]. If it panics, the process ends: others count on what it should
    /// have done.
    ///
    /// # Errors
    /// The number has a handler, ranks name different numbers, or a rank is gone.
    pub fn register_handler(
        &self,
        number: u16,
        handler: impl Fn(&Caller<'_>, &[u8]) + Send + Sync + 'static,
    ) -> Result<()> {
        const TAKEN: u32 = u32::MAX;
        let handlers = || self.shared.handlers.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = !handlers().contains_key(&number);
        if is_new {
            handlers().insert(number, Arc::new(handler));
            // Before others know of it.
            self.shared.engine().set_handler(number, true);
        }
        let mut all = vec![0; self.size() as usize];
        self.all_gather(&[if is_new { u32::from(number) } else { TAKEN }], &mut all)?;
        let Some(rank) = all.iter().position(|&theirs| theirs != u32::from(number)) else { return Ok(()) };
        if is_new {
            self.shared.engine().set_handler(number, false);
            handlers().remove(&number);
        }
        let why = match all[rank] {
            TAKEN => format!("rank {rank} has a handler of that number already"),
            theirs => format!("rank {rank} registers {theirs}"),
        };
        Err(Error::Invalid(format!("handler {number} cannot be registered: {why}")))
    }

    /// Sends an active message: the bytes are taken, and the handler of that number runs with them at the
    /// other rank. A [`fence`](Self::fence) tells that it has. Where many are on their way, this waits until
    /// those before it have left; it makes progress meanwhile.
    ///
    /// # Errors
    /// There is no such rank or handler, the message is longer than those that are pushed
    /// ([`Options::push`](super::Options::push)), or the rank is gone.
    pub fn call(&self, to: u32, handler: u16, bytes: &[u8]) -> Result<()> {
        self.check(Some(to))?;
        let mut engine = self.shared.engine();
        while engine.is_holding(to) {
            drop(engine);
            self.shared.until(Goal::Calls(to), |engine| (!engine.is_holding(to)).then_some(()));
            // Others may have been faster.
            engine = self.shared.engine();
        }
        self.shared.send_active(engine, to, handler, bytes)
    }
}

impl Caller<'_> {
    /// The rank that has sent the message.
    pub fn rank(&self) -> u32 {
        self.from
    }

    /// Sends an active message to that rank, without waiting.
    ///
    /// # Errors
    /// As for [`call`](Self::call).
    pub fn reply(&self, handler: u16, bytes: &[u8]) -> Result<()> {
        self.call(self.from, handler, bytes)
    }

    /// Sends an active message to any rank, without waiting: if too many are on their way, a copy is kept, as
    /// far as [`Options::held`](super::Options::held) allows.
    ///
    /// # Errors
    /// As for [`Communicator::call`]; and [`Error::Full`], if so much is kept for that rank. The message is
    /// not sent then. The handler may leave it, or keep it where an application's thread finds it, whose
    /// calls wait instead.
    pub fn call(&self, to: u32, handler: u16, bytes: &[u8]) -> Result<()> {
        let size = self.shared.size;
        if to >= size {
            return Err(Error::Invalid(format!("there is no rank {to}: the job has {size}, counted from 0")));
        }
        self.shared.send_active(self.shared.engine(), to, handler, bytes)
    }
}

impl Shared {
    /// Runs handlers that are due, if no other thread does: all, or those that it comes to before others
    /// are to be heard again, and what this thread waits for is to be looked at. The engine is unlocked
    /// meanwhile.
    #[inline]
    pub(super) fn call<'a>(&'a self, engine: Guard<'a, Engine>) -> Guard<'a, Engine> {
        if engine.has_calls() { self.call_all(engine) } else { engine }
    }

    #[cold]
    fn call_all<'a>(&'a self, mut engine: Guard<'a, Engine>) -> Guard<'a, Engine> {
        let began = Instant::now();
        while let Some(call) = engine.next_call() {
            drop(engine);
            self.run(&call);
            engine = self.engine();
            engine.was_called(call);
            self.settle(&mut engine);
            if began.elapsed() >= AT_ONCE {
                engine.leave_calls();
                break;
            }
        }
        self.settle(&mut engine);
        engine
    }

    fn run(&self, call: &HandlerCall) {
        let handlers = self.handlers.0.read().unwrap_or_else(PoisonError::into_inner);
        let handler = handlers.get(&call.handler).cloned();
        drop(handlers);
        let or_abort = AbortOnPanic;
        if let Some(handler) = handler {
            handler(&Caller { shared: self, from: call.from }, &call.bytes);
        }
        std::mem::forget(or_abort);
    }

    /// Sends an active message to a rank that exists.
    fn send_active(&self, mut engine: Guard<'_, Engine>, to: u32, handler: u16, bytes: &[u8]) -> Result<()> {
        if !engine.has_handler(handler) {
            return Err(Error::Invalid(format!("there is no handler {handler}: register it, at all ranks")));
        }
        let most = engine.longest_active();
        if bytes.len() > most {
            return Err(Error::Invalid(format!(
                "an active message of {} bytes: {most} at most, by the options of the communicator",
                bytes.len()
            )));
        }
        // SAFETY: the bytes are borrowed until the order is carried out, below.
        self.told(engine.active(to, handler, unsafe { Source::new(bytes.as_ptr(), bytes.len()) }))?;
        self.settle(&mut engine);
        Ok(())
    }
}

/// Ends the process where it is dropped, which is where a handler panics.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        std::process::abort();
    }
}

impl std::fmt::Debug for Handlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let handlers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_list().entries(handlers.keys()).finish()
    }
}
