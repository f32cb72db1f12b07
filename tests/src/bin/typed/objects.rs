//! Objects of synchronisation come to an end, with their values, and their handles lead nowhere.

use super::handles::refused;
use scash::{Condvar, Dsm, DsmMutex, Error, Flag, Lock, Result, Semaphore};

/// What is said of an object that was destroyed.
const GONE: &str = "any more: it was destroyed";

/// More often than the region has pages: values that are kept are missed.
pub(crate) fn end_together_with_their_values(dsm: &mut Dsm) -> Result<()> {
    for round in 0..300 {
        let mutexes = dsm.mutexes(3, |i| i)?;
        *mutexes[round % 3].lock(dsm)? += 1;
        dsm.destroy(&mutexes)?;
    }
    handles_lead_nowhere(dsm)?;
    what_a_guard_holds_stays(dsm)?;
    only_what_belongs_together(dsm)
}

fn handles_lead_nowhere(dsm: &mut Dsm) -> Result<()> {
    let (locks, mutex, table) = (dsm.locks(2)?, dsm.mutex(5u64)?, dsm.rwlock([7u8; 9])?);
    let (semaphore, condvar, flags) = (dsm.semaphore(3)?, dsm.condvar()?, dsm.flags(2)?);
    dsm.destroy(&locks[1..])?;
    dsm.destroy(&[mutex])?;
    dsm.destroy(&[table])?;
    dsm.destroy(&[semaphore])?;
    dsm.destroy(&[condvar])?;
    dsm.destroy(&flags)?;
    // Others, and their memory, in the place of those.
    let others = dsm.mutexes(10, |_| 1u64)?;
    refused(locks[1].hold(dsm), GONE);
    refused(locks[1].try_hold(dsm), GONE);
    refused(mutex.lock(dsm), GONE);
    refused(mutex.try_lock(dsm), GONE);
    refused(table.read(dsm), GONE);
    refused(table.write(dsm), GONE);
    refused(semaphore.wait(dsm), GONE);
    refused(semaphore.post(dsm), GONE);
    refused(condvar.signal(dsm), GONE);
    refused(condvar.broadcast(dsm), GONE);
    refused(condvar.wait_held(locks[0].hold(dsm)?), GONE);
    refused(flags[1].raise(dsm, 1), GONE);
    refused(flags[0].wait(dsm, 0), GONE);
    refused(dsm.destroy(&[mutex]), GONE);
    refused(dsm.destroy(&flags), GONE);
    assert!(others.iter().all(|other| other.lock(dsm).is_ok_and(|value| *value == 1)));
    dsm.destroy(&others)?;
    dsm.destroy(&locks[..1])
}

/// A guard that is forgotten holds its value for ever, and no rank destroys it.
fn what_a_guard_holds_stays(dsm: &mut Dsm) -> Result<()> {
    let mutexes = dsm.mutexes(2, |_| 0u64)?;
    if dsm.rank() == 0 {
        std::mem::forget(mutexes[1].lock(dsm)?);
    }
    let told = dsm.destroy(&mutexes).expect_err("one is in use");
    let words = "because a thread of rank 0 has it";
    assert!(matches!(told, Error::InUse(_)) && told.to_string().contains(words), "{told}");
    assert_eq!(*mutexes[0].lock(dsm)?, 0);
    dsm.barrier()
}

fn only_what_belongs_together(dsm: &mut Dsm) -> Result<()> {
    let (mutexes, flags) = (dsm.mutexes(3, |_| 0u8)?, dsm.flags(3)?);
    refused(dsm.destroy(&mutexes[..2]), "2 of 3 objects that were made together");
    refused(dsm.destroy(&mutexes[1..]), "destroy all of them");
    refused(dsm.destroy(&[flags[0], flags[2]]), "not made one after the other");
    refused(dsm.destroy(&flags[..0]), "name at least one");
    dsm.destroy(&mutexes)?;
    dsm.destroy(&flags)
}

/// One of each kind that one rank makes by itself, where others find them.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Own {
    lock: Lock,
    semaphore: Semaphore,
    condvar: Condvar,
    flag: Flag,
    count: u64,
}

/// Rank 0 makes them, all use them, and the last rank destroys them: their handles lead nowhere.
pub(crate) fn one_rank_makes_and_another_destroys(dsm: &mut Dsm) -> Result<()> {
    let shared: DsmMutex<Own> = dsm.mutex(bytemuck::Zeroable::zeroed())?;
    for round in 1..=3 {
        if dsm.rank() == 0 {
            *shared.lock(dsm)? = Own {
                lock: Lock::make(dsm)?,
                semaphore: Semaphore::make(dsm, 1)?,
                condvar: Condvar::make(dsm)?,
                flag: Flag::make(dsm)?,
                count: 0,
            };
        }
        dsm.barrier()?;
        let Own { lock, semaphore, condvar, flag, .. } = *shared.lock(dsm)?;
        drop(lock.hold(dsm)?);
        drop(lock.try_hold(dsm)?);
        condvar.broadcast(dsm)?;
        semaphore.wait(dsm)?;
        shared.lock(dsm)?.count += 1;
        semaphore.post(dsm)?;
        flag.raise(dsm, round)?;
        flag.wait(dsm, round)?;
        dsm.barrier()?;
        assert_eq!(shared.lock(dsm)?.count, dsm.size() as u64);
        dsm.barrier()?;
        if dsm.rank() + 1 == dsm.size() {
            let held = lock.hold(dsm)?;
            refused(lock.delete(dsm), "is destroyed by the thread that has it");
            drop(held);
            lock.delete(dsm)?;
            semaphore.delete(dsm)?;
            condvar.delete(dsm)?;
            flag.delete(dsm)?;
            refused(lock.hold(dsm), "there is no lock");
            refused(lock.try_hold(dsm), "there is no lock");
            refused(semaphore.wait(dsm), "there is no semaphore");
            refused(condvar.delete(dsm), "there is no condition");
            refused(flag.wait(dsm, 0), "there is no flag");
        }
        refused(dsm.destroy(&[lock]), "let one rank destroy it");
    }
    let locks = dsm.locks(1)?;
    refused(locks[0].delete(dsm), "let all destroy it");
    dsm.destroy(&locks)?;
    dsm.destroy(&[shared])
}
