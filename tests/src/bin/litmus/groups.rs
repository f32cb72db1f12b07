//! Programs that are ordered by barriers of some threads, and by events that can be reset.

use scash::{Dsm, Result};

/// Values of a page.
const PAGE: usize = 512;

/// In each round two ranks meet that follow one another, and only they: each sees what the other has
/// written. A pair has two groups of its own, for other pairs may come meanwhile.
pub(crate) fn pairs(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let (me, size) = (dsm.rank(), dsm.size());
    let groups = (0..2 * size).map(|_| dsm.group(2)).collect::<Result<Vec<_>>>()?;
    let data = dsm.alloc::<usize>(size * PAGE)?;
    for round in 0..rounds {
        let pair = [round % size, (round + 1) % size];
        if !pair.contains(&me) || size == 1 {
            continue;
        }
        let [written, read] = [0, 1].map(|i| groups[2 * pair[0] + i]);
        data.set(dsm, me * PAGE + 1, round * size + me);
        written.barrier(dsm)?;
        for rank in pair {
            assert_eq!(
                data.get(dsm, rank * PAGE + 1),
                round * size + rank,
                "of rank {rank} in round {round}"
            );
        }
        read.barrier(dsm)?;
    }
    dsm.barrier()?;
    groups.into_iter().try_for_each(|group| dsm.destroy_group(group))
}

/// All ranks wait for an event, which one sets and another one resets.
pub(crate) fn event(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let (event, all) = (dsm.event()?, dsm.group(dsm.size())?);
    let (me, size) = (dsm.rank(), dsm.size());
    let data = dsm.alloc::<usize>(3 * PAGE)?;
    for round in 1..=rounds {
        if me == round % size {
            (0..3).for_each(|page| data.set(dsm, page * PAGE + round % 3, round));
            event.set(dsm)?;
        }
        event.wait(dsm)?;
        for page in 0..3 {
            assert_eq!(data.get(dsm, page * PAGE + round % 3), round, "page {page} in round {round}");
        }
        all.barrier(dsm)?;
        if me == (round + 1) % size {
            event.reset(dsm)?;
        }
        all.barrier(dsm)?;
    }
    dsm.barrier()?;
    dsm.destroy_event(event)?;
    dsm.destroy_group(all)
}
