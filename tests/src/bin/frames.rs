//! Ranks that share frames, or not: `frames rounds COUNT` allocates, checks, writes and frees COUNT times in
//! a small region, and `frames memory` writes 64 MiB together. Each rank prints what it has found: with
//! `rounds` whether every byte was right, with `memory` the KiB of shared memory that count as its own
//! (proportionally), and both times what its accesses made the protocol do. With `frames words` rank 0
//! operates on a word until it is told that another rank, which has killed itself, is gone.

#![allow(clippy::print_stdout, reason = "a rank tells what it has checked")]

use scash::runtime::{self, FrameSharing, Runtime};
use scash::{AllocOptions, Result};
use scash_comm::{Atomic, Rmw};
use scash_sim::rng::Rng;
use std::process::ExitCode;

/// An allocation of this rank's program.
#[derive(Clone, Copy)]
struct Area {
    start: *mut u8,
    len: usize,
}

impl Area {
    fn new(runtime: &Runtime, len: usize) -> Result<Area> {
        Ok(Area { start: runtime.alloc(len, AllocOptions::default())?, len })
    }

    /// Checks that each byte is what `value` says.
    fn check(self, value: impl Fn(usize) -> u8) {
        for at in 0..self.len {
            // SAFETY: a byte of the allocation, which nobody writes before the next barrier.
            let found = unsafe { self.start.wrapping_add(at).read() };
            assert_eq!(found, value(at), "byte {at} of {}", self.len);
        }
    }

    /// Writes what `value` says to every byte of this rank's: they lie among those of others.
    fn write(self, runtime: &Runtime, value: impl Fn(usize) -> u8) {
        for at in (runtime.rank() as usize..self.len).step_by(runtime.size() as usize) {
            // SAFETY: a byte of the allocation, which is this rank's until the next barrier.
            unsafe { self.start.wrapping_add(at).write(value(at)) };
        }
    }
}

/// What is freed comes back as zeros, whoever has written it, however soon.
fn rounds(runtime: &Runtime, count: u32) -> Result<()> {
    let mut rng = Rng::part(u64::from(count), 1);
    let mut alive: Vec<(Area, u8)> = Vec::new();
    for round in 0..count {
        let salt = round.to_le_bytes()[0] | 1;
        let value =
            |salt: u8| move |at: usize| at.to_le_bytes()[0].wrapping_mul(7) ^ at.to_le_bytes()[1] ^ salt;
        let area = Area::new(runtime, rng.between(1, 40_000) as usize)?;
        area.check(|_| 0);
        runtime.barrier()?;
        area.write(runtime, value(salt));
        runtime.barrier()?;
        area.check(value(salt));
        alive.push((area, salt));
        while alive.len() > rng.below(4) as usize {
            let (old, salt) = alive.swap_remove(rng.below(u32::try_from(alive.len()).unwrap_or(1)) as usize);
            old.check(value(salt));
            // Some are written to the very end.
            if rng.chance(50) {
                runtime.barrier()?;
                old.write(runtime, |_| 0xff);
            }
            runtime.free(old.start)?;
        }
    }
    Ok(())
}

/// KiB of shared memory that this process has, divided by those that have it.
fn own_share() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss_Shmem:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).expect("the kernel tells it")
}

fn memory(runtime: &Runtime) -> Result<u64> {
    let before = own_share();
    let area = Area::new(runtime, 64 << 20)?;
    area.write(runtime, |at| at.to_le_bytes()[0]);
    runtime.barrier()?;
    area.check(|at| at.to_le_bytes()[0]);
    runtime.barrier()?;
    let kib = own_share().saturating_sub(before);
    runtime.barrier()?;
    Ok(kib)
}

/// Rank 0 makes no call that waits for others, or that they could answer.
fn words(runtime: &Runtime) -> Result<()> {
    let area = Area::new(runtime, 4096)?;
    runtime.make_locks(1)?;
    if runtime.rank() > 0 {
        std::process::abort();
    }
    loop {
        runtime.atomic(area.start.cast(), Atomic::U64(Rmw::Add(1)))?;
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let runtime = runtime::init()?;
    let found = match arguments {
        [what, count] if what == "rounds" => {
            rounds(runtime, count.parse().expect("a number of rounds"))?;
            "every byte was right".to_owned()
        }
        [what] if what == "words" => return words(runtime),
        _ => format!("{} KiB", memory(runtime)?),
    };
    let (stats, rank) = (runtime.stats(), runtime.rank());
    let p = stats.protocol;
    let work = stats.faults + p.fetched + p.twins + p.diffs + p.updates + p.second_meetings;
    println!(
        "rank {rank}: {found}; {:?}, {} of the protocol's work",
        stats.frames == FrameSharing::Shared,
        work
    );
    runtime.finalize()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
