//! What locks cost, message by message, and how tries find their way.

#![allow(clippy::unwrap_used)]

use scash_proto::node::{Collective, ObjectKind, Outcome};
use scash_tests::sim::program::{Interval, Op, Script};
use scash_tests::sim::report::Report;
use scash_tests::sim::{Setup, World};

/// Runs intervals after one in which a lock is made, whose manager is rank 0, for each in both kinds of network. Returns what happened in each.
fn run(ranks: u32, intervals: &[&[(u32, Op)]], check: impl Fn(Report)) {
    for puts_at_once in [true, false] {
        let mut script = Script::new(ranks, 4);
        script.interval(|i| {
            i.end = Collective::Make(ObjectKind::Lock, 1);
            i.outcome = Outcome::Made(0);
        });
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
    run(3, &[&turn(1), &turn(2), &turn(2), &turn(0)], |report| {
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
    run(3, &[&first, &attempt, &attempt, &last, &next, &attempt], |report| {
        // The second attempt is led back by the signpost of the first one, and so is the first wish after them; the last one is not.
        assert_eq!(messages(&report), [2, 3, 4, 0, 3, 2]);
        assert_eq!(report.counters().refused_locks, 2);
    });
}

#[test]
fn a_rank_does_not_ask_for_a_lock_that_one_of_its_threads_has() {
    let both = [(1, Op::Lock(0)), (1, Op::TryLock(0)), (1, Op::Unlock(0))];
    run(2, &[&both], |report| {
        assert_eq!(messages(&report), [2]);
        assert_eq!(report.counters().refused_locks, 1);
    });
}
