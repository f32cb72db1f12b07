//! The driver while a checkpoint is taken, and in the process that comes back.

use super::wait::Waiting;
use super::{BUSY_SLEEP, Links, Shared, addresses};
use crate::Options;
use crate::engine::{Engine, Found};
use scash_comm::biased::Guard;
use scash_comm::{Endpoint, Exchange, Result, Stillness};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long threads in calls have to come for the engine, which is where they can be saved: the rule that all
/// threads have.
const THREADS_COME: Duration = Duration::from_millis(100);

/// Why a rank that passes messages cannot be saved.
pub(crate) type Hindrance = &'static str;

impl Shared {
    /// Drains the engine, and keeps it. The helper has ended. Returns when nothing is on its way to this rank.
    pub(crate) fn drain(&self) -> Guard<'_, Engine> {
        let mut engine = self.engine();
        engine.begin_drain();
        self.carry_out(&mut engine);
        let mut turn = 0;
        loop {
            if let Err(error) = self.endpoint.flush() {
                self.lose(&mut engine, &error);
            }
            if engine.ends_drain() {
                return engine;
            }
            if self.take(&mut engine) == 0 {
                self.endpoint.look_after_peers();
                self.endpoint.idle(turn, BUSY_SLEEP);
                turn = turn.saturating_add(1);
            } else {
                turn = 0;
            }
        }
    }

    /// Why an image of this process would be of no use, with a drained engine.
    pub(crate) fn hindrance(&self, engine: &mut Engine) -> Option<Hindrance> {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            return Some("one of its threads waits for messages");
        }
        if !self.all_came_in() {
            return Some("one of its threads is in a call of message passing, or in a handler");
        }
        if self.heap.as_ref().is_some_and(|heap| !heap.is_unused()) {
            return Some(
                "it has registered memory of message passing: windows, or what scomm_allocate gives",
            );
        }
        if self.endpoint.misses() {
            Some("it passes messages, and misses a rank")
        } else {
            engine.hindrance()
        }
    }

    /// A thread leaves the engine to others, and goes on with the endpoint or a handler. To be called before
    /// the engine is left, and dropped before it is asked for again: one that waits for the engine can be saved.
    #[inline]
    pub(crate) fn steps_outside(&self) -> Option<Waiting<'_>> {
        self.comes_back.then(|| Waiting::new(&self.outside))
    }

    /// Whether no thread is outside, or at least not for long. The caller has the engine.
    fn all_came_in(&self) -> bool {
        let until = Instant::now() + THREADS_COME;
        loop {
            if self.outside.load(Ordering::Acquire) == 0 {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The endpoint's threads hold still.
    pub(crate) fn hold_still(&self) -> Option<Stillness<'_>> {
        self.endpoint.hold_still()
    }

    /// Puts what ranks tell each other anew into the place of what the process that is gone had.
    ///
    /// # Safety
    /// This is the only thread that uses this value.
    pub(crate) unsafe fn renew(
        &self,
        engine: &mut Engine,
        endpoint: Box<dyn Endpoint>,
        exchange: &mut dyn Exchange,
    ) -> Result<()> {
        let options = Options { registered: self.registered, window: self.window, ..Options::default() };
        let Links { endpoint, heap, memories, groups } =
            Links::meet(endpoint, exchange, &options, self.comes_back)?;
        let registered = addresses(heap.as_ref());
        engine.reborn(Found { reads: &memories.reads, readable: &memories.readable, registered, groups });
        // SAFETY: the caller's promise; no reference to it lives in this thread.
        let old = unsafe { self.endpoint.renew(endpoint) };
        old.abandon();
        // SAFETY: likewise.
        std::mem::forget(unsafe { self.heap.renew(heap) });
        // SAFETY: likewise.
        drop(unsafe { self.memories.renew(memories) });
        Ok(())
    }

    /// How long a rank may be silent.
    pub(crate) fn silence(&self) -> std::time::Duration {
        self.silence
    }
}
