//! Counters that the workers of a program share: who adds to one is told its number, and nobody else is.

use crate::lock::Mutex;
use crate::memory::Memory;
use crate::word::Word;
use crate::{Error, Result};

/// How a counter keeps workers apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CounterKind {
    /// By a lock.
    #[default]
    Lock,
    /// By an atomic operation.
    Atomic,
}

/// A counter.
pub enum Counter {
    /// A number behind a lock.
    Locked(Mutex<usize>),
    /// A word that is operated on.
    Atomic(Word),
}

impl Counter {
    /// A counter of that kind, which begins with 0. With a DSM, all ranks ask for it.
    ///
    /// # Errors
    /// If there is no memory, or no lock.
    pub fn new(kind: CounterKind, memory: &mut (impl Memory + ?Sized)) -> Result<Self> {
        Ok(match kind {
            CounterKind::Lock => Self::Locked(memory.mutex()?),
            CounterKind::Atomic => Self::Atomic(memory.word()?),
        })
    }

    /// Adds to the number, and returns what it was before.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn add(&self, more: usize) -> Result<usize> {
        match self {
            Self::Locked(number) => {
                let mut number = number.lock()?;
                *number += more;
                Ok(*number - more)
            }
            Self::Atomic(word) => {
                let number = word.fetch_add(more as u64)?;
                usize::try_from(number).map_err(|_| Error::TooLarge)
            }
        }
    }

    /// The number is 0 again.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn begin_again(&self) -> Result<()> {
        match self {
            Self::Locked(number) => *number.lock()? = 0,
            Self::Atomic(word) => word.set(0)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crew::tests::within_a_minute;
    use crate::crew::{Sequential, run_crew};
    use crate::memory::Heap;

    #[test]
    fn each_number_is_given_once() {
        within_a_minute(|| {
            for kind in [CounterKind::Lock, CounterKind::Atomic] {
                let counter = Counter::new(kind, &mut Heap).unwrap();
                let taken = run_crew(&Sequential, 4, false, |_| (0..500).map(|_| counter.add(1)).collect());
                let mut taken: Vec<usize> = taken.unwrap().into_iter().flat_map(|all: Vec<_>| all).collect();
                taken.sort_unstable();
                assert!(taken.into_iter().eq(0..2000), "{kind:?}");
                counter.begin_again().unwrap();
                assert_eq!(counter.add(1).unwrap(), 0);
            }
        });
    }
}
