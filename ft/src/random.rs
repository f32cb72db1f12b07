//! A generator of pseudo-random numbers that gives the same on each machine: splitmix64.
//! (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014.)

#![forbid(unsafe_code)]

/// The generator's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    /// The generator of a seed, for one of its uses.
    pub(crate) fn of(seed: u64, uses: &[u64]) -> SplitMix64 {
        uses.iter().fold(SplitMix64(seed), |mut random, used| SplitMix64(random.next() ^ used))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to `bound` - 1, or 0. The bias is below `bound` / 2^64.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// True with a probability.
    pub(crate) fn happens(&mut self, probability: f64) -> bool {
        // 53 bits are what a double holds.
        let fraction = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        fraction < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_paper() {
        let mut random = SplitMix64::of(1_234_567, &[]);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn a_probability_of_one_always_happens_and_of_zero_never() {
        let mut random = SplitMix64::of(0, &[]);
        assert!((0..1000).all(|_| random.happens(1.0)));
        assert!((0..1000).all(|_| !random.happens(0.0)));
        let hits = (0..10_000).filter(|_| random.happens(0.25)).count();
        assert!((2300..2700).contains(&hits), "{hits}");
    }

    #[test]
    fn each_use_of_a_seed_has_numbers_of_its_own() {
        assert_ne!(SplitMix64::of(7, &[1, 2]).next(), SplitMix64::of(7, &[2, 1]).next());
        assert_eq!(SplitMix64::of(7, &[1, 2]).next(), SplitMix64::of(7, &[1, 2]).next());
    }
}
