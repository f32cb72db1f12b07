//! Reductions in the typed interface.

use crate::api::dsm::Dsm;
use crate::api::shared::Plain;
use crate::error::Result;
use scash_proto::wire::reduce::{Combine, NumberKind};

mod sealed {
    use super::NumberKind;

    /// What only this crate can make: without it the methods below could be called by whoever has a bound on
    /// `Reducible`.
    #[derive(Clone, Copy)]
    pub struct Seal(pub(super) ());

    /// What the runtime has to know of a type of numbers.
    pub trait Bits: Sized {
        const NUMBER: NumberKind;
        fn to_word(self, seal: Seal) -> u64;
        fn of_word(word: u64, seal: Seal) -> Self;
    }
}

use sealed::Seal;

/// Numbers that [`Dsm::all_reduce`] takes: `u64`, `i64`, `f64`.
pub trait Reducible: Copy + sealed::Bits {}

macro_rules! reducible {
    ($($t:ty, $number:ident);* $(;)?) => { $(
        impl sealed::Bits for $t {
            const NUMBER: NumberKind = NumberKind::$number;

            fn to_word(self, _: Seal) -> u64 {
                u64::from_ne_bytes(self.to_ne_bytes())
            }

            fn of_word(word: u64, _: Seal) -> Self {
                <$t>::from_ne_bytes(word.to_ne_bytes())
            }
        }
        impl Reducible for $t {}
    )* };
}
reducible! { u64, U64; i64, I64; f64, F64 }

/// Replaces values by what becomes of their words.
pub(crate) fn replace<T: Reducible>(
    values: &mut [T],
    reduce: impl FnOnce(NumberKind, Vec<u64>) -> Result<Vec<u64>>,
) -> Result<()> {
    let words = values.iter().map(|&value| value.to_word(Seal(()))).collect();
    let words = reduce(T::NUMBER, words)?;
    for (value, &word) in values.iter_mut().zip(&words) {
        *value = T::of_word(word, Seal(()));
    }
    Ok(())
}

impl Dsm {
    /// All ranks' values become one, element by element, at every rank. Collective, and no memory barrier: it
    /// takes a message a rank up a tree, and one down.
    ///
    /// Floating-point sums have the same bits at every rank, and in every run on as many ranks. Those of
    /// whole numbers wrap around.
    ///
    /// ```no_run
    /// # fn f(dsm: &scash::Dsm, residual: f64, changes: u64) -> scash::Result<()> {
    /// use scash::Combine;
    /// let mut largest = [residual];
    /// dsm.all_reduce(Combine::Max, &mut largest)?;
    /// let all = dsm.reduce(Combine::Sum, changes)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// More than 4096 values; bits of floating-point numbers; ranks made different collective calls; a rank
    /// is gone.
    pub fn all_reduce<T: Reducible>(&self, combine: Combine, values: &mut [T]) -> Result<()> {
        replace(values, |number, words| self.untyped().all_reduce(combine, number, words))
    }

    /// As [`all_reduce`](Self::all_reduce), for one value a rank.
    ///
    /// # Errors
    /// As there.
    pub fn reduce<T: Reducible>(&self, combine: Combine, value: T) -> Result<T> {
        let mut values = [value];
        self.all_reduce(combine, &mut values)?;
        Ok(values[0])
    }

    /// Waits until all ranks have come. Collective, and no memory barrier: what others wrote is not seen
    /// behind it.
    ///
    /// # Errors
    /// Ranks made different collective calls; a rank is gone.
    pub fn meet(&self) -> Result<()> {
        self.untyped().await_all()
    }

    /// The value of one rank, at every rank. Collective, and no memory barrier.
    ///
    /// # Errors
    /// More than 32 KiB; there is no such rank; ranks made different collective calls; a rank is gone.
    pub fn broadcast_value<T: Plain>(&self, value: T, from: usize) -> Result<T> {
        let mut value = value;
        let bytes = bytemuck::bytes_of_mut(&mut value);
        self.untyped().broadcast_value(bytes, u32::try_from(from).unwrap_or(u32::MAX))?;
        Ok(value)
    }
}
