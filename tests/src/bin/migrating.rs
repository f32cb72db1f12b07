//! Rank program: rank 0 fills everything, then each other rank works on a part of it that nobody else writes,
//! and all read all of it.

#![expect(clippy::print_stdout, reason = "a rank's answer to its test")]

use scash::Dsm;

const PAGES: usize = 64;
const WORDS: usize = PAGES * 512;
const INTERVALS: u64 = 24;

fn main() -> scash::Result<()> {
    let mut dsm = Dsm::init()?;
    let (rank, ranks) = (dsm.rank(), dsm.size());
    let shared = dsm.alloc::<u64>(WORDS * ranks)?;
    if rank == 0 {
        (0..WORDS * ranks).for_each(|i| shared.set(&dsm, i, i as u64));
    }
    dsm.barrier()?;
    for interval in 1..=INTERVALS {
        if rank > 0 {
            for i in WORDS * rank..WORDS * (rank + 1) {
                shared.set(&dsm, i, interval * i as u64);
            }
        }
        dsm.barrier()?;
        for i in (0..WORDS * ranks).step_by(61) {
            let times = if i < WORDS { 1 } else { interval };
            assert_eq!(shared.get(&dsm, i), times * i as u64, "rank {rank}, interval {interval}, word {i}");
        }
        dsm.barrier()?;
    }
    let counted = dsm.stats().protocol;
    println!("rank {rank} migrated {} diffs {}", counted.migrated, counted.diffs);
    dsm.finalize()
}
