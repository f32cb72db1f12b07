//! Allocates and frees memory of its own at random between memory barriers, and looks behind each barrier
//! whether all of it holds what was written: `churn BARRIERS LARGEST`, the bytes of the largest object.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test's program")]

use scash::Dsm;
use scash_sim::rng::Rng;

/// Objects at the most.
const MOST: u32 = 3000;

fn main() -> scash::Result<()> {
    let arguments: Vec<u32> = std::env::args().skip(1).map(|text| text.parse().unwrap()).collect();
    let [barriers, largest] = arguments[..] else { panic!("churn BARRIERS LARGEST") };
    let mut dsm = Dsm::init()?;
    let mut rng = Rng::part(dsm.rank() as u64, 0);
    let mut objects: Vec<Vec<u8>> = vec![Vec::new(); MOST as usize];
    for _ in 0..barriers {
        for _ in 0..rng.below(600) {
            let object = &mut objects[rng.below(MOST) as usize];
            let length = if object.is_empty() || rng.chance(50) { 16 + rng.below(largest) } else { 0 };
            *object = vec![rng.bits().to_le_bytes()[0]; length as usize];
        }
        if rng.chance(10) {
            // The heap becomes shorter.
            objects[rng.below(MOST) as usize..].fill(Vec::new());
        }
        dsm.barrier()?;
        let is_right = |object: &Vec<u8>| object.iter().all(|byte| byte == &object[0]);
        assert!(objects.iter().all(is_right), "rank {}: memory is not as it was written", dsm.rank());
    }
    let all: u64 = objects.iter().flatten().map(|byte| u64::from(*byte)).sum();
    println!("rank {}: {all}", dsm.rank());
    dsm.finalize()
}
