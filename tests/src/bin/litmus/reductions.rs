//! Programs whose ranks make one value of all theirs.

use scash::{Combine, Dsm, Result};

/// A number that looks like any other.
fn noise(seed: usize) -> u64 {
    let mixed = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

/// Sums and the like, of one value and of many, next to accesses that they do not order.
pub(crate) fn values(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let (me, size) = (dsm.rank(), dsm.size());
    let mine = dsm.alloc::<u64>(512 * size)?;
    for round in 0..rounds {
        let value = |rank: usize| noise(round * size + rank);
        mine.set(dsm, 512 * me, value(me));
        let mut sums = [value(me), 1, round as u64];
        dsm.all_reduce(Combine::Sum, &mut sums)?;
        let all = (0..size).map(value).fold(0, u64::wrapping_add);
        assert_eq!(sums, [all, size as u64, (round * size) as u64], "round {round}");
        let least = dsm.reduce(Combine::Min, value(me).cast_signed())?;
        assert_eq!(Some(least), (0..size).map(|rank| value(rank).cast_signed()).min());
        let from = round % size;
        assert_eq!(dsm.broadcast_value([value(me), me as u64], from)?, [value(from), from as u64]);
        if round % 5 == 0 {
            dsm.barrier()?;
            assert!((0..size).all(|rank| mine.get(dsm, 512 * rank) == value(rank)), "round {round}");
            dsm.barrier()?;
        }
    }
    Ok(())
}

/// Sums of floating-point numbers whose bits depend on the order of additions.
pub(crate) fn bits(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let value = (noise(dsm.rank()) as f64).powi(3);
    let first = dsm.reduce(Combine::Sum, value)?.to_bits();
    for _ in 0..rounds {
        let sum = dsm.reduce(Combine::Sum, value)?.to_bits();
        assert_eq!(sum, first, "the bits of a sum in another round");
        assert_eq!(
            dsm.reduce(Combine::Max, sum)?,
            dsm.reduce(Combine::Min, sum)?,
            "the bits at another rank"
        );
    }
    Ok(())
}

/// A rank sends one message up, and one down to each of its children: never more than log₂ of the number of
/// ranks, plus one.
pub(crate) fn messages(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let (me, size) = (dsm.rank(), dsm.size());
    let before = dsm.stats().traffic.messages;
    for _ in 0..rounds {
        dsm.reduce(Combine::Sum, 1u64)?;
    }
    let sent = dsm.stats().traffic.messages - before;
    let below = if me == 0 { usize::BITS } else { me.trailing_zeros() };
    let children = (0..below).take_while(|k| me + (1 << k) < size).count();
    assert_eq!(sent, (rounds * (children + usize::from(me > 0))) as u64, "messages of rank {me}");
    let most = size.next_power_of_two().trailing_zeros() as usize + 1;
    assert!(children + usize::from(me > 0) <= most, "{children} children of {size} ranks");
    Ok(())
}
