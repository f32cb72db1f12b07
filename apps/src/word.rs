//! Words that the workers of a program operate on, in each mode.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use scash::runtime::Runtime;
use scash_comm::{Atomic, Rmw};

use crate::Result;
use crate::shared::Shared;

/// A word that all workers operate on, in each mode.
pub struct Word(WordKind);

enum WordKind {
    Process(Arc<AtomicU64>),
    Job { runtime: &'static Runtime, word: Shared<usize> },
}

impl Word {
    /// A word of this process.
    pub fn of_process() -> Self {
        Self(WordKind::Process(Arc::default()))
    }

    /// A word of shared memory, which is used for nothing else.
    pub fn of_job(runtime: &'static Runtime, word: Shared<usize>) -> Self {
        Self(WordKind::Job { runtime, word })
    }

    /// Adds to the word, and returns what it was before.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn fetch_add(&self, number: u64) -> Result<u64> {
        match &self.0 {
            WordKind::Process(word) => Ok(word.fetch_add(number, Ordering::Relaxed)),
            WordKind::Job { runtime, word } => operate(runtime, *word, Rmw::Add(number)),
        }
    }

    /// Replaces the word.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn set(&self, number: u64) -> Result<()> {
        match &self.0 {
            WordKind::Process(word) => word.store(number, Ordering::Relaxed),
            WordKind::Job { runtime, word } => drop(operate(runtime, *word, Rmw::Swap(number))?),
        }
        Ok(())
    }
}

fn operate(runtime: &Runtime, word: Shared<usize>, operation: Rmw<u64>) -> Result<u64> {
    Ok(runtime.atomic(word.as_ptr().cast(), Atomic::U64(operation))?)
}
