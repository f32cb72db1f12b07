//! Writes memory that is not part of the newest checkpoint: `newer` allocates some, takes a checkpoint, and
//! then writes what it had not written, and what it allocates afterwards. All that must be zeros first, in
//! each process that comes back from that checkpoint, too. Prints what was not.

#![allow(clippy::print_stdout, reason = "a test's program")]

use scash::{Dsm, Result, SharedSlice};

/// Words of an allocation: 256 pages.
const WORDS: usize = 256 * 512;

/// Finds out whether all that a rank reads is zeros, and then writes its part of it.
fn zeros_and_then_not(dsm: &mut Dsm, words: SharedSlice<u64>, name: &str) -> Result<()> {
    let (rank, size) = (dsm.rank(), dsm.size());
    // SAFETY: no rank writes before the barrier, and the reference ends before it.
    let found = unsafe { words.slice(dsm, 0..WORDS) }.iter().filter(|word| **word != 0).count();
    if found > 0 {
        println!("rank {rank}: {found} words of what was {name} are not zeros");
    }
    dsm.barrier()?;
    let part = WORDS / size;
    // SAFETY: this part is this rank's.
    unsafe { words.slice_mut(dsm, rank * part..(rank + 1) * part) }.fill(rank as u64 + 1);
    dsm.barrier()
}

fn main() -> Result<()> {
    let mut dsm = Dsm::init()?;
    let before = dsm.alloc::<u64>(WORDS)?;
    let kept = dsm.alloc::<u64>(WORDS)?;
    if dsm.rank() == 0 {
        // SAFETY: one rank writes, and no other reads before the barrier.
        unsafe { kept.slice_mut(&dsm, 0..WORDS) }.fill(7);
    }
    dsm.checkpoint()?;
    for _ in 0..3 {
        let after = dsm.alloc::<u64>(WORDS)?;
        zeros_and_then_not(&mut dsm, after, "allocated after the checkpoint")?;
    }
    zeros_and_then_not(&mut dsm, before, "allocated before it")?;
    // SAFETY: nobody writes it any more.
    let is_kept = unsafe { kept.slice(&dsm, 0..WORDS) }.iter().all(|word| *word == 7);
    dsm.barrier()?;
    println!("rank {}: {is_kept}", dsm.rank());
    dsm.finalize()
}
