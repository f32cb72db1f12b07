//! Programs that are ordered by locks and memory barriers together.

use scash::{Dsm, Result};

/// A stencil whose ranks also add up what they see, under a lock, in every interval.
pub(crate) fn and_locks(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    const LEN: usize = 3000;
    let sum = dsm.mutex(0u64)?;
    let mut field = dsm.partition::<u64>(LEN)?;
    let mut expected = vec![0u64; LEN];
    for round in 0..rounds {
        let parts = field.parts(dsm);
        let (start, mine) = (parts.start, parts.mine.len());
        for i in start..start + mine {
            let at = |i: usize| match i.checked_sub(start) {
                None => parts.before[i],
                Some(k) if k < mine => parts.old[k],
                Some(k) => parts.after[k - mine],
            };
            let left = i.checked_sub(1).map_or(round as u64, at);
            let right = if i + 1 < LEN { at(i + 1) } else { 1 };
            parts.mine[i - start] = left.wrapping_add(right).wrapping_add(i as u64);
        }
        let part = parts.mine.iter().fold(0u64, |a, &b| a.wrapping_add(b));
        let mut total = sum.lock(dsm)?;
        *total = total.wrapping_add(part);
        drop(total);
        field.publish(dsm)?;
        let before = expected.clone();
        for (i, value) in expected.iter_mut().enumerate() {
            let left = i.checked_sub(1).map_or(round as u64, |l| before[l]);
            let right = before.get(i + 1).copied().unwrap_or(1);
            *value = left.wrapping_add(right).wrapping_add(i as u64);
        }
        let all = expected.iter().fold(0u64, |a, &b| a.wrapping_add(b));
        if dsm.rank() == round % dsm.size() {
            let mut total = sum.lock(dsm)?;
            assert_eq!(*total, all, "the sum of round {round}");
            *total = 0;
        }
        assert_eq!(field.all(dsm), expected, "the field after round {round}");
        dsm.barrier()?;
    }
    Ok(())
}
