//! Objects of synchronisation that one rank makes, and one destroys, while others go on.

#![allow(clippy::unwrap_used)]

use scash_proto::node::ObjectKind;
use scash_proto::wire::sync::{Request, Signal};
use scash_proto::{AllocOptions, Placement, Protocol};
use scash_sim::program::{FIRST_NAME, Interval, Op, Script, Span};
use scash_sim::report::Report;
use scash_sim::{Setup, World};

const SEMAPHORE: ObjectKind = ObjectKind::Semaphore(0);
/// What the programs call the object that one rank makes.
const OWN: u32 = FIRST_NAME;

/// Semaphores, made by all, by which threads come one after the other: the manager of number n is rank (n mod
/// ranks).
const TURNS: u32 = 100;

fn go(turn: u32) -> Op {
    Op::Signal(turn, Signal::Post(1))
}

fn push(i: &mut Interval, rank: u32, ops: &[Op]) {
    ops.iter().for_each(|&op| i.push(rank, op));
}

fn await_turn(turn: u32) -> Op {
    Op::Request(turn, Request::Take)
}

/// Runs an interval of three ranks with a page at rank 2, and its semaphores, in one of many orders.
fn run(seed: u64, untimely: bool, fill: impl Fn(&mut Interval)) -> Report {
    run_on(1, seed, untimely, fill)
}

/// The same with so many threads in each rank: those of rank 0 do what ranks 0 and on are to do.
fn run_on(threads: u32, seed: u64, untimely: bool, fill: impl Fn(&mut Interval)) -> Report {
    let mut script = Script::new(3 * threads, 4);
    let options = AllocOptions { placement: Placement::Rank(2), protocol: Protocol::Adaptive, block: 1 };
    script.alloc(1, options);
    script.make(SEMAPHORE, TURNS);
    script.interval(fill);
    let slow = if seed.is_multiple_of(2) { 40 } else { 10 };
    let puts_at_once = seed.is_multiple_of(3);
    let setup = Setup { seed, puts_at_once, slow, slowness: 200, untimely, ..Setup::new(3, 4) };
    World::new(setup, script.on_threads(threads).into_program())
        .run()
        .unwrap_or_else(|failure| panic!("{failure}"))
}

fn all(seeds: u64, untimely: bool, fill: impl Fn(&mut Interval)) -> Vec<Report> {
    (0..seeds).map(|seed| run(seed, untimely, &fill)).collect()
}

const PAGE: Span = Span { page: 0, first: 0, len: 64 };

#[test]
fn a_lock_that_a_rank_makes_orders_what_is_written_as_soon_as_others_hear_of_it() {
    let section = |i: &mut Interval, rank, salt| {
        push(i, rank, &[Op::Lock(OWN), Op::Read(PAGE), Op::Write(PAGE, salt), Op::Unlock(OWN)]);
    };
    let reports = all(100, false, |i| {
        i.push(0, Op::MakeOwn(OWN, ObjectKind::Lock));
        push(i, 0, &[go(1), go(2)]);
        for (rank, salt) in [(0, 7), (1, 70), (2, 140)] {
            if rank > 0 {
                i.push(rank, await_turn(rank));
            }
            section(i, rank, salt);
            section(i, rank, salt + 1);
            i.push(rank, go(10 + rank));
        }
        // When all have had it, rank 1 destroys it.
        push(i, 1, &[await_turn(10), await_turn(11), await_turn(12), Op::Unmake(OWN)]);
    });
    assert!(reports.iter().all(|report| report.unmade == 1));
}

#[test]
fn making_an_object_and_destroying_it_where_it_was_made_takes_no_message() {
    for kind in [ObjectKind::Lock, ObjectKind::RwLock, SEMAPHORE, ObjectKind::Condition, ObjectKind::Flag] {
        let report = run(0, false, |i| {
            for name in (0..40).map(|n| FIRST_NAME + n) {
                i.push(1, Op::MakeOwn(name, kind));
                i.push(1, Op::Unmake(name));
            }
        });
        let syncs = report.periods.last().unwrap().traffic.syncs;
        assert_eq!((report.unmade, syncs), (40, 0), "{kind:?}");
    }
}

#[test]
fn who_destroys_what_another_rank_has_made_exchanges_two_messages_with_it() {
    for (kind, messages) in [
        // A lock it takes first: it asks the manager, which grants it; a reader-writer lock likewise.
        (ObjectKind::Lock, 4),
        (ObjectKind::RwLock, 4),
        (SEMAPHORE, 2),
        (ObjectKind::Condition, 2),
        (ObjectKind::Flag, 2),
    ] {
        let report = run(0, false, |i| {
            i.push(1, Op::MakeOwn(OWN, kind));
            i.push(1, go(1));
            i.push(2, await_turn(1));
            i.push(2, Op::Unmake(OWN));
        });
        let syncs = report.periods.last().unwrap().traffic.syncs;
        // And two for the turn.
        assert_eq!(syncs, messages + 2, "{kind:?}");
    }
}

#[test]
fn a_signal_that_its_object_does_not_live_to_see_is_lost_and_reaches_no_other() {
    // Rank 2 raises a flag of rank 0, and lets rank 1 destroy it, whose word may overtake that of rank 2.
    // Then rank 0 makes so many flags in its place that numbers would come again. None is raised but the
    // last.
    let many = 40;
    let reports = all(300, false, |i| {
        push(i, 0, &[Op::MakeOwn(OWN, ObjectKind::Flag), go(2)]);
        push(i, 2, &[await_turn(2), Op::Signal(OWN, Signal::Raise(5)), go(1)]);
        push(i, 1, &[await_turn(1), Op::Unmake(OWN), go(3)]);
        i.push(0, await_turn(3));
        for n in 1..many {
            let (flag, is_last) = (OWN + n, n == many - 1);
            push(i, 0, &[Op::MakeOwn(flag, ObjectKind::Flag), go(3 + n)]);
            // Rank 1 waits for each of them to be raised so far.
            push(i, 1, &[await_turn(3 + n), Op::Request(flag, Request::AtLeast(u64::from(is_last)))]);
            if !is_last {
                push(i, 1, &[Op::Unmake(flag), go(50 + n)]);
                i.push(0, await_turn(50 + n));
            }
        }
        push(i, 0, &[Op::Write(PAGE, 9), Op::Signal(OWN + many - 1, Signal::Raise(1))]);
        i.push(1, Op::Read(PAGE));
    });
    assert!(reports.iter().all(|report| report.unmade == u64::from(many) - 1));
}

/// What comes with a signal that finds no object is known at the manager all the same: it is not sent again.
#[test]
fn what_a_signal_brings_is_learnt_although_its_object_is_no_more() {
    all(200, false, |i| {
        push(i, 0, &[Op::MakeOwn(OWN, SEMAPHORE), Op::Unmake(OWN), Op::Read(PAGE), go(1)]);
        push(i, 0, &[await_turn(3), Op::Read(PAGE)]);
        // Both signals go to rank 0. With the first one, which is lost, comes that the page was written.
        push(i, 1, &[await_turn(1), Op::Write(PAGE, 9), Op::Signal(OWN, Signal::Post(1)), go(3)]);
    });
}

#[test]
fn a_program_that_destroys_what_others_wait_for_is_told_and_nobody_waits_for_ever() {
    for threads in [1, 2] {
        let others = 1..3 * threads;
        let fill = |i: &mut Interval| {
            i.push(0, Op::MakeOwn(OWN, ObjectKind::Lock));
            others.clone().for_each(|other| i.push(0, go(other)));
            for other in others.clone() {
                i.push(other, await_turn(other));
                for _ in 0..3 {
                    push(i, other, &[Op::Lock(OWN), Op::Unlock(OWN), Op::TryLock(OWN), Op::Unlock(OWN)]);
                }
                i.push(other, Op::Unmake(OWN));
            }
            push(i, 0, &[Op::Lock(OWN), Op::Unlock(OWN), Op::Unmake(OWN), Op::Lock(OWN), Op::Unlock(OWN)]);
        };
        let reports: Vec<Report> = (0..400).map(|seed| run_on(threads, seed, true, fill)).collect();
        let sum = |count: fn(&Report) -> u64| reports.iter().map(count).sum::<u64>();
        assert!(reports.iter().all(|report| report.unmade <= 1), "an object ends once");
        let sums = [sum(|r| r.unmade), sum(|r| r.kept), sum(|r| r.absent)];
        assert!(sums[0] > 300 && sums[1] > 20 && sums[2] > 100, "{sums:?}");
    }
}
