//! A crew, as those know it that keep something for one crew at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A crew, as long as its threads run.
#[derive(Debug)]
pub(crate) struct Life {
    number: u64,
    threads: usize,
    over: AtomicBool,
}

impl Life {
    /// That of a crew of so many threads.
    pub(crate) fn new(threads: usize) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { number, threads, over: AtomicBool::new(false) })
    }

    /// The crew's number, which no other has.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// How many threads it has.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Whether its threads have ended: what they did is seen then.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Its threads have ended.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }
}
