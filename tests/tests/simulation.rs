//! The protocol under a seeded simulator, with random programs.
//!
//! `SCASH_SEED=n cargo test -p scash-tests --test simulation -- one_seed` runs one seed, and `SCASH_TRACE=1`
//! tells all its steps. `SCASH_SEEDS=from..to` makes `random_programs_read_what_was_written` run just these
//! seeds, however long it takes.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use scash_proto::Sharing;
use scash_sim::random::{self, RandomProgram};
use scash_sim::report::{self, OUTPUTS, Report};
use scash_sim::{Failure, Setup, World};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Seeds that are run if there is time.
const SEEDS: u64 = 10_000;
/// Seeds that are run however long it takes: they do everything that `everything_occurred` asks for.
const FEWEST: u64 = 2_000;
/// Time for all others.
const BUDGET: Duration = Duration::from_secs(45);

/// Runs a seed's program in its job; with shared frames in the same one, in which nobody looks for races.
fn run(seed: u64, sharing: Sharing, trace: bool) -> Result<Report, Failure> {
    let setup = Setup { trace, sharing, ..random::setup(seed) };
    let setup = Setup { races: setup.races && sharing == Sharing::Off, ..setup };
    World::new(setup, RandomProgram::new(&setup)).run()
}

#[test]
fn one_seed() {
    let seed = std::env::var("SCASH_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let trace = std::env::var("SCASH_TRACE").is_ok();
    for sharing in [Sharing::Off, Sharing::Frames] {
        if let Err(failure) = run(seed, sharing, trace) {
            panic!("{failure}");
        }
    }
}

/// Seeds that have shown faults, of which one run may play too few to come to them, and what was wrong.
const ONCE_FAILED: [(u64, &str); 1] =
    [(8872, "a page that is kept up to date was fetched in vain, and its frame not counted")];

#[test]
fn seeds_that_once_failed_do_so_no_more() {
    for (seed, fault) in ONCE_FAILED {
        // As they were drawn then.
        let setup = Setup { base: 2, tears: 0, ..random::setup(seed) };
        if let Err(failure) = World::new(setup, RandomProgram::new(&setup)).run() {
            panic!("{fault}: {failure}");
        }
    }
}

/// What all seeds did together.
#[derive(Default)]
struct Sum {
    seeds: u64,
    largest: u32,
    outputs: u64,
    checked: u64,
    steps: u64,
    counters: scash_proto::node::Counters,
    destroyed: u64,
    in_use: u64,
    unmade: u64,
    agreed: [u64; 2],
    failures: Vec<(u64, Failure)>,
}

impl Sum {
    fn add(&mut self, seed: u64, outcome: Result<Report, Failure>) {
        self.seeds += 1;
        match outcome {
            Ok(r) => {
                self.largest = self.largest.max(u32::try_from(r.sent.len()).unwrap());
                self.outputs |= r.outputs;
                self.checked += r.checked;
                self.steps += r.steps;
                self.counters = report::add(self.counters, r.counters());
                self.destroyed += r.destroyed;
                self.in_use += r.in_use;
                self.unmade += r.unmade;
                self.agreed = [0, 1].map(|all| self.agreed[all] + r.agreed[all]);
            }
            Err(failure) => self.failures.push((seed, failure)),
        }
    }
}

impl Sum {
    fn tell_failures(&self) {
        let mut failures: Vec<&(u64, Failure)> = self.failures.iter().collect();
        failures.sort_by_key(|f| f.0);
        let first_lines: Vec<&str> = failures.iter().filter_map(|(_, f)| f.0.lines().next()).collect();
        if let Some((_, first)) = failures.first() {
            panic!("{first}\nall failures:\n{}", first_lines.join("\n"));
        }
    }
}

fn run_seeds(seeds: Range<u64>, sharing: Sharing, budget: Duration) -> Sum {
    let (next, sum, start) = (AtomicU64::new(seeds.start), Mutex::new(Sum::default()), Instant::now());
    let worker = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let failed = sum.lock().unwrap().failures.len();
            let late = start.elapsed() > budget && seed >= seeds.start + FEWEST;
            if seed >= seeds.end || late || failed > 20 {
                break;
            }
            let outcome = run(seed, sharing, false);
            sum.lock().unwrap().add(seed, outcome);
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(worker);
        }
    });
    sum.into_inner().unwrap()
}

fn seeds_asked_for() -> Option<Range<u64>> {
    let text = std::env::var("SCASH_SEEDS").ok()?;
    let (from, to) = text.split_once("..")?;
    Some(from.parse().ok()?..to.parse().ok()?)
}

#[test]
fn random_programs_read_what_was_written() {
    let asked = seeds_asked_for();
    let budget = if asked.is_some() { Duration::from_secs(100_000) } else { BUDGET };
    let sum = run_seeds(asked.clone().unwrap_or(0..SEEDS), Sharing::Off, budget);
    println!(
        "{} seeds, up to {} ranks, {} steps, {} bytes compared; {} ends of objects and {} in vain, {} by one rank; {:?}",
        sum.seeds, sum.largest, sum.steps, sum.checked, sum.destroyed, sum.in_use, sum.unmade, sum.counters
    );
    sum.tell_failures();
    if asked.is_none() {
        everything_occurred(&sum);
    }
}

#[test]
fn random_programs_read_what_was_written_where_ranks_share_frames_and_nothing_is_brought_to_anybody() {
    let sum = run_seeds(seeds_asked_for().unwrap_or(0..FEWEST), Sharing::Frames, BUDGET);
    sum.tell_failures();
    let c = sum.counters;
    let work = [c.read_faults, c.write_faults, c.fetched, c.twins, c.diffs, c.updates, c.invalidated];
    assert_eq!(
        (work, c.first_touches, c.evicted, c.second_meetings, c.migrated),
        ([0; 7], 0, 0, 0, 0),
        "{c:?}"
    );
    assert!(c.barriers > 0 && sum.checked > 0, "{} bytes compared; {c:?}", sum.checked);
    assert!(sum.agreed[0] > 1000 && sum.agreed[1] > 10_000, "meetings without words: {:?}", sum.agreed);
}

/// A path that no seed takes is not tested.
fn everything_occurred(sum: &Sum) {
    for (number, name) in OUTPUTS.iter().enumerate() {
        // No correct program touches memory, or uses objects, that it does not have. Checkpoints are another
        // test's.
        assert!(
            ["Denied", "Absent", "Stage", "Committed"].contains(name) || sum.outputs >> number & 1 == 1,
            "no seed made a node order {name}"
        );
    }
    for (name, n) in report::by_name(sum.counters) {
        assert!(n > 0, "no seed made a node count {name}");
    }
    assert!(sum.destroyed > 0 && sum.in_use > 0, "{} ends of objects, {} in vain", sum.destroyed, sum.in_use);
    assert!(sum.unmade > 1000, "{} ends of objects that one rank has made", sum.unmade);
    assert!(sum.agreed[0] > 1000 && sum.agreed[1] > 1000, "meetings without words: {:?}", sum.agreed);
    assert!(sum.largest > 60, "the largest job had {} ranks", sum.largest);
}
