//! Ranks that wait for long say who waits for what, and who has it.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_tests::cluster::{Ended, Job, all_kinds, run};
use std::path::Path;
use std::process::Command;

const WRONG: &str = env!("CARGO_BIN_EXE_wrong");

/// Runs a job until it says something, then ends it; what it has said by then.
fn until(job: &Job, signal: &str, words: &str) -> Ended {
    const SCRIPT: &str = r#"said=$1 words=$2; shift 2
        "$@" 2>"$said" & job=$!
        until grep -q "$words" "$said"; do sleep 0.02; done
        kill "$job"; wait "$job"; cat "$said" >&2"#;
    let notes = tempfile::tempdir().unwrap();
    let said = notes.path().join("said");
    let inner = job.command(Path::new(WRONG), &[signal, notes.path().to_str().unwrap()]);
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", SCRIPT, "sh", said.to_str().unwrap(), words])
        .arg(inner.get_program())
        .args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    run(command)
}

#[test]
fn a_deadlock_is_told_with_who_waits_for_what_and_who_has_it() {
    for kind in all_kinds() {
        let job = kind.job(3).env("SCASH_STALL", "0.3");
        until(&job, "lock each other out", "a deadlock").said(&[
            // Later on a busy machine.
            "has waited for ",
            "rank 0: thread 1 has lock 0, thread 1 waits for lock 1",
            "rank 1: thread 1 has lock 1, thread 1 waits for lock 0",
            "rank 2: in dsm_barrier",
            "a deadlock: thread 1 of rank 0 (for lock 1), which waits for thread 1 of rank 1 (for lock 0), which waits for the first",
        ]);
        let job = kind.job(2).env("SCASH_STALL", "0.3");
        until(&job, "lock and meet", "a deadlock").said(&[
            "rank 0: in dsm_barrier, thread 1 has lock 0",
            "rank 1: thread 1 waits for lock 0",
            "a deadlock: rank 0 (in a collective call, for all to come), which waits for thread 1 of rank 1 (for lock 0)",
        ]);
    }
}

#[test]
fn a_rank_that_computes_for_long_is_told_without_alarm_and_again_later() {
    for kind in all_kinds() {
        let job = kind.job(3).env("SCASH_STALL", "0.3");
        let ended = until(&job, "compute for long", r"has waited for \(0.[6-9]\|[1-9]\)");
        ended.said(&[
            "ranks 0, 2: in dsm_barrier",
            "rank 1: has not come to dsm_barrier yet: it computes, or is stopped",
            "no deadlock is seen: nothing is wrong if rank 1 computes for long",
        ]);
        assert!(!ended.err.contains("a deadlock:"), "{ended}");
    }
}

#[test]
fn a_barrier_that_a_thread_never_reaches_is_told() {
    for kind in all_kinds() {
        let job = kind.job(2).option("--threads", "2").env("SCASH_STALL", "0.3");
        until(&job, "never come", "rank 1: 1 of its 2 threads")
            .said(&["rank 1: 1 of its 2 threads have come to dsm_barrier_threads, one of them "]);
    }
}
