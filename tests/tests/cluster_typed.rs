//! The typed interface of Rust does what it says in every kind of job, and so does the program that the
//! README shows.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_tests::cluster::all_kinds;
use scash_tests::cluster::built::built;
use std::path::Path;

const TYPED: &str = env!("CARGO_BIN_EXE_typed");
const SAFE: &str = env!("CARGO_BIN_EXE_safe");
const WRONG: &str = env!("CARGO_BIN_EXE_wrong");
const README: &str = include_str!("../../README.md");
const HELLO: &str = include_str!("../../scash/examples/hello.rs");

#[test]
fn everything_that_the_typed_interface_has_gives_right_data() {
    for kind in all_kinds() {
        for ranks in [1, 2, 3] {
            let ended = kind.job(ranks).env("SCASH_REGION", "1M").run(Path::new(TYPED), &[]);
            ended.succeeded();
            let lines = ended.lines(ranks);
            assert!(lines.iter().all(|line| line.ends_with("passed 14 checks")), "{ended}");
        }
    }
}

#[test]
fn programs_without_unsafe_have_threads_owners_and_messages() {
    for kind in all_kinds() {
        for ranks in [1, 2, 3] {
            let ended = kind.job(ranks).env("SCASH_REGION", "4M").run(Path::new(SAFE), &[]);
            ended.succeeded();
            let lines = ended.lines(ranks);
            assert!(lines.iter().all(|line| line.ends_with("passed 12 checks")), "{ended}");
        }
    }
}

#[test]
fn a_partition_whose_publication_has_failed_leads_to_its_memory_no_more() {
    for kind in all_kinds() {
        let notes = tempfile::tempdir().unwrap();
        let arguments = ["publish in vain, and go on", notes.path().to_str().unwrap()];
        let ended = kind.job(3).run(Path::new(WRONG), &arguments);
        let line =
            |rank: u32| ended.out.lines().find(|line| line.starts_with(&format!("rank {rank}: "))).unwrap();
        let last = line(2);
        assert_eq!(last.matches("a publication of this partition has failed").count(), 3, "{ended}");
        // Who came for a barrier has published nothing, and neither has anybody else.
        [0, 1].into_iter().for_each(|rank| assert!(line(rank).contains("1000; written; Err("), "{ended}"));
    }
}

#[test]
fn children_that_ranks_fork_are_refused_whatever_they_call() {
    for kind in all_kinds() {
        for ranks in [1, 3] {
            let ended = kind.job(ranks).run(Path::new(WRONG), &["fork"]);
            assert_eq!(ended.status, 0, "{ended}");
            assert_eq!(
                ended.err.matches("shared memory, which children do not have").count(),
                ranks as usize,
                "{ended}"
            );
        }
    }
}

#[test]
fn the_readmes_program_says_what_it_is_to_say() {
    // Every kind of job: it is the first thing that a user runs.
    for kind in all_kinds() {
        for ranks in [1, 4] {
            let ended = kind.job(ranks).run(&built("examples/hello"), &[]);
            ended.succeeded();
            let mut lines = ended.lines(ranks);
            lines.sort_unstable();
            for (rank, line) in lines.iter().enumerate() {
                let said = format!("rank {rank} of {ranks}: the sum of all squares is 333332833333500000");
                assert_eq!(*line, said, "{ended}");
            }
        }
    }
}

#[test]
fn the_readmes_program_is_the_example() {
    let shown = README.split_once("```rust\n").and_then(|(_, rest)| rest.split_once("```"));
    let shown = shown.map(|(program, _)| program).expect("a program in the README");
    let run = &HELLO[HELLO.find("fn main()").expect("a program")..];
    assert_eq!(shown, run, "copy scash/examples/hello.rs, from `fn main` on, into the README");
}
