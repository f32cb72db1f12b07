//! Idle, and the counters.

use super::Factory;
use super::cluster::{cluster, get, put};
use crate::{Atomic, Caps, Endpoint, Event, Rmw};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The receiver is given time to fall asleep before each message, and would sleep for an hour if nobody woke
/// it.
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

/// As an image of each is taken.
pub fn ranks_hold_still_and_go_on(factory: impl Factory) {
    cluster(2, factory, |rank| {
        drop(rank.endpoint.hold_still());
        rank.meet();
    });
}

/// Over TCP it has no thread, and waited for ever until that had begun.
pub fn a_rank_without_peers_holds_still(factory: impl Factory) {
    cluster(1, factory, |rank| drop(rank.endpoint.hold_still()));
}

/// Three threads ask, and each polls for all: who sleeps must hear of an answer that another one took.
pub fn several_threads_wait_on_one_endpoint(factory: impl Factory) {
    const THREADS: u16 = 3;
    const ROUNDS: u64 = 200;
    cluster(2, factory, |rank| {
        if rank.rank() == 1 {
            for _ in 0..u64::from(THREADS) * ROUNDS {
                let question = rank.receive();
                if question.payload[0].is_multiple_of(50) {
                    thread::sleep(Duration::from_millis(2));
                }
                rank.send(0, question.kind, &question.payload);
                rank.flush();
            }
            return;
        }
        let answered: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
        let endpoint = &*rank.endpoint;
        thread::scope(|scope| {
            for me in 0..THREADS {
                let answered = &answered;
                scope.spawn(move || (1..=ROUNDS).for_each(|round| ask(endpoint, me, round, answered)));
            }
        });
    });
}

/// Thread `me` asks and waits for the answer, which is counted in `answered` by whichever thread polls it.
fn ask(endpoint: &dyn Endpoint, me: u16, round: u64, answered: &[AtomicU64]) {
    endpoint.send(1, me, &[&round.to_le_bytes()]).unwrap();
    endpoint.flush().unwrap();
    let mut turn = 0;
    while answered[usize::from(me)].load(Ordering::Acquire) < round {
        let take = &mut |event: Event<'_>| {
            let Event::Message { kind, payload, .. } = event else { panic!("rank 1 left") };
            let round = u64::from_le_bytes(payload.try_into().unwrap());
            answered[usize::from(kind)].store(round, Ordering::Release);
        };
        if endpoint.poll(take).unwrap() == 0 {
            endpoint.idle(turn, Duration::from_secs(1));
            turn += 1;
        }
    }
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

/// With [`Caps::ROUSED`] a nap lasts until this rank or the other one ends it, and what arrives does not.
pub fn a_nap_is_ended_by_whom_it_concerns_also_before_it_has_begun(factory: impl Factory) {
    const HOUR: Duration = Duration::from_secs(3_600);
    cluster(2, factory, |rank| {
        let (me, peer) = (rank.rank(), 1 - rank.rank());
        assert!(!rank.endpoint.nap(Duration::from_millis(1)), "nobody ends it");
        if ![me, peer].iter().all(|&other| rank.endpoint.caps_to(other).contains(Caps::ROUSED)) {
            return;
        }
        rank.meet();
        if me == 0 {
            rank.endpoint.end_nap(0);
            assert!(rank.endpoint.nap(HOUR));
            rank.endpoint.end_nap(1);
            // This one ends by what rank 1 says in so many words.
            assert!(rank.endpoint.nap(HOUR));
        } else {
            assert!(rank.endpoint.nap(HOUR));
            rank.send(0, 7, b"a message");
            rank.flush();
            rank.endpoint.end_nap(0);
        }
        rank.meet();
        if me == 0 {
            assert_eq!(rank.receive().kind, 7);
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
            rank.endpoint.atomic(1, segment, 8, Atomic::U64(Rmw::Add(1))).unwrap();
        }
        rank.meet();
        let after = rank.endpoint.traffic();
        let moved = (
            after.messages - before.messages,
            after.puts - before.puts,
            after.gets - before.gets,
            after.atomics - before.atomics,
            after.bytes - before.bytes,
        );
        assert_eq!(moved, if rank.rank() == 0 { (1, 1, 1, 1, 1_305) } else { (0, 0, 0, 0, 0) });
    });
}
