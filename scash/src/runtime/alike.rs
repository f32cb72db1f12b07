//! Memory barriers at which ranks compare what they mean by them.

use super::Runtime;
use crate::error::Result;
use scash_proto::node::Collective;
use std::hash::{DefaultHasher, Hash, Hasher};

impl Runtime {
    /// The memory barrier, of ranks that must mean the same by it: all bring the same numbers, or all are
    /// told that they do not. Otherwise as [`barrier`](Self::barrier).
    pub fn barrier_alike(&self, digest: [u64; 2]) -> Result<()> {
        self.divide(u32::MAX, digest)
    }

    /// A memory barrier that all ranks must mean as this division of arrays, the first of which begins at
    /// `page`.
    pub(crate) fn divide(&self, page: u32, digest: [u64; 2]) -> Result<()> {
        self.collective(Collective::Divide { page, digest }).map(drop)
    }
}

/// Numbers that stand for a value. Two values that ranks take for the same one by chance are one pair in
/// 2¹²⁸. All ranks run the same build, and with it the same hash.
pub(crate) fn digest(value: &impl Hash) -> [u64; 2] {
    [1u64, 2].map(|salt| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        value.hash(&mut hasher);
        hasher.finish()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_depends_on_the_value_alone() {
        let values = [vec![0..3, 3..9], vec![0..3, 3..8], vec![0..3, 3..3], vec![]];
        let digests = values.clone().map(|ranges| digest(&ranges));
        assert_eq!(digests, values.map(|ranges| digest(&ranges)));
        for (index, one) in digests.iter().enumerate() {
            assert!(one[0] != one[1] && digests[..index].iter().all(|other| other != one));
        }
    }
}
