//! What the programs of the NAS Parallel Benchmarks (NPB) have in common: sizes by name, and random numbers.
//!
//! The benchmarks are defined in Bailey et al., *The NAS Parallel Benchmarks*, RNR-94-007, 1994. A result can
//! be held to values that are published for each class, so the numbers must be the very same as there.

use clap::ValueEnum;
use serde::Serialize;

/// The size of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
pub enum Class {
    /// A sample.
    #[value(name = "S")]
    S,
    /// For workstations of the 1990s.
    #[value(name = "W")]
    W,
    /// The smallest of those to publish times of.
    #[value(name = "A")]
    A,
}

/// NPB's linear congruential generator: x becomes a·x modulo 2⁴⁶, with a = 5¹³.
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

const FACTOR: u64 = 5u64.pow(13);
const BITS: u32 = 46;
const MASK: u64 = (1 << BITS) - 1;

impl Random {
    /// The generator that begins with `seed`, after `count` numbers. So workers begin anywhere in the same
    /// sequence.
    pub fn after(seed: u64, count: u64) -> Self {
        let (mut x, mut factor, mut left) = (seed, FACTOR, count);
        while left > 0 {
            if left % 2 == 1 {
                x = times(x, factor);
            }
            factor = times(factor, factor);
            left /= 2;
        }
        Self(x)
    }

    /// The next number between 0 and 1.
    #[expect(clippy::cast_precision_loss, reason = "46 bits fit")]
    pub fn number(&mut self) -> f64 {
        self.0 = times(self.0, FACTOR);
        self.0 as f64 / (1u64 << BITS) as f64
    }
}

/// The product modulo 2⁴⁶, of which an overflow takes nothing: 2⁶⁴ is a multiple.
fn times(a: u64, b: u64) -> u64 {
    a.wrapping_mul(b) & MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_same_wherever_one_begins() {
        let mut random = Random::after(271_828_183, 0);
        for count in 0..100 {
            let mut other = Random::after(271_828_183, count);
            assert_eq!(random.number(), other.number(), "after {count}");
        }
    }

    #[test]
    fn a_number_is_the_product_modulo_2_to_the_46th() {
        let (mut x, mut random) = (314_159_265u128, Random::after(314_159_265, 0));
        for _ in 0..100 {
            x = x * 1_220_703_125 % (1 << 46);
            assert_eq!(random.number() * (1u64 << 46) as f64, x as f64);
        }
    }
}
