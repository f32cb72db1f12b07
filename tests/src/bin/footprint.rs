//! What shared memory costs a rank: `footprint sparse` touches little of much, `footprint own` much of as
//! much, `footprint cached` more of another rank's than it may keep, `footprint objects` makes and destroys
//! 10,000 locks with their values, and a few of all else.
//!
//! Each rank prints a number of KiB: with `sparse` all its memory that is there, with `own` what it has
//! besides shared memory, with `cached` the frames of other ranks' pages, with `objects` what the process has
//! more after the last than after the first tenth.

#![allow(clippy::print_stdout, reason = "a rank tells its size")]

use scash::{AllocOptions, Dsm, Placement, Result};
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;

const GIB: usize = 1 << 30;

/// The number of KiB that a line of a file in `/proc/self` has.
fn kib(file: &str, line: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
    let line = text.lines().find_map(|candidate| candidate.strip_prefix(line));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).expect("the kernel tells it")
}

/// 32 GiB, of which each rank writes a byte a GiB, and reads everybody's.
fn sparse(dsm: &mut Dsm) -> Result<u64> {
    let much = dsm.alloc::<u8>(32 * GIB)?;
    let index = |gib: usize, rank: usize| gib * GIB + GIB / 2 + rank;
    let value = |gib: usize, rank: usize| (gib * 5 + rank).to_le_bytes()[0];
    for gib in 0..32 {
        much.set(dsm, index(gib, dsm.rank()), value(gib, dsm.rank()));
    }
    dsm.barrier()?;
    for gib in 0..32 {
        for rank in 0..dsm.size() {
            assert_eq!(much.get(dsm, index(gib, rank)), value(gib, rank));
        }
        assert_eq!(much.get(dsm, gib * GIB), 0);
    }
    let resident = kib("status", "VmRSS:");
    dsm.free(much)?;
    Ok(resident)
}

/// 256 MiB, of which each rank writes its part and reads all, some times.
fn own(dsm: &mut Dsm) -> Result<u64> {
    let before = kib("smaps_rollup", "Pss_Anon:");
    let mut most = 0;
    let words = 256 * (1 << 20) / 8;
    let shared = dsm.alloc::<u64>(words)?;
    let part = words / dsm.size();
    let mine = dsm.rank() * part..(dsm.rank() + 1) * part;
    for round in 1..=3 {
        // SAFETY: ranks write different parts.
        let values = unsafe { shared.slice_mut(dsm, mine.clone()) };
        values.fill(round);
        dsm.barrier()?;
        // SAFETY: nobody writes in this interval.
        let all = unsafe { shared.slice(dsm, 0..part * dsm.size()) };
        assert!(all.iter().all(|value| *value == round));
        most = most.max(kib("smaps_rollup", "Pss_Anon:"));
        dsm.barrier()?;
        most = most.max(kib("smaps_rollup", "Pss_Anon:"));
    }
    Ok(most.saturating_sub(before))
}

/// KiB of frames that this process has, as the kernel counts them: the largest of its files in memory is the
/// region.
fn frames() -> u64 {
    let files = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let in_memory = files.filter(|file| {
        std::fs::read_link(file.path()).is_ok_and(|name| name.to_string_lossy().starts_with("/memfd:scash"))
    });
    let sizes = in_memory.filter_map(|file| std::fs::metadata(file.path()).ok());
    sizes.max_by_key(MetadataExt::size).map_or(0, |region| region.blocks() / 2)
}

/// 30 MiB of rank 0, all of which rank 1 reads and writes a little in, in intervals and in critical sections.
fn cached(dsm: &mut Dsm) -> Result<u64> {
    const PAGES: usize = 30 << 8;
    const WORDS: usize = 512;
    let options = AllocOptions { placement: Placement::Rank(0), ..AllocOptions::default() };
    let words = dsm.alloc_with::<u64>(PAGES * WORDS, options)?;
    let lock = dsm.locks(1)?[0];
    let mut most = 0;
    for round in 1..=3u64 {
        let held = (round > 1).then(|| lock.hold(dsm)).transpose()?;
        let writer = dsm.rank() == 1;
        for page in (0..PAGES).filter(|_| writer) {
            let at = page * WORDS + page % WORDS;
            assert_eq!(words.get(dsm, at), (round - 1) * page as u64, "page {page} in round {round}");
            words.set(dsm, at, round * page as u64);
            if page % 512 == 0 {
                most = most.max(frames());
            }
        }
        drop(held);
        dsm.barrier()?;
        assert!((0..PAGES).all(|page| words.get(dsm, page * WORDS + page % WORDS) == round * page as u64));
        most = most.max(if writer { frames() } else { 0 });
        dsm.barrier()?;
    }
    Ok(most)
}

/// Ten mutexes and one of each other object a thousand times, all used by all ranks.
fn objects(dsm: &mut Dsm) -> Result<u64> {
    let mut early = 0;
    for round in 0..1000 {
        let mutexes = dsm.mutexes(10, |i| i)?;
        let (table, condition) = (dsm.rwlock(7)?, dsm.condvar()?);
        let (semaphore, flags) = (dsm.semaphore(0)?, dsm.flags(1)?);
        for mutex in &mutexes {
            *mutex.lock(dsm)? += 1;
        }
        assert_eq!(*table.read(dsm)?, 7);
        semaphore.post(dsm)?;
        condition.signal(dsm)?;
        flags[0].raise(dsm, 1)?;
        dsm.barrier()?;
        assert!((0..10).all(|i| mutexes[i].lock(dsm).is_ok_and(|value| *value == i + dsm.size())));
        dsm.destroy(&mutexes)?;
        dsm.destroy(&[table])?;
        dsm.destroy(&[condition])?;
        dsm.destroy(&[semaphore])?;
        dsm.destroy(&flags)?;
        if round == 100 {
            early = kib("status", "RssAnon:");
        }
    }
    Ok(kib("status", "RssAnon:").saturating_sub(early))
}

fn run(what: &str) -> Result<()> {
    let mut dsm = Dsm::init()?;
    let size = match what {
        "sparse" => sparse(&mut dsm)?,
        "cached" => cached(&mut dsm)?,
        "objects" => objects(&mut dsm)?,
        _ => own(&mut dsm)?,
    };
    dsm.finalize()?;
    println!("{size}");
    Ok(())
}

fn main() -> ExitCode {
    let what = std::env::args().nth(1).unwrap_or_default();
    match run(&what) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("footprint: {error}");
            ExitCode::FAILURE
        }
    }
}
