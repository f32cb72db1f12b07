//! Waits of application threads: they make progress until something is over.

use super::stall::{Goal, StallTimer};
use super::{BUSY_SLEEP, LONGEST_SLEEP, LOOKS, SLEEPY, Shared};
use crate::engine::Engine;
use scash_comm::Caps;
use scash_comm::biased::Guard;
use std::sync::atomic::{AtomicU32, Ordering};

/// Vain looks by which a receiver that waits for a long message has said that it takes it, or a sender has
/// begun to send one that was asked for: some microseconds,
const UNHEARD: u32 = 128;
/// and where a look is a system call, some tens of them.
const UNHEARD_AFAR: u32 = 48;
/// Vain looks up to which a wait is short: it shows in `drives`, and need not be told.
const SHORT: u32 = 64;

/// A thread's wait.
pub(crate) struct Wait<'a> {
    shared: &'a Shared,
    /// What it waits for.
    goal: Goal,
    stall: StallTimer,
    /// Vain looks, as they count.
    turn: u32,
    /// Looks until other threads have their turn.
    left: u32,
    has_roused: bool,
    waiting: Option<Waiting<'a>>,
}

impl Shared {
    /// Makes progress until `over` gives something: what the goal says.
    pub(crate) fn until<T>(&self, goal: Goal, over: impl FnMut(&mut Engine) -> Option<T>) -> T {
        self.until_from(self.engine(), goal, over)
    }

    /// The same, for a thread that has the engine.
    pub(crate) fn until_from<'a, T>(
        &'a self,
        mut engine: Guard<'a, Engine>,
        goal: Goal,
        mut over: impl FnMut(&mut Engine) -> Option<T>,
    ) -> T {
        let mut wait = self.wait_for(goal);
        loop {
            if let Some(result) = over(&mut engine) {
                return result;
            }
            engine = wait.go_on(engine);
        }
    }

    /// The wait of a thread.
    pub(crate) fn wait_for(&self, goal: Goal) -> Wait<'_> {
        let stall = StallTimer::default();
        Wait { shared: self, goal, stall, turn: 0, left: self.looks, has_roused: false, waiting: None }
    }

    /// A rank whose helper can be roused, and after how many vain looks a thread does that which waits for
    /// its part in a long message.
    fn roused(&self, to: u32) -> Option<(u32, u32)> {
        let caps = self.endpoint.caps_to(to);
        let looks = if caps.contains(Caps::DIRECT) { UNHEARD } else { UNHEARD_AFAR };
        caps.contains(Caps::ROUSED).then_some((to, looks))
    }
}

impl<'a> Wait<'a> {
    /// Makes progress until something has happened, or other threads have had the engine: what is waited for
    /// may be over.
    #[inline]
    pub(crate) fn go_on(&mut self, mut engine: Guard<'a, Engine>) -> Guard<'a, Engine> {
        while self.left > 0 {
            self.left -= 1;
            let is_news = self.shared.drive_on(&mut engine, true) > 0;
            // Where it looks less often, it waits no longer.
            let looks = LOOKS / self.shared.looks;
            self.turn = if is_news { 0 } else { self.turn.saturating_add(looks) };
            if engine.has_calls() {
                // Some may be left: no time to sleep.
                self.turn = 0;
                return self.shared.call(engine);
            }
            if is_news {
                return engine;
            }
        }
        self.left = self.shared.looks;
        self.give_way(engine)
    }

    /// Lets other threads have their turn, and idles if nothing has happened.
    #[inline(never)]
    fn give_way(&mut self, mut engine: Guard<'a, Engine>) -> Guard<'a, Engine> {
        let Self { shared, goal, turn, .. } = *self;
        let operation = if let Goal::Operation(number) = goal { Some(number) } else { None };
        let is_busy = engine.busy().next().is_some();
        let unheard = operation.and_then(|number| engine.unheard(number)).and_then(|to| shared.roused(to));
        let gives_core = unheard.filter(|&(_, looks)| turn >= looks);
        let is_long = turn >= SHORT || gives_core.is_some();
        if is_long {
            shared.expect(&engine);
            self.stall.look(shared.stall, shared.endpoint.rank(), goal, &mut engine);
        }
        let is_outside = shared.steps_outside();
        drop(engine);
        if is_long {
            self.waiting.get_or_insert_with(|| Waiting::new(&shared.waiting));
        }
        if turn > 0 {
            let limit = if is_busy { BUSY_SLEEP } else { LONGEST_SLEEP };
            match (gives_core, unheard) {
                (Some((to, _)), _) => {
                    // So that who is to read a long message at its receiver, or to send it, has this core.
                    if !std::mem::replace(&mut self.has_roused, true) {
                        shared.endpoint.end_nap(to);
                    }
                    shared.endpoint.idle(SLEEPY, limit);
                }
                // Later turns may take longer.
                (None, Some((_, UNHEARD_AFAR))) => shared.endpoint.idle(turn.min(LOOKS), limit),
                _ => shared.endpoint.idle(turn, limit),
            }
        }
        drop(is_outside);
        shared.engine()
    }
}

/// Counts a thread that waits, or is outside, for as long as it lives.
pub(crate) struct Waiting<'a>(&'a AtomicU32);

impl<'a> Waiting<'a> {
    pub(super) fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // Whoever sees it sees what this thread did before.
        self.0.fetch_sub(1, Ordering::Release);
    }
}
