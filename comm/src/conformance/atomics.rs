//! Atomic operations: what each does, that they come one after the other, and what comes before them (guarantees 6 and 7).

use super::Factory;
use super::cluster::{Rank, WAIT, cluster, get, pattern, put};
use crate::{Atomic, Error, Rmw, SegmentId};
use std::collections::BTreeSet;
use std::sync::Mutex;
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

/// Every operation, in both widths, on the peer's words and on the own: the word before comes back, the word after is in the
/// owner's memory, and the bytes beside it stay.
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
                    // The bytes before the word, the word in the byte order of this processor, and those behind.
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

/// Every rank, the owner among them, adds 1 to one word with several threads. So each number is seen once.
pub fn additions_by_all_ranks_and_their_threads_are_all_counted_once(factory: impl Factory) {
    const RANKS: u32 = 3;
    const THREADS: usize = 3;
    const TIMES: usize = 400;
    const ALL: u64 = RANKS as u64 * (THREADS * TIMES) as u64;
    let seen = [Mutex::new(BTreeSet::new()), Mutex::new(BTreeSet::new())];
    cluster(RANKS, factory, move |rank| {
        let (segment, memory) = rank.register(4_096);
        let endpoint = &*rank.endpoint;
        let add = |owner: u32| {
            let op = [Atomic::U64(Rmw::Add(1)), Atomic::U32(Rmw::Add(1))][owner as usize];
            let before: Vec<_> =
                (0..TIMES).map(|_| endpoint.atomic(owner, segment, 8, op).unwrap()).collect();
            assert!(before.is_sorted(), "a thread's own operations changed places");
            seen[owner as usize].lock().unwrap().extend(before);
        };
        thread::scope(|scope| {
            for owner in [0, 1].repeat(THREADS) {
                scope.spawn(move || add(owner));
            }
        });
        rank.meet();
        if let Some(seen) = seen.get(rank.rank() as usize) {
            assert!(seen.lock().unwrap().iter().copied().eq(0..ALL), "two additions saw the same number");
            assert_eq!(memory.read(8, 8), ALL.to_ne_bytes());
        }
    });
}

/// All threads of all ranks try to claim the same words. Each word goes to one of them, and all agree to which.
pub fn exactly_one_claims_a_word_by_compare_and_swap(factory: impl Factory) {
    const CLAIMS: usize = 200;
    const THREADS: u64 = 2;
    let claimed = Mutex::new(vec![Vec::new(); CLAIMS]);
    cluster(3, factory, move |rank| {
        let (segment, memory) = rank.register(8 * CLAIMS);
        let (endpoint, me) = (&*rank.endpoint, u64::from(rank.rank()));
        let claim = |name: u64| {
            for word in 0..CLAIMS {
                let (offset, op) =
                    (8 * word as u64, Atomic::U64(Rmw::CompareSwap { expected: 0, new: name }));
                let before = endpoint.atomic(1, segment, offset, op).unwrap();
                let owner = if before == 0 { name } else { before };
                let now = endpoint.atomic(1, segment, offset, Atomic::U64(Rmw::Load)).unwrap();
                assert_eq!(now, owner, "a claim was lost");
                if before == 0 {
                    claimed.lock().unwrap()[word].push(name);
                }
            }
        };
        thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || claim(1 + me * THREADS + thread));
            }
        });
        rank.meet();
        if rank.rank() == 1 {
            for (word, claims) in claimed.lock().unwrap().iter().enumerate() {
                let [name] = claims[..] else { panic!("word {word} was claimed by {claims:?}") };
                assert_eq!(memory.read(8 * word, 8), name.to_ne_bytes());
            }
        }
    });
}

/// Guarantee 7. Rank 1 makes no call meanwhile. In the second half, the puts before the operation are more than a connection holds.
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

/// Guarantee 7, for others. Rank 0 puts a pattern to rank 1, and then its number into a word there. Rank 1, which only looks at that word,
/// and rank 2, which gets, have the pattern when they read the number.
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
                wait_for(rank, 1, segment, WORD as u64, round);
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

/// Reads a word over and over until it is `value`.
fn wait_for(rank: &Rank, owner: u32, segment: SegmentId, offset: u64, value: u64) {
    let start = Instant::now();
    while rank.endpoint.atomic(owner, segment, offset, Atomic::U64(Rmw::Load)).unwrap() != value {
        assert!(start.elapsed() < WAIT, "rank {} waited too long for word {value}", rank.rank());
        thread::yield_now();
    }
}

/// Each of two ranks announces itself in a word of the other rank (or of a third, or in its own), and then looks whether the other has:
/// one of the two at least must see the other.
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
                saw.push(word >> case & 1 == 1);
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
