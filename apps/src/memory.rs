//! Where the arrays, locks and values come from that the workers of a program share: see [`Memory`].

use std::sync::Arc;

use crate::lock::{Lock, Mutex};
use crate::owned::{Array, Locked};
use crate::semaphore::Semaphore;
use crate::shared::{Element, KeepAlive, Private, Shared};
use crate::word::Word;
use crate::{Error, Result};

/// Where a program's arrays come from: the DSM, or the memory of one process.
pub trait Memory {
    /// Memory of `len` zeros that nobody else uses, and what keeps it, if it is not kept until the process
    /// ends.
    ///
    /// # Errors
    /// If there is not that much memory.
    fn memory<T: Element>(&mut self, len: usize) -> Result<(Shared<T>, KeepAlive)>;

    /// An array of `len` zeros. With a DSM, all ranks ask for the same arrays in the same order.
    ///
    /// # Errors
    /// If there is not that much memory.
    fn array<T: Element>(&mut self, len: usize) -> Result<Array<T>> {
        let (memory, keep) = self.memory(len)?;
        // SAFETY: it was made here, for this.
        Ok(unsafe { Array::new(memory, keep) })
    }

    /// An array of `len` zeros, each with a lock. With a DSM, all ranks ask for it.
    ///
    /// # Errors
    /// If there is not that much memory, or a job cannot have as many locks.
    fn locked<T: Element>(&mut self, len: usize) -> Result<Locked<T>> {
        let array = self.array(len)?;
        Ok(Locked::new(array, self.locks(len)?))
    }

    /// An array of `len` zeros that share so many locks, if there are fewer than elements. With a DSM, all
    /// ranks ask for it.
    ///
    /// # Errors
    /// As those of [`locked`](Self::locked).
    fn locked_in_groups<T: Element>(&mut self, len: usize, locks: usize) -> Result<Locked<T>> {
        let array = self.array(len)?;
        Ok(Locked::new(array, self.locks(locks.min(len))?))
    }

    /// That many locks. With a DSM, all ranks ask for the same locks in the same order.
    ///
    /// # Errors
    /// If a job cannot have as many.
    fn locks(&mut self, count: usize) -> Result<Vec<Lock>>;

    /// A word to operate on, 0 in the beginning. With a DSM, all ranks ask for it.
    ///
    /// # Errors
    /// If there is no memory.
    fn word(&mut self) -> Result<Word>;

    /// A semaphore, whose count is 0 in the beginning. With a DSM, all ranks ask for it.
    ///
    /// # Errors
    /// If a job cannot have one more.
    fn semaphore(&mut self) -> Result<Semaphore>;

    /// A value behind a lock, all zeros in the beginning. With a DSM, all ranks ask for it.
    ///
    /// # Errors
    /// If there is not that much memory.
    fn mutex<T: Element>(&mut self) -> Result<Mutex<T>> {
        let lock = self.locks(1)?.remove(0);
        let (memory, keep) = self.memory(1)?;
        // SAFETY: it was made here, for this.
        Ok(unsafe { Mutex::new(lock, memory, keep) })
    }
}

/// The length of an array that has as many dimensions as there are factors.
///
/// # Errors
/// If no address space holds that many elements.
pub fn product(factors: &[usize]) -> Result<usize> {
    factors.iter().try_fold(1usize, |product, &factor| product.checked_mul(factor)).ok_or(Error::TooLarge)
}

/// Memory of one process. What is taken from it keeps its own.
#[derive(Debug, Default)]
pub struct Heap;

impl Memory for Heap {
    fn memory<T: Element>(&mut self, len: usize) -> Result<(Shared<T>, KeepAlive)> {
        let memory = Arc::new(Private::zeroed(len)?);
        let shared = memory.share();
        Ok((shared, Some(memory)))
    }

    fn word(&mut self) -> Result<Word> {
        Ok(Word::of_process())
    }

    fn semaphore(&mut self) -> Result<Semaphore> {
        Ok(Semaphore::of_process())
    }

    fn locks(&mut self, count: usize) -> Result<Vec<Lock>> {
        Ok((0..count).map(|_| Lock::of_process()).collect())
    }
}
