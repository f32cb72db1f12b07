//! Messages: order, lengths, floods, threads.

use super::Factory;
use super::cluster::{Message, NAP, Random, Rank, WAIT, cluster, pattern};
use crate::Event;
use std::thread;
use std::time::Instant;

/// Messages of mixed lengths arrive in the order they were sent, each with its bytes and its kind.
pub fn messages_arrive_in_order_and_intact(factory: impl Factory) {
    const COUNT: u64 = 3_000;
    cluster(2, factory, |rank| {
        let mut random = Random(7);
        let lengths: Vec<usize> = (0..COUNT).map(|_| random.below(3_000)).collect();
        if rank.rank() == 0 {
            for (seed, &len) in (0..).zip(&lengths) {
                let bytes = pattern(seed, len);
                let (head, tail) = bytes.split_at(len / 3);
                rank.endpoint.send(1, kind(seed), &[head, &[], tail]).unwrap();
                if len.is_multiple_of(5) {
                    rank.flush();
                }
            }
        } else {
            for (seed, &len) in (0..).zip(&lengths) {
                expect(rank.receive(), 0, seed, len);
            }
        }
    });
}

/// Lengths from nothing to 16 MiB, around the powers of two where buffers end.
pub fn messages_of_every_length_arrive(factory: impl Factory) {
    const LENGTHS: [usize; 19] = [
        0,
        1,
        7,
        8,
        9,
        55,
        56,
        57,
        63,
        64,
        65,
        4_095,
        4_096,
        65_535,
        65_536,
        65_537,
        262_144,
        1_000_003,
        16 << 20,
    ];
    cluster(2, factory, |rank| {
        let peer = 1 - rank.rank();
        for (seed, len) in (0..).zip(LENGTHS) {
            rank.send(peer, kind(seed), &pattern(seed, len));
            rank.flush();
        }
        for (seed, len) in (0..).zip(LENGTHS) {
            expect(rank.receive(), peer, seed, len);
        }
    });
}

/// A rank is its own peer too.
pub fn a_rank_sends_to_itself(factory: impl Factory) {
    cluster(2, factory, |rank| {
        let me = rank.rank();
        for (seed, len) in (0..).zip([0, 5, 4_096, 3 << 20]) {
            rank.send(me, kind(seed), &pattern(seed, len));
        }
        rank.flush();
        for (seed, len) in (0..).zip([0, 5, 4_096, 3 << 20]) {
            expect(rank.receive(), me, seed, len);
        }
    });
}

/// Neither side polls before all is sent: whoever waits for room inside `send` or `flush` never comes back.
pub fn two_ranks_flood_each_other_before_either_polls(factory: impl Factory) {
    const COUNT: u64 = 40;
    cluster(2, factory, |rank| {
        let peer = 1 - rank.rank();
        for seed in 0..COUNT {
            rank.send(peer, kind(seed), &pattern(seed, 1 << 20));
            rank.send(peer, kind(seed), &pattern(seed, 100));
            rank.flush();
        }
        rank.meet_in_silence();
        for seed in 0..COUNT {
            expect(rank.receive(), peer, seed, 1 << 20);
            expect(rank.receive(), peer, seed, 100);
        }
    });
}

/// Seven senders share one receiver; each sender's order holds.
pub fn many_ranks_send_to_one(factory: impl Factory) {
    const COUNT: u64 = 1_000;
    cluster(8, factory, |rank| {
        if rank.rank() == 0 {
            let mut next = vec![0; rank.size() as usize];
            for _ in 0..7 * COUNT {
                let message = rank.receive();
                let (from, seed) = (message.from, &mut next[message.from as usize]);
                expect(message, from, *seed, usize::try_from(*seed % 300).unwrap());
                *seed += 1;
            }
        } else {
            for seed in 0..COUNT {
                rank.send(0, kind(seed), &pattern(seed, usize::try_from(seed % 300).unwrap()));
                rank.flush();
            }
        }
    });
}

/// Everybody to everybody, at several sizes of the job.
pub fn all_ranks_send_to_all(factory: impl Factory + Clone) {
    for n in [2, 3, 8] {
        cluster(n, factory.clone(), |rank| {
            for round in 0..30 {
                exchange_with_all(rank, round);
            }
        });
    }
}

fn exchange_with_all(rank: &mut Rank, round: u64) {
    let len = [10, 20_000, 300][usize::try_from(round % 3).unwrap()];
    let seed = |from: u32, to: u32| round << 16 | u64::from(from) << 8 | u64::from(to);
    let me = rank.rank();
    for to in 0..rank.size() {
        rank.send(to, kind(round), &pattern(seed(me, to), len));
    }
    rank.flush();
    for from in 0..rank.size() {
        let message = rank.receive_from(from);
        assert_eq!(message, Message { from, kind: kind(round), payload: pattern(seed(from, me), len) });
    }
}

/// A sink may call the endpoint: a server answers from inside `poll`.
pub fn a_sink_may_answer_at_once(factory: impl Factory) {
    const ROUNDS: u64 = 500;
    cluster(2, factory, |rank| {
        if rank.rank() == 0 {
            for seed in 0..ROUNDS {
                rank.send(1, kind(seed), &pattern(seed, 40));
                rank.flush();
                expect(rank.receive(), 1, seed, 40);
            }
        } else {
            answer_at_once(rank, ROUNDS);
        }
    });
}

/// Answers `count` messages from inside the sink. [`Rank::wait`] would poll by itself, and put what it finds
/// into the inbox.
fn answer_at_once(rank: &Rank, count: u64) {
    let endpoint = &*rank.endpoint;
    let (mut answered, mut turn) = (0, 0);
    let start = Instant::now();
    while answered < count {
        let answer = &mut |event: Event<'_>| {
            if let Event::Message { from, kind, payload } = event {
                endpoint.send(from, kind, &[payload]).unwrap();
                endpoint.flush().unwrap();
                let inside = endpoint.poll(&mut |_| ()).unwrap();
                assert_eq!(inside, 0, "a poll inside a poll delivers nothing");
                answered += 1;
            }
        };
        if endpoint.poll(answer).unwrap() > 0 {
            turn = 0;
            continue;
        }
        assert!(start.elapsed() < WAIT, "answered {answered} of {count} questions");
        endpoint.idle(turn, NAP);
        turn += 1;
    }
}

/// Four threads of one rank send at once; messages stay whole, and each thread's order holds.
pub fn several_threads_send_through_one_endpoint(factory: impl Factory) {
    const THREADS: u64 = 4;
    const COUNT: u64 = 500;
    cluster(2, factory, |rank| {
        if rank.rank() == 0 {
            thread::scope(|scope| {
                for thread in 0..THREADS {
                    let endpoint = &*rank.endpoint;
                    scope.spawn(move || {
                        for seed in 0..COUNT {
                            let bytes = pattern(seed, usize::try_from(seed).unwrap() * 7);
                            endpoint.send(1, kind(seed), &[&thread.to_le_bytes(), &bytes]).unwrap();
                            endpoint.flush().unwrap();
                        }
                    });
                }
            });
        } else {
            let mut next = [0; 4];
            for _ in 0..THREADS * COUNT {
                let mut message = rank.receive();
                let bytes = message.payload.split_off(8);
                let seed = &mut next[usize::from(message.payload[0])];
                expect(Message { payload: bytes, ..message }, 0, *seed, usize::try_from(*seed).unwrap() * 7);
                *seed += 1;
            }
        }
    });
}

fn kind(seed: u64) -> u16 {
    u16::try_from(seed % 60_000).unwrap()
}

fn expect(message: Message, from: u32, seed: u64, len: usize) {
    assert_eq!((message.from, message.kind, message.payload.len()), (from, kind(seed), len));
    assert!(message.payload == pattern(seed, len), "message {seed} of {len} bytes was changed on its way");
}
