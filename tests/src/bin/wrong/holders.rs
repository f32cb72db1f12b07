//! Ranks that die with what others wait for.

use super::{Rank, die, ignore_sigterm, note, wait_for};
use scash::runtime::ObjectKind;
use scash::{AllocOptions, Result};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// Rank 1 dies when it has an object, or before it lets anybody go on with it, and all others wait for it.
pub(super) fn die_with(rank: Rank, what: &str) -> Result<ExitCode> {
    ignore_sigterm();
    let runtime = rank.untyped();
    let kind = match what {
        "a lock" => ObjectKind::Lock,
        "a lock to read" | "a lock to write" => ObjectKind::RwLock,
        "a semaphore" => ObjectKind::Semaphore(1),
        "a condition" => ObjectKind::Condition,
        _ => ObjectKind::Flag,
    };
    let number = runtime.make_objects(kind, 1)?;
    let lock = runtime.make_locks(1)?;
    if rank.is(1) {
        match what {
            "a lock" => runtime.lock(number)?,
            "a lock to read" => runtime.read_lock(number)?,
            "a lock to write" => runtime.write_lock(number)?,
            "a semaphore" => runtime.semaphore_wait(number)?,
            _ => {}
        }
        rank.note("has it");
        // Time for the others to come, and for those that spin to sleep.
        thread::sleep(Duration::from_millis(50));
        die();
    }
    rank.wait_for("has it", 1);
    let told = match what {
        "a lock" => runtime.lock(number),
        "a lock to read" => runtime.write_lock(number),
        "a lock to write" => runtime.read_lock(number),
        "a semaphore" => runtime.semaphore_wait(number),
        "a condition" => runtime.lock(lock).and_then(|()| runtime.condition_wait(number, lock)),
        _ => runtime.flag_wait(number, 1),
    };
    rank.say(told);
    Ok(ExitCode::FAILURE)
}

/// Rank 1 dies while all allocate and free.
pub(super) fn die_in_frees(rank: Rank) -> Result<ExitCode> {
    ignore_sigterm();
    let notes = rank.notes.clone();
    if rank.is(1) {
        thread::spawn(move || {
            wait_for(&note(&notes, "underway", 0));
            die()
        });
    }
    let runtime = rank.untyped();
    let mut area = std::ptr::null_mut::<u8>();
    let told = (0..).find_map(|round| {
        if round == 200 {
            rank.note("underway");
        }
        let round = runtime.alloc(20_000, AllocOptions::default()).and_then(|new| {
            area = new;
            runtime.touch(area, 20_000, true)?;
            runtime.free(area)
        });
        round.err()
    });
    rank.say(told.map_or(Ok(()), Err));
    // Only now: the end of a rank that touches what is not there would be news to others.
    rank.note("told");
    (0..rank.dsm.size()).filter(|&other| other != 1).for_each(|other| rank.wait_for("told", other));
    // Whether it is there still or not: an access ends, or the rank does.
    // SAFETY: not sound: whether the memory is there is the question that the system answers.
    unsafe { area.read_volatile() };
    Ok(ExitCode::FAILURE)
}
