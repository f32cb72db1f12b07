//! What the endpoint's threads share: the engine under its lock, and how they wait for it.

use super::bell::Bell;
use super::engine::Engine;
use super::lock;
use super::waiting::SpinRule;
use scash_comm::Result;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// See the module.
pub(super) struct Shared {
    pub(super) engine: Mutex<Engine>,
    pub(super) bell: Bell,
    pub(super) spin_rule: SpinRule,
    /// How often the application has made progress itself.
    pub(super) attended: AtomicU64,
    pub(super) stop: AtomicBool,
}

impl Shared {
    /// Does something with the engine, and wakes those who wait for what came of it.
    pub(super) fn run<T>(&self, act: impl FnOnce(&mut Engine) -> T) -> T {
        let mut engine = lock(&self.engine);
        let before = engine.inbox.len();
        let result = act(&mut engine);
        let grew = engine.inbox.len() > before;
        drop(engine);
        if grew {
            self.bell.ring();
        }
        result
    }

    /// Makes progress until `ready` gives something that a peer's endpoint is to do.
    pub(super) fn until_of<T>(
        &self,
        peer: u32,
        mut ready: impl FnMut(&mut Engine) -> Result<Option<T>>,
    ) -> Result<T> {
        // Most calls wait for nothing.
        if let Some(found) = self.run(|engine| look(engine, &mut ready))? {
            return Ok(found);
        }
        self.run(|engine| engine.link(peer).waiting += 1);
        let result = self.until(ready);
        self.run(|engine| engine.link(peer).waiting -= 1);
        result
    }

    /// Makes progress until `ready` gives something.
    pub(super) fn until<T>(&self, mut ready: impl FnMut(&mut Engine) -> Result<Option<T>>) -> Result<T> {
        let mut turn = 0;
        loop {
            if let Some(found) = self.run(|engine| look(engine, &mut ready))? {
                return Ok(found);
            }
            self.spin_rule.served(turn);
            turn = turn.saturating_add(1);
        }
    }
}

/// What `ready` gives now, or after some progress.
fn look<T>(
    engine: &mut Engine,
    ready: &mut impl FnMut(&mut Engine) -> Result<Option<T>>,
) -> Result<Option<T>> {
    match ready(engine)? {
        None => {
            engine.progress();
            ready(engine)
        }
        found => Ok(found),
    }
}
