//! What locks and other objects of synchronisation cost, message by message, and how tries find their way.

#![allow(clippy::unwrap_used)]

use scash_proto::interpreter::MOST_GOT;
use scash_proto::node::ObjectKind;
use scash_proto::wire::sync::{Request, Signal};
use scash_proto::{AllocOptions, Placement, Protocol};
use scash_tests::sim::program::{Interval, Op, Script, Span};
use scash_tests::sim::report::Report;
use scash_tests::sim::{Setup, World};

/// Runs intervals after one in which an object is made, whose manager is rank 0, in both kinds of network,
/// and checks what happened.
fn run(ranks: u32, kind: ObjectKind, intervals: &[&[(u32, Op)]], check: impl Fn(Report)) {
    for puts_at_once in [true, false] {
        let mut script = Script::new(ranks, 4);
        script.make(kind, 1);
        for work in intervals {
            let fill = |i: &mut Interval| work.iter().for_each(|&(rank, op)| i.push(rank, op));
            script.interval(fill);
        }
        let setup = Setup { puts_at_once, slow: 10, ..Setup::new(ranks, 4) };
        check(World::new(setup, script.into_program()).run().unwrap_or_else(|failure| panic!("{failure}")));
    }
}

/// Messages about locks in each interval after the first.
fn messages(report: &Report) -> Vec<u64> {
    report.periods[1..].iter().map(|period| period.traffic.syncs).collect()
}

#[test]
fn a_lock_that_nobody_has_comes_to_who_tries_to_get_it() {
    let turn = |rank| [(rank, Op::TryLock(0)), (rank, Op::Unlock(0))];
    // From its manager; from its manager's last holder; and without a message where it is.
    run(3, ObjectKind::Lock, &[&turn(1), &turn(2), &turn(2), &turn(0)], |report| {
        assert_eq!(messages(&report), [2, 3, 0, 2]);
        assert_eq!(report.counters().refused_locks, 0);
        assert_eq!(report.counters().handed_locks, 3);
    });
}

#[test]
fn a_lock_that_is_held_is_refused_and_whoever_waits_then_finds_the_queue() {
    let first = [(1, Op::Lock(0))];
    let attempt = [(2, Op::TryLock(0)), (2, Op::Unlock(0))];
    let last = [(1, Op::Unlock(0))];
    let next = [(0, Op::Lock(0)), (0, Op::Unlock(0))];
    run(3, ObjectKind::Lock, &[&first, &attempt, &attempt, &last, &next, &attempt], |report| {
        // The second attempt is led back by the signpost of the first one, and so is the first request after
        // them; the last one is not.
        assert_eq!(messages(&report), [2, 3, 4, 0, 3, 2]);
        assert_eq!(report.counters().refused_locks, 2);
    });
}

#[test]
fn a_rank_does_not_ask_for_a_lock_that_one_of_its_threads_has() {
    let both = [(1, Op::Lock(0)), (1, Op::TryLock(0)), (1, Op::Unlock(0))];
    run(2, ObjectKind::Lock, &[&both], |report| {
        assert_eq!(messages(&report), [2]);
        assert_eq!(report.counters().refused_locks, 1);
    });
}

#[test]
fn a_reader_or_writer_exchanges_three_messages_with_the_manager_which_itself_exchanges_none() {
    let read = |rank| [(rank, Op::Request(0, Request::Read)), (rank, Op::Signal(0, Signal::HasRead))];
    let write = |rank| [(rank, Op::Request(0, Request::Write)), (rank, Op::Signal(0, Signal::HasWritten))];
    let all = [read(0), read(1), write(2), read(3)].concat();
    run(4, ObjectKind::RwLock, &[&read(1), &write(1), &write(0), &all], |report| {
        assert_eq!(messages(&report), [3, 3, 0, 9]);
        assert_eq!(report.counters().second_meetings, 0);
    });
}

#[test]
fn a_post_is_one_message_and_the_memory_barrier_waits_for_it_without_another() {
    let post = [(1, Op::Signal(0, Signal::Post(2)))];
    let takes = [(2, Op::Request(0, Request::Take)), (0, Op::Request(0, Request::Take))];
    run(3, ObjectKind::Semaphore(0), &[&post, &takes], |report| {
        assert_eq!(messages(&report), [1, 2]);
        assert_eq!(report.counters().second_meetings, 0);
    });
}

#[test]
fn a_flag_that_is_raised_far_enough_answers_at_once() {
    let raise = [(1, Op::Signal(0, Signal::Raise(9)))];
    let wait = [(2, Op::Request(0, Request::AtLeast(9))), (2, Op::Request(0, Request::AtLeast(3)))];
    run(3, ObjectKind::Flag, &[&raise, &wait], |report| assert_eq!(messages(&report), [1, 4]));
}

#[test]
fn a_signal_that_nobody_waits_for_is_one_message() {
    let signals = [(1, Op::Signal(0, Signal::WakeOne)), (2, Op::Signal(0, Signal::WakeAll))];
    run(3, ObjectKind::Condition, &[&signals], |report| assert_eq!(messages(&report), [2]));
}

#[test]
fn an_acquire_that_renews_many_pages_gets_them_at_once() {
    let cost = |most_got| {
        let mut script = Script::new(2, 64);
        let options = AllocOptions { placement: Placement::Rank(0), protocol: Protocol::Adaptive, block: 1 };
        let area = script.alloc(40, options);
        let flag = script.make(ObjectKind::Flag, 1);
        let word = |page| Span { page, first: 0, len: 8 };
        // They take turns: rank 0 writes, and then rank 1 reads.
        script.interval(|interval| {
            for turn in 1..=6u8 {
                let (written, read) = (u64::from(2 * turn), u64::from(2 * turn + 1));
                area.iter().for_each(|page| interval.push(0, Op::Write(word(page), turn)));
                interval.push(0, Op::Signal(flag, Signal::Raise(written)));
                interval.push(0, Op::Request(flag, Request::AtLeast(read)));
                interval.push(1, Op::Request(flag, Request::AtLeast(written)));
                area.iter().for_each(|page| interval.push(1, Op::Read(word(page))));
                interval.push(1, Op::Signal(flag, Signal::Raise(read)));
            }
        });
        let setup = Setup { puts_at_once: false, renewals: 15, most_got, ..Setup::new(2, 64) };
        let report = World::new(setup, script.into_program()).run().unwrap();
        let traffic = report.periods.last().unwrap().traffic;
        [report.counters().renewed, traffic.gets, traffic.refreshes]
    };
    // The first two turns fetch the pages, by faults.
    let (renewed, fetched) = (4 * 40, 2 * 40);
    assert_eq!(cost(1), [renewed, fetched, 4 * 40]);
    assert_eq!(cost(16), [renewed, fetched, 4 * 3]);
    assert_eq!(cost(MOST_GOT), [renewed, fetched, 4]);
}

#[test]
fn the_end_of_objects_is_a_reduction_and_a_memory_barrier_however_many_they_are() {
    for count in [1, 40] {
        let mut script = Script::new(8, 4);
        let first = script.make(ObjectKind::Lock, count);
        let work =
            |lock: u32| (0..8).flat_map(move |rank| [(rank, Op::Lock(lock)), (rank, Op::Unlock(lock))]);
        script.interval(|i| (first..first + count).flat_map(work).for_each(|(rank, op)| i.push(rank, op)));
        script.destroy(ObjectKind::Lock, first, count);
        let report = World::new(Setup::new(8, 4), script.into_program()).run().unwrap();
        let end = report.periods.last().unwrap().traffic;
        // A tree of 8 ranks has 7 pairs; a meeting, 3 rounds.
        assert_eq!((end.reductions, end.tokens, end.messages()), (2 * 7, 8 * 3, 2 * 7 + 8 * 3));
        assert_eq!(report.destroyed, 8);
    }
}
