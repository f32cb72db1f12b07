//! Atomic operations: what each does, that they come one after the other, and what comes before them
//! (guarantees 6 and 7).

use super::Factory;
use super::cluster::{Rank, WAIT, cluster, get, pattern, put};
use crate::{Atomic, Caps, Error, Rmw, SegmentId};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Instant;

/// Words that operations are tried on: carries, signs, and what fits only one width.
const WORDS: [u64; 6] = [0, 1, 0x7FFF_FFFF, 0xFFFF_FFFF, 0x8000_0000_0000_0000, u64::MAX];

/// Every kind of operation, with operands `a` and `b`.
fn kinds<T: Copy>(a: T, b: T) -> [Rmw<T>; 8] {
    let miss = Rmw::CompareSwap { expected: b, new: a };
    let hit = Rmw::CompareSwap { expected: a, new: b };
    [Rmw::Load, Rmw::Add(b), Rmw::And(b), Rmw::Or(b), Rmw::Xor(b), Rmw::Swap(b), hit, miss]
}

/// What an operation makes of a word, in numbers that are wider than it: the suite's own idea of it.
fn made(op: Atomic, word: u64) -> u64 {
    let (op, modulus) = match op {
        Atomic::U32(op) => (widened(op), 1 << 32),
        Atomic::U64(op) => (op, 1 << 64),
    };
    match op {
        Rmw::Load => word,
        Rmw::Add(n) => u64::try_from((u128::from(word) + u128::from(n)) % modulus).unwrap(),
        Rmw::And(n) => word & n,
        Rmw::Or(n) => word | n,
        Rmw::Xor(n) => word ^ n,
        Rmw::Swap(n) => n,
        Rmw::CompareSwap { expected, new } if word == expected => new,
        Rmw::CompareSwap { .. } => word,
    }
}

fn widened(op: Rmw<u32>) -> Rmw<u64> {
    match op {
        Rmw::Load => Rmw::Load,
        Rmw::Add(n) => Rmw::Add(n.into()),
        Rmw::And(n) => Rmw::And(n.into()),
        Rmw::Or(n) => Rmw::Or(n.into()),
        Rmw::Xor(n) => Rmw::Xor(n.into()),
        Rmw::Swap(n) => Rmw::Swap(n.into()),
        Rmw::CompareSwap { expected, new } => Rmw::CompareSwap { expected: expected.into(), new: new.into() },
    }
}

/// Every operation, in both widths, on the peer's words and on the own: the word before comes back, the word
/// after is in the owner's memory, and the bytes beside it stay.
pub fn every_atomic_operation_returns_what_was_there_and_leaves_what_it_makes(factory: impl Factory) {
    const BESIDE: [u8; 4] = [0xA5; 4];
    cluster(2, factory, |rank| {
        let (segment, memory) = rank.register(4_096);
        let (ours, theirs) = if rank.rank() == 0 { (512, 1_024) } else { (1_536, 2_048) };
        for (a, b) in WORDS.iter().flat_map(|a| WORDS.map(|b| (*a, b))) {
            let [low_a, low_b] = [a, b].map(|word| u32::try_from(word & 0xFFFF_FFFF).unwrap());
            let narrow = kinds(low_a, low_b).map(Atomic::U32);
            for op in narrow.into_iter().chain(kinds(a, b).map(Atomic::U64)) {
                let (width, word) = (op.width(), if op.width() == 4 { u64::from(low_a) } else { a });
                for (owner, at) in [(rank.rank(), ours), (1 - rank.rank(), theirs)] {
                    // The bytes before the word, the word in the byte order of this processor, and those
                    // behind.
                    let whole = |word: u64| match width {
                        4 => [&BESIDE[..], &u32::try_from(word).unwrap().to_ne_bytes(), &BESIDE].concat(),
                        _ => [&BESIDE[..], &word.to_ne_bytes(), &BESIDE].concat(),
                    };
                    let offset = at as u64 + 8;
                    put(&*rank.endpoint, owner, segment, offset - 4, &whole(word));
                    assert_eq!(rank.endpoint.atomic(owner, segment, offset, op).unwrap(), word, "{op:?}");
                    let left = get(&*rank.endpoint, owner, segment, offset - 4, width + 8);
                    assert_eq!(left, whole(made(op, word)), "{op:?} of {word:#x}");
                    if owner == rank.rank() {
                        assert_eq!(memory.read(at + 4, width + 8), left);
                    }
                }
            }
        }
    });
}

/// How often the threads of a test operate: where that takes nanoseconds, so much more often that they meet.
fn times(rank: &Rank, few: usize) -> usize {
    if rank.endpoint.caps().contains(Caps::DIRECT) { few * DIRECT } else { few }
}

/// So many times more often.
const DIRECT: usize = 200;

/// Every rank, the owner among them, adds 1 to the same words with several threads: each number is seen by
/// one of them.
pub fn additions_by_all_ranks_and_their_threads_are_all_counted_once(factory: impl Factory) {
    const RANKS: u32 = 3;
    const THREADS: usize = 3 * RANKS as usize;
    const TIMES: usize = 500;
    let start = Barrier::new(2 * THREADS);
    let marks = || -> Vec<_> { (0..THREADS * TIMES * DIRECT).map(|_| AtomicBool::new(false)).collect() };
    let seen = [marks(), marks()];
    cluster(RANKS, factory, move |rank| {
        let (segment, memory) = rank.register(4_096);
        let (endpoint, times) = (&*rank.endpoint, times(rank, TIMES));
        let add = |owner: u32| {
            let op = [Atomic::U64(Rmw::Add(1)), Atomic::U32(Rmw::Add(1))][owner as usize];
            start.wait();
            let mut last = None;
            for _ in 0..times {
                let number = usize::try_from(endpoint.atomic(owner, segment, 8, op).unwrap()).unwrap();
                assert!(last < Some(number), "a thread's own operations changed places");
                last = Some(number);
                let twice = seen[owner as usize][number].swap(true, Ordering::Relaxed);
                assert!(!twice, "two additions saw {number}");
            }
        };
        thread::scope(|scope| {
            for owner in [0, 1].repeat(THREADS / RANKS as usize) {
                scope.spawn(move || add(owner));
            }
        });
        rank.meet();
        if rank.rank() < 2 {
            let all = (THREADS * times) as u64;
            assert_eq!(memory.read(8, 8), all.to_ne_bytes(), "additions were lost");
        }
    });
}

/// All threads of all ranks claim the numbers of one word, by replacing a number by the next. Each number
/// goes to one of them.
pub fn exactly_one_claims_a_number_by_compare_and_swap(factory: impl Factory) {
    const RANKS: u32 = 3;
    const THREADS: usize = 2 * RANKS as usize;
    const TIMES: usize = 1_000;
    let start = Barrier::new(THREADS);
    let claimed = Mutex::new(Vec::new());
    cluster(RANKS, factory, move |rank| {
        let (segment, memory) = rank.register(4_096);
        let (endpoint, times) = (&*rank.endpoint, times(rank, TIMES));
        let claim = || {
            let mut claims = Vec::new();
            start.wait();
            while claims.len() < times {
                let number = endpoint.atomic(1, segment, 64, Atomic::U64(Rmw::Load)).unwrap();
                let op = Atomic::U64(Rmw::CompareSwap { expected: number, new: number + 1 });
                let before = endpoint.atomic(1, segment, 64, op).unwrap();
                claims.extend((before == number).then_some(number));
            }
            claimed.lock().unwrap().extend(claims);
        };
        thread::scope(|scope| {
            for _ in 0..THREADS / RANKS as usize {
                scope.spawn(claim);
            }
        });
        rank.meet();
        if rank.rank() == 1 {
            let (mut claimed, numbers) = (claimed.lock().unwrap(), (THREADS * times) as u64);
            claimed.sort_unstable();
            assert!(claimed.iter().copied().eq(0..numbers), "a number was claimed twice or never");
            assert_eq!(memory.read(64, 8), numbers.to_ne_bytes());
        }
    });
}

/// Guarantee 7. Rank 1 makes no call meanwhile. In the second half, the puts before the operation are more
/// than a connection holds.
pub fn an_atomic_operation_comes_after_what_its_own_rank_has_put_and_flushed(factory: impl Factory) {
    const PUTS: u64 = 60;
    const LEN: usize = 1 << 20;
    const LAST: u64 = LEN as u64 - 8;
    cluster(2, factory, |rank| {
        let (segment, _memory) = rank.register(LEN);
        if rank.rank() == 0 {
            let mut bytes = vec![0; LEN];
            for number in 1..=PUTS {
                bytes[LEN - 8..].copy_from_slice(&number.to_ne_bytes());
                put(&*rank.endpoint, 1, segment, 0, &bytes);
                if number <= PUTS / 2 || number == PUTS {
                    let op = Atomic::U64(if number % 2 == 0 { Rmw::Load } else { Rmw::Add(1_000) });
                    let seen = rank.endpoint.atomic(1, segment, LAST, op).unwrap();
                    assert_eq!(seen, number, "the operation overtook put {number}");
                }
            }
        }
        rank.meet_in_silence();
    });
}

/// Guarantee 7, for others. Rank 0 puts a pattern to rank 1, and then its number into a word there. Rank 1,
/// which only looks at that word, and rank 2, which gets, have the pattern when they read the number.
pub fn who_reads_an_atomic_operation_has_the_puts_before_it(factory: impl Factory) {
    const ROUNDS: u64 = 60;
    const WORD: usize = 1 << 20;
    cluster(3, factory, |rank| {
        let (segment, memory) = rank.register(WORD + 8);
        for round in 1..=ROUNDS {
            let len = if round.is_multiple_of(8) { WORD } else { 4_096 };
            let bytes = pattern(round, len);
            if rank.rank() == 0 {
                put(&*rank.endpoint, 1, segment, 0, &bytes);
                rank.endpoint.atomic(1, segment, WORD as u64, Atomic::U64(Rmw::Swap(round))).unwrap();
            } else {
                wait_for(rank, 1, segment, WORD as u64, |word| word == round);
                let seen = match rank.rank() {
                    1 => memory.read(0, len),
                    _ => get(&*rank.endpoint, 1, segment, 0, len),
                };
                assert!(seen == bytes, "rank {} saw word {round} before its put", rank.rank());
            }
            rank.meet_in_silence();
        }
    });
}

/// Reads a word over and over until it is what is wanted.
fn wait_for(rank: &Rank, owner: u32, segment: SegmentId, offset: u64, wanted: impl Fn(u64) -> bool) {
    let start = Instant::now();
    while !wanted(rank.endpoint.atomic(owner, segment, offset, Atomic::U64(Rmw::Load)).unwrap()) {
        assert!(start.elapsed() < WAIT, "rank {} waited too long for a word", rank.rank());
        thread::yield_now();
    }
}

/// Each of two ranks announces itself in a word of the other rank (or of a third, or in its own), and then
/// looks whether the other has: one of the two at least must see the other.
pub fn operations_on_different_words_have_one_order(factory: impl Factory) {
    const ROUNDS: usize = 300;
    let looks = Mutex::new(Vec::new());
    cluster(3, factory, move |rank| {
        let (segment, _memory) = rank.register(8 * ROUNDS);
        let me = rank.rank();
        // Announcements of rank 0 and rank 1 go to these ranks.
        for (case, places) in [[0, 1], [1, 0], [2, 1], [2, 0]].into_iter().enumerate() {
            let (mine, others) = if me == 0 { (places[0], places[1]) } else { (places[1], places[0]) };
            let mut saw = Vec::new();
            for round in (0..ROUNDS).filter(|_| me < 2) {
                let offset = 8 * round as u64;
                let bit = Atomic::U64(Rmw::Or(1 << case));
                rank.endpoint.atomic(mine, segment, offset, bit).unwrap();
                let word = rank.endpoint.atomic(others, segment, offset, Atomic::U64(Rmw::Load)).unwrap();
                let announced = |word: u64| word >> case & 1 == 1;
                saw.push(announced(word));
                // Into the next round side by side.
                wait_for(rank, others, segment, offset, announced);
            }
            looks.lock().unwrap().push(saw);
            rank.meet();
            if me == 0 {
                let looks = std::mem::take(&mut *looks.lock().unwrap());
                let looks: Vec<_> = looks.iter().filter(|saw| !saw.is_empty()).collect();
                let seen = (0..ROUNDS).all(|round| looks[0][round] || looks[1][round]);
                assert!(seen, "neither saw the other, with the words at {places:?}");
            }
            rank.meet();
        }
    });
}

/// Words that begin at a wrong offset, reach beyond the end, or are in no segment; the peer's and the own.
pub fn a_word_that_is_not_aligned_or_not_inside_is_refused(factory: impl Factory) {
    const LEN: usize = 4_100;
    cluster(2, factory, |rank| {
        let (segment, memory) = rank.register(LEN);
        let nowhere = SegmentId(segment.0 + 1);
        let (narrow, wide) = (Atomic::U32(Rmw::Swap(1)), Atomic::U64(Rmw::Swap(1)));
        for owner in [0, 1] {
            let refused = |segment, offset, op| {
                let done = rank.endpoint.atomic(owner, segment, offset, op);
                assert!(matches!(done, Err(Error::Invalid(_))), "{op:?} at {offset}: {done:?}");
            };
            (1..4).for_each(|offset| refused(segment, offset, narrow));
            (1..8).for_each(|offset| refused(segment, offset, wide));
            for offset in [4_096, 4_104, u64::MAX - 7, u64::MAX] {
                refused(segment, offset, wide);
            }
            for offset in [4_100, u64::MAX - 3, u64::MAX] {
                refused(segment, offset, narrow);
            }
            refused(nowhere, 0, narrow);
            refused(SegmentId(u32::MAX), 0, wide);
        }
        rank.meet();
        assert_eq!(memory.read(0, LEN), [0; LEN]);
        rank.meet();
        rank.endpoint.atomic(1 - rank.rank(), segment, 4_096, narrow).unwrap();
    });
}
