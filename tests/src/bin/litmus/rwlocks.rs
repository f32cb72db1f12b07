//! Programs that are ordered by reader–writer locks.

use crate::{THREADS, on_threads};
use scash::Dsm;
use scash::Result;
use scash::runtime::ObjectKind;

/// Values of a page.
const PAGE: usize = 512;

/// Writers write many values alike; readers find them alike, and never older than before.
pub(crate) fn readers_and_writers(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let table = dsm.rwlock([0u64; 3 * PAGE])?;
    let (me, size) = (dsm.rank(), dsm.size());
    let mut last = 0;
    for round in 0..rounds {
        if (round + me).is_multiple_of(4) {
            let mut values = table.write(dsm)?;
            let next = values[0] + 1;
            assert!(values.iter().all(|&v| v + 1 == next), "a writer finds values that differ");
            values.fill(next);
            last = next;
        } else {
            let values = table.read(dsm)?;
            let now = values[0];
            assert!(now >= last, "{now} after {last}");
            assert!(values.iter().all(|&v| v == now), "a reader finds values that differ");
            last = now;
        }
    }
    dsm.barrier()?;
    let writes: usize =
        (0..size).map(|rank| (0..rounds).filter(|round| (round + rank).is_multiple_of(4)).count()).sum();
    assert_eq!(table.read(dsm)?[3 * PAGE - 1], writes as u64);
    Ok(())
}

/// Two readers read at the same time: each waits until the other does.
pub(crate) fn readers_together(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let lock = dsm.rwlock(0u64)?;
    let inside = dsm.semaphores(dsm.size(), 0)?;
    for _ in 0..rounds {
        let guard = lock.read(dsm)?;
        for (rank, semaphore) in inside.iter().enumerate() {
            if rank != dsm.rank() {
                semaphore.post(dsm)?;
            }
        }
        (1..dsm.size()).try_for_each(|_| inside[dsm.rank()].wait(dsm))?;
        assert_eq!(*guard, 0);
        drop(guard);
        dsm.barrier()?;
    }
    Ok(())
}

/// Several threads of each rank take one lock, to read and to write.
pub(crate) fn threads(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let values = dsm.alloc::<u64>(2 * PAGE)?;
    // SAFETY: no references into shared memory are made here.
    let runtime = unsafe { dsm.runtime() };
    let number = runtime.make_objects(ObjectKind::RwLock, 1)?;
    let at = values.as_ptr() as usize;
    let word = |i: usize| (at as *mut u64).wrapping_add(i);
    // SAFETY: words of a live allocation, whose lock is held by whoever calls this.
    let get = |i: usize| unsafe { word(i).read_volatile() };
    // SAFETY: as above, held to write.
    let set = |i: usize, value: u64| unsafe { word(i).write_volatile(value) };
    let work = |thread: usize| -> Result<()> {
        for round in 0..rounds {
            runtime.read_lock(number)?;
            assert_eq!(get(0), get(PAGE), "thread {thread} reads in round {round}");
            runtime.rw_unlock(number)?;
            runtime.write_lock(number)?;
            let count = get(0);
            set(0, count + 1);
            assert_eq!(get(PAGE), count, "thread {thread} writes in round {round}");
            set(PAGE, count + 1);
            runtime.rw_unlock(number)?;
        }
        Ok(())
    };
    on_threads(work)?;
    dsm.barrier()?;
    assert_eq!(values.get(dsm, 0), (THREADS * rounds * dsm.size()) as u64);
    Ok(())
}
