//! Ranks, hosts and coordinators of simulated jobs are killed at any step.
//!
//! `SCASH_SEED=n cargo test -p scash-tests --test simulation_deaths -- one_seed` runs one seed, and
//! `SCASH_TRACE=1` tells all its steps. `SCASH_SEEDS=from..to` makes the tests of random programs run just
//! these seeds, however long it takes.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test, which tells what it has seen")]

use scash_proto::Sharing;
use scash_tests::sim::deaths::{self, Survived};
use scash_tests::sim::random::RandomProgram;
use scash_tests::sim::report::Report;
use scash_tests::sim::{Failure, Setup, World};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Seeds of each of the two kinds of frames.
const SEEDS: u64 = 2_000;

fn run(setup: Setup) -> Result<Report, Failure> {
    World::new(setup, RandomProgram::new(&setup)).run()
}

#[test]
fn one_seed() {
    let seed = std::env::var("SCASH_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let trace = std::env::var("SCASH_TRACE").is_ok();
    for sharing in [Sharing::Off, Sharing::Frames] {
        if let Err(failure) = run(Setup { trace, ..deaths::setup(seed, sharing) }) {
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
    run_seeds(seeds_asked_for().unwrap_or(0..SEEDS), |seed| deaths::setup(seed, Sharing::Off));
}

#[test]
fn random_programs_go_on_when_ranks_die_that_share_frames() {
    run_seeds(seeds_asked_for().unwrap_or(0..SEEDS), |seed| deaths::setup(seed, Sharing::Frames));
}
