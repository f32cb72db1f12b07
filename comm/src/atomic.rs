//! Atomic operations on words of registered memory: what there is, and how a processor executes one.

use crate::{Error, Result};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// What an atomic operation makes of a word (read-modify-write).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rmw<T> {
    /// Leaves it as it is.
    Load,
    /// Adds to it, wrapping around.
    Add(T),
    /// Keeps the bits that are set in the operand.
    And(T),
    /// Sets the bits that are set in the operand.
    Or(T),
    /// Turns the bits that are set in the operand.
    Xor(T),
    /// Replaces it.
    Swap(T),
    /// Replaces it if it is what was expected: if, and only if, the operation returns `expected`, it was
    /// replaced.
    CompareSwap {
        /// What it has to be.
        expected: T,
        /// What it becomes then.
        new: T,
    },
}

/// An atomic operation on a word of 4 or 8 bytes. The operands have the word's type, so there is no width
/// that they do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// On 4 bytes.
    U32(Rmw<u32>),
    /// On 8 bytes.
    U64(Rmw<u64>),
}

/// Executes `$op` on `$word`, and gives what it was before. A macro, since the two types of words share no
/// trait.
macro_rules! execute {
    ($word:expr, $op:expr) => {
        match $op {
            Rmw::Load => $word.load(Ordering::SeqCst),
            Rmw::Add(operand) => $word.fetch_add(operand, Ordering::SeqCst),
            Rmw::And(operand) => $word.fetch_and(operand, Ordering::SeqCst),
            Rmw::Or(operand) => $word.fetch_or(operand, Ordering::SeqCst),
            Rmw::Xor(operand) => $word.fetch_xor(operand, Ordering::SeqCst),
            Rmw::Swap(operand) => $word.swap(operand, Ordering::SeqCst),
            Rmw::CompareSwap { expected, new } => {
                let done = $word.compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst);
                done.unwrap_or_else(|present| present)
            }
        }
    };
}

impl Atomic {
    /// Bytes of the word.
    pub const fn width(self) -> usize {
        match self {
            Atomic::U32(_) => size_of::<u32>(),
            Atomic::U64(_) => size_of::<u64>(),
        }
    }

    /// Whether a word of this width can have been `value`.
    pub fn can_return(self, value: u64) -> bool {
        match self {
            Atomic::U32(_) => u32::try_from(value).is_ok(),
            Atomic::U64(_) => true,
        }
    }

    /// An error if no such word begins at this offset of a segment.
    pub fn check_alignment(self, offset: u64) -> Result<()> {
        let width = self.width();
        if offset.is_multiple_of(width as u64) {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "no word of {width} bytes begins at offset {offset}: an atomic operation needs a multiple of {width}"
        )))
    }

    /// Executes the operation on the word at `at`, and returns what it was before.
    ///
    /// # Safety
    /// The word is mapped, writable and aligned to its width, and no reference to plain data covers it.
    pub unsafe fn execute(self, at: *mut u8) -> u64 {
        // What this thread stored before as plain data (a put, where memory is mapped) comes before the
        // operation even where that stores nothing: a load, or a swap that did not find what it expected.
        fence(Ordering::SeqCst);
        match self {
            Atomic::U32(op) => {
                // SAFETY: the caller's promise; the reference, which permits others to write, ends with this
                // function.
                let word = unsafe { AtomicU32::from_ptr(at.cast()) };
                execute!(word, op).into()
            }
            Atomic::U64(op) => {
                // SAFETY: as above.
                let word = unsafe { AtomicU64::from_ptr(at.cast()) };
                execute!(word, op)
            }
        }
    }
}
