//! Programs that are ordered by semaphores, condition variables and flags.

use scash::{Condvar, Dsm, DsmMutex, Result, SharedSlice};

/// Values of a page.
const PAGE: usize = 512;
/// Places of a buffer.
const PLACES: usize = 5;

/// How many values have been put and taken.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Buffer {
    put: usize,
    taken: usize,
}

/// The value number `n` of a rank: a word on each of two pages for every place, so that it is seen whether
/// all was written before it was announced.
fn fill(dsm: &Dsm, data: SharedSlice<usize>, place: usize, value: usize) {
    data.set(dsm, place, value);
    data.set(dsm, PAGE + place * 7, value + 1);
}

fn check(dsm: &Dsm, data: SharedSlice<usize>, place: usize) -> usize {
    let value = data.get(dsm, place);
    assert_eq!(data.get(dsm, PAGE + place * 7), value + 1, "half of a value, at place {place}");
    value
}

/// What rank 0 has taken: everything that the other ranks made, and each rank's values in their order.
struct Taken {
    next: Vec<usize>,
}

impl Taken {
    fn add(&mut self, value: usize) {
        let (rank, number) = (value % self.next.len(), value / self.next.len());
        assert_eq!(number, self.next[rank], "values of rank {rank} come in order");
        self.next[rank] += 1;
    }
}

/// A bounded buffer that several ranks fill and one empties: with a lock and two conditions.
pub(crate) fn buffer_with_conditions(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let buffer = dsm.mutex(Buffer { put: 0, taken: 0 })?;
    let (not_full, not_empty) = (dsm.condvar()?, dsm.condvar()?);
    let data = dsm.alloc::<usize>(2 * PAGE)?;
    let (me, size) = (dsm.rank(), dsm.size());
    if me > 0 {
        for number in 0..rounds {
            let full = |b: &mut Buffer| b.put - b.taken == PLACES;
            let mut now = not_full.wait_while(buffer.lock(dsm)?, full)?;
            fill(dsm, data, now.put % PLACES, number * size + me);
            now.put += 1;
            drop(now);
            not_empty.signal(dsm)?;
        }
    } else {
        let mut taken = Taken { next: vec![0; size] };
        for _ in 0..rounds * (size - 1) {
            let mut now = not_empty.wait_while(buffer.lock(dsm)?, |b| b.put == b.taken)?;
            taken.add(check(dsm, data, now.taken % PLACES));
            now.taken += 1;
            not_full.signal(dsm)?;
        }
    }
    dsm.barrier()
}

/// The same with semaphores. The lock protects the numbers; the values are ordered by the semaphores alone.
pub(crate) fn buffer_with_semaphores(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let places = u32::try_from(PLACES).expect("few places");
    let (free, full) = (dsm.semaphore(places)?, dsm.semaphore(0)?);
    let next = dsm.mutex(0usize)?;
    let data = dsm.alloc::<usize>(2 * PAGE)?;
    let (me, size) = (dsm.rank(), dsm.size());
    if me > 0 {
        for number in 0..rounds {
            free.wait(dsm)?;
            // In the order of the places, or rank 0 could find one empty.
            let mut place = next.lock(dsm)?;
            fill(dsm, data, *place % PLACES, number * size + me);
            *place += 1;
            full.post(dsm)?;
        }
    } else {
        let mut taken = Taken { next: vec![0; size] };
        for place in 0..rounds * (size - 1) {
            full.wait(dsm)?;
            taken.add(check(dsm, data, place % PLACES));
            free.post(dsm)?;
        }
    }
    dsm.barrier()
}

/// A pipeline: each rank waits for the one before it, adds to what that one wrote, and raises its flag. The
/// first waits for the last.
pub(crate) fn pipeline_with_flags(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let (me, size) = (dsm.rank(), dsm.size());
    let flags = dsm.flags(size)?;
    let data = dsm.alloc::<usize>(size * PAGE)?;
    for round in 0..rounds {
        let before = if me == 0 {
            flags[size - 1].wait(dsm, round as u64)?;
            round
        } else {
            flags[me - 1].wait(dsm, round as u64 + 1)?;
            data.get(dsm, (me - 1) * PAGE + round % PAGE)
        };
        assert_eq!(before, round + me, "what comes from the rank before, in round {round}");
        data.set(dsm, me * PAGE + round % PAGE, before + 1);
        flags[me].raise(dsm, round as u64 + 1)?;
    }
    dsm.barrier()
}

/// All ranks wait for one flag.
pub(crate) fn one_flag_for_all(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let (flag, back) = (dsm.flags(1)?[0], dsm.semaphore(0)?);
    let data = dsm.alloc::<usize>(3 * PAGE)?;
    let others = dsm.size() - 1;
    for round in 1..=rounds {
        if dsm.rank() == 0 {
            (0..3).for_each(|page| data.set(dsm, page * PAGE + round % 3, round));
            flag.raise(dsm, round as u64)?;
            (0..others).try_for_each(|_| back.wait(dsm))?;
        } else {
            flag.wait(dsm, round as u64)?;
            for page in 0..3 {
                assert_eq!(data.get(dsm, page * PAGE + round % 3), round, "page {page} in round {round}");
            }
            back.post(dsm)?;
        }
    }
    dsm.barrier()
}

/// One rank after the other, each woken by the one before among all.
pub(crate) fn turns(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let (turn, changed) = (dsm.mutex(0usize)?, dsm.condvar()?);
    let (me, size) = (dsm.rank(), dsm.size());
    for round in 0..rounds {
        let mut now = changed.wait_while(turn.lock(dsm)?, |now| *now % size != me)?;
        assert_eq!(*now, round * size + me);
        *now += 1;
        changed.broadcast(dsm)?;
    }
    dsm.barrier()
}

/// A signal from before a memory barrier wakes nobody who waits after it.
pub(crate) fn lost_signals(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let (state, signal) = (dsm.mutex([0usize; 2])?, dsm.condvar()?);
    for round in 0..rounds {
        signal.signal(dsm)?;
        dsm.barrier()?;
        match dsm.rank() {
            0 => wake(dsm, state, signal)?,
            1 => {
                let mut now = state.lock(dsm)?;
                now[0] = 1;
                let now = signal.wait(now)?;
                assert_eq!(now[1], 1, "a signal that nobody waited for was kept, in round {round}");
            }
            _ => {}
        }
        dsm.barrier()?;
        if dsm.rank() == 0 {
            *state.lock(dsm)? = [0; 2];
        }
        dsm.barrier()?;
    }
    Ok(())
}

/// Signals when rank 1 waits: then, and only then, is its lock free although it has said that it will wait.
fn wake(dsm: &Dsm, state: DsmMutex<[usize; 2]>, signal: Condvar) -> Result<()> {
    while dsm.size() > 1 {
        let mut now = state.lock(dsm)?;
        if now[0] == 1 {
            now[1] = 1;
            return signal.signal(dsm);
        }
    }
    Ok(())
}
