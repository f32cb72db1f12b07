//! Idle, and the counters.

use super::Factory;
use super::cluster::{cluster, get, put};
use std::thread;
use std::time::Duration;

/// The receiver is given time to fall asleep before each message, and would sleep for an hour if nobody woke it.
pub fn idle_wakes_up_when_a_message_arrives(factory: impl Factory) {
    const ROUNDS: u16 = 20;
    cluster(2, factory, |rank| {
        for round in 0..ROUNDS {
            if rank.rank() == u32::from(round % 2) {
                thread::sleep(Duration::from_millis(3));
                rank.send(1 - rank.rank(), round, b"wake up");
                rank.flush();
            } else {
                let mut turn = 0;
                while rank.pump() == 0 {
                    rank.endpoint.idle(turn, Duration::from_secs(3_600));
                    turn += 1;
                }
                assert_eq!(rank.receive().kind, round);
            }
        }
    });
}

/// Whatever the turn and the limit, `idle` returns although nobody sends.
pub fn idle_comes_back_when_nothing_happens(factory: impl Factory) {
    cluster(2, factory, |rank| {
        for turn in (0..100).chain([1_000, 100_000, u32::MAX]) {
            for limit in [0, 1, 700] {
                rank.endpoint.idle(turn, Duration::from_micros(limit));
            }
        }
    });
}

/// Messages and ranges are counted where they are issued, with their payload bytes.
pub fn traffic_counts_what_was_moved(factory: impl Factory) {
    cluster(2, factory, |rank| {
        let (segment, _memory) = rank.register(10_000);
        let before = rank.endpoint.traffic();
        if rank.rank() == 0 {
            rank.endpoint.send(1, 1, &[b"ab", b"cde"]).unwrap();
            put(&*rank.endpoint, 1, segment, 0, &[1; 1_000]);
            get(&*rank.endpoint, 1, segment, 0, 300);
        }
        rank.meet();
        let after = rank.endpoint.traffic();
        let moved = (
            after.messages - before.messages,
            after.puts - before.puts,
            after.gets - before.gets,
            after.bytes - before.bytes,
        );
        assert_eq!(moved, if rank.rank() == 0 { (1, 1, 1, 1_305) } else { (0, 0, 0, 0) });
    });
}
