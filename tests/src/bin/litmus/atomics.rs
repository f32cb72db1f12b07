//! Programs that operate on words.

use scash::{AllocOptions, AtomicWord, Dsm, Placement, Protocol, Result};

/// Values of a page.
const PAGE: usize = 512;

/// Ranks take numbers from a counter. Each number goes to one of them, and they are all of those up to the
/// last.
pub(crate) fn tickets(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let (all, me) = (rounds * dsm.size(), dsm.rank());
    let next = dsm.alloc::<usize>(1)?;
    let owner = dsm.alloc::<usize>(all)?;
    let mut mine = 0;
    loop {
        let ticket = next.fetch_add(dsm, 0, 1)?;
        if ticket >= all {
            break;
        }
        assert_eq!(owner.get(dsm, ticket), 0, "nobody else has ticket {ticket}");
        owner.set(dsm, ticket, me + 1);
        mine += 1;
    }
    dsm.barrier()?;
    assert_eq!(next.get(dsm, 0), all + dsm.size());
    assert!((0..all).all(|ticket| owner.get(dsm, ticket) > 0), "each ticket has an owner");
    assert_eq!((0..all).filter(|&ticket| owner.get(dsm, ticket) == me + 1).count(), mine);
    Ok(())
}

/// A histogram of one page or two, whose words all ranks add to, with values beside them that each rank
/// writes for itself; read by all after every barrier.
fn histogram<T: AtomicWord + From<u8> + std::fmt::Debug>(
    dsm: &mut Dsm,
    rounds: usize,
    options: AllocOptions,
    count: impl Fn(usize) -> T,
) -> Result<()> {
    const WORDS: usize = 13;
    let (me, size) = (dsm.rank(), dsm.size());
    let group = size + 1;
    let field = dsm.alloc_with::<T>(2 * PAGE, options)?;
    let groups = (0..WORDS).map(|i| i * (2 * PAGE / WORDS));
    for round in 1..=rounds {
        for at in groups.clone() {
            field.set(dsm, at + 1 + me, count(round + me));
            assert!(at + group <= 2 * PAGE);
            field.fetch_add(dsm, at, T::from(1))?;
        }
        dsm.barrier()?;
        for at in groups.clone() {
            assert_eq!(field.get(dsm, at), count(round * size), "word {at} in round {round}");
            for rank in 0..size {
                assert_eq!(field.get(dsm, at + 1 + rank), count(round + rank), "value of rank {rank}");
            }
        }
        dsm.barrier()?;
    }
    dsm.free(field)
}

/// Histograms of both widths, under each protocol, with homes that are known or come with the first touch.
pub(crate) fn histograms(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let narrow = |n: usize| u32::try_from(n).expect("a small number");
    for protocol in [Protocol::Adaptive, Protocol::Update, Protocol::Invalidate] {
        for placement in [Placement::FirstTouch, Placement::Rank(0), Placement::Block] {
            let options = AllocOptions { placement, protocol, block: 2 };
            histogram::<u64>(dsm, rounds, options, |n| n as u64)?;
            histogram::<u32>(dsm, rounds, options, narrow)?;
        }
    }
    Ok(())
}

/// The largest of all values, by operations that replace what they expect.
pub(crate) fn maximum(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let best = dsm.alloc::<i64>(1)?;
    let value = |rank: usize, round: usize| (rank * 7919 + round * 104_729) as i64 % 10_007 - 5_000;
    for round in 0..rounds {
        let mine = value(dsm.rank(), round);
        let mut seen = best.atomic_load(dsm, 0)?;
        while seen < mine {
            let now = best.compare_swap(dsm, 0, seen, mine)?;
            if now == seen {
                break;
            }
            seen = now;
        }
    }
    dsm.barrier()?;
    let all = (0..dsm.size()).flat_map(|rank| (0..rounds).map(move |round| value(rank, round)));
    assert_eq!(best.get(dsm, 0), all.fold(0, i64::max));
    Ok(())
}

/// On each page of a field a word that all ranks add to, inside of critical sections and outside, next to a
/// value that is changed under a lock only.
pub(crate) fn beside_locks(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    const PAGES: usize = 100;
    let locks = dsm.locks(2)?;
    let field = dsm.alloc::<u64>(PAGES * PAGE)?;
    let size = dsm.size() as u64;
    for round in 1..=rounds as u64 {
        for page in 0..PAGES {
            let (word, value) = (page * PAGE + page, page * PAGE + page + 1);
            field.fetch_add(dsm, word, 1)?;
            let held = locks[page % 2].hold(dsm)?;
            field.set(dsm, value, field.get(dsm, value) + 1);
            field.fetch_add(dsm, word, 1)?;
            drop(held);
        }
        dsm.barrier()?;
        for page in 0..PAGES {
            assert_eq!(field.get(dsm, page * PAGE + page), 2 * round * size, "word of page {page}");
            assert_eq!(field.get(dsm, page * PAGE + page + 1), round * size, "value of page {page}");
        }
        dsm.barrier()?;
    }
    Ok(())
}
