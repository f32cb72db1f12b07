//! Random programs and storms of faults on the real memory of real processes. `SCASH_PROGRAMS=N` runs more
//! random programs.

use scash_tests::cluster::{Job, Kind, all_kinds, kinds};
use std::path::Path;

const PAGES: &str = env!("CARGO_BIN_EXE_pages");
const WATCHED: &str = env!("CARGO_BIN_EXE_watched");
const MIGRATING: &str = env!("CARGO_BIN_EXE_migrating");
const STORM: &str = env!("CARGO_BIN_EXE_storm");
/// Long enough for pages to be subscribed to, given up, moved, freed and used again.
const INTERVALS: &str = "300";

fn seeds() -> u64 {
    std::env::var("SCASH_PROGRAMS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// Runs the random program of each seed in a job that `job` makes of the seed, for every kind of job.
fn every_byte_is_right(job: impl Fn(Kind, u64) -> (Job, u32)) {
    for kind in all_kinds() {
        for seed in 0..seeds() {
            let (job, ranks) = job(kind, seed);
            job_is_right(&job, ranks, seed);
        }
    }
}

fn job_is_right(job: &Job, ranks: u32, seed: u64) {
    let ended = job.run(Path::new(PAGES), &[&seed.to_string(), INTERVALS]);
    ended.succeeded();
    for line in ended.lines(ranks) {
        assert!(line.contains("bytes are right") && !line.contains(": 0 bytes"), "{ended}");
    }
}

#[test]
fn random_programs_read_what_was_written() {
    every_byte_is_right(|kind, seed| {
        let ranks = [2, 3, 4, 5][(seed % 4) as usize];
        (kind.job(ranks), ranks)
    });
}

#[test]
fn random_programs_read_what_was_written_with_every_setting() {
    let settings: [&[(&str, &str)]; 15] = [
        &[("SCASH_TRANSFER", "message")],
        &[("SCASH_PREDICT", "off")],
        &[("SCASH_PREFETCH", "1")],
        &[("SCASH_COPIES", "update")],
        &[("SCASH_COPIES", "invalidate")],
        &[("SCASH_BLOCK", "3")],
        &[("SCASH_WATCH", "off")],
        &[("SCASH_RENEW", "off")],
        &[("SCASH_EXACT", "on")],
        &[("SCASH_AHEAD", "off")],
        &[("SCASH_MIGRATE", "off")],
        &[("SCASH_CACHE", "256K")],
        &[("SCASH_CACHE", "256K"), ("SCASH_BLOCK", "64")],
        &[("SCASH_CACHE", "256K"), ("SCASH_EVICTION", "sieve"), ("SCASH_TRANSFER", "message")],
        &[("SCASH_REGION", "64M"), ("SCASH_TRANSFER", "message"), ("SCASH_PREDICT", "off")],
    ];
    for kind in all_kinds() {
        for (seed, setting) in (10..).zip(settings) {
            let job = setting.iter().fold(kind.job(3), |job, (name, value)| job.env(name, value));
            job_is_right(&job, 3, seed);
        }
    }
}

#[test]
fn random_programs_with_several_threads_a_rank_read_what_was_written() {
    every_byte_is_right(|kind, _| (kind.job(2).option("--threads", "3"), 2));
}

#[test]
fn threads_of_a_rank_may_fault_at_once_on_the_same_page_and_on_others() {
    for kind in all_kinds() {
        let ended = kind.job(2).option("--threads", "4").run(Path::new(STORM), &[]);
        ended.succeeded();
        ended.lines(2);
    }
}

#[test]
fn home_pages_that_others_only_invalidate_are_rewritten_without_faults_where_the_engine_lists_writes() {
    for kind in kinds() {
        let ended = kind.job(2).run(Path::new(WATCHED), &[]);
        ended.succeeded();
        let home =
            *ended.lines(2).iter().find(|line| line.starts_with("rank 0")).expect("what rank 0 counted");
        let count = |name: &str| -> u64 {
            let mut words = home.split_whitespace().skip_while(|word| *word != name).skip(1);
            words.next().expect(name).parse().expect("a number")
        };
        // 256 pages in 30 intervals, half of them in every third: all but the first few are noticed without a
        // fault, or none is.
        if kind.engine == "uffd" {
            assert!(count("noticed") > 6_000 && count("write_faults") < 30, "{kind:?}: {home}");
        } else {
            assert!(count("noticed") == 0 && count("write_faults") > 6_000, "{kind:?}: {home}");
        }
    }
}

#[test]
fn pages_move_to_the_rank_that_alone_writes_them() {
    for kind in kinds() {
        for (setting, migrated) in [("on", 128), ("off", 0)] {
            let ended = kind.job(3).env("SCASH_MIGRATE", setting).run(Path::new(MIGRATING), &[]);
            ended.succeeded();
            for line in ended.lines(3) {
                let words: Vec<&str> = line.split_whitespace().collect();
                let [_, rank, "migrated", pages, "diffs", diffs] = words[..] else { panic!("{line}") };
                assert_eq!(pages.parse(), Ok(if rank == "0" { migrated } else { 0 }), "{kind:?}: {line}");
                // 64 pages in each of 24 intervals, or until they are at home.
                let most = if setting == "on" { 64 * 10 } else { 64 * 24 };
                let diffs: u64 = diffs.parse().expect("a number");
                assert!(rank == "0" || (64 * 8..=most).contains(&diffs), "{kind:?}: {line}");
            }
        }
    }
}
