//! Ranks that mean different things by arrays of as many bytes, or by who owns their elements.

use super::Rank;
use scash::{Division, Result};
use std::process::ExitCode;

const LEN: usize = 1024;

/// The last rank means something else than the others.
pub(crate) fn disagree(mut rank: Rank, mistake: &str) -> Result<ExitCode> {
    let (owners, last) = (rank.dsm.size(), rank.is(rank.dsm.size() - 1));
    let (own, read) = (Division::even(LEN, owners), Division::read_by_all(LEN, owners));
    let mut array = rank.dsm.split::<u64>(&own)?;
    array.mine(&rank.dsm).fill(1);
    let dsm = &mut rank.dsm;
    let told = match (mistake, last) {
        ("turns to others", true) => dsm.turn([array.to(&own)]),
        ("turns to others", false) | ("turns alone", true) => dsm.turn([array.to(&read)]),
        ("types", true) => dsm.partition::<u8>(8 * LEN).map(drop),
        ("types", false) => dsm.partition::<u64>(LEN).map(drop),
        ("shapes", true) => dsm.matrix_in_blocks::<u64>(4, 8).map(drop),
        ("shapes", false) => dsm.matrix_in_blocks::<u64>(8, 4).map(drop),
        // As many calls as the others make, of the same kinds.
        ("values", true) => {
            dsm.locks(1)?;
            dsm.alloc::<u64>(1)?;
            dsm.barrier()
        }
        ("values", false) => dsm.mutex(7u64).map(drop),
        ("divisions", _) => dsm.split::<u64>(if last { &own } else { &read }).map(drop),
        _ => dsm.barrier(),
    };
    if mistake == "turns to others" || mistake == "turns alone" && last {
        std::panic::set_hook(Box::new(|_| ()));
        let look = std::panic::AssertUnwindSafe(|| array.get(&rank.dsm, 0..1).len());
        assert!(std::panic::catch_unwind(look).is_err(), "an array whose owners ranks do not agree on");
    }
    Ok(rank.tell(told))
}
