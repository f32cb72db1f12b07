//! Atomic operations in the typed interface.

use crate::api::session::{Session, job};
use crate::api::shared::{Plain, SharedSlice};
use crate::error::Result;
use scash_comm::{Atomic, Rmw};

mod sealed {
    use scash_comm::{Atomic, Rmw};

    /// What only this crate can make: without it the methods below could be called by whoever has a bound on
    /// `AtomicWord`.
    #[derive(Clone, Copy)]
    pub struct Seal(pub(super) ());

    /// What the runtime has to know of a type of words.
    pub trait Word: Sized {
        /// The operation of the runtime.
        fn op(op: Rmw<Self>, seal: Seal) -> Atomic;
        /// The word that the runtime returned.
        fn of(bits: u64, seal: Seal) -> Self;
    }
}

use sealed::Seal;

/// Numbers that atomic operations work on: `u32`, `u64`, `usize`, `i32`, `i64`, `isize`.
///
/// They are methods of [`SharedSlice`], which return what the value was before. An operation is executed at
/// the home of the value's page: within a host as one instruction on the home's memory, or on that which
/// ranks share; over TCP by one message there and back. The operations of all ranks and threads have one
/// order.
///
/// **Between two memory barriers a value is either operated on, by all who use it, or read and written as
/// plain memory.** After a memory barrier everybody reads what the operations before it have left. An
/// operation orders nothing but itself: whoever sees its result does not for that reason see what else its
/// rank wrote before. That is what locks and memory barriers are for.
///
/// ```no_run
/// # fn main() -> scash::Result<()> {
/// let mut dsm = scash::Dsm::init()?;
/// let next = dsm.alloc::<u64>(1)?;
/// loop {
///     let task = next.fetch_add(&dsm, 0, 1)?; // no other rank gets the same one
///     if task >= 1000 {
///         break;
///     }
///     // ...
/// }
/// dsm.barrier()?;
/// assert!(next.get(&dsm, 0) >= 1000);
/// dsm.finalize()
/// # }
/// ```
pub trait AtomicWord: Plain + PartialEq + sealed::Word {}

macro_rules! words {
    ($($t:ty as $bits:ty, $variant:ident);* $(;)?) => { $(
        impl sealed::Word for $t {
            fn op(op: Rmw<$t>, _: Seal) -> Atomic {
                let bits = |number: $t| <$bits>::from_ne_bytes(number.to_ne_bytes());
                Atomic::$variant(match op {
                    Rmw::Load => Rmw::Load,
                    Rmw::Add(n) => Rmw::Add(bits(n)),
                    Rmw::And(n) => Rmw::And(bits(n)),
                    Rmw::Or(n) => Rmw::Or(bits(n)),
                    Rmw::Xor(n) => Rmw::Xor(bits(n)),
                    Rmw::Swap(n) => Rmw::Swap(bits(n)),
                    Rmw::CompareSwap { expected, new } => {
                        Rmw::CompareSwap { expected: bits(expected), new: bits(new) }
                    }
                })
            }

            fn of(bits: u64, _: Seal) -> $t {
                // A word of 4 bytes comes with zeros in front.
                let word = <$bits>::try_from(bits).unwrap_or(<$bits>::MAX);
                <$t>::from_ne_bytes(word.to_ne_bytes())
            }
        }
        impl AtomicWord for $t {}
    )* };
}
words! {
    u32 as u32, U32;
    i32 as u32, U32;
    u64 as u64, U64;
    i64 as u64, U64;
}
#[cfg(target_pointer_width = "64")]
words! {
    usize as u64, U64;
    isize as u64, U64;
}

/// Atomic operations; see [`AtomicWord`] for what they mean, and for when plain reads see their results.
///
/// # Errors
/// There is no such element, the allocation was freed, or a rank is gone.
impl<T: AtomicWord> SharedSlice<T> {
    fn operate(self, session: &(impl Session + ?Sized), index: usize, op: Rmw<T>) -> Result<T> {
        let (address, _) = self.address(index..index.saturating_add(1))?;
        job(session).atomic(address, T::op(op, Seal(()))).map(|bits| T::of(bits, Seal(())))
    }

    /// What the value is.
    pub fn atomic_load(self, session: &(impl Session + ?Sized), index: usize) -> Result<T> {
        self.operate(session, index, Rmw::Load)
    }

    /// Replaces the value.
    pub fn atomic_store(self, session: &(impl Session + ?Sized), index: usize, value: T) -> Result<()> {
        self.operate(session, index, Rmw::Swap(value)).map(drop)
    }

    /// Adds to the value, wrapping around.
    pub fn fetch_add(self, session: &(impl Session + ?Sized), index: usize, number: T) -> Result<T> {
        self.operate(session, index, Rmw::Add(number))
    }

    /// Keeps the bits that are set in `mask`.
    pub fn fetch_and(self, session: &(impl Session + ?Sized), index: usize, mask: T) -> Result<T> {
        self.operate(session, index, Rmw::And(mask))
    }

    /// Sets the bits that are set in `mask`.
    pub fn fetch_or(self, session: &(impl Session + ?Sized), index: usize, mask: T) -> Result<T> {
        self.operate(session, index, Rmw::Or(mask))
    }

    /// Turns the bits that are set in `mask`.
    pub fn fetch_xor(self, session: &(impl Session + ?Sized), index: usize, mask: T) -> Result<T> {
        self.operate(session, index, Rmw::Xor(mask))
    }

    /// Replaces the value.
    pub fn swap(self, session: &(impl Session + ?Sized), index: usize, value: T) -> Result<T> {
        self.operate(session, index, Rmw::Swap(value))
    }

    /// Replaces the value if it is `expected`. If, and only if, it returns `expected`, the value was
    /// replaced.
    pub fn compare_swap(
        self,
        session: &(impl Session + ?Sized),
        index: usize,
        expected: T,
        new: T,
    ) -> Result<T> {
        self.operate(session, index, Rmw::CompareSwap { expected, new })
    }
}

#[cfg(test)]
mod tests {
    use super::sealed::Word;
    use super::*;

    #[test]
    fn signed_numbers_come_back_as_they_went() {
        const SEAL: Seal = Seal(());
        assert_eq!(i32::op(Rmw::Add(-1), SEAL), Atomic::U32(Rmw::Add(u32::MAX)));
        assert_eq!(i32::of(u64::from(u32::MAX), SEAL), -1);
        assert_eq!(i64::op(Rmw::Swap(i64::MIN), SEAL), Atomic::U64(Rmw::Swap(1 << 63)));
        assert_eq!(i64::of(u64::MAX - 1, SEAL), -2);
        assert_eq!(u32::of(7, SEAL), 7);
    }
}
