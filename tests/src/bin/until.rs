//! Rounds until a file is there: `until FILE`; with a checkpoint after the hundredth: `until FILE
//! checkpoint`; FILE.begun is there after the hundredth: `until FILE tells`; the last line of each rank has
//! no end: `until FILE breaks`. Each rank makes its part of an array from the part of the rank before it, so
//! that a value which is lost or old changes all that come after it. At the end rank 0 computes as many
//! rounds alone and reports as an application does with `--check --json`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test's program")]

use scash::Dsm;
use std::path::Path;

/// Words of 8 bytes a rank: four pages.
const PART: usize = 2048;

/// What a round makes of a value.
fn next(before: u64, round: u64) -> u64 {
    before.wrapping_mul(31).wrapping_add(round)
}

/// The same rounds by one process.
fn alone(len: usize, rounds: u64) -> Vec<u64> {
    let mut all = vec![0u64; len];
    for round in 1..=rounds {
        all.rotate_right(PART);
        all.iter_mut().for_each(|value| *value = next(*value, round));
    }
    all
}

fn main() -> scash::Result<()> {
    let file = std::env::args().nth(1).unwrap();
    let has = |what| std::env::args().nth(2).is_some_and(|word| word == what);
    let (has_checkpoint, tells, breaks) = (has("checkpoint"), has("tells"), has("breaks"));
    let mut dsm = Dsm::init()?;
    let (rank, len) = (dsm.rank(), PART * dsm.size());
    let mut array = dsm.partition::<u64>(len)?;
    let mut rounds = 0u64;
    while dsm.broadcast_value(u8::from(!Path::new(&file).exists()), 0)? == 1 {
        rounds += 1;
        let parts = array.parts(&dsm);
        let others = if rank == 0 { parts.after } else { parts.before };
        let before = if dsm.size() == 1 { parts.old } else { &others[others.len() - PART..] };
        for (value, before) in parts.mine.iter_mut().zip(before) {
            *value = next(*before, rounds);
        }
        array.publish(&mut dsm)?;
        if rounds == 100 && has_checkpoint {
            dsm.checkpoint()?;
        }
        if rounds == 100 && tells && rank == 0 {
            std::fs::write(format!("{file}.begun"), "").unwrap();
        }
    }
    if rank == 0 {
        let check = if array.all(&dsm) == alone(len, rounds) { "equal" } else { "different" };
        println!(r#"{{"rounds":{rounds},"check":"{check}"}}"#);
    }
    if breaks {
        print!("rank {rank} breaks o");
    }
    dsm.finalize()
}
