//! [`Traffic`], while it grows.

use crate::Traffic;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters that any thread counts up.
#[derive(Debug, Default)]
pub struct Counters {
    /// Messages sent.
    pub messages: AtomicU64,
    /// Puts.
    pub puts: AtomicU64,
    /// Gets.
    pub gets: AtomicU64,
    /// Atomic operations.
    pub atomics: AtomicU64,
    bytes: AtomicU64,
}

impl Counters {
    /// Counts operations of a kind, one of this value's counters, and their payload bytes.
    pub fn count(&self, what: &AtomicU64, operations: usize, bytes: usize) {
        what.fetch_add(operations as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// What they say now.
    pub fn read(&self) -> Traffic {
        Traffic {
            messages: self.messages.load(Ordering::Relaxed),
            puts: self.puts.load(Ordering::Relaxed),
            gets: self.gets.load(Ordering::Relaxed),
            atomics: self.atomics.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}
