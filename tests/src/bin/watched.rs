//! Rank program: home pages with invalidate copies are rewritten in every interval and read by everybody
//! else. With an engine that can list written pages, the rewriting takes no faults.

#![expect(clippy::print_stdout, reason = "a rank's answer to its test")]

use scash::{AllocOptions, Dsm, Placement, Protocol};

const PAGES: usize = 256;
const WORDS: usize = PAGES * 512;
const INTERVALS: u64 = 30;

fn main() -> scash::Result<()> {
    let mut dsm = Dsm::init()?;
    let options = AllocOptions { placement: Placement::Rank(0), protocol: Protocol::Invalidate, block: 1 };
    let shared = dsm.alloc_with::<u64>(WORDS, options)?;
    for interval in 1..=INTERVALS {
        if dsm.rank() == 0 {
            // In every third interval some pages are left alone: what was not written must stay valid, and
            // what was must not.
            let left = if interval % 3 == 0 { WORDS / 2 } else { 0 };
            for i in left..WORDS {
                shared.set(&dsm, i, interval * i as u64);
            }
        }
        dsm.barrier()?;
        for i in (0..WORDS).step_by(97) {
            let written = if interval % 3 == 0 && i < WORDS / 2 { interval - 1 } else { interval };
            assert_eq!(
                shared.get(&dsm, i),
                written * i as u64,
                "rank {}, interval {interval}, word {i}",
                dsm.rank()
            );
        }
        dsm.barrier()?;
    }
    let counted = dsm.stats().protocol;
    println!("rank {} noticed {} write_faults {}", dsm.rank(), counted.noticed, counted.write_faults);
    dsm.finalize()
}
