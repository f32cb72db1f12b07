//! Why no further call of this rank can succeed, if that is so.

use super::lock;
use crate::error::Error;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// See [the module](self). To ask costs a load as long as all is well.
#[derive(Default)]
pub(super) struct Broken {
    is: AtomicBool,
    why: Mutex<Option<Error>>,
    /// Why is settled: a call has ended with this error.
    told: AtomicBool,
}

impl Broken {
    /// Why, if it is so.
    #[inline]
    pub(super) fn why(&self) -> Option<Error> {
        // Acquire pairs with the store below: who sees it sees the error.
        if self.is.load(Ordering::Acquire) { lock(&self.why).clone() } else { None }
    }

    /// It is so, and why, unless that was known before.
    pub(super) fn note(&self, error: Error) {
        lock(&self.why).get_or_insert(error);
        self.is.store(true, Ordering::Release);
    }

    /// It is so, and this says best why.
    pub(super) fn replace(&self, error: Error) {
        *lock(&self.why) = Some(error);
        self.is.store(true, Ordering::Release);
        self.told.store(true, Ordering::Release);
    }

    /// Whether the reason may be told as it is; otherwise it is what a thread has met, which may not be what
    /// it comes from.
    pub(super) fn is_settled(&self) -> bool {
        // Acquire pairs with the store above: who sees it finds that reason.
        self.told.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(rank: u32) -> Error {
        Error::Lost { rank, why: String::new() }
    }

    #[test]
    fn what_a_thread_has_met_is_settled_when_a_call_has_told_what_it_comes_from() {
        let broken = Broken::default();
        assert!(broken.why().is_none() && !broken.is_settled());
        broken.note(gone(2));
        broken.note(gone(3));
        assert!(matches!(broken.why(), Some(Error::Lost { rank: 2, .. })) && !broken.is_settled());
        broken.replace(gone(1));
        assert!(matches!(broken.why(), Some(Error::Lost { rank: 1, .. })) && broken.is_settled());
    }
}
