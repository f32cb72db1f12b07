//! Numbers without a pattern, each made of its index alone: so all workers agree on them, whoever asks for
//! which.

/// Makes neighbouring numbers unlike each other (the finaliser of SplitMix64).
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The number of that index, from 0 up to 1 without 1.
#[expect(clippy::cast_precision_loss, reason = "53 bits are left")]
pub fn unit(index: usize) -> f64 {
    (mix(index as u64) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tenth_of_the_interval_has_a_tenth_of_the_numbers() {
        for tenth in 0..10 {
            let interval = f64::from(tenth) / 10.0..f64::from(tenth + 1) / 10.0;
            let count = (0..100_000).map(unit).filter(|x| interval.contains(x)).count();
            assert!((9_700..10_300).contains(&count), "{count} of 100,000 in {interval:?}");
        }
    }
}
