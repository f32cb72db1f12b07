//! Ranks that destroy what is in use, what is gone, or what others do not.

use super::{Rank, thread};
use scash::runtime::{ObjectKind, Runtime};
use scash::{Error, Result};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

const SEMAPHORE: ObjectKind = ObjectKind::Semaphore(1);

/// Where ranks go on from a call that all were refused: what each was told, once.
fn refused(rank: &Rank, told: Result<()>) {
    assert!(matches!(told, Err(Error::InUse(_))), "{told:?}");
    rank.say(told);
}

/// The last rank uses an object in some way: no rank destroys it. Then the last rank has done, and all do.
pub(crate) fn what_is_in_use(mut rank: Rank) -> Result<ExitCode> {
    let (it, last) = (rank.untyped(), rank.is(rank.dsm.size() - 1));
    let lock = it.make_locks(3)?;
    let rwlock = it.make_objects(ObjectKind::RwLock, 1)?;
    let condition = it.make_objects(ObjectKind::Condition, 1)?;
    type Call<'a> = &'a dyn Fn() -> Result<()>;
    let uses: [(ObjectKind, u32, u32, Call<'_>, Call<'_>); 3] = [
        (ObjectKind::Lock, lock, 3, &|| it.lock(lock + 1), &|| it.unlock(lock + 1)),
        (ObjectKind::RwLock, rwlock, 1, &|| it.read_lock(rwlock), &|| it.rw_unlock(rwlock)),
        (ObjectKind::RwLock, rwlock, 1, &|| it.write_lock(rwlock), &|| it.rw_unlock(rwlock)),
    ];
    for (kind, first, count, begin, end) in uses {
        if last {
            begin()?;
        }
        refused(&rank, it.destroy_objects(kind, first, count));
        if last {
            end()?;
        }
        rank.dsm.barrier()?;
    }
    waits_for_a_condition(&mut rank, condition, lock)?;
    goes_on_meanwhile(&mut rank, lock)?;
    for (kind, first, count) in
        [(ObjectKind::Condition, condition, 1), (ObjectKind::RwLock, rwlock, 1), (ObjectKind::Lock, lock, 3)]
    {
        it.destroy_objects(kind, first, count)?;
    }
    rank.dsm.finalize()?;
    Ok(ExitCode::SUCCESS)
}

/// A thread of the last rank waits for a condition, and has given a lock back for that: neither is destroyed.
fn waits_for_a_condition(rank: &mut Rank, condition: u32, lock: u32) -> Result<()> {
    let (it, last) = (rank.untyped(), rank.is(rank.dsm.size() - 1));
    let waits = last.then(|| {
        let (told, locked) = channel();
        let waits = thread::spawn(move || {
            it.lock(lock)?;
            told.send(()).expect("somebody waits for it");
            it.condition_wait(condition, lock)?;
            it.unlock(lock)
        });
        locked.recv().expect("the thread has the lock");
        waits
    });
    if last {
        // The thread gives it back when its wait is queued.
        it.lock(lock)?;
        it.unlock(lock)?;
    }
    refused(rank, it.destroy_objects(ObjectKind::Condition, condition, 1));
    refused(rank, it.destroy_objects(ObjectKind::Lock, lock, 3));
    if let Some(waits) = waits {
        it.condition_signal(condition)?;
        waits.join().expect("no panic")?;
    }
    rank.dsm.barrier()
}

/// Another thread of the last rank has a lock. Objects are for use as ever while that rank waits for the
/// others, of which one waits for that thread.
fn goes_on_meanwhile(rank: &mut Rank, lock: u32) -> Result<()> {
    let (it, last) = (rank.untyped(), rank.is(rank.dsm.size() - 1));
    let told = it.make_objects(ObjectKind::Semaphore(0), 1)?;
    let other = last.then(|| {
        let ((begun, has_begun), (over, is_over)) = (channel(), channel());
        let other = thread::spawn(move || {
            it.lock(lock + 2)?;
            begun.send(()).expect("somebody waits for it");
            // The rank has come to the call by then, if not later.
            thread::sleep(Duration::from_millis(50));
            it.semaphore_post(told, 1)?;
            is_over.recv().expect("the call returns");
            it.unlock(lock + 2)
        });
        has_begun.recv().expect("the thread has the lock");
        (other, over)
    });
    if rank.is(0) && !last {
        it.semaphore_wait(told)?;
    }
    refused(rank, it.destroy_objects(ObjectKind::Lock, lock, 3));
    if let Some((other, over)) = other {
        over.send(()).expect("the thread waits for it");
        other.join().expect("no panic")?;
    }
    rank.dsm.barrier()?;
    it.destroy_objects(ObjectKind::Semaphore(0), told, 1)
}

/// Uses and destroys what was destroyed: rank 0 says what it was told, and all end well.
pub(crate) fn what_is_gone(rank: Rank) -> Result<ExitCode> {
    let it = rank.untyped();
    let kinds = [ObjectKind::Lock, ObjectKind::RwLock, SEMAPHORE, ObjectKind::Condition, ObjectKind::Flag];
    // Numbers 0 to 9, two of each; the second of each stays.
    for kind in kinds {
        let first = it.make_objects(kind, 2)?;
        it.destroy_objects(kind, first, 1)?;
    }
    // Others in their place.
    it.make_objects(ObjectKind::Lock, 10)?;
    if rank.is(0) {
        uses(&rank, it);
        rank.say(it.destroy_objects(ObjectKind::Lock, 0, 1));
        rank.say(it.destroy_objects(ObjectKind::Lock, 1, 2));
        rank.say(it.destroy_objects(ObjectKind::Lock, 3, 1));
        rank.say(it.destroy_objects(ObjectKind::Lock, 19, 2));
        rank.say(it.destroy_objects(ObjectKind::Lock, u32::MAX, 2));
        rank.say(it.destroy_objects(ObjectKind::Lock, 1, 0));
    }
    // Those that stay are as good as ever.
    it.lock(1)?;
    it.unlock(1)?;
    it.semaphore_wait(5)?;
    it.semaphore_post(5, 1)?;
    rank.dsm.finalize()?;
    Ok(ExitCode::SUCCESS)
}

fn uses(rank: &Rank, it: &Runtime) {
    rank.say(it.lock(0));
    rank.say(it.try_lock(0).map(drop));
    rank.say(it.unlock(0));
    rank.say(it.read_lock(2));
    rank.say(it.rw_unlock(2));
    rank.say(it.semaphore_wait(4));
    rank.say(it.semaphore_post(4, 1));
    rank.say(it.condition_signal(6));
    rank.say(it.flag_raise(8, 1));
}

/// The last rank alone destroys, or destroys others. With a lock that is held by rank 0, too.
pub(crate) fn alone(rank: Rank, mistake: &str) -> Result<ExitCode> {
    let (it, last) = (rank.untyped(), rank.is(rank.dsm.size() - 1));
    it.make_locks(4)?;
    if rank.is(0) {
        it.lock(3)?;
    }
    // Who is still in a call before is told there.
    rank.note("ready");
    (0..rank.dsm.size()).for_each(|other| rank.wait_for("ready", other));
    let told = match (mistake, last) {
        ("destroys others", false) => it.destroy_objects(ObjectKind::Lock, 0, 4),
        (_, true) => it.destroy_objects(ObjectKind::Lock, 1, 2),
        _ => it.barrier(),
    };
    Ok(rank.tell(told))
}
