//! Several threads of each rank.

use super::{LEN, value};
use scash::{Combine, Dsm, Error, Result, Session, Worker};

/// What a session reads of an element of its next neighbour, by whatever it is.
fn step(session: &mut impl Session, field: &mut scash::Partition<u64>, interval: usize) -> Result<()> {
    let parts = field.parts(session);
    for (i, x) in (parts.start..).zip(parts.mine) {
        *x = value(interval, i);
    }
    field.publish(session)
}

/// Each worker owns a part, and sees all others' after each barrier.
pub(crate) fn own_parts_and_meet_at_barriers(dsm: &mut Dsm) -> Result<()> {
    for threads in [1, 2, 3] {
        let ranks = dsm.size();
        let numbers = dsm.crew(threads, |worker| -> Result<_> {
            assert_eq!((worker.threads(), worker.count()), (threads, threads * ranks));
            assert_eq!(worker.index(), worker.rank() * threads + worker.thread());
            let mut field = worker.partition::<u64>(LEN)?;
            let (own, (index, count)) = (field.mine(), (worker.index(), worker.count()));
            assert_eq!((own.start, own.end), (index * LEN / count, (index + 1) * LEN / count));
            for interval in 1..=5 {
                step(worker, &mut field, interval)?;
                assert!(field.all(worker).iter().enumerate().all(|(i, &x)| x == value(interval, i)));
            }
            field.free(worker)?;
            let own = worker.alloc::<u64>(worker.count())?;
            own.set(worker, worker.index(), 7);
            worker.barrier()?;
            assert!((0..worker.count()).all(|index| own.get(worker, index) == 7));
            worker.free(own)?;
            Ok(worker.index())
        })?;
        assert_eq!(numbers, (dsm.rank() * threads..(dsm.rank() + 1) * threads).collect::<Vec<_>>());
    }
    Ok(())
}

/// Locks, atomic operations and flags are used with a worker as with a rank.
pub(crate) fn share_locks_and_words(dsm: &mut Dsm) -> Result<()> {
    const TIMES: u64 = 50;
    let (sum, table) = (dsm.mutex([0u64; 3])?, dsm.rwlock(0u64)?);
    let (words, turn) = (dsm.alloc::<u64>(1)?, dsm.flags(1)?[0]);
    let count = 2 * dsm.size() as u64;
    dsm.crew(2, |worker| -> Result<()> {
        for _ in 0..TIMES {
            let mut sum = sum.lock(worker)?;
            let [a, b, _] = *sum;
            *sum = [a + 1, b + 2, a + b];
            drop(sum);
            words.fetch_add(worker, 0, 3)?;
            *table.write(worker)? += 1;
        }
        // One after the other.
        let me = worker.index() as u64;
        turn.wait(worker, me)?;
        turn.raise(worker, me + 1)?;
        turn.wait(worker, count)?;
        worker.barrier()?;
        let all = TIMES * count;
        assert_eq!(sum.lock(worker)?[..2], [all, 2 * all]);
        assert_eq!((*table.read(worker)?, words.get(worker, 0)), (all, 3 * all));
        Ok(())
    })?;
    dsm.free(words)
}

/// Sums of floating-point numbers have the same bits at every worker.
pub(crate) fn add_up_in_one_order(dsm: &mut Dsm) -> Result<()> {
    let part = |worker: &Worker<'_>| 1.0 / (1 + worker.index()) as f64;
    let sums = dsm.crew(3, |worker| -> Result<_> {
        let mut values = [part(worker), -part(worker)];
        worker.all_reduce(Combine::Sum, &mut values)?;
        assert_eq!(values[0].to_bits(), (-values[1]).to_bits());
        let most = worker.reduce(Combine::Max, worker.index() as u64)?;
        assert_eq!(most + 1, worker.count() as u64);
        worker.all_reduce::<u64>(Combine::Sum, &mut [])?;
        worker.reduce(Combine::Sum, part(worker))
    })?;
    let first = dsm.broadcast_value(sums[0], 0)?;
    assert!(sums.iter().all(|sum| sum.to_bits() == first.to_bits()));
    Ok(())
}

/// The crew's error is that of the thread that failed first; ranks agree on it here, and go on.
pub(crate) fn end_when_one_fails(dsm: &mut Dsm) -> Result<()> {
    let told = dsm.crew(3, |worker| -> Result<()> {
        if worker.thread() == 1 {
            return Err(Error::Argument("nothing to do".to_owned()));
        }
        let told = worker.barrier().expect_err("one will not come");
        assert!(matches!(told, Error::Deserted(_)), "{told}");
        // For good.
        worker.barrier().map_err(|_| told)
    });
    assert_eq!(told.expect_err("one has failed").to_string(), "nothing to do");
    let told = dsm.crew(2, |worker| if worker.thread() == 0 { worker.barrier() } else { Ok(()) });
    let told = told.expect_err("one has left").to_string();
    assert!(told.starts_with(&format!("thread 1 of rank {} has done its work", dsm.rank())), "{told}");
    let told = dsm.crew(0, |worker| worker.barrier()).expect_err("no threads");
    assert!(told.to_string().contains("at least one"), "{told}");
    dsm.barrier()
}

/// A panic ends the others' waiting, goes on in the caller, and leaves locks free.
pub(crate) fn end_when_one_panics(dsm: &mut Dsm) -> Result<()> {
    let lock = dsm.mutex(0u64)?;
    let said = super::panics(|| {
        dsm.crew(2, |worker| -> Result<()> {
            let mut value = lock.lock(worker)?;
            *value += 1;
            assert_ne!(worker.thread(), 1, "thread {}", worker.thread());
            drop(value);
            worker.barrier()
        })
    });
    assert!(said.contains("thread 1"), "{said}");
    dsm.barrier()?;
    let ranks = dsm.size() as u64;
    assert_eq!(*lock.lock(dsm)?, 2 * ranks);
    dsm.barrier()
}
