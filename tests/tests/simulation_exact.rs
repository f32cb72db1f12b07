//! Leases that acquires leave as they are: what that saves, and random programs that live on it. (See
//! `scash_proto::node`, module `exact`.)

#![allow(clippy::unwrap_used)]

use scash_proto::node::{Counters, ObjectKind};
use scash_proto::wire::sync::{Request, Signal};
use scash_proto::{AllocOptions, PAGE_SIZE, Pages, Placement, Protocol, Rank};
use scash_sim::program::{Interval, Op, Script, Span};
use scash_sim::report::{self, Report};
use scash_sim::rng::Rng;
use scash_sim::{Setup, World};
use std::num::NonZeroU32;

/// A job over a network, as the runtime would set it up.
fn network(ranks: u32, pages: u32) -> Setup {
    Setup { puts_at_once: false, renewals: 3, exact_after: 7, ..Setup::new(ranks, pages) }
}

fn at(rank: u32) -> AllocOptions {
    AllocOptions { placement: Placement::Rank(rank), protocol: Protocol::Adaptive, block: 1 }
}

/// The word of a page that a test writes.
fn word(page: u32) -> Span {
    Span { page, first: 8, len: 8 }
}

fn run(setup: Setup, script: Script) -> Report {
    World::new(setup, script.into_program()).run().unwrap_or_else(|failure| panic!("{failure}"))
}

fn raise(flag: u32, value: u64) -> Op {
    Op::Signal(flag, Signal::Raise(value))
}

fn wait_for(flag: u32, value: u64) -> Op {
    Op::Request(flag, Request::AtLeast(value))
}

/// Two ranks take turns from one value of a flag to another one: rank 0 writes a page, rank 1 reads another
/// one.
fn turns(interval: &mut Interval, flag: u32, turns: std::ops::Range<u64>, written: u32, read: u32) {
    for turn in turns {
        interval.push(0, Op::Write(word(written), turn.to_le_bytes()[0]));
        interval.push(0, raise(flag, 2 * turn));
        interval.push(0, wait_for(flag, 2 * turn + 1));
        interval.push(1, wait_for(flag, 2 * turn));
        interval.push(1, Op::Read(word(read)));
        interval.push(1, raise(flag, 2 * turn + 1));
    }
}

/// How often a page came to rank 1 that it reads in so many turns, while rank 0, its home, writes another
/// one: by faults, and by renewals.
fn read_beside(exact_after: u64, times: u64) -> [u64; 2] {
    let mut script = Script::new(2, 8);
    let area = script.alloc(2, at(0));
    let flag = script.make(ObjectKind::Flag, 1);
    script.interval(|interval| turns(interval, flag, 1..times + 1, area.first, area.first + 1));
    let counters = run(Setup { exact_after, ..network(2, 8) }, script).counters();
    [counters.fetched, counters.renewed]
}

/// A record of a home ended all leases of its pages, written or not. Now a page that nobody writes comes only
/// until seven renewals of it were in vain, and once when its home says that it tracks the page. Then never
/// again, however often the lock goes to and fro.
#[test]
fn a_page_that_is_only_read_is_not_fetched_again_because_of_a_lock_that_does_not_concern_it() {
    let counts = [20, 40, 400].map(|times| read_beside(7, times));
    assert_eq!(counts, [counts[0]; 3]);
    assert!(counts[0].iter().sum::<u64>() <= 12, "{counts:?}");
    assert_eq!(read_beside(0, 400).iter().sum::<u64>(), 400, "without it, the page comes in each turn");
}

/// Nor does its home fault for ever at its writes of such a page: a memory barrier ends the leases.
#[test]
fn what_is_tracked_for_leases_is_not_tracked_when_they_are_over() {
    let mut script = Script::new(2, 8);
    let area = script.alloc(2, at(0));
    let flag = script.make(ObjectKind::Flag, 1);
    script.interval(|interval| turns(interval, flag, 1..20, area.first, area.first + 1));
    // Rank 1 has subscribed to the page, too, and is given up when it does not read it.
    for salt in 0..40 {
        script.interval(|interval| interval.push(0, Op::Write(word(area.first + 1), salt)));
    }
    let report = run(Setup { predict: false, ..network(2, 8) }, script);
    assert_eq!(report.counters().tracked, 1);
    let periods = report.periods.len();
    let faults = |interval| report.gained(interval).write_faults;
    assert_eq!((periods - 5..periods).map(faults).sum::<u64>(), 0);
}

/// A home that writes a page now and then would fault for it: it is not asked to track such a page, however
/// many renewals were in vain in between.
#[test]
fn a_page_that_its_home_writes_now_and_then_is_not_tracked() {
    let tracked = |written_each: u64| {
        let mut script = Script::new(2, 8);
        let area = script.alloc(2, at(0));
        let flag = script.make(ObjectKind::Flag, 1);
        script.interval(|interval| {
            for turn in (1..200).step_by(usize::try_from(written_each).unwrap()) {
                // All but the last turn of each few write another page than the one that is read.
                let (other, read) = (area.first, area.first + 1);
                turns(interval, flag, turn..turn + written_each - 1, other, read);
                turns(interval, flag, turn + written_each - 1..turn + written_each, read, read);
            }
        });
        run(network(2, 8), script).counters().tracked
    };
    assert_eq!([5, 40].map(tracked), [0, 1]);
}

/// What the records of a home name exactly does not come with a lock unless it was written: rank 1 reads a
/// page in critical sections in which rank 0, its home, writes another one.
#[test]
fn a_page_that_is_tracked_does_not_come_with_a_lock_for_nothing() {
    let bytes = |exact_after: u64| {
        let mut script = Script::new(2, 8);
        let area = script.alloc(2, at(0));
        let lock = script.make(ObjectKind::Lock, 1);
        script.interval(|interval| {
            for turn in 0..400u32 {
                let [salt, ..] = turn.to_le_bytes();
                for op in [Op::Lock(lock), Op::Write(word(area.first), salt), Op::Unlock(lock)] {
                    interval.push(0, op);
                }
                for op in [Op::Lock(lock), Op::Read(word(area.first + 1)), Op::Unlock(lock)] {
                    interval.push(1, op);
                }
            }
        });
        let setup = Setup { bring: true, renewals: 15, exact_after, ..network(2, 8) };
        let report = run(setup, script);
        let traffic = report.periods.last().unwrap().traffic;
        (traffic.message_bytes + traffic.gets * PAGE_SIZE as u64, report.counters().handed_locks)
    };
    let ((all, many), (few, some)) = (bytes(0), bytes(7));
    assert!(many > 200 && some > 200, "the lock goes to and fro: {many} and {some} times");
    // With each turn of rank 1 a page, or no page.
    assert!(all > 100 * PAGE_SIZE as u64 && few < 80 * PAGE_SIZE as u64, "{all} and {few} bytes");
}

/// Critical sections that mostly read pages, and now and then write one; homes that move, in some programs.
fn random(setup: &Setup) -> Script {
    let mut rng = Rng::part(setup.seed, 21);
    let ranks = setup.size;
    let mut script = Script::new(ranks, setup.pages);
    let placement = match rng.below(4) {
        0 => Placement::FirstTouch,
        1 => Placement::Cyclic { pages: NonZeroU32::MIN, first: 0 },
        _ => Placement::Rank(rng.below(ranks)),
    };
    let protocol =
        rng.pick(&[Protocol::Adaptive, Protocol::Adaptive, Protocol::Invalidate, Protocol::Update]);
    let area = script.alloc(rng.between(3, 12), AllocOptions { placement, protocol, block: 1 });
    let locks = rng.between(1, 4).min(area.count);
    script.make(ObjectKind::Lock, locks);
    // Who touches what first, if that is asked.
    script.interval(|interval| {
        for page in area.iter() {
            interval.push(rng.below(ranks), Op::Write(Span { page, first: 0, len: PAGE_SIZE }, 1));
        }
    });
    let (moves, writes) = (rng.pick(&[0, 0, 60]), rng.pick(&[3, 10, 30]));
    for _ in 0..rng.between(2, 6) {
        script.interval(|interval| {
            for rank in 0..ranks {
                for _ in 0..rng.between(1, 30) {
                    section(&mut rng, interval, rank, (area, locks), writes);
                }
                if rng.chance(moves) {
                    let page = area.first + rng.below(area.count);
                    interval.push(rank, Op::SetHome(Pages::one(page), Rank(rng.below(ranks))));
                }
            }
        });
    }
    script.interval(|interval| {
        for (rank, page) in (0..ranks).flat_map(|rank| area.iter().map(move |page| (rank, page))) {
            interval.push(rank, Op::Read(Span::page(page)));
        }
    });
    script
}

/// Uses some of the pages that a lock guards: those of its number, modulo the locks.
fn section(rng: &mut Rng, interval: &mut Interval, rank: u32, (area, locks): (Pages, u32), writes: u32) {
    let lock = rng.below(locks);
    interval.push(rank, Op::Lock(lock));
    for page in area.iter().filter(|page| page % locks == lock) {
        let at = Span { page, first: 8 * rng.below(512) as usize, len: 8 };
        if rng.chance(80) {
            interval.push(rank, Op::Read(if rng.chance(50) { at } else { Span::page(page) }));
        }
        if rng.chance(writes) {
            interval.push(rank, Op::Write(at, rng.bits().to_le_bytes()[0]));
        }
    }
    interval.push(rank, Op::Unlock(lock));
}

fn random_setup(seed: u64) -> Setup {
    let mut rng = Rng::part(seed, 20);
    Setup {
        seed,
        puts_at_once: rng.chance(30),
        fetch_most: rng.pick(&[1, 4, 64]),
        predict: rng.chance(80),
        migrate_after: rng.pick(&[0, 1, 2]),
        renewals: rng.pick(&[1, 3, 15]),
        exact_after: rng.pick(&[1, 1, 2, 7]),
        most_got: rng.pick(&[2, 64]),
        watch_from: rng.below(3),
        exclusion: rng.chance(50),
        tears: rng.pick(&[0, 50, 80]),
        burst: rng.pick(&[0, 50, 90]),
        slow: rng.pick(&[0, 10, 40]),
        slowness: rng.pick(&[5, 25, 200]),
        cache: if rng.chance(25) { rng.between(2, 8) } else { 0 },
        races: rng.chance(15),
        ..Setup::new(rng.between(2, 5), 16)
    }
}

#[test]
fn random_critical_sections_read_what_was_written() {
    let seeds = std::env::var("SCASH_SEEDS").ok();
    let asked = seeds.and_then(|text| text.split_once("..").map(|(from, to)| (from.parse(), to.parse())));
    let (from, to) = asked.map_or((0, 1500), |(from, to)| (from.unwrap(), to.unwrap()));
    let mut sum = Counters::default();
    for seed in from..to {
        let setup = random_setup(seed);
        sum = report::add(sum, run(setup, random(&setup)).counters());
    }
    // As many as there are seeds, at least: the path is taken.
    let seeds = to - from;
    assert!(sum.tracked > seeds && sum.spared > seeds && sum.migrated > 0, "{seeds} seeds: {sum:?}");
}
