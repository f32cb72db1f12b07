//! Endpoints that hold still while an image of their process is taken.

use std::fmt;
use std::sync::MutexGuard;

/// That the threads of an endpoint have stopped outside of all work, as long as this lives: they hold no
/// lock, the allocator's among them, and change no memory.
#[must_use = "the endpoint's threads go on when this is dropped"]
#[derive(Default)]
pub struct Stillness<'a>(Vec<MutexGuard<'a, ()>>);

impl<'a> Stillness<'a> {
    /// That of a thread that works under this lock only.
    pub(crate) fn of(gate: MutexGuard<'a, ()>) -> Stillness<'a> {
        Stillness(vec![gate])
    }

    /// Both.
    pub(crate) fn and(mut self, mut other: Stillness<'a>) -> Stillness<'a> {
        self.0.append(&mut other.0);
        self
    }
}

impl fmt::Debug for Stillness<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stillness").field(&self.0.len()).finish()
    }
}
