//! The driver while a checkpoint is taken, and in the process that comes back.

use super::wait::Waiting;
use super::{BUSY_SLEEP, Links, Shared, addresses};
use crate::Options;
use crate::engine::{Engine, Found, Hindrance, MISSES};
use scash_comm::biased::Guard;
use scash_comm::{Endpoint, Error, Exchange, Result, Stillness};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long threads in calls have to come for the engine, which is where they can be saved: the rule that all
/// threads have.
const THREADS_COME: Duration = Duration::from_millis(100);

/// How long a thread that misses a rank waits to be ended and started again: as long as one that misses it in
/// shared memory.
const PATIENCE_SECONDS: u32 = 30;

impl Shared {
    /// Drains the engine, and keeps it. The helper has ended. Returns when nothing is on its way to this
    /// rank, and all that it has sent has left.
    pub(crate) fn drain(&self, meanwhile: &dyn Fn()) -> Guard<'_, Engine> {
        let mut engine = self.engine();
        engine.begin_drain();
        self.carry_out(&mut engine);
        let mut turn = 0;
        loop {
            if let Err(error) = self.endpoint.flush() {
                self.lose(&mut engine, &error);
            }
            // The word that this rank has no more is the last that waits behind a full ring, and nobody sends
            // it on until all have been saved.
            let is_gone = |rank| engine.gone().any(|gone| gone == rank);
            let has_left = (0..self.size).all(|to| !self.endpoint.is_congested(to) || is_gone(to));
            if has_left && engine.ends_drain() {
                return engine;
            }
            meanwhile();
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
        if !self.all_came_in() {
            return Some(Hindrance::passing("one of its threads is in a call of message passing"));
        }
        if self.heap.as_ref().is_some_and(|heap| !heap.is_unused()) {
            return Some(Hindrance::lasting(
                "it has registered memory of message passing: close windows, and free what scomm_allocate gave, before the barrier",
            ));
        }
        if self.endpoint.misses() { Some(MISSES) } else { engine.hindrance() }
    }

    /// A thread leaves the engine to others, and goes on with the endpoint. To be called before the engine is
    /// left, and dropped before it is asked for again: one that waits for the engine can be saved, and so can
    /// one that runs a handler, which is the program's.
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

    /// What a call tells the program. Where ranks come back, none is told that another one is gone: its
    /// thread waits to be ended and started again. A launcher that does not see to that for so long has lost
    /// nobody: then there is an error to be told.
    #[inline]
    pub(crate) fn told<T>(&self, result: Result<T>) -> Result<T> {
        if self.comes_back && matches!(result, Err(Error::Down { .. })) {
            // Counted, so that a job may be stopped for long in it.
            (0..PATIENCE_SECONDS).for_each(|_| std::thread::sleep(Duration::from_secs(1)));
        }
        result
    }

    /// The endpoint's threads hold still.
    pub(crate) fn hold_still(&self) -> Option<Stillness<'_>> {
        self.endpoint.hold_still()
    }

    /// Puts what ranks tell each other anew into the place of what the process that is gone had.
    ///
    /// # Safety
    /// Nobody has a reference to the endpoint, registered memory or others' memories, and no other thread
    /// runs.
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
        // SAFETY: the caller's promise.
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
