//! Ranks, hosts and coordinators of simulated jobs are killed at any step.
//!
//! `SCASH_SEED=n cargo test -p scash-tests --test simulation_deaths -- one_seed` runs one seed, and
//! `SCASH_TRACE=1` tells all its steps. `SCASH_SEEDS=from..to` makes the tests of random programs run just
//! these seeds, however long it takes.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test, which tells what it has seen")]

use scash_proto::node::{Collective, Counters, ObjectKind};
use scash_proto::races::Race;
use scash_proto::wire::sync::{Request, Signal};
use scash_proto::{AllocOptions, Placement, Sharing};
use scash_sim::deaths::{self, Deaths, Mistake, Survived};
use scash_sim::network::Network;
use scash_sim::program::{Change, Op, Script, Span, Word};
use scash_sim::random::RandomProgram;
use scash_sim::report::{self, Report};
use scash_sim::{Failure, Setup, World};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Seeds of each of the two kinds of frames.
const SEEDS: u64 = 3_000;

/// Seeds of jobs whose hosts lose each other.
const SEEDS_WITH_NETWORK: u64 = 1_000;

fn run(setup: Setup) -> Result<Report, Failure> {
    World::new(setup, RandomProgram::new(&setup)).run()
}

#[test]
fn one_seed() {
    let seed = std::env::var("SCASH_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let trace = std::env::var("SCASH_TRACE").is_ok();
    let setups = [Sharing::Off, Sharing::Frames].map(|sharing| deaths::setup(seed, sharing));
    for setup in setups.into_iter().chain([deaths::setup_with_network(seed)]) {
        if let Err(failure) = run(Setup { trace, ..setup }) {
            panic!("{failure}");
        }
    }
}

#[derive(Default)]
struct Sum {
    seeds: u64,
    checked: u64,
    steps: u64,
    survived: Survived,
    counters: Counters,
    failures: Vec<(u64, Failure)>,
}

fn run_seeds(seeds: Range<u64>, setup: impl Fn(u64) -> Setup + Sync) -> Sum {
    let (next, sum, start) = (AtomicU64::new(seeds.start), Mutex::new(Sum::default()), Instant::now());
    let worker = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || sum.lock().unwrap().failures.len() > 20 {
                break;
            }
            let outcome = run(setup(seed));
            let mut sum = sum.lock().unwrap();
            sum.seeds += 1;
            match outcome {
                Ok(report) => {
                    sum.checked += report.checked;
                    sum.steps += report.steps;
                    sum.survived.add(report.survived);
                    sum.counters = report::add(sum.counters, report.counters());
                }
                Err(failure) => sum.failures.push((seed, failure)),
            }
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(worker);
        }
    });
    let mut sum = sum.into_inner().unwrap();
    println!(
        "{} seeds, {} steps, {} bytes compared, {:.1} s; {:?}",
        sum.seeds,
        sum.steps,
        sum.checked,
        start.elapsed().as_secs_f64(),
        sum.survived
    );
    sum.failures.sort_by_key(|f| f.0);
    if let Some((_, first)) = sum.failures.first() {
        let lines: Vec<&str> = sum.failures.iter().filter_map(|(_, f)| f.0.lines().next()).collect();
        panic!("{first}\nall failures:\n{}", lines.join("\n"));
    }
    sum
}

fn seeds_asked_for() -> Option<Range<u64>> {
    let text = std::env::var("SCASH_SEEDS").ok()?;
    let (from, to) = text.split_once("..")?;
    Some(from.parse().ok()?..to.parse().ok()?)
}

#[test]
fn random_programs_go_on_when_ranks_and_hosts_die() {
    let asked = seeds_asked_for();
    let sum = run_seeds(asked.clone().unwrap_or(0..SEEDS), |seed| deaths::setup(seed, Sharing::Off));
    if asked.is_none() {
        everything_occurred(&sum);
        let s = sum.survived;
        assert!(s.hosts > 0 && s.copies > 0, "{s:?}");
        assert!(s.lost * 100 < sum.seeds, "{s:?}: most jobs must have something to go on from");
        let c = sum.counters;
        let moves = [c.evicted_written, c.migrated, c.handed_locks, c.requests, c.subscribed, c.renewed];
        assert!(moves.iter().all(|&n| n > 0), "{c:?}");
    }
}

#[test]
fn random_programs_go_on_when_ranks_die_that_share_frames() {
    let asked = seeds_asked_for();
    let sum = run_seeds(asked.clone().unwrap_or(0..SEEDS), |seed| deaths::setup(seed, Sharing::Frames));
    if asked.is_none() {
        everything_occurred(&sum);
        let s = sum.survived;
        assert_eq!((s.hosts, s.lost), (0, 0), "the stores of one host outlive its ranks");
    }
}

#[test]
fn random_programs_go_on_when_hosts_lose_each_other() {
    let asked = seeds_asked_for();
    let sum = run_seeds(asked.clone().unwrap_or(0..SEEDS_WITH_NETWORK), deaths::setup_with_network);
    if asked.is_none() {
        everything_occurred(&sum);
        let n = sum.survived.network;
        let hosts = [n.cuts, n.healed, n.suspected, n.returned, n.returned_in_a_recall, n.went_home];
        assert!(hosts.iter().all(|&n| n > 0), "{n:?}");
        let ghosts = [n.ghosts, n.ghosts_steps, n.refused, n.wrote, n.lost_again, n.cut_off];
        assert!(ghosts.iter().all(|&n| n > 0), "{n:?}");
        assert!(
            sum.survived.lost * 20 < sum.seeds,
            "{:?}: most jobs must have something to go on from",
            sum.survived
        );
    }
}

/// A path that no seed takes is not tested.
fn everything_occurred(sum: &Sum) {
    let s = sum.survived;
    let counts = [s.committed, s.left_out, s.kills_of_ranks, s.coordinators, s.broken_off];
    assert!(counts.iter().all(|&n| n > 0), "{s:?}");
    let restarts = [s.restarts, s.from_the_beginning, s.from_staged];
    assert!(restarts.iter().all(|&n| n > 0), "{s:?}");
}

#[test]
fn nobody_is_started_again_where_nobody_dies() {
    for sharing in [Sharing::Off, Sharing::Frames] {
        let sum = run_seeds(0..300, |seed| {
            let mut setup = deaths::setup(seed, sharing);
            setup.deaths = setup.deaths.map(|deaths| Deaths { kills: 0, ..deaths });
            setup
        });
        let s = sum.survived;
        assert_eq!(s, Survived { committed: s.committed, left_out: s.left_out, ..Survived::default() });
        assert!(s.committed > 0 && s.left_out > 0, "{s:?}");
    }
}

/// A program of three ranks in which all that survives a checkpoint is in use at one: locks that are held and
/// wanted, a count of a semaphore, words that ranks operate on, pages that move.
fn small_program() -> Script {
    let mut script = Script::new(3, 12);
    let area = script.alloc(4, AllocOptions::default());
    let fixed = script.alloc(3, AllocOptions { placement: Placement::Rank(2), ..AllocOptions::default() });
    let lock = script.make(ObjectKind::Lock, 2);
    let semaphore = script.make(ObjectKind::Semaphore(0), 1);
    let words = fixed.first;
    for turn in 0..3u8 {
        let guarded = Span { page: area.first, first: 64, len: 64 };
        script.interval(|i| {
            for rank in 0..3u32 {
                i.push(rank, Op::Write(Span { page: area.first + 1 + rank, first: 0, len: 4096 }, turn));
                i.push(rank, Op::Operate(Word { page: words, first: 8, width: 8 }, Change::Add(5)));
                i.push(rank, Op::Lock(lock));
                i.push(rank, Op::Read(guarded));
                i.push(rank, Op::Write(guarded, turn + u8::try_from(rank).unwrap()));
                i.push(rank, Op::Unlock(lock));
                i.push(rank, Op::Reduce(1 << rank, 7));
            }
            i.push(0, Op::Signal(semaphore, Signal::Post(1)));
            // It is held over the barrier.
            i.push(1, Op::Lock(lock + 1));
        });
        script.interval(|i| {
            i.push(1, Op::Write(Span { page: words + 1, first: 0, len: 700 }, turn));
            i.push(1, Op::Unlock(lock + 1));
            i.push(2, Op::Lock(lock + 1));
            i.push(2, Op::Read(Span { page: words + 1, first: 0, len: 700 }));
            i.push(2, Op::Unlock(lock + 1));
            i.push(2, Op::Request(semaphore, Request::Take));
            for rank in 0..3 {
                i.push(rank, Op::Read(Span::page(area.first + 1 + (rank + 1) % 3)));
                i.push(rank, Op::Write(Span { page: words + 2, first: 100 * rank as usize, len: 90 }, turn));
            }
        });
    }
    script.interval(|i| {
        for rank in 0..3 {
            area.iter().chain(fixed.iter()).for_each(|page| i.push(rank, Op::Read(Span::page(page))));
        }
        i.end = Collective::Finalize;
    });
    script
}

fn small(seed: u64, sharing: Sharing, deaths: Deaths) -> Setup {
    let deaths = if sharing == Sharing::Frames { deaths.on_one_host() } else { deaths };
    Setup {
        seed,
        cache: 3,
        migrate_after: 1,
        renewals: 3,
        puts_at_once: seed.is_multiple_of(2),
        burst: 50,
        sharing,
        deaths: Some(Deaths { due: 100, ..deaths }),
        ..Setup::new(3, 12)
    }
}

const TWO_HOSTS: Deaths = Deaths { hosts: 2, replicas: 1, ..Deaths::none() };

fn run_small(setup: Setup) -> Report {
    World::new(setup, small_program().into_program()).run().unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn a_small_job_whose_ranks_die_at_any_step_reads_what_was_written() {
    let mut all = Survived::default();
    for (seed, sharing) in [(1, Sharing::Off), (2, Sharing::Off), (3, Sharing::Frames)] {
        let quiet = run_small(small(seed, sharing, TWO_HOSTS));
        assert_eq!((quiet.survived.restarts, quiet.survived.committed), (0, 10), "{:?}", quiet.survived);
        for at in 1..quiet.steps {
            let deaths = Deaths { kills: 1, first_at: Some(at), ..TWO_HOSTS };
            all.add(run_small(small(seed, sharing, deaths)).survived);
        }
    }
    println!("{all:?}");
}

#[test]
fn a_small_job_goes_on_if_somebody_dies_at_any_step_of_a_restart() {
    let (mut all, mut fewest) = (Survived::default(), u64::MAX);
    for (seed, sharing) in [(4, Sharing::Off), (5, Sharing::Frames)] {
        let quiet = run_small(small(seed, sharing, TWO_HOSTS));
        for at in (1..quiet.steps).step_by(7) {
            // Until the restart is over before somebody dies again.
            for after in 0.. {
                let deaths = Deaths { first_at: Some(at), in_restart_after: Some(after), ..TWO_HOSTS };
                let survived = run_small(small(seed, sharing, Deaths { kills: 2, ..deaths })).survived;
                all.add(survived);
                if survived.broken_off == 0 {
                    // Of a job that is over there is no restart.
                    fewest = fewest.min(if survived.restarts > 0 { after } else { fewest });
                    break;
                }
            }
        }
    }
    println!("{all:?}, {fewest} steps at least");
    assert!(fewest > 10, "{fewest} steps of a restart, {all:?}");
}

/// Hosts that are soon taken for lost, whose ranks live on for a while, and that soon come back.
const NERVOUS: Network =
    Network { slow: 0, slowness: 1, cuts: 100, timeout: 20, ghosts: 600, back: 100, back_after: 40 };

#[test]
fn a_small_job_goes_on_if_hosts_lose_each_other_at_any_step_and_again_as_they_come_back() {
    let mut all = Survived::default();
    let hosts = Deaths { hosts: 3, replicas: 1, spares: false, network: Some(NERVOUS), ..Deaths::none() };
    let quiet = run_small(small(6, Sharing::Off, hosts));
    for at in 1..quiet.steps {
        let deaths = Deaths { kills: 1, first_at: Some(at), ..hosts };
        all.add(run_small(small(6, Sharing::Off, deaths)).survived);
        let again = Deaths { kills: 3, second_after: Some(at % 150), ..deaths };
        all.add(run_small(small(6, Sharing::Off, again)).survived);
    }
    println!("{all:?}");
    let n = all.network;
    assert!([n.suspected, n.ghosts, n.went_home, n.lost_again].iter().all(|&n| n > 0), "{n:?}");
}

#[test]
fn a_planted_race_is_found_whoever_dies() {
    let mut restarts = 0;
    for seed in 0..400 {
        // As for programs whose ranks live (`simulation_races.rs`).
        let setup = Setup { races: true, racy: true, tears: 0, ..deaths::setup(seed, Sharing::Off) };
        if setup.size == 1 {
            continue;
        }
        let (program, planted) = RandomProgram::racy(&setup);
        let report = World::new(setup, program).run().unwrap_or_else(|failure| panic!("{failure}"));
        restarts += report.survived.restarts;
        let is_it = |(interval, race): &(u32, Race)| {
            (*interval, race.page, race.offset, race.len)
                == (planted.interval, planted.page, planted.offset, 1)
        };
        let found = !report.races.is_empty() || report.survived.lost > 0;
        assert!(found && report.races.iter().all(is_it), "seed {seed}: {planted:?}, {:?}", report.races);
    }
    assert!(restarts > 400, "{restarts}");
}

/// Seeds at most until a mistake is found.
const SEEDS_TRIED: u64 = 3_000;

/// Mistakes that need hosts which lose each other.
const BETWEEN_HOSTS: [Mistake; 6] = [
    Mistake::LooksTooSoon,
    Mistake::GhostsAreHeard,
    Mistake::GhostsWrite,
    Mistake::ReturnedIsWhole,
    Mistake::CutsLose,
    Mistake::SlowIsLeftOut,
];

/// How a job with a mistake shows it, if it does.
fn shows(mistake: Mistake, seed: u64) -> Option<String> {
    // Two of three have frames of their own.
    let sharing = if seed % 3 == 2 { Sharing::Frames } else { Sharing::Off };
    let setup = if BETWEEN_HOSTS.contains(&mistake) {
        deaths::setup_with_network(seed)
    } else {
        deaths::setup(seed, sharing)
    };
    let races = sharing == Sharing::Off && (setup.races || mistake == Mistake::NewSearch);
    let deaths = setup.deaths.map(|deaths| Deaths { mistake: Some(mistake), ..deaths });
    run(Setup { races, deaths, ..setup })
        .err()
        .and_then(|failure| failure.0.lines().next().map(str::to_owned))
}

#[test]
fn mistakes_of_ranks_stores_and_coordinators_are_found() {
    use Mistake::*;
    let all = [
        Maximum,
        NoFenceBeforeTheMark,
        MeetingBeforeTheMarks,
        LeavingEarly,
        InPlace,
        EarlyReuse,
        AnyIncarnation,
        MarksStay,
        NoCatchingUp,
        BaseRecordsFirst,
        Ghosts,
        OldFrames,
        OldClaims,
        NewSearch,
    ];
    for mistake in all.into_iter().chain(BETWEEN_HOSTS) {
        let found = (0..SEEDS_TRIED).find_map(|seed| shows(mistake, seed));
        println!("{mistake:?}: {}", found.unwrap_or_else(|| panic!("{mistake:?} is not found")));
    }
}
