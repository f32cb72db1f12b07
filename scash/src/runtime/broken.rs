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
    }
}
