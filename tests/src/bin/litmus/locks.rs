//! Programs that are ordered by locks alone.

use crate::{THREADS, on_threads};
use scash::{AllocOptions, Dsm, Placement, Result};

/// Values of a page.
const PAGE: usize = 512;

/// Every rank adds to one value.
pub(crate) fn counter(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let count = dsm.mutex(0u64)?;
    for _ in 0..rounds {
        *count.lock(dsm)? += 1;
    }
    dsm.barrier()?;
    assert_eq!(*count.lock(dsm)?, (rounds * dsm.size()) as u64);
    Ok(())
}

/// Rank 0, with all its threads, takes the lock again as soon as it has given it back, until every other rank
/// has had it so many times.
pub(crate) fn greed(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let had = dsm.alloc::<u64>(1)?;
    let all = (rounds * (dsm.size() - 1)) as u64;
    // SAFETY: no references into shared memory are made here.
    let runtime = unsafe { dsm.runtime() };
    let number = runtime.make_locks(1)?;
    let at = had.as_ptr() as usize;
    // How many times others have had the lock, after adding this.
    let have = |more: u64| -> Result<u64> {
        let word = at as *mut u64;
        runtime.lock(number)?;
        // SAFETY: the word of a live allocation; the lock is held.
        let now = more + unsafe { word.read_volatile() };
        if more > 0 {
            // SAFETY: as above.
            unsafe { word.write_volatile(now) };
        }
        runtime.unlock(number)?;
        Ok(now)
    };
    if dsm.rank() == 0 {
        on_threads(|_| {
            while have(0)? < all {}
            Ok(())
        })?;
    } else {
        for _ in 0..rounds {
            have(1)?;
        }
    }
    dsm.barrier()?;
    assert_eq!(had.get(dsm, 0), all);
    Ok(())
}

/// Ranks count on in turns; who is not next gives the lock back and asks again.
pub(crate) fn alternation(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let (turn, mut mine) = (dsm.mutex(0usize)?, 0);
    while mine < rounds {
        let mut turn = turn.lock(dsm)?;
        if *turn % dsm.size() == dsm.rank() {
            *turn += 1;
            mine += 1;
        }
    }
    dsm.barrier()?;
    assert_eq!(*turn.lock(dsm)?, rounds * dsm.size());
    Ok(())
}

/// As [`counter`], but most of the time without waiting for the lock.
pub(crate) fn tries(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let count = dsm.mutex([0u64; 2])?;
    let mut done = 0;
    while done < rounds {
        let Some(mut values) = count.try_lock(dsm)? else {
            if done.is_multiple_of(3) {
                count.lock(dsm)?[0] += 1;
                done += 1;
            }
            continue;
        };
        values[0] += 1;
        values[1] += 1;
        done += 1;
    }
    dsm.barrier()?;
    let [all, tried] = *count.lock(dsm)?;
    assert_eq!(all, (rounds * dsm.size()) as u64);
    assert!(tried <= all);
    Ok(())
}

/// Rank 0 has a lock while all others try to get it in vain.
pub(crate) fn tries_in_vain(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let (lock, refused) = (dsm.locks(1)?[0], dsm.mutex(0usize)?);
    for round in 1..=rounds {
        if dsm.rank() == 0 {
            let held = lock.hold(dsm)?;
            *refused.lock(dsm)? += 1;
            while *refused.lock(dsm)? < round * dsm.size() {}
            drop(held);
        } else {
            while *refused.lock(dsm)? <= (round - 1) * dsm.size() {}
            assert!(lock.try_hold(dsm)?.is_none(), "a lock that rank 0 has, in round {round}");
            *refused.lock(dsm)? += 1;
        }
        dsm.barrier()?;
        if dsm.rank() == round % dsm.size() {
            assert!(lock.try_hold(dsm)?.is_some(), "a lock that nobody has, after round {round}");
        }
        dsm.barrier()?;
    }
    Ok(())
}

/// Many values on a few pages, each with its own lock, in an order that differs from rank to rank.
pub(crate) fn many_counters(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    const COUNTERS: usize = 97;
    let counts = dsm.mutexes(COUNTERS, |i| i as u64)?;
    let step = 2 * dsm.rank() + 1;
    for round in 0..rounds {
        *counts[(round * step) % COUNTERS].lock(dsm)? += 1;
    }
    dsm.barrier()?;
    let first: u64 = (0..COUNTERS as u64).sum();
    let mut sum = 0;
    for count in &counts {
        sum += *count.lock(dsm)?;
    }
    assert_eq!(sum, first + (rounds * dsm.size()) as u64);
    Ok(())
}

/// What was written before a flag is seen by whoever sees the flag. (Data and flag have different homes, and
/// different pages.)
pub(crate) fn message_passing(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let flag = dsm.mutex(0usize)?;
    let data = dsm.alloc::<usize>(3 * PAGE)?;
    let (me, size) = (dsm.rank(), dsm.size());
    let mut round = 0;
    while round < rounds {
        let mut now = flag.lock(dsm)?;
        if *now % size != me {
            continue;
        }
        // The flag tells whose turn it is; the data were written by the one before.
        round = *now / size + 1;
        for page in 0..3 {
            assert_eq!(data.get(dsm, page * PAGE + *now % PAGE), *now, "page {page} in turn {}", *now);
            for next in [*now + 1, *now + 2] {
                data.set(dsm, page * PAGE + next % PAGE, next);
            }
        }
        *now += 1;
    }
    dsm.barrier()
}

/// Of two that each write their own value and then read the other's, each under its lock, one at least sees
/// the other's.
pub(crate) fn store_buffering(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let flags = dsm.mutexes(2 * PAGE, |_| 0usize)?;
    let seen = dsm.alloc::<usize>(2)?;
    for round in 1..=rounds {
        if let me @ 0..2 = dsm.rank() {
            *flags[me * PAGE].lock(dsm)? = round;
            let other = *flags[(1 - me) * PAGE].lock(dsm)?;
            seen.set(dsm, me, usize::from(other == round));
        }
        dsm.barrier()?;
        let both = seen.get(dsm, 0) + seen.get(dsm, 1);
        assert!(both > 0 || dsm.size() < 2, "both were blind in round {round}");
        dsm.barrier()?;
    }
    Ok(())
}

/// Two values are written by two ranks. Two others read them, in opposite orders: they agree on which came
/// first.
pub(crate) fn independent_reads(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let values = dsm.mutexes(2 * PAGE, |_| 0usize)?;
    let seen = dsm.alloc::<usize>(4)?;
    for round in 1..=rounds {
        match dsm.rank() {
            writer @ 0..2 => *values[writer * PAGE].lock(dsm)? = round,
            reader @ 2..4 => {
                let first = *values[(reader % 2) * PAGE].lock(dsm)?;
                let second = *values[((reader + 1) % 2) * PAGE].lock(dsm)?;
                seen.set(dsm, 2 * (reader - 2), first);
                seen.set(dsm, 2 * (reader - 2) + 1, second);
            }
            _ => {}
        }
        dsm.barrier()?;
        let saw =
            |reader: usize| (seen.get(dsm, 2 * reader) == round, seen.get(dsm, 2 * reader + 1) == round);
        let contradict = saw(0) == (true, false) && saw(1) == (true, false);
        assert!(!contradict, "two readers saw two writes in opposite orders in round {round}");
        dsm.barrier()?;
    }
    Ok(())
}

/// Bytes side by side, some protected by a lock, some written by one rank without.
pub(crate) fn false_sharing(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let lock = dsm.locks(1)?[0];
    let bytes = dsm.alloc::<u8>(4096)?;
    let (me, size) = (dsm.rank(), dsm.size());
    // Byte 0 of each group belongs to the lock, byte 1 + r to rank r.
    let group = size + 1;
    for round in 0..rounds {
        let at = (round % (4096 / group)) * group;
        let before = bytes.get(dsm, at + 1 + me);
        bytes.set(dsm, at + 1 + me, before.wrapping_add(1));
        let held = lock.hold(dsm)?;
        bytes.set(dsm, at, bytes.get(dsm, at).wrapping_add(1));
        drop(held);
        assert_eq!(
            bytes.get(dsm, at + 1 + me),
            before.wrapping_add(1),
            "this rank's own byte, in round {round}"
        );
    }
    dsm.barrier()?;
    let groups = 4096 / group;
    for place in 0..groups {
        let times = rounds / groups + usize::from(place < rounds % groups);
        let byte = |times: usize| times.to_le_bytes()[0];
        assert_eq!(
            bytes.get(dsm, place * group),
            byte(times * size),
            "the byte of the lock in group {place}"
        );
        for rank in 0..size {
            assert_eq!(
                bytes.get(dsm, place * group + 1 + rank),
                byte(times),
                "the byte of rank {rank} in group {place}"
            );
        }
    }
    Ok(())
}

/// Many ranks write one page between and inside critical sections: all of them one word under the lock, each
/// a word of its own there, and another one outside.
pub(crate) fn one_page(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let lock = dsm.locks(1)?[0];
    let words = dsm.alloc::<usize>(PAGE)?;
    let (inside, between) = (|rank: usize| 1 + 2 * rank, |rank: usize| 2 + 2 * rank);
    let (me, size) = (dsm.rank(), dsm.size());
    for round in 1..=rounds {
        words.set(dsm, between(me), 2 * round);
        let held = lock.hold(dsm)?;
        assert_eq!(words.get(dsm, between(me)), 2 * round, "what this rank wrote before it had the lock");
        words.set(dsm, 0, words.get(dsm, 0) + 1);
        words.set(dsm, inside(me), round);
        drop(held);
        words.set(dsm, between(me), 2 * round + 1);
        assert_eq!(words.get(dsm, inside(me)), round, "what this rank wrote while it had the lock");
        if round.is_multiple_of(10) {
            dsm.barrier()?;
            assert_eq!(words.get(dsm, 0), size * round, "the word of the lock, after round {round}");
            for rank in 0..size {
                let found = (words.get(dsm, inside(rank)), words.get(dsm, between(rank)));
                assert_eq!(found, (round, 2 * round + 1), "the words of rank {rank}, after round {round}");
            }
            dsm.barrier()?;
        }
    }
    dsm.barrier()
}

/// Pages that nobody had touched are first touched in critical sections, by several ranks.
pub(crate) fn first_touch(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let next = dsm.mutex(0usize)?;
    let (me, size) = (dsm.rank(), dsm.size());
    for _ in 0..rounds {
        let pages =
            dsm.alloc_with::<usize>(32 * PAGE, AllocOptions { block: 3, ..AllocOptions::default() })?;
        *next.lock(dsm)? = 0;
        dsm.barrier()?;
        loop {
            let mut at = next.lock(dsm)?;
            if *at >= 32 * size {
                break;
            }
            // Each page is visited by as many as there are ranks; each adds a word, and sees those of all
            // before.
            let (page, visit) = (*at / size, *at % size);
            for before in 0..visit {
                assert_eq!(
                    pages.get(dsm, page * PAGE + before),
                    page + before + 1,
                    "page {page}, visit {visit}"
                );
            }
            assert_eq!(pages.get(dsm, page * PAGE + visit), 0, "new memory is zeroed");
            pages.set(dsm, page * PAGE + visit, page + visit + 1);
            pages.set(dsm, page * PAGE + PAGE - 1 - me, 7);
            *at += 1;
        }
        dsm.free(pages)?;
    }
    Ok(())
}

/// Whole pages of one home are rewritten by whoever has the lock.
pub(crate) fn pages_that_travel(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let turn = dsm.mutex(0u64)?;
    for home in 0..dsm.size() {
        let rank = u32::try_from(home).expect("few ranks");
        let pages = dsm.alloc_with::<u64>(
            4 * PAGE,
            AllocOptions { placement: Placement::Rank(rank), ..AllocOptions::default() },
        )?;
        *turn.lock(dsm)? = 0;
        dsm.barrier()?;
        for _ in 0..rounds {
            let mut now = turn.lock(dsm)?;
            for i in 0..4 * PAGE {
                assert_eq!(pages.get(dsm, i), *now * (i as u64 + 1), "value {i} in turn {}", *now);
                pages.set(dsm, i, (*now + 1) * (i as u64 + 1));
            }
            *now += 1;
        }
        dsm.barrier()?;
        let turns = (rounds * dsm.size()) as u64;
        assert!((0..4 * PAGE).all(|i| pages.get(dsm, i) == turns * (i as u64 + 1)), "after {turns} turns");
        dsm.free(pages)?;
    }
    Ok(())
}

/// Several threads of each rank take one lock.
pub(crate) fn threads(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let values = dsm.alloc::<u64>(2 * PAGE)?;
    // SAFETY: no references into shared memory are made here.
    let runtime = unsafe { dsm.runtime() };
    let number = runtime.make_locks(1)?;
    let at = values.as_ptr() as usize;
    let work = |thread: usize| -> Result<()> {
        let word = |i: usize| (at as *mut u64).wrapping_add(i);
        for round in 0..rounds {
            runtime.lock(number)?;
            // SAFETY: words of a live allocation; the lock is held.
            let count = unsafe { word(0).read_volatile() };
            // SAFETY: as above.
            unsafe { word(0).write_volatile(count + 1) };
            // SAFETY: as above.
            let far = unsafe { word(PAGE).read_volatile() };
            assert_eq!(far, count, "thread {thread}, round {round}");
            // SAFETY: as above.
            unsafe { word(PAGE).write_volatile(count + 1) };
            runtime.unlock(number)?;
        }
        Ok(())
    };
    on_threads(work)?;
    dsm.barrier()?;
    assert_eq!(values.get(dsm, 0), (THREADS * rounds * dsm.size()) as u64);
    Ok(())
}
