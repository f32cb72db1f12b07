//! Put and get: sizes, ranges, order against messages and against each other.

use super::cluster::{Random, cluster, get, pattern, put};
use super::{Factory, SharedMemory};
use crate::{Caps, Endpoint, GetRange, PutRange, SegmentId};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const SIZES: [usize; 17] =
    [0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 511, 4_095, 4_096, 4_097, 65_536, 100_003, (3 << 20) + 5];

/// Rank 0 puts to rank 1, which checks, and gets it back.
pub fn puts_and_gets_of_every_size_move_the_right_bytes(factory: impl Factory) {
    cluster(2, factory, |rank| {
        let (segment, memory) = rank.register(4 << 20);
        for (seed, len) in (1..).zip(SIZES) {
            let (offset, bytes) = (13 * seed, pattern(seed, len));
            if rank.rank() == 0 {
                put(&*rank.endpoint, 1, segment, offset, &bytes);
                assert!(
                    get(&*rank.endpoint, 1, segment, offset, len) == bytes,
                    "got back other bytes ({len})"
                );
                rank.send(1, 0, &[]);
                rank.flush();
            } else {
                rank.receive();
                let at = usize::try_from(offset).unwrap();
                assert!(memory.read(at, len) == bytes, "{len} bytes arrived changed");
                assert_eq!(memory.read(at + len, 8), [0; 8], "the put of {len} bytes wrote beyond its end");
                memory.write(0, &vec![0; 4 << 20]);
            }
            rank.meet();
        }
    });
}

/// One call moves many pieces, in any order of addresses.
pub fn scattered_ranges_land_where_they_belong(factory: impl Factory) {
    const PIECES: usize = 200;
    const STRIDE: usize = 1_000;
    cluster(2, factory, |rank| {
        let (segment, memory) = rank.register(PIECES * STRIDE);
        let mut random = Random(3);
        let pieces: Vec<_> = (0..PIECES)
            .map(|i| ((i * 77) % PIECES * STRIDE + random.below(100), pattern(i as u64, random.below(900))))
            .collect();
        if rank.rank() == 0 {
            let puts: Vec<_> = pieces
                .iter()
                .map(|(at, bytes)| PutRange { offset: *at as u64, len: bytes.len(), src: bytes.as_ptr() })
                .collect();
            // SAFETY: `pieces` lives and stays as it is until after the flush.
            unsafe { rank.endpoint.put(1, segment, &puts) }.unwrap();
            rank.flush();
            rank.endpoint.fence(1).unwrap();
            let mut back: Vec<Vec<u8>> = pieces.iter().map(|(_, bytes)| vec![0; bytes.len()]).collect();
            let gets: Vec<_> = pieces
                .iter()
                .zip(&mut back)
                .map(|((at, bytes), dst)| GetRange {
                    offset: *at as u64,
                    len: bytes.len(),
                    dst: dst.as_mut_ptr(),
                })
                .collect();
            // SAFETY: `back` is exclusively ours during the call.
            unsafe { rank.endpoint.get(1, segment, &gets) }.unwrap();
            assert!(pieces.iter().zip(&back).all(|((_, bytes), back)| bytes == back));
        }
        rank.meet();
        if rank.rank() == 1 {
            assert!(pieces.iter().all(|(at, bytes)| &memory.read(*at, bytes.len()) == bytes));
        }
    });
}

/// A rank's own segment is reached like any other.
pub fn a_rank_puts_to_and_gets_from_itself(factory: impl Factory) {
    cluster(2, factory, |rank| {
        let (segment, memory) = rank.register(1 << 20);
        let (me, bytes) = (rank.rank(), pattern(u64::from(rank.rank()), 100_000));
        put(&*rank.endpoint, me, segment, 5, &bytes);
        rank.endpoint.fence(me).unwrap();
        assert!(memory.read(5, bytes.len()) == bytes);
        assert!(get(&*rank.endpoint, me, segment, 5, bytes.len()) == bytes);
    });
}

/// Where masked puts are done at all, they write exactly what their masks say.
pub fn a_masked_put_writes_the_bytes_of_its_masks_and_no_other(factory: impl Factory) {
    const LINES: usize = 300;
    const AT: usize = 128;
    cluster(2, factory, |rank| {
        let (segment, memory) = rank.register((LINES + 4) * 64);
        memory.write(0, &[0x77; (LINES + 4) * 64]);
        rank.meet();
        let mut random = Random(11);
        let bytes = pattern(5, LINES * 64);
        let mask = |i: usize| [u64::MAX, 0, 1, 1 << 63][i % 4];
        let masks: Vec<u64> =
            (0..LINES).map(|i| if i < 8 { mask(i) } else { random.next() & random.next() }).collect();
        if rank.rank() == 0 {
            let put = |offset: usize, masks: &[u64]| {
                // SAFETY: there are 64 bytes for each mask, which stay until after the flush.
                unsafe { rank.endpoint.put_masked(1, segment, offset as u64, bytes.as_ptr(), masks) }
            };
            let done = put(AT, &masks).unwrap();
            assert!(!done || put(AT * 3, &masks).is_err(), "the last masks are beyond the end");
            rank.send(1, 0, &[u8::from(done)]);
            rank.flush();
        } else if rank.receive().payload == [1] {
            let expected = |i: usize| if masks[i / 64] >> (i % 64) & 1 == 1 { bytes[i] } else { 0x77 };
            let seen = memory.read(0, (LINES + 4) * 64);
            assert!(
                (0..LINES * 64).all(|i| seen[AT + i] == expected(i)),
                "bytes of the masks are missing, or others were written"
            );
            assert!(seen[..AT].iter().chain(&seen[AT + LINES * 64..]).all(|&byte| byte == 0x77));
        }
    });
}

/// Three segments of different lengths, registered one after the other.
pub fn segments_are_kept_apart(factory: impl Factory) {
    cluster(3, factory, |rank| {
        let registered: Vec<_> = [5_000, 100, 70_000].map(|len| rank.register(len)).into();
        let ids: Vec<SegmentId> = registered.iter().map(|(id, _)| *id).collect();
        assert!(ids.iter().all(|id| ids.iter().filter(|other| *other == id).count() == 1));
        let next = (rank.rank() + 1) % 3;
        for (seed, id) in (0..).zip(&ids) {
            put(&*rank.endpoint, next, *id, 10, &pattern(seed, 50));
        }
        rank.endpoint.fence(next).unwrap();
        rank.meet();
        for (seed, (_, memory)) in (0..).zip(&registered) {
            assert_eq!(memory.read(10, 50), pattern(seed, 50));
        }
    });
}

/// Guarantee 1: who has the message has the put.
pub fn a_message_never_overtakes_a_put(factory: impl Factory) {
    const ROUNDS: u64 = 400;
    cluster(2, factory, |rank| {
        let (segment, memory) = rank.register(1 << 20);
        for round in 1..=ROUNDS {
            let len = if round.is_multiple_of(8) { 300_000 } else { 4_096 };
            if rank.rank() == 0 {
                let bytes = pattern(round, len);
                let range = PutRange { offset: 64, len, src: bytes.as_ptr() };
                // SAFETY: `bytes` lives and stays as it is until after the flush.
                unsafe { rank.endpoint.put(1, segment, &[range]) }.unwrap();
                rank.send(1, 0, &round.to_le_bytes());
                rank.flush();
                rank.receive();
            } else {
                assert_eq!(rank.receive().payload, round.to_le_bytes());
                assert!(memory.read(64, len) == pattern(round, len), "message {round} overtook its put");
                rank.send(0, 0, &[]);
                rank.flush();
            }
        }
    });
}

/// The peer's application does nothing but look at its memory once it is told, by other means, that the fence
/// is over.
pub fn fence_returns_when_earlier_puts_are_in_place(factory: impl Factory) {
    cluster(2, factory, |rank| {
        let (segment, memory) = rank.register(1 << 20);
        for (seed, len) in (0..).zip([1, 4_096, 1_000_000]) {
            if rank.rank() == 0 {
                put(&*rank.endpoint, 1, segment, 0, &pattern(seed, len));
                rank.endpoint.fence(1).unwrap();
            }
            rank.meet_in_silence();
            if rank.rank() == 1 {
                assert!(
                    memory.read(0, len) == pattern(seed, len),
                    "{len} bytes were not there after the fence"
                );
            }
            rank.meet_in_silence();
        }
    });
}

/// Guarantee 5. Rank 1 makes no call meanwhile. In the second half, the puts before the get are more than a
/// connection holds.
pub fn a_get_sees_what_its_own_rank_has_put_and_flushed(factory: impl Factory) {
    const PUTS: u64 = 60;
    const LEN: usize = 1 << 20;
    cluster(2, factory, |rank| {
        let (segment, _memory) = rank.register(LEN);
        if rank.rank() == 0 {
            let mut bytes = vec![0; LEN];
            for number in 1..=PUTS {
                bytes[LEN - 8..].copy_from_slice(&number.to_le_bytes());
                put(&*rank.endpoint, 1, segment, 0, &bytes);
                if number <= PUTS / 2 || number == PUTS {
                    let seen = get(&*rank.endpoint, 1, segment, LEN as u64 - 8, 8);
                    assert_eq!(seen, number.to_le_bytes(), "the get overtook put {number}");
                }
            }
        }
        rank.meet_in_silence();
    });
}

/// Rank 1 makes no call at all while rank 0 gets.
pub fn a_get_needs_no_help_from_its_targets_application(factory: impl Factory) {
    cluster(2, factory, |rank| {
        let (segment, memory) = rank.register(2 << 20);
        let bytes = pattern(9, 2 << 20);
        if rank.rank() == 1 {
            memory.write(0, &bytes);
        }
        rank.meet_in_silence();
        if rank.rank() == 0 {
            for (offset, len) in [(0, 8), (4_096, 4_096), (3, 1 << 20)] {
                let got = get(&*rank.endpoint, 1, segment, offset as u64, len);
                assert!(got == bytes[offset..offset + len]);
            }
        }
        rank.meet_in_silence();
    });
}

/// Guarantee 2. Rank 1 counts up a block of words in its memory and puts each count into rank 0's copy, whose
/// threads fetch the same block into the same place all the time. After the message that follows count k, no
/// word of the copy may ever show less.
pub fn a_get_never_undoes_a_newer_put(factory: impl Factory) {
    const COUNTS: u64 = 3_000;
    const WORDS: usize = 128;
    cluster(2, factory, |rank| {
        let (segment, memory) = rank.register(WORDS * 8);
        if rank.rank() == 1 {
            for count in 1..=COUNTS {
                (0..WORDS).for_each(|word| memory.word(word * 8).store(count, Ordering::Relaxed));
                let range = PutRange { offset: 0, len: WORDS * 8, src: memory.at(0) };
                // SAFETY: the memory stays mapped, and is written again only after the answer that follows
                // the flush.
                unsafe { rank.endpoint.put(0, segment, &[range]) }.unwrap();
                rank.send(0, 0, &count.to_le_bytes());
                rank.flush();
                rank.receive();
            }
            return;
        }
        let over = AtomicBool::new(false);
        let endpoint = std::sync::Arc::clone(&rank.endpoint);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| get_until(&over, &*endpoint, segment, &memory));
            }
            for count in 1..=COUNTS {
                assert_eq!(rank.receive().payload, count.to_le_bytes());
                for word in 0..WORDS {
                    let seen = memory.word(word * 8).load(Ordering::Relaxed);
                    if seen != count {
                        over.store(true, Ordering::Relaxed);
                        panic!("word {word} went back from {count} to {seen}");
                    }
                }
                rank.send(1, 0, &[]);
                rank.flush();
            }
            over.store(true, Ordering::Relaxed);
        });
    });
}

/// Neither polls before both have read, so much of what they have sent is on its way, or waits for that.
pub fn ranks_that_have_much_to_send_to_each_other_get_from_each_other(factory: impl Factory) {
    const MESSAGES: u64 = 8_000;
    const LEN: usize = 1 << 20;
    cluster(2, factory, |rank| {
        let (segment, memory) = rank.register(LEN);
        let (me, peer) = (u64::from(rank.rank()), 1 - rank.rank());
        memory.write(0, &pattern(me, LEN));
        rank.meet();
        for seed in 0..MESSAGES {
            rank.send(peer, 0, &pattern(seed, 1_000));
        }
        rank.flush();
        assert!(get(&*rank.endpoint, peer, segment, 0, LEN) == pattern(1 - me, LEN));
        for seed in 0..MESSAGES {
            assert!(rank.receive().payload == pattern(seed, 1_000), "message {seed} arrived changed");
        }
    });
}

/// Fetches rank 1's memory into our own over and over: with pauses between reading and storing where we do
/// the copying, to give a put the chance to come between.
fn get_until(over: &AtomicBool, endpoint: &dyn Endpoint, segment: SegmentId, memory: &SharedMemory) {
    let len = memory.segment().len;
    while !over.load(Ordering::Relaxed) {
        let direct = endpoint.read_peer(1, segment, 0, len, &mut |theirs| {
            let words = theirs.cast::<u64>().cast_mut();
            // SAFETY: `read_peer` gives the address of `len` bytes.
            let word = |i| unsafe { words.add(i) };
            // SAFETY: as above, and aligned like our own memory.
            let word = |i| unsafe { AtomicU64::from_ptr(word(i)) };
            let bytes: Vec<u64> = (0..len / 8).map(|i| word(i).load(Ordering::Relaxed)).collect();
            thread::yield_now();
            bytes.iter().enumerate().for_each(|(i, word)| memory.word(i * 8).store(*word, Ordering::Relaxed));
        });
        if !direct.unwrap() {
            let range = GetRange { offset: 0, len, dst: memory.at(0) };
            // SAFETY: the memory is mapped; the threads that get into it at the same time store bytes of the
            // same source.
            unsafe { endpoint.get(1, segment, &[range]) }.unwrap();
        }
        thread::yield_now();
    }
}

/// Threads with disjoint pieces do not disturb each other.
pub fn several_threads_put_and_get_through_one_endpoint(factory: impl Factory) {
    const THREADS: usize = 4;
    const PIECE: usize = 10_000;
    cluster(2, factory, |rank| {
        let (segment, _memory) = rank.register(2 * THREADS * PIECE);
        let (me, peer) = (rank.rank() as usize, 1 - rank.rank());
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let endpoint = &*rank.endpoint;
                scope.spawn(move || {
                    let offset = ((me * THREADS + thread) * PIECE) as u64;
                    for round in 0..50u64 {
                        let bytes = pattern(offset + round, PIECE - 7);
                        put(endpoint, peer, segment, offset, &bytes);
                        assert!(get(endpoint, peer, segment, offset, bytes.len()) == bytes);
                    }
                });
            }
        });
    });
}

/// With [`Caps::DIRECT`] the peer's bytes can be looked at in place, or in a copy; without, the calls say so
/// and do nothing.
pub fn read_peer_shows_the_peers_bytes_where_memory_is_direct(factory: impl Factory) {
    cluster(2, factory, |rank| {
        let (segment, memory) = rank.register(10_000);
        memory.write(100, &pattern(u64::from(rank.rank()), 500));
        rank.meet();
        for (peer, once) in [(0, false), (1, false), (0, true), (1, true)] {
            let mut seen = Vec::new();
            let mut look = |bytes: *const u8| {
                // SAFETY: the endpoint gives the address of 500 bytes.
                let address = |i| unsafe { bytes.add(i) };
                // SAFETY: as above; nobody writes them now.
                seen.extend((0..500).map(|i| unsafe { address(i).read_volatile() }));
            };
            let endpoint = &rank.endpoint;
            let called = if once {
                endpoint.read_peer_once(peer, segment, 100, 500, &mut look).unwrap()
            } else {
                endpoint.read_peer(peer, segment, 100, 500, &mut look).unwrap()
            };
            assert!(called || peer == rank.rank() || !endpoint.caps_to(peer).contains(Caps::DIRECT));
            assert_eq!(seen, if called { pattern(u64::from(peer), 500) } else { Vec::new() });
        }
    });
}

/// What is not inside the segment is not shown, and more than a page is shown all the same.
pub fn read_peer_once_shows_what_is_inside_the_segment(factory: impl Factory) {
    cluster(2, factory, |rank| {
        let (segment, _memory) = rank.register(10_000);
        rank.meet();
        let peer = 1 - rank.rank();
        if !rank.endpoint.caps_to(peer).contains(Caps::DIRECT) {
            return;
        }
        let show = |offset, len| {
            let mut shown = false;
            let called = rank.endpoint.read_peer_once(peer, segment, offset, len, &mut |_| shown = true);
            called.map(|called| called && shown)
        };
        assert!(show(9_999, 1).unwrap());
        assert!(show(0, 10_000).unwrap());
        assert!(show(9_999, 2).is_err());
        assert!(show(u64::MAX, 1).is_err());
    });
}
