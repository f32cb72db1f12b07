//! Ranks that die with what others wait for.

use super::{Rank, die, ignore_sigterm, note, wait_for};
use scash::runtime::{ObjectKind, Runtime};
use scash::{AllocOptions, Result};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// The kind of object that is meant.
fn kind(what: &str) -> ObjectKind {
    match what {
        "a lock" => ObjectKind::Lock,
        "a reader-writer lock" | "a lock to read" | "a lock to write" => ObjectKind::RwLock,
        "a semaphore" => ObjectKind::Semaphore(1),
        "a condition" => ObjectKind::Condition,
        _ => ObjectKind::Flag,
    }
}

/// Rank 1 dies when it has an object, or before it lets anybody go on with it, and all others wait for it.
pub(super) fn die_with(rank: Rank, what: &str) -> Result<ExitCode> {
    ignore_sigterm();
    let runtime = rank.untyped();
    let number = runtime.make_objects(kind(what), 1)?;
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

/// Rank 1 dies at an instant at which it has the guard of an object: the lock of one word that each use of an
/// object of ranks that share frames takes. The others come to the object then.
pub(super) fn die_with_guard(rank: Rank, what: &str) -> Result<ExitCode> {
    ignore_sigterm();
    let number = rank.untyped().make_objects(kind(what), 1)?;
    if rank.is(1) {
        std::fs::write(note(&rank.notes, "number", 1), std::process::id().to_string()).expect("a directory");
        rank.note("uses it");
        loop {
            use_once(rank.untyped(), number, kind(what))?;
        }
    }
    rank.wait_for("uses it", 1);
    if rank.is(0) {
        let victim = std::fs::read_to_string(note(&rank.notes, "number", 1)).expect("a note");
        kill_with(guard(number), victim.parse().expect("a number"));
        rank.note("killed");
    }
    rank.wait_for("killed", 0);
    let told = use_once(rank.untyped(), number, kind(what));
    rank.say(told);
    Ok(ExitCode::FAILURE)
}

/// Uses an object, and waits for nobody but those that use it at this moment.
fn use_once(runtime: &Runtime, number: u32, kind: ObjectKind) -> Result<()> {
    match kind {
        ObjectKind::Lock => runtime.lock(number).and_then(|()| runtime.unlock(number)),
        ObjectKind::RwLock => runtime.read_lock(number).and_then(|()| runtime.rw_unlock(number)),
        ObjectKind::Semaphore(_) => runtime.semaphore_post(number, 1),
        ObjectKind::Condition => runtime.condition_signal(number),
        ObjectKind::Flag => runtime.flag_raise(number, 1),
    }
}

/// The guard of an object, where this rank has mapped what ranks share of objects: the only file of 4 GiB and
/// more of this program. Each object has 64 bytes there, of which the guard is the first word.
fn guard(number: u32) -> &'static AtomicU32 {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the kernel tells");
    let start = maps.lines().filter(|line| line.contains("memfd:scash-memory")).find_map(|line| {
        let (start, rest) = line.split_once('-')?;
        let address = |text: &str| usize::from_str_radix(text, 16).ok();
        let (start, end) = (address(start)?, address(rest.split(' ').next()?)?);
        (end - start >= 4 << 30).then_some(start)
    });
    let at = start.expect("ranks share objects") + 64 * number as usize;
    // SAFETY: an aligned word of a mapping that stays; whoever changes it does so by atomic operations.
    unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(at)) }
}

/// Kills the process that alone uses a guard, when it has it.
fn kill_with(guard: &AtomicU32, victim: i32) {
    // SAFETY: sends signals to a rank of this job, whose end nobody has waited for yet.
    let send = |signal| assert_eq!(unsafe { libc::kill(victim, signal) }, 0, "signal {signal}");
    let is_stopped = || {
        let text = std::fs::read_to_string(format!("/proc/{victim}/stat")).expect("it runs");
        text.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    };
    loop {
        send(libc::SIGSTOP);
        while !is_stopped() {
            thread::yield_now();
        }
        if guard.load(Ordering::SeqCst) != 0 {
            return send(libc::SIGKILL);
        }
        send(libc::SIGCONT);
    }
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
