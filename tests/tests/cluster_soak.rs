//! The soak over some fixed seeds; and that it notices what is wrong. `scripts/soak SECONDS` is the rest.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use scash_tests::cluster::{self, Hosts, Kind};
use scash_tests::soak::{Blow, Expected, Job, MOST_HOSTS, Plan, Programs, Run, Strike, Tally, Wrong, run};
use std::path::Path;
use std::time::Duration;

/// Runs of one test.
const RUNS: u64 = 12;
/// The same, of jobs on hosts, which take longer.
const RUNS_ON_HOSTS: u64 = 5;

/// Carries out some plans, and prints what is wrong with each.
fn all_is_right(plans: impl Iterator<Item = Plan>, hosts: Option<&Hosts>) {
    let (programs, mut tally) = (Programs::new(), Tally::default());
    for plan in plans.filter(|plan| programs.has(&plan.program)) {
        let run = run(&plan, &programs, hosts, cluster::LIMIT);
        tally.take(&run);
        if !run.findings.is_empty() {
            eprintln!("{plan}\n{run}");
        }
    }
    assert!(tally.is_right(), "{tally}");
}

#[test]
fn jobs_whose_ranks_are_killed_at_random_do_all_that_they_must() {
    all_is_right((0..RUNS).map(Plan::draw), None);
}

#[test]
fn jobs_whose_ranks_are_killed_at_other_times_do_all_that_they_must() {
    all_is_right((RUNS..2 * RUNS).map(Plan::draw), None);
}

#[test]
fn jobs_whose_hosts_are_lost_at_random_do_all_that_they_must() {
    let Some(hosts) = Hosts::new(MOST_HOSTS) else { return };
    all_is_right((0..RUNS_ON_HOSTS).map(Plan::draw_on_hosts), Some(&hosts));
}

/// A job of a program that does this, of which two ranks must print a line each.
fn job(what: &str, deaths: &[&str]) -> Job<'static> {
    let kind = Kind { engine: "mprotect", provider: "shm", shares: true };
    let job = kind.job(2).option("--replicas", "1").option("--checkpoint", "every=1");
    let job = deaths.iter().fold(job, |job, death| job.option("--inject", death));
    let lines = vec!["rank 0: 42".to_owned(), "rank 1: 42".to_owned()];
    Job {
        command: job.command(Path::new(env!("CARGO_BIN_EXE_faulty")), &[what]),
        expected: Expected::Lines { lines, files: Default::default() },
        strikes: Vec::new(),
        seed: 0,
        limit: cluster::LIMIT,
        hosts: None,
    }
}

fn findings(run: &Run) -> Vec<Wrong> {
    run.findings.iter().map(|finding| finding.wrong).collect()
}

const DEATH: &[&str] = &["kill rank 1 at barrier 5"];

#[test]
fn a_soak_notices_what_a_program_does_wrong() {
    for (what, deaths, wrong) in [
        ("nothing", &[][..], &[][..]),
        ("nothing", DEATH, &[]),
        ("computes something else", &[], &[]),
        ("computes something else", DEATH, &[Wrong::Result]),
        ("prints nothing", DEATH, &[Wrong::Result]),
        ("prints twice", DEATH, &[Wrong::Result]),
        ("complains", &[], &[Wrong::Failure, Wrong::Failure]),
        ("fails", DEATH, &[Wrong::Failure, Wrong::Failure]),
    ] {
        let run = job(what, deaths).run();
        assert_eq!(findings(&run), wrong, "{what} {deaths:?}: {run}");
        assert_eq!((run.kills(), run.restarts), (deaths.len() as u64, deaths.len() as u64), "{what}: {run}");
    }
}

#[test]
fn a_soak_notices_a_restart_that_nobody_has_caused() {
    for what in ["dies", "crashes"] {
        let run = job(what, &[]).run();
        // By its number, and by who is said to have been killed.
        assert_eq!(findings(&run), [Wrong::Spontaneous; 2], "{what}: {run}");
        assert_eq!((run.kills(), run.restarts), (0, 1), "{what}: {run}");
        // Beside one that somebody has.
        let run = job(what, &["kill rank 0 at barrier 3 in incarnation 1"]).run();
        assert_eq!(findings(&run), [Wrong::Spontaneous; 2], "{what}: {run}");
        assert_eq!((run.kills(), run.restarts), (1, 2), "{what}: {run}");
    }
}

#[test]
fn a_soak_notices_a_job_that_does_not_end() {
    let limit = Duration::from_secs(5);
    let run = Job { limit, ..job("hangs", DEATH) }.run();
    assert!(findings(&run).contains(&Wrong::Hang), "{run}");
}

#[test]
fn a_soak_counts_only_the_kills_that_hit_somebody() {
    let after = Duration::from_millis(20);
    let strikes =
        vec![Strike { after, blow: Blow::KillAll }, Strike { after: Duration::ZERO, blow: Blow::KillOne }];
    let run = Job { strikes, ..job("nothing", &[]) }.run();
    assert_eq!(findings(&run), [], "{run}");
    assert!(run.kills() >= run.restarts, "{run}");
}
