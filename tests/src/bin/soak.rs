//! Kills ranks of real jobs at random, loses hosts of them, and checks everything: see `scash_tests::soak`.
//!
//! `soak SECONDS [--from SEED]` runs one seed after the other for so long; `soak --seed SEED [--times N]`
//! repeats the run of one seed, as far as real processes can. With `--hosts` jobs are on several hosts.

#![allow(clippy::print_stdout, reason = "a command")]

use scash_tests::cluster::{Hosts, heed_interrupts, is_interrupted};
use scash_tests::soak::{MOST_HOSTS, Plan, Programs, Run, Tally, run};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

/// What takes longer hangs.
const LIMIT: Duration = Duration::from_secs(120);
/// How often it is told that all goes on.
const NEWS: Duration = Duration::from_secs(60);
const USAGE: &str = "usage: scripts/soak SECONDS [--from SEED] [--hosts] | --seed SEED [--times N] [--hosts]";

/// Which runs.
enum Runs {
    /// From a seed on, for so long.
    For(Duration, u64),
    /// Those of one seed.
    Of(u64, u64),
}

/// What runs need.
struct Soak {
    programs: Programs,
    /// Where jobs run, if on several hosts.
    hosts: Option<Hosts>,
    tally: Tally,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (options, words): (Vec<&str>, Vec<&str>) =
        words.iter().map(String::as_str).partition(|word| *word == "--hosts");
    let Some(runs) = parse(&words) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    heed_interrupts();
    let hosts = if options.is_empty() { None } else { Hosts::new(MOST_HOSTS) };
    if hosts.is_none() && !options.is_empty() {
        // It has said why.
        eprintln!("soak: skipped: NOTHING WAS RUN");
        return ExitCode::SUCCESS;
    }
    let mut soak = Soak { programs: Programs::new(), hosts, tally: Tally::default() };
    match runs {
        Runs::For(time, first) => soak.soak(time, first),
        Runs::Of(seed, times) => soak.repeat(seed, times),
    }
    print!("{}", soak.tally);
    if is_interrupted() {
        eprintln!("soak: interrupted");
        return ExitCode::from(130);
    }
    if soak.tally.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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

impl Soak {
    fn plan(&self, seed: u64) -> Plan {
        if self.hosts.is_some() { Plan::draw_on_hosts(seed) } else { Plan::draw(seed) }
    }

    /// Runs a plan; `None` if somebody has interrupted it, which says nothing.
    fn run(&mut self, plan: &Plan) -> Option<Run> {
        let run = run(plan, &self.programs, self.hosts.as_ref(), LIMIT);
        if is_interrupted() {
            return None;
        }
        self.tally.take(&run);
        Some(run)
    }

    fn soak(&mut self, time: Duration, first: u64) {
        let (started, mut told) = (Instant::now(), Instant::now());
        eprintln!("soak: {} s of runs, from seed {first} on", time.as_secs());
        for seed in first.. {
            if started.elapsed() >= time {
                break;
            }
            let plan = self.plan(seed);
            if !self.programs.has(&plan.program) {
                continue;
            }
            let Some(run) = self.run(&plan) else { break };
            if !run.findings.is_empty() {
                let option = if self.hosts.is_some() { " --hosts" } else { "" };
                eprintln!("soak: WRONG: {plan}\n{run}soak: scripts/soak --seed {seed}{option} repeats it\n");
            }
            if told.elapsed() >= NEWS {
                eprintln!("soak: {} runs, the newest is of seed {seed}", self.tally.runs());
                told = Instant::now();
            }
        }
    }

    fn repeat(&mut self, seed: u64, times: u64) {
        let plan = self.plan(seed);
        eprintln!("soak: {plan}");
        if !self.programs.has(&plan.program) {
            return;
        }
        for _ in 0..times {
            let Some(run) = self.run(&plan) else { break };
            if times == 1 || !run.findings.is_empty() {
                eprintln!("{run}");
            }
        }
    }
}
