//! The only source of chance in a simulation: a seed gives the same run on every machine.

/// SplitMix64 (Steele, Lea, Flood 2014): one addition and three mixing steps a number, and any seed is as
/// good as any other.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator; different seeds give unrelated sequences.
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// A generator of its own for the part of a simulation that `name` stands for, so that what one part
    /// draws does not change what another part gets.
    pub fn part(seed: u64, name: u64) -> Self {
        Rng(mix(seed ^ mix(name)))
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: u32) -> u32 {
        let wide = u128::from(self.bits()) * u128::from(n);
        u32::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number from `least` to `most`.
    pub fn between(&mut self, least: u32, most: u32) -> u32 {
        least + self.below(most - least + 1)
    }

    /// True `percent` times in a hundred.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(u32::try_from(of.len()).unwrap_or(u32::MAX)) as usize]
    }

    /// Puts a list into any order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            let j = self.below(u32::try_from(i).unwrap_or(0) + 1) as usize;
            list.swap(i, j);
        }
    }
}

/// Spreads the bits of a number; the same number always gives the same.
pub fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}
