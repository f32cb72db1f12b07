//! Random programs and storms of faults on the real memory of real processes. `SCASH_SEEDS=N` runs more random programs.

use scash_tests::cluster::{Job, Kind, kinds};
use std::path::Path;

const PAGES: &str = env!("CARGO_BIN_EXE_pages");
const STORM: &str = env!("CARGO_BIN_EXE_storm");
/// Long enough for pages to be subscribed to, given up, moved, freed and used again.
const INTERVALS: &str = "300";

fn seeds() -> u64 {
    std::env::var("SCASH_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// Runs the random program of each seed in a job that `job` makes of the seed, for every kind of job.
fn every_byte_is_right(job: impl Fn(Kind, u64) -> (Job, u32)) {
    for kind in kinds() {
        for seed in 0..seeds() {
            let (job, ranks) = job(kind, seed);
            let ended = job.run(Path::new(PAGES), &[&seed.to_string(), INTERVALS]);
            ended.succeeded();
            for line in ended.lines(ranks) {
                assert!(line.contains("bytes are right") && !line.contains(": 0 bytes"), "{ended}");
            }
        }
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
    let settings = [
        ("SCASH_TRANSFER", "message"),
        ("SCASH_PREDICT", "off"),
        ("SCASH_PREFETCH", "1"),
        ("SCASH_REGION", "64M"),
    ];
    every_byte_is_right(|kind, seed| {
        let (name, value) = settings[(seed % 4) as usize];
        let job = kind.job(3).env(name, value);
        (
            if seed % 4 == 3 {
                job.env("SCASH_TRANSFER", "message").env("SCASH_PREDICT", "off")
            } else {
                job
            },
            3,
        )
    });
}

#[test]
fn random_programs_with_several_threads_a_rank_read_what_was_written() {
    every_byte_is_right(|kind, _| (kind.job(2).option("--threads", "3"), 2));
}

#[test]
fn threads_of_a_rank_may_fault_at_once_on_the_same_page_and_on_others() {
    for kind in kinds() {
        let ended = kind.job(2).option("--threads", "4").run(Path::new(STORM), &[]);
        ended.succeeded();
        ended.lines(2);
    }
}
