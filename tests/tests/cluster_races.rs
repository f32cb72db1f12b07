//! `SCASH_RACES` in real jobs: races are told with ranks, address, name and place, programs without any are
//! left alone.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_tests::cluster::built::built;
use scash_tests::cluster::{Ended, Job, kinds};
use std::path::Path;

const RACY: &str = env!("CARGO_BIN_EXE_racy");
const LITMUS: &str = env!("CARGO_BIN_EXE_litmus");
/// How a rank ends that found a race and was asked to.
const EXIT_RACE: i32 = 65;

fn racy(job: Job, setting: &str, way: &str) -> Ended {
    job.env("SCASH_RACES", setting).env("SCASH_REGION", "16M").run(Path::new(RACY), &[way])
}

/// The only race that is told is that of ranks 0 and 1 for the byte, with a source line of one of them at
/// least.
fn tells_the_race(ended: &Ended) {
    let told: Vec<&str> = ended.err.lines().filter(|line| line.contains("data race")).collect();
    assert_eq!(told.len(), 1, "{ended}");
    for words in [
        "rank 0 (",
        "and rank 1 (",
        "both wrote byte 0x",
        "267 (\"grid\" + 4711)",
        "bin/racy.rs:",
        "/racy+0x",
    ] {
        assert!(told[0].contains(words), "no {words:?}: {ended}");
    }
}

fn is_told(way: &str, ranks: u32) {
    for kind in kinds() {
        let ended = racy(kind.job(ranks), "report", way);
        assert_eq!(ended.status, 0, "{ended}");
        tells_the_race(&ended);
        let counts = ended.lines(ranks).into_iter().map(|line| line.split(' ').nth(4).unwrap());
        let found: u64 = counts.map(|count| count.parse::<u64>().unwrap()).sum();
        assert!((1..=2).contains(&found), "{ended}");
    }
}

#[test]
fn a_race_with_a_home_that_writes_first_is_told() {
    is_told("home first", 2);
}

#[test]
fn a_race_with_a_home_that_writes_last_is_told() {
    is_told("home later", 2);
}

#[test]
fn a_race_of_two_ranks_that_are_not_the_home_is_told() {
    is_told("others", 3);
}

#[test]
fn a_race_for_a_page_that_nobody_had_is_told() {
    is_told("first touch", 3);
}

#[test]
fn a_race_under_two_locks_is_told() {
    is_told("two locks", 2);
    is_told("two locks elsewhere", 3);
}

#[test]
fn the_job_ends_with_the_race_where_that_is_asked_for() {
    for kind in kinds() {
        let ended = racy(kind.job(2), "abort", "home first");
        ended.failed(EXIT_RACE, &["SCASH_RACES=abort", "rank 0"]);
        tells_the_race(&ended);
    }
}

#[test]
fn nothing_is_told_unless_it_is_asked_for() {
    racy(Job::plain(2), "off", "home first").succeeded();
}

#[test]
fn one_lock_makes_it_no_race() {
    kinds().into_iter().for_each(|kind| racy(kind.job(3), "abort", "one lock").succeeded());
}

#[test]
fn ranks_must_agree_on_the_setting() {
    let script = "[ $SCASH_RANK = 1 ] && export SCASH_RACES=report; exec \"$1\" 'one lock'";
    Job::plain(2).run_script(script, &[RACY]).refused(&["SCASH_RACES is not the same at rank"]);
}

#[test]
fn programs_that_are_ordered_by_locks_and_the_like_are_left_alone() {
    for kind in kinds() {
        for name in [
            "counter",
            "many counters",
            "message passing",
            "false sharing",
            "first touch",
            "pages that travel",
            "threads",
            "readers and writers",
            "buffer with conditions",
            "buffer with semaphores",
            "pipeline with flags",
            "turns",
            "pairs that meet",
            "an event again and again",
            "barriers and locks",
        ] {
            let job = kind.job(3).env("SCASH_RACES", "abort").env("SCASH_REGION", "16M");
            job.run(Path::new(LITMUS), &[name, "20"]).succeeded();
        }
    }
}

#[test]
fn applications_are_left_alone_and_compute_the_same() {
    for kind in kinds() {
        for (name, arguments) in [
            ("laplace", &["--size", "126", "--iterations", "20"][..]),
            ("lu", &["--size", "256", "--block", "16"]),
            ("lu", &["--size", "128", "--block", "16", "--layout", "rows"]),
            ("sor", &["--size", "125", "--iterations", "20"]),
            ("ocean", &["--size", "65", "--steps", "3"]),
            ("volume", &["--size", "24", "--image", "40"]),
            ("radix", &["--size", "20000"]),
            ("kmeans", &["--size", "20000", "--iterations", "4"]),
        ] {
            let arguments = [arguments, &["--check", "--json"]].concat();
            kind.job(3).env("SCASH_RACES", "abort").run(&built(name), &arguments).is_equal(3);
        }
    }
}

#[test]
fn a_limit_on_cached_pages_does_not_disturb_the_search() {
    let job = Job::plain(3).env("SCASH_RACES", "abort").env("SCASH_CACHE", "256K");
    job.run(&built("laplace"), &["--size", "510", "--iterations", "10", "--check", "--json"]).is_equal(3);
    let ended = racy(Job::plain(3).env("SCASH_CACHE", "256K"), "report", "others");
    assert_eq!(ended.status, 0, "{ended}");
    tells_the_race(&ended);
}
