//! Kills ranks of real jobs at random, and checks everything: see `scash_tests::soak`.
//!
//! `soak SECONDS [--from SEED]` runs one seed after the other for so long; `soak --seed SEED [--times N]`
//! repeats the run of one seed, as far as real processes can.

#![allow(clippy::print_stdout, reason = "a command")]

use scash_tests::soak::{Plan, Programs, Tally, run};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

/// What takes longer hangs.
const LIMIT: Duration = Duration::from_secs(120);
/// How often it is told that all goes on.
const NEWS: Duration = Duration::from_secs(60);
const USAGE: &str = "usage: scripts/soak SECONDS [--from SEED] | --seed SEED [--times N]";

/// Which runs.
enum Runs {
    /// From a seed on, for so long.
    For(Duration, u64),
    /// Those of one seed.
    Of(u64, u64),
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some(runs) = parse(&words) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let tally = match runs {
        Runs::For(time, first) => soak(time, first),
        Runs::Of(seed, times) => repeat(seed, times),
    };
    print!("{tally}");
    if tally.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(words: &[&str]) -> Option<Runs> {
    match words {
        ["--seed", seed] => Some(Runs::Of(seed.parse().ok()?, 1)),
        ["--seed", seed, "--times", times] => Some(Runs::Of(seed.parse().ok()?, times.parse().ok()?)),
        [seconds, "--from", seed] => Some(Runs::For(time(seconds)?, seed.parse().ok()?)),
        [seconds] => {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
            Some(Runs::For(time(seconds)?, now.as_secs() * 100_000))
        }
        _ => None,
    }
}

fn time(seconds: &str) -> Option<Duration> {
    seconds.parse().ok().map(Duration::from_secs)
}

fn soak(time: Duration, first: u64) -> Tally {
    let (programs, started) = (Programs::new(), Instant::now());
    let (mut tally, mut told) = (Tally::default(), Instant::now());
    eprintln!("soak: {} s of runs, from seed {first} on", time.as_secs());
    for seed in first.. {
        if started.elapsed() >= time {
            break;
        }
        let plan = Plan::draw(seed);
        if !programs.has(&plan.program) {
            continue;
        }
        let run = run(&plan, &programs, LIMIT);
        tally.take(&run);
        if !run.findings.is_empty() {
            eprintln!("soak: WRONG: {plan}\n{run}soak: scripts/soak --seed {seed} repeats it\n");
        }
        if told.elapsed() >= NEWS {
            eprintln!("soak: {} runs, the newest is of seed {seed}", tally.runs());
            told = Instant::now();
        }
    }
    tally
}

fn repeat(seed: u64, times: u64) -> Tally {
    let (programs, plan, mut tally) = (Programs::new(), Plan::draw(seed), Tally::default());
    eprintln!("soak: {plan}");
    if !programs.has(&plan.program) {
        return tally;
    }
    for _ in 0..times {
        let run = run(&plan, &programs, LIMIT);
        tally.take(&run);
        if times == 1 || !run.findings.is_empty() {
            eprintln!("{run}");
        }
    }
    tally
}
