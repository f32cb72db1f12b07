//! Keeps much memory and writes a little of it, round for round, until a file is there: `hoard FILE SHARED
//! PRIVATE WRITTEN`, in MiB a rank: memory that is shared and at home at the rank, memory of its own, and how
//! much of either it writes in a round. At the end each rank tells that both hold what it wrote.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test's program")]

use scash::Dsm;
use std::path::Path;

/// Words of 8 bytes of a MiB.
const MIB: usize = (1 << 20) / 8;

/// What a rank writes into a word in a round: nothing that a page of zeros, or another one, is like.
fn value(rank: usize, round: usize, at: usize) -> u64 {
    ((rank as u64) << 56 | (round as u64) << 32 | at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// Writes the part of this round: parts lie one behind the other, and begin anew behind the last.
fn write(all: &mut [u64], written: usize, rank: usize, round: usize) {
    let parts = all.len() / written;
    let first = round % parts * written;
    (first..).zip(&mut all[first..first + written]).for_each(|(at, word)| *word = value(rank, round, at));
}

/// Whether all parts hold what was written in the newest of their rounds.
fn is_right(all: &[u64], written: usize, rank: usize, rounds: usize) -> bool {
    let parts = all.len() / written;
    (0..all.len()).all(|at| {
        let newest = (0..rounds).rev().find(|round| round % parts == at / written);
        newest.is_none_or(|round| all[at] == value(rank, round, at))
    })
}

fn main() -> scash::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let sizes: Vec<usize> = arguments[1..].iter().map(|text| MIB * text.parse::<usize>().unwrap()).collect();
    let [shared, private, written] = sizes[..] else { panic!("hoard FILE SHARED PRIVATE WRITTEN") };
    let mut dsm = Dsm::init()?;
    let rank = dsm.rank();
    let array = dsm.alloc::<u64>(shared * dsm.size())?;
    let home = rank * shared..(rank + 1) * shared;
    let mut own = vec![0; private];
    let mut rounds = 0;
    // First all of it, and then part after part.
    let all = shared.max(private) / written;
    while rounds < all || dsm.broadcast_value(u8::from(!Path::new(&arguments[0]).exists()), 0)? == 1 {
        // SAFETY: no other rank reads or writes this part, and the reference ends before the barrier.
        write(unsafe { array.slice_mut(&dsm, home.clone()) }, written, rank, rounds);
        write(&mut own, written, rank, rounds);
        rounds += 1;
        dsm.barrier()?;
    }
    // SAFETY: as above.
    let shared = unsafe { array.slice(&dsm, home) };
    let are_right = [shared, &own].map(|all| is_right(all, written, rank, rounds));
    println!("rank {rank}: {are_right:?}");
    dsm.finalize()
}
