//! Long messages: whole, in order, among everything else, and unwanted ones.

use super::Factory;
use super::cluster::{Message, NAP, Rank, WAIT, cluster, get, pattern, put};
use crate::{Event, LONGEST_HEAD};
use std::time::Instant;

/// Lengths from one byte to some MiB, around those where providers do things another way.
const LENGTHS: [usize; 12] =
    [1, 63, 4_096, 8_192, 8_193, 16_384, 65_535, 65_536, 131_072, 200_001, 1 << 20, (3 << 20) + 7];

/// Long messages arrive with their heads and kinds, and neither overtake short ones nor are overtaken.
pub fn long_messages_arrive_whole_and_in_their_order(factory: impl Factory) {
    cluster(2, factory, |rank| {
        let peer = 1 - rank.rank();
        for to in [peer, rank.rank()] {
            let bodies: Vec<Vec<u8>> = (0..).zip(LENGTHS).map(|(seed, len)| pattern(seed, len)).collect();
            for (seed, body) in (0..).zip(&bodies) {
                send_long(rank, to, seed, body);
                rank.send(to, seed, &[7]);
                if seed % 3 == 0 {
                    rank.flush();
                }
            }
            rank.flush();
            for (seed, body) in (0..).zip(&bodies) {
                expect_long(rank, to, seed, body);
                assert_eq!(rank.receive(), Message { from: to, kind: seed, payload: vec![7] });
            }
        }
    });
}

/// Fences take the stream while nobody polls, gets keep it from being taken: both in the middle of long
/// messages.
pub fn long_messages_arrive_whole_among_puts_gets_and_fences(factory: impl Factory) {
    const ROUNDS: u16 = 40;
    const LEN: usize = 300_000;
    cluster(2, factory, |rank| {
        let peer = 1 - rank.rank();
        let (segment, _) = rank.register(LEN);
        for round in 0..ROUNDS {
            let body = pattern(round.into(), LEN);
            send_long(rank, peer, round, &body);
            put(&*rank.endpoint, peer, segment, 0, &body[..1_000]);
            if round % 2 == 0 {
                rank.endpoint.fence(peer).unwrap();
            }
            send_long(rank, peer, round, &body);
            rank.flush();
            rank.pump();
            let got = get(&*rank.endpoint, peer, segment, 0, LEN);
            assert!(got[1_000..].iter().all(|&byte| byte == 0), "nothing is put behind what was put");
            expect_long(rank, peer, round, &body);
            expect_long(rank, peer, round, &body);
            rank.meet();
        }
    });
}

/// A sink that does not ask for its bytes loses a long message, and nothing else.
pub fn a_long_message_that_nobody_takes_is_passed_over(factory: impl Factory) {
    cluster(2, factory, |rank| {
        let body = pattern(1, 3 << 20);
        if rank.rank() == 1 {
            for _ in 0..3 {
                send_long(rank, 0, 1, &body);
                rank.send(0, 2, b"short");
            }
            rank.flush();
            return;
        }
        let (start, mut heard, mut turn) = (Instant::now(), 0, 0);
        while heard < 3 {
            let sink = &mut |event: Event<'_>| match event {
                Event::Message { kind: 2, payload, .. } => {
                    assert_eq!(payload, b"short");
                    heard += 1;
                }
                // A provider that has no parts.
                Event::Message { kind, payload, .. } => {
                    assert_eq!((kind, payload.len()), (1, 3 + body.len()))
                }
                Event::Part { kind, at, .. } => assert_eq!((kind, at), (1, 0)),
                Event::Down { .. } => panic!("rank 1 left"),
            };
            if rank.endpoint.poll(sink).unwrap() == 0 {
                assert!(start.elapsed() < WAIT, "{heard} of 3 messages have come");
                rank.endpoint.idle(turn, NAP);
                turn += 1;
            }
        }
    });
}

/// Sends a long message whose head is its number; every length of heads has its turn.
fn send_long(rank: &Rank, to: u32, seed: u16, body: &[u8]) {
    // SAFETY: callers keep the body until they have flushed.
    unsafe { rank.endpoint.send_long(to, seed, &head(seed), body) }.unwrap();
}

fn head(seed: u16) -> Vec<u8> {
    vec![seed.to_le_bytes()[0]; usize::from(seed) * 3 % (LONGEST_HEAD + 1)]
}

fn expect_long(rank: &mut Rank, from: u32, seed: u16, body: &[u8]) {
    let message = rank.receive();
    assert_eq!((message.from, message.kind), (from, seed));
    assert!(message.payload == [&head(seed), body].concat(), "message {seed} was changed on its way");
}
