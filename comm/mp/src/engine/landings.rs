//! Messages that are on their way here unasked, and of which the engine knows more than their bytes: where
//! those go that are to come.

use crate::requests::RequestNumber;
use std::collections::HashMap;

/// The number under which an eager message lands whose bytes come in [parts](super::Engine::room). Nothing
/// else comes from its sender meanwhile, so there is one at a time. No operation has this number.
pub(super) const EAGER: u64 = 0;

/// A message on its way here.
#[derive(Debug)]
pub(super) struct Landing {
    pub(super) len: usize,
    /// Bytes that are here.
    pub(super) here: usize,
    pub(super) target: LandingTarget,
}

#[derive(Debug)]
pub(super) enum LandingTarget {
    /// A receive.
    Receive(RequestNumber),
    /// The memory that was made for it, and its place in the unexpected queue.
    Waiting(u32, Vec<u8>),
    /// Nobody: its receive had no room for it.
    Nobody,
}

impl Landing {
    /// A message that finds its receive, or the memory that was made for it.
    pub(super) fn new(len: usize, target: LandingTarget) -> Self {
        Self { len, here: 0, target }
    }
}

/// All of them, by their senders and the pushes' numbers.
#[derive(Debug)]
pub(super) struct Landings {
    pushed: HashMap<(u32, u64), Landing>,
    /// By sender: a hash costs as much as the bytes of many an eager message.
    eager: Vec<Option<Landing>>,
}

impl Landings {
    /// None, of so many ranks.
    pub(super) fn new(ranks: usize) -> Self {
        Self { pushed: HashMap::new(), eager: (0..ranks).map(|_| None).collect() }
    }

    pub(super) fn get_mut(&mut self, from: u32, push: u64) -> Option<&mut Landing> {
        match push {
            EAGER => self.eager[from as usize].as_mut(),
            push => self.pushed.get_mut(&(from, push)),
        }
    }

    pub(super) fn has(&self, from: u32, push: u64) -> bool {
        match push {
            EAGER => self.eager[from as usize].is_some(),
            push => self.pushed.contains_key(&(from, push)),
        }
    }

    pub(super) fn insert(&mut self, from: u32, push: u64, landing: Landing) {
        match push {
            EAGER => self.eager[from as usize] = Some(landing),
            push => _ = self.pushed.insert((from, push), landing),
        }
    }

    pub(super) fn remove(&mut self, from: u32, push: u64) -> Option<Landing> {
        match push {
            EAGER => self.eager[from as usize].take(),
            push => self.pushed.remove(&(from, push)),
        }
    }

    /// Nothing more comes from this rank.
    pub(super) fn lose(&mut self, from: u32) {
        self.eager[from as usize] = None;
        self.pushed.retain(|&(sender, _), _| sender != from);
    }

    /// The senders and numbers of all.
    #[cfg(test)]
    pub(super) fn keys(&self) -> impl Iterator<Item = (u32, u64)> {
        let eager = (0..).zip(&self.eager).filter(|(_, landing)| landing.is_some());
        self.pushed.keys().copied().chain(eager.map(|(from, _)| (from, EAGER)))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.keys().next().is_none()
    }
}
