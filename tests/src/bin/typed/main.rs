//! Rank program: all that the typed interface has, with results that only the right memory gives.
//!
//! To be run in a small region (`SCASH_REGION=1M`): then what is not freed is missed soon, and freed pages
//! come up again.

#![expect(clippy::print_stdout, reason = "a rank's answer to its test")]

mod handles;
mod objects;

use scash::{AllocOptions, Dsm, Error, FrameSharing, Parts, Placement, Protocol, Result};
use std::io::{Read, Write};

type Check = fn(&mut Dsm) -> Result<()>;

/// Values of a page.
const PAGE: usize = 512;
/// Not a multiple of anything: parts begin within pages, and have different lengths.
const LEN: usize = 5 * PAGE + 43;

/// What owners of a [`Partition`](scash::Partition) write into element `i` in an interval.
fn value(interval: usize, i: usize) -> u64 {
    (interval * 100_000 + i) as u64
}

fn at(rank: usize) -> AllocOptions {
    let rank = u32::try_from(rank).expect("few ranks");
    AllocOptions { placement: Placement::Rank(rank), ..AllocOptions::default() }
}

fn has(values: &[u64], start: usize, interval: usize) -> bool {
    values.iter().zip(start..).all(|(v, i)| *v == if interval == 0 { 0 } else { value(interval, i) })
}

/// Each interval shows what the last publication made public, whatever is being written.
fn partition_shows_what_was_published(dsm: &mut Dsm) -> Result<()> {
    let mut field = dsm.partition::<u64>(LEN)?;
    let mine = field.mine();
    let (me, size) = (dsm.rank(), dsm.size());
    assert_eq!((field.len(), field.is_empty()), (LEN, false));
    assert_eq!((mine.start, mine.end), (me * LEN / size, (me + 1) * LEN / size));
    for interval in 1..=6usize {
        let Parts { mine: next, old, before, after, start } = field.parts(dsm);
        assert_eq!(
            (start, next.len(), before.len(), after.len()),
            (mine.start, mine.len(), start, LEN - mine.end)
        );
        assert!(has(next, start, interval.saturating_sub(2)), "what this rank wrote two publications ago");
        next.iter_mut().zip(start..).for_each(|(v, i)| *v = value(interval, i));
        assert!(
            has(old, start, interval - 1)
                && has(before, 0, interval - 1)
                && has(after, mine.end, interval - 1)
        );
        assert!(has(field.all(dsm), 0, interval - 1));
        field.publish(dsm)?;
        assert!(has(field.all(dsm), 0, interval));
    }
    field.free(dsm)
}

/// More partitions, one after another, than the region has room for; and one that it has only half the room
/// for.
fn partitions_give_their_memory_back(dsm: &mut Dsm) -> Result<()> {
    for _ in 0..30 {
        let mut field = dsm.partition::<u64>(16 * PAGE)?;
        assert!(has(field.all(dsm), 0, 0), "new memory is zeroed");
        field.parts(dsm).mine.fill(1);
        field.publish(dsm)?;
        field.free(dsm)?;
    }
    for _ in 0..2 {
        let error = dsm.partition::<u64>(150 * PAGE).expect_err("twice 600 KiB of 1 MiB");
        assert!(matches!(error, Error::OutOfSpace(_)), "{error}");
    }
    dsm.partition::<u64>(100 * PAGE)?.free(dsm)
}

/// Neighbouring elements have different writers, and values may lie across pages.
fn elements_have_different_writers(dsm: &mut Dsm) -> Result<()> {
    let points = dsm.alloc::<[f32; 3]>(1000)?;
    assert_eq!((points.len(), points.is_empty()), (1000, false));
    for i in (dsm.rank()..1000).step_by(dsm.size()) {
        let x = u16::try_from(i).map(f32::from).expect("small");
        points.set(dsm, i, [x, x + 0.25, -x]);
    }
    dsm.barrier()?;
    for i in 0..1000u16 {
        let x = f32::from(i);
        assert_eq!(points.get(dsm, usize::from(i)), [x, x + 0.25, -x]);
    }
    dsm.free(points)
}

/// Slices of one's own elements, then of everybody's.
fn slices_are_plain_memory(dsm: &mut Dsm) -> Result<()> {
    let numbers = dsm.alloc::<u64>(LEN)?;
    let mine = dsm.rank() * LEN / dsm.size()..(dsm.rank() + 1) * LEN / dsm.size();
    for interval in 1..=3 {
        // SAFETY: these elements are this rank's alone until the barrier.
        let own = unsafe { numbers.slice_mut(dsm, mine.clone()) };
        own.iter_mut().zip(mine.start..).for_each(|(v, i)| *v = value(interval, i));
        dsm.barrier()?;
        // SAFETY: nobody writes before the next barrier.
        let all = unsafe { numbers.slice(dsm, 0..LEN) };
        assert!(has(all, 0, interval));
        dsm.barrier()?;
    }
    dsm.free(numbers)
}

/// Homes by rule, by first touch, and moved; the contents stay.
fn homes_are_asked_and_set(dsm: &mut Dsm) -> Result<()> {
    let (me, last) = (dsm.rank(), dsm.size() - 1);
    let placed = dsm.alloc_with::<u64>(3 * PAGE, at(last))?;
    assert_eq!(dsm.home(placed, 2 * PAGE)?, Some(last));
    dsm.free(placed)?;
    // Two pages, then the rest of a page, of which this block has the second half only; and one more.
    let blocks = [(2 * PAGE, last), (PAGE / 2, 0), (PAGE / 2, last), (PAGE, 0)];
    let placed = dsm.alloc_blocks::<u64>(&blocks, AllocOptions::default())?;
    assert_eq!(
        [0, 1, 2, 3].map(|page| dsm.home(placed, page * PAGE)).map(Result::unwrap),
        [last, last, 0, 0].map(Some)
    );
    assert_eq!(placed.len(), 4 * PAGE);
    dsm.free(placed)?;
    assert!(dsm.alloc_blocks::<u64>(&[(1, last + 1)], AllocOptions::default()).is_err());
    assert!(dsm.alloc_blocks::<u64>(&blocks, at(0)).is_err());
    let numbers = dsm.alloc::<u64>(4 * PAGE)?;
    assert_eq!(dsm.home(numbers, 0)?, None);
    // So that no rank touches a page before this one has been asked where all others are.
    dsm.barrier()?;
    if me == last {
        (0..4 * PAGE).for_each(|i| numbers.set(dsm, i, value(1, i)));
    }
    dsm.barrier()?;
    let homes = |dsm: &Dsm| [0, 1, 2, 3].map(|page| dsm.home(numbers, page * PAGE + 7).expect("allocated"));
    // Nobody notices who touches a frame first that all share.
    let toucher = (dsm.stats().frames != FrameSharing::Shared).then_some(last);
    assert_eq!(homes(dsm), [toucher; 4]);
    if me == 0 {
        // The last element of page 1 and the first of page 2.
        dsm.set_home(numbers, 2 * PAGE - 1..2 * PAGE + 1, 0)?;
    }
    dsm.barrier()?;
    assert_eq!(homes(dsm), [toucher, Some(0), Some(0), toucher]);
    (0..4 * PAGE).for_each(|i| assert_eq!(numbers.get(dsm, i), value(1, i)));
    dsm.free(numbers)
}

/// A protocol may be changed at any time: the data are right under each, and update needs no fetch where
/// invalidate does.
fn protocols_change_what_moves_but_not_what_is_read(dsm: &mut Dsm) -> Result<()> {
    let first = dsm.rank() == 0;
    let numbers = dsm.alloc_with::<u64>(PAGE, at(0))?;
    // A frame that is shared is never fetched.
    let has_copy = !first && dsm.stats().frames != FrameSharing::Shared;
    let mut interval = 0;
    let mut fetches = |dsm: &mut Dsm, protocol| -> Result<u64> {
        dsm.set_protocol(numbers, protocol)?;
        let mut before = 0;
        for round in 0..8 {
            interval += 1;
            if first {
                (0..PAGE).for_each(|i| numbers.set(dsm, i, value(interval, i)));
            }
            dsm.barrier()?;
            if round == 4 {
                // By now copies are kept as this protocol wants it.
                before = dsm.stats().protocol.fetched;
            }
            (0..PAGE).for_each(|i| assert_eq!(numbers.get(dsm, i), value(interval, i)));
            dsm.barrier()?;
        }
        Ok(dsm.stats().protocol.fetched - before)
    };
    for protocol in [Protocol::Update, Protocol::Invalidate, Protocol::Update, Protocol::Adaptive] {
        let fetched = fetches(dsm, protocol)?;
        match protocol {
            Protocol::Update => assert_eq!(fetched, 0),
            Protocol::Invalidate => assert_eq!(fetched, if has_copy { 4 } else { 0 }),
            _ => {}
        }
    }
    dsm.free(numbers)
}

/// Rank 0, everybody's home, sees what others write back, and they what it writes, without a barrier in
/// between.
fn data_move_between_barriers(dsm: &mut Dsm) -> Result<()> {
    let (me, size) = (dsm.rank(), dsm.size());
    let board = dsm.alloc_with::<u64>(size + 1, at(0))?;
    assert_eq!(board.get(dsm, 0), 0);
    dsm.barrier()?;
    if me == 0 {
        board.set(dsm, 0, 1);
        (1..size).for_each(|rank| {
            while board.get(dsm, rank) != rank as u64 {
                std::thread::yield_now()
            }
        });
    } else {
        while board.get(dsm, 0) != 1 {
            dsm.read_home(board, 0..1)?;
        }
        board.set(dsm, me, me as u64);
        dsm.read_home(board, 0..size)?;
        assert_eq!(board.get(dsm, me), me as u64, "what this rank wrote stays");
        dsm.write_back(board, me..me + 1)?;
    }
    dsm.barrier()?;
    (1..size).for_each(|rank| assert_eq!(board.get(dsm, rank), rank as u64));
    dsm.free(board)
}

/// What was written back is written again. The home writes beside it, and comes to the barrier in between.
fn what_was_written_back_may_be_written_again(dsm: &mut Dsm) -> Result<()> {
    let (me, size) = (dsm.rank(), dsm.size());
    let board = dsm.alloc::<u64>(size)?;
    let wait = |ms| std::thread::sleep(std::time::Duration::from_millis(ms));
    board.set(dsm, me, 0);
    for round in 1..=10 {
        dsm.barrier()?;
        let all: Vec<u64> = (0..size).map(|rank| board.get(dsm, rank)).collect();
        assert_eq!(all, vec![2 * (round - 1); size], "round {round}");
        dsm.barrier()?;
        if dsm.home(board, 0)? == Some(me) {
            board.set(dsm, me, 2 * round);
            wait(3);
        } else {
            wait(1);
            board.set(dsm, me, 2 * round - 1);
            dsm.write_back(board, 0..size)?;
            board.set(dsm, me, 2 * round);
            wait(5);
            assert_eq!(board.get(dsm, me), 2 * round, "what this rank wrote last, in round {round}");
        }
    }
    dsm.barrier()?;
    dsm.free(board)
}

/// What one rank made comes to all, who read it without a fault.
fn a_broadcast_brings_everything_to_all(dsm: &mut Dsm) -> Result<()> {
    let numbers = dsm.alloc::<u64>(LEN)?;
    for interval in 1..=3 {
        if dsm.rank() == dsm.size() - 1 {
            (0..LEN).for_each(|i| numbers.set(dsm, i, value(interval, i)));
        }
        dsm.broadcast(numbers, 0..LEN)?;
        let before = dsm.stats();
        (0..LEN).for_each(|i| assert_eq!(numbers.get(dsm, i), value(interval, i)));
        let after = dsm.stats();
        assert_eq!((after.faults, after.protocol.fetched), (before.faults, before.protocol.fetched));
        dsm.barrier()?;
    }
    dsm.free(numbers)
}

/// The system reads and writes shared memory that no rank has touched before, through a pipe.
fn the_system_reaches_what_was_touched(dsm: &mut Dsm) -> Result<()> {
    const BYTES: usize = 10_000;
    let letter = |rank: usize| b'a' + u8::try_from(rank).expect("few ranks");
    let (mut from, mut to) = std::io::pipe().expect("a pipe");
    let text = dsm.alloc::<u8>(dsm.size() * BYTES)?;
    let part = |rank: usize| rank * BYTES..(rank + 1) * BYTES;
    to.write_all(&[letter(dsm.rank()); BYTES]).expect("room in the pipe");
    dsm.touch_mut(text, part(dsm.rank()))?;
    // SAFETY: this part is this rank's alone until the barrier.
    from.read_exact(unsafe { text.slice_mut(dsm, part(dsm.rank())) }).expect("memory that was touched");
    dsm.barrier()?;
    for rank in 0..dsm.size() {
        let mut copy = [0; BYTES];
        dsm.touch(text, part(rank))?;
        // SAFETY: nobody writes before the next barrier.
        to.write_all(unsafe { text.slice(dsm, part(rank)) }).expect("memory that was touched");
        from.read_exact(&mut copy).expect("what was written");
        assert!(copy.iter().all(|byte| *byte == letter(rank)), "rank {rank}'s part");
    }
    dsm.free(text)
}

fn main() -> Result<()> {
    let mut dsm = Dsm::init()?;
    let checks: [(&str, Check); 14] = [
        ("partition", partition_shows_what_was_published),
        ("memory", partitions_give_their_memory_back),
        ("elements", elements_have_different_writers),
        ("slices", slices_are_plain_memory),
        ("homes", homes_are_asked_and_set),
        ("protocols", protocols_change_what_moves_but_not_what_is_read),
        ("between", data_move_between_barriers),
        ("again", what_was_written_back_may_be_written_again),
        ("broadcast", a_broadcast_brings_everything_to_all),
        ("system calls", the_system_reaches_what_was_touched),
        ("freed memory", handles::lead_nowhere_when_the_memory_is_freed),
        ("arguments", handles::have_the_elements_that_were_asked_for),
        ("objects", objects::end_together_with_their_values),
        ("own objects", objects::one_rank_makes_and_another_destroys),
    ];
    for (name, check) in checks {
        check(&mut dsm).inspect_err(|_| eprintln!("rank {}: in the check of {name}:", dsm.rank()))?;
    }
    println!("rank {} passed {} checks", dsm.rank(), checks.len());
    dsm.finalize()
}
