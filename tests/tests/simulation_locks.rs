//! What locks and other objects of synchronisation cost, message by message, and how tries find their way.

#![allow(clippy::unwrap_used)]

use scash_proto::interpreter::MOST_GOT;
use scash_proto::node::ObjectKind;
use scash_proto::wire::sync::{Request, Signal};
use scash_proto::{AllocOptions, Placement, Protocol};
use scash_sim::program::{Change, Interval, Op, Script, Span, Word};
use scash_sim::report::Report;
use scash_sim::{Setup, World};
use std::collections::BTreeSet;

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

/// What hand-overs of a lock cost beside its own messages, if two ranks take turns with pages of `home`:
/// pages that were renewed, those of them that came with the lock, gets, and waits for puts.
fn turns(home: u32, pages: u32, bring: bool) -> [u64; 4] {
    let mut script = Script::new(2, 64);
    let options = AllocOptions { placement: Placement::Rank(home), protocol: Protocol::Adaptive, block: 1 };
    let area = script.alloc(pages, options);
    let lock = script.make(ObjectKind::Lock, 1);
    let turn = |rank: u32, value: u8| {
        let write = |page| Op::Write(Span { page, first: 8 * rank as usize, len: 8 }, value);
        let work: Vec<Op> = [Op::Lock(lock)].into_iter().chain(area.iter().map(write)).collect();
        [work, vec![Op::Unlock(lock)]].concat()
    };
    script.interval(|interval| {
        for value in 1..=8u8 {
            for rank in 0..2 {
                turn(rank, value).into_iter().for_each(|op| interval.push(rank, op));
            }
        }
    });
    let setup = Setup { puts_at_once: false, renewals: 15, bring, ..Setup::new(2, 64) };
    let report = World::new(setup, script.into_program()).run().unwrap();
    let traffic = report.periods.last().unwrap().traffic;
    let counters = report.counters();
    [counters.renewed, counters.brought, traffic.refreshes, traffic.fences]
}

#[test]
fn copies_come_with_a_lock_whose_releaser_is_their_home() {
    for home in 0..2 {
        for pages in [1, 3] {
            let [renewed, _, refreshes, _] = turns(home, pages, false);
            let turns_with_renewals = renewed / u64::from(pages);
            assert!(
                turns_with_renewals >= 4 && refreshes == turns_with_renewals,
                "{renewed} by {refreshes} gets"
            );
            assert_eq!(turns(home, pages, true)[..3], [renewed, renewed, 0]);
        }
    }
}

#[test]
fn who_gets_a_lock_from_the_writer_of_its_pages_does_not_wait_for_their_puts() {
    // One wait is that of the memory barrier.
    assert_eq!([0, 1].map(|home| turns(home, 3, true)[3]), [1, 1]);
}

/// Runs a program of three ranks, some of whose connections are slow.
fn run_in_slow_network(seed: u64, bring: bool, script: Script) -> Report {
    let setup = Setup {
        seed,
        puts_at_once: false,
        renewals: 15,
        bring,
        slow: 40,
        slowness: 200,
        burst: 50,
        ..Setup::new(3, 64)
    };
    World::new(setup, script.into_program()).run().unwrap_or_else(|failure| panic!("{failure}"))
}

/// Rank 0, the home of a page, writes it under one lock, which goes to rank 1, and then under another, which
/// goes to rank 2. That one tells rank 1 by a semaphore, which may come before the first lock, with older
/// bytes of the page.
fn overtaken_by_a_signal(seed: u64) -> Report {
    let mut script = Script::new(3, 64);
    let options =
        |home| AllocOptions { placement: Placement::Rank(home), protocol: Protocol::Adaptive, block: 1 };
    let [written, counted] = [0, 2].map(|home| script.alloc(1, options(home)).first);
    let locks = script.make(ObjectKind::Lock, 2);
    let semaphore = script.make(ObjectKind::Semaphore(0), 3) + 2;
    assert_eq!(semaphore % 3, 1, "rank 1 manages it");
    let word = |page, first| Word { page, first, width: 8 };
    let (first, second, count) = (word(written, 0), word(written, 8), word(counted, 0));
    let section = |lock: u32, inside: &[Op]| [&[Op::Lock(lock)], inside, &[Op::Unlock(lock)]].concat();
    let add = |word| Op::Plainly(word, Change::Add(1));
    let load = |word| Op::Plainly(word, Change::Load);
    script.interval(|i| {
        for _ in 0..6 {
            section(locks, &[add(first)]).into_iter().for_each(|op| i.push(0, op));
            section(locks + 1, &[add(second), add(count)]).into_iter().for_each(|op| i.push(0, op));
            section(locks, &[Op::Read(first.span())]).into_iter().for_each(|op| i.push(1, op));
            i.push(1, Op::Request(semaphore, Request::Take));
            section(locks + 1, &[load(second), load(count)]).into_iter().for_each(|op| i.push(1, op));
            section(locks + 1, &[]).into_iter().for_each(|op| i.push(2, op));
            i.push(2, Op::Signal(semaphore, Signal::Post(1)));
        }
    });
    run_in_slow_network(seed, true, script)
}

#[test]
fn a_page_that_comes_with_a_lock_does_not_take_the_place_of_one_that_its_home_wrote_later() {
    let mut brought = 0;
    for seed in 0..2_000 {
        let report = overtaken_by_a_signal(seed);
        brought += report.counters().brought;
        let seen: Vec<u64> =
            report.seen.iter().filter(|seen| seen.rank == 1).map(|seen| seen.value).collect();
        let pairs = seen.as_chunks::<2>().0;
        assert!(pairs.iter().all(|[number, count]| number == count), "seed {seed}: {pairs:?}");
    }
    assert!(brought > 2_000, "only {brought} pages came with locks");
}

/// Rank 0 writes a page of rank 1 under a lock, which goes there ahead of its puts. Rank 2 meanwhile hears
/// from rank 0 by a semaphore, and reads a part of the page that nobody writes: its copy is from then.
fn heard_by_another_object(seed: u64) -> Report {
    let mut script = Script::new(3, 64);
    let options =
        |home| AllocOptions { placement: Placement::Rank(home), protocol: Protocol::Update, block: 1 };
    let [written, counted] = [1, 2].map(|home| script.alloc(1, options(home)).first);
    let lock = script.make(ObjectKind::Lock, 1);
    let semaphore = script.make(ObjectKind::Semaphore(100), 3) + 2;
    assert_eq!(semaphore % 3, 0, "rank 0 manages it");
    let [number, count] = [written, counted].map(|page| Word { page, first: 0, width: 8 });
    let beside = Op::Read(Span { page: written, first: 2048, len: 8 });
    let section = |inside: &[Op]| [&[Op::Lock(lock)], inside, &[Op::Unlock(lock)]].concat();
    // Rank 2 becomes a sharer, so that rank 1 says which pages it has written: none.
    for _ in 0..3 {
        script.interval(|i| i.push(2, beside));
    }
    let add = |word| Op::Plainly(word, Change::Add(1));
    let load = |word| Op::Plainly(word, Change::Load);
    script.interval(|i| {
        for _ in 0..4 {
            section(&[add(number), add(count)]).into_iter().for_each(|op| i.push(0, op));
            section(&[]).into_iter().for_each(|op| i.push(1, op));
            [Op::Request(semaphore, Request::Take), beside].into_iter().for_each(|op| i.push(2, op));
            section(&[load(number), load(count)]).into_iter().for_each(|op| i.push(2, op));
        }
    });
    run_in_slow_network(seed, seed.is_multiple_of(2), script)
}

#[test]
fn nobody_hears_by_another_object_of_what_is_still_on_its_way_with_a_lock() {
    let mut different = BTreeSet::new();
    for seed in 0..2_000 {
        let report = heard_by_another_object(seed);
        let seen: Vec<u64> =
            report.seen.iter().filter(|seen| seen.rank == 2).map(|seen| seen.value).collect();
        let pairs = seen.as_chunks::<2>().0;
        assert!(pairs.iter().all(|[number, count]| number == count), "seed {seed}: {pairs:?}");
        different.insert(seen);
    }
    assert!(different.len() > 10, "such schedules show little: {different:?}");
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
