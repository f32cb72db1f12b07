//! Rank program: two ranks write the byte [`BYTE`] of an allocation, in the way that the first argument
//! names; then all meet, twice.

#![expect(clippy::print_stdout, reason = "a rank's answer to its test")]

use scash::{AllocOptions, Dsm, Lock, Placement, Result, SharedSlice};
use std::process::ExitCode;
use std::time::Duration;

/// The byte that is raced for.
const BYTE: usize = 4711;
/// Pages of the allocation.
const PAGES: usize = 4;
/// Long enough for the others to have written, mostly. Whoever is first, the race is found.
const LATER: Duration = Duration::from_millis(20);

fn grid(dsm: &mut Dsm, home: Option<u32>) -> Result<SharedSlice<u8>> {
    let placement = home.map_or(Placement::FirstTouch, Placement::Rank);
    let grid = dsm.alloc_with::<u8>(PAGES * 4096, AllocOptions { placement, ..AllocOptions::default() })?;
    dsm.name(grid, "grid")?;
    Ok(grid)
}

/// Writes the byte, and others that nobody else writes.
fn write(dsm: &Dsm, grid: SharedSlice<u8>, round: usize) {
    let rank = dsm.rank();
    let value = u8::try_from(1 + 2 * rank + 100 * round).unwrap_or(99);
    let byte = grid.as_ptr().wrapping_add(BYTE);
    // SAFETY: inside the allocation, which stays until the end of the job. Other ranks write it too: that is
    // what this program is for.
    unsafe { byte.write_volatile(value) };
    (0..30).for_each(|i| grid.set(dsm, 4096 + 100 * rank + i, 1));
}

/// Two ranks write, one of them later.
fn two_write(dsm: &mut Dsm, home: Option<u32>, ranks: [usize; 2], later: usize) -> Result<()> {
    let grid = grid(dsm, home)?;
    if dsm.rank() == 0 && home.is_some() {
        // So the pages are no zeros any more when the others get them.
        (0..PAGES * 4096).for_each(|i| grid.set(dsm, i, 7));
    }
    dsm.barrier()?;
    for round in 0..2 {
        if dsm.rank() == later {
            std::thread::sleep(LATER);
        }
        if ranks.contains(&dsm.rank()) {
            write(dsm, grid, round);
        }
        dsm.barrier()?;
    }
    Ok(())
}

/// A lock that this rank manages, and no other uses: who gets a lock of another rank hears what that has
/// written.
fn own_lock(dsm: &mut Dsm) -> Result<Lock> {
    let locks = dsm.locks(dsm.size())?;
    Ok(locks[dsm.rank()])
}

/// Ranks 0 and 1 write, each under a lock.
fn locks(dsm: &mut Dsm, home: u32, together: bool) -> Result<()> {
    let (own, one) = (own_lock(dsm)?, dsm.locks(1)?[0]);
    let grid = grid(dsm, Some(home))?;
    dsm.barrier()?;
    if dsm.rank() == 1 {
        std::thread::sleep(LATER);
    }
    if dsm.rank() < 2 {
        let held = if together { one } else { own };
        let held = held.hold(dsm)?;
        write(dsm, grid, 0);
        drop(held);
    }
    dsm.barrier()
}

fn run(way: &str) -> Result<()> {
    let mut job = Dsm::init()?;
    let dsm = &mut job;
    match way {
        "home first" => two_write(dsm, Some(0), [0, 1], 1)?,
        "home later" => two_write(dsm, Some(0), [0, 1], 0)?,
        "others" => two_write(dsm, Some(2), [0, 1], 0)?,
        "first touch" => two_write(dsm, None, [0, 1], 1)?,
        "one lock" => locks(dsm, 0, true)?,
        "two locks" => locks(dsm, 0, false)?,
        "two locks elsewhere" => locks(dsm, 2, false)?,
        _ => panic!("no way to race is called {way}"),
    }
    println!("rank {} has counted {} races", dsm.rank(), dsm.stats().races);
    job.finalize()
}

fn main() -> ExitCode {
    let way = std::env::args().nth(1).unwrap_or_default();
    match run(&way) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
