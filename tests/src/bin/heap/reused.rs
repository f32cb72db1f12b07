//! A place of the heap that is used again, with the bytes that it has.

use super::{at, untyped};
use scash::{Dsm, DsmMutex, Result};

/// Waits until a number is there, which other ranks set while they have the mutex.
fn wait_for(dsm: &Dsm, number: &DsmMutex<usize>, least: usize) -> Result<()> {
    while *number.lock(dsm)? < least {}
    Ok(())
}

/// Rank 1 zeroes an object and frees it. Rank 0 allocates its place again, zeroes it, and tells rank 2, which
/// has read the object before, and hears nothing from rank 1.
pub(crate) fn reused(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let it = untyped(dsm);
    let table = dsm.alloc::<usize>(1)?;
    let (seen, again) = (dsm.mutex(0usize)?, dsm.mutex(0usize)?);
    let bytes = |address: usize| {
        // SAFETY: an object of 64 bytes, which this thread alone uses now.
        unsafe { &mut *at(address).cast::<[u8; 64]>() }
    };
    for round in 1..=rounds {
        if dsm.rank() == 0 {
            table.set(dsm, 0, it.malloc(64)? as usize);
        }
        dsm.barrier()?;
        let object = table.get(dsm, 0);
        if dsm.rank() == 1 {
            // Its page is at home here.
            bytes(object).fill(7);
        }
        dsm.barrier()?;
        match dsm.rank() {
            0 => {
                assert_eq!(*bytes(object), [7; 64]);
                *seen.lock(dsm)? += 1;
                // Nothing of the program's orders the freeing before this.
                while it.object_size(at(object)).is_ok() {}
                let mut others = Vec::new();
                loop {
                    match it.malloc(64)? as usize {
                        new if new == object => break,
                        new => others.push(new),
                    }
                }
                bytes(object).fill(0);
                *again.lock(dsm)? = round;
                others.drain(..).try_for_each(|other| it.free_object(at(other)))?;
            }
            1 => {
                wait_for(dsm, &seen, 2 * round)?;
                bytes(object).fill(0);
                it.free_object(at(object))?;
            }
            2 => {
                assert_eq!(*bytes(object), [7; 64]);
                *seen.lock(dsm)? += 1;
                wait_for(dsm, &again, round)?;
                assert_eq!(*bytes(object), [0; 64], "round {round}: what the place had before");
            }
            _ => {}
        }
        dsm.barrier()?;
        if dsm.rank() == 0 {
            it.free_object(at(object))?;
        }
    }
    Ok(())
}
