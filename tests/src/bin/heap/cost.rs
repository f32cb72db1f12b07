//! What allocating and freeing cost: `heap cost ROUNDS`, on two ranks. For people; no test looks at the
//! times.

use super::{at, untyped};
use scash::{Dsm, Result};
use std::time::Instant;

/// Objects between two measurements.
const BATCH: usize = 1000;

/// Rank 0 allocates and frees; then rank 1 frees what rank 0 has allocated, and has written there or not.
pub(crate) fn cost(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let it = untyped(dsm);
    let table = dsm.alloc::<usize>(BATCH)?;
    dsm.locks(1)?;
    if dsm.rank() == 0 {
        // Its pages have frames then.
        (0..2).try_for_each(|_| pairs(it, BATCH))?;
        let start = Instant::now();
        (0..rounds).try_for_each(|_| pairs(it, BATCH))?;
        println!("own: {:.0} ns a pair", start.elapsed().as_nanos() as f64 / (rounds * BATCH) as f64);
    }
    for writes in [false, true] {
        let (mut made, mut freed) = (0, 0);
        let before = dsm.stats();
        for _ in 0..rounds {
            let start = Instant::now();
            if dsm.rank() == 0 {
                for index in 0..BATCH {
                    table.set(dsm, index, it.malloc(64)? as usize);
                }
                made += start.elapsed().as_nanos();
                for index in 0..BATCH {
                    // SAFETY: 64 bytes that this rank alone uses now: it is their home.
                    unsafe { at(table.get(dsm, index)).write_bytes(2, 64) };
                }
            }
            dsm.barrier()?;
            if dsm.rank() == 1 {
                let objects: Vec<_> = (0..BATCH).map(|index| at(table.get(dsm, index))).collect();
                for object in &objects {
                    if writes {
                        // SAFETY: 64 bytes that this rank alone uses now.
                        unsafe { object.write_bytes(1, 64) };
                    }
                }
                let start = Instant::now();
                objects.into_iter().try_for_each(|object| it.free_object(object))?;
                freed += start.elapsed().as_nanos();
            }
            dsm.barrier()?;
        }
        let each = |time: u128| time as f64 / (rounds * BATCH) as f64;
        let (now, count) = (dsm.stats(), (rounds * BATCH) as f64);
        println!(
            "rank {}, freed by rank 1, which {}: {:.0} ns an allocation, {:.0} ns a freeing; {:.3} atomic operations, {:.3} puts, {:.3} faults",
            dsm.rank(),
            if writes { "has written there" } else { "has not written there" },
            each(made),
            each(freed),
            (now.traffic.atomics - before.traffic.atomics) as f64 / count,
            (now.traffic.puts - before.traffic.puts) as f64 / count,
            (now.faults - before.faults) as f64 / count,
        );
    }
    Ok(())
}

fn pairs(it: &scash::runtime::Runtime, count: usize) -> Result<()> {
    let objects = (0..count).map(|_| it.malloc(64)).collect::<Result<Vec<_>>>()?;
    objects.into_iter().try_for_each(|object| it.free_object(object))
}
