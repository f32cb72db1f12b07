//! Ranks of one host that share frames: what they find, what it costs, and when they do not.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_tests::cluster::{Ended, Job, all_kinds};
use std::path::Path;

const FRAMES: &str = env!("CARGO_BIN_EXE_frames");

fn sharing(ranks: u32) -> Job {
    Job::plain(ranks).env("SCASH_SHARE", "on")
}

fn frames(job: &Job, arguments: &[&str]) -> Ended {
    let ended = job.run(Path::new(FRAMES), arguments);
    ended.succeeded();
    ended
}

#[test]
fn what_is_freed_comes_back_as_zeros_thousands_of_times() {
    for ranks in [1, 2, 3, 8] {
        let ended = frames(&sharing(ranks).env("SCASH_REGION", "256K"), &["rounds", "2000"]);
        let right = "every byte was right; true, 0 of the protocol's work";
        assert!(ended.lines(ranks).iter().all(|line| line.ends_with(right)), "{ended}");
    }
}

#[test]
fn what_is_freed_comes_back_as_zeros_in_every_kind_of_job() {
    for kind in all_kinds() {
        let ended = frames(&kind.job(3).env("SCASH_REGION", "256K"), &["rounds", "60"]);
        let right = format!("every byte was right; {}, ", kind.shares);
        assert!(ended.lines(3).iter().all(|line| line.contains(&right)), "{ended}");
    }
}

#[test]
fn shared_memory_is_there_once_however_many_ranks_use_it() {
    for ranks in [2, 4] {
        let ended = frames(&sharing(ranks), &["memory"]);
        let kib = |line: &&str| -> u64 { line.split_whitespace().nth(2).unwrap().parse().unwrap() };
        let all: u64 = ended.lines(ranks).iter().map(kib).sum();
        assert!((64 << 10..66 << 10).contains(&all), "{all} KiB at all ranks: {ended}");
    }
}

#[test]
fn where_frames_cannot_be_shared_ranks_say_why_and_the_job_runs() {
    let cases: [(&str, Job); 5] = [
        ("frames: each rank's own (SCASH_SHARE=off)", Job::plain(2).env("SCASH_SHARE", "off")),
        ("SCASH_RACES looks for data races", sharing(2).env("SCASH_RACES", "report")),
        ("SCASH_FAULT asks for a fault engine", sharing(2).env("SCASH_FAULT", "mprotect")),
        ("ranks cannot map each other's memory", sharing(2).option("--provider", "tcp")),
        ("frames: shared by all ranks", sharing(2)),
    ];
    for (why, job) in cases {
        let job = job.env("SCASH_STATS", "on").env("SCASH_REGION", "256K");
        let ended = job.run(Path::new(FRAMES), &["rounds", "10"]);
        assert_eq!(ended.status, 0, "{ended}");
        assert_eq!(ended.err.matches(why).count(), 2, "{why}: {ended}");
    }
}

#[test]
fn ranks_that_disagree_on_sharing_are_told() {
    let script = "[ $SCASH_RANK = 1 ] && export SCASH_SHARE=off; exec \"$1\" rounds 1";
    let ended = sharing(2).run_script(script, &[FRAMES]);
    assert_ne!(ended.status, 0, "{ended}");
    assert!(ended.err.contains("SCASH_SHARE is not the same at rank"), "{ended}");
}

#[test]
fn ranks_whose_regions_differ_are_told() {
    let script = "[ $SCASH_RANK = 1 ] && export SCASH_REGION=512K; exec \"$1\" rounds 1";
    let ended = sharing(2).env("SCASH_REGION", "256K").run_script(script, &[FRAMES]);
    assert_ne!(ended.status, 0, "{ended}");
    assert!(ended.err.contains("SCASH_REGION is not the same at rank"), "{ended}");
}

#[test]
fn an_obstacle_at_one_rank_is_one_for_all() {
    let script = "[ $SCASH_RANK = 1 ] && export SCASH_FAULT=mprotect; exec \"$1\" rounds 5";
    let job = sharing(3).env("SCASH_STATS", "on").env("SCASH_REGION", "256K");
    let ended = job.run_script(script, &[FRAMES]);
    assert_eq!(ended.status, 0, "{ended}");
    assert_eq!(ended.err.matches("frames: not shared, for SCASH_FAULT").count(), 3, "{ended}");
}

#[test]
fn a_rank_that_only_operates_on_words_hears_that_another_is_gone() {
    for _ in 0..3 {
        let ended = sharing(2).run(Path::new(FRAMES), &["words"]);
        assert!(ended.err.contains("rank 1 is gone"), "rank 0 was not told: {ended}");
    }
}
