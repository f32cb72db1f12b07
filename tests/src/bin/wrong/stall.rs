//! Ranks that keep others waiting.

use super::{Rank, thread};
use scash::Result;
use std::process::ExitCode;
use std::time::Duration;

/// Rank 0 takes a lock into a memory barrier, to which rank 1 comes only with that lock.
pub(crate) fn lock_and_meet(mut rank: Rank) -> Result<ExitCode> {
    let runtime = rank.untyped();
    rank.dsm.locks(1)?;
    if rank.is(0) {
        runtime.lock(0)?;
        rank.note("locked");
    } else {
        rank.wait_for("locked", 0);
        runtime.lock(0)?;
    }
    rank.dsm.barrier()?;
    Ok(ExitCode::SUCCESS)
}

/// Rank 1 has so much to do that it does not come to the memory barrier.
pub(crate) fn compute_for_long(mut rank: Rank) -> Result<ExitCode> {
    if rank.is(1) {
        thread::sleep(Duration::from_secs(60));
    }
    rank.note("came");
    rank.dsm.barrier()?;
    Ok(ExitCode::SUCCESS)
}
