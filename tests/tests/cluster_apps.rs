//! LAPLACE and LU, in Rust and in C, give the sequential result in every kind of job.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_tests::cluster::built::built;
use scash_tests::cluster::{Job, all_kinds, run};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Every application with a size that leaves no rank without work, nor gives all the same.
const APPLICATIONS: [(&str, &[&str]); 5] = [
    ("laplace", &["--size", "126", "--iterations", "20", "--check", "--json"]),
    ("laplace-c", &["--size", "126", "--iterations", "20", "--check", "--json"]),
    ("lu", &["--size", "256", "--block", "16", "--check", "--json"]),
    ("lu", &["--size", "192", "--block", "16", "--layout", "rows", "--check", "--json"]),
    ("lu-c", &["--size", "256", "--block", "16", "--check", "--json"]),
];

/// Runs every application in jobs of that many ranks, as `change` changes them.
fn all_are_equal(ranks: u32, change: impl Fn(Job) -> Job) {
    for kind in all_kinds() {
        for (name, arguments) in APPLICATIONS {
            change(kind.job(ranks)).run(&built(name), arguments).is_equal(ranks);
        }
    }
}

#[test]
fn one_rank_has_the_sequential_result() {
    all_are_equal(1, |job| job);
}

#[test]
fn two_ranks_have_the_sequential_result() {
    all_are_equal(2, |job| job);
}

#[test]
fn three_ranks_have_the_sequential_result() {
    all_are_equal(3, |job| job);
}

#[test]
fn four_ranks_have_the_sequential_result() {
    all_are_equal(4, |job| job);
}

#[test]
fn eight_ranks_have_the_sequential_result() {
    all_are_equal(8, |job| job);
}

#[test]
fn transfer_by_message_changes_no_result() {
    all_are_equal(3, |job| job.env("SCASH_TRANSFER", "message"));
}

#[test]
fn without_prediction_the_result_is_the_same() {
    all_are_equal(3, |job| job.env("SCASH_PREDICT", "off"));
}

#[test]
fn without_prefetching_the_result_is_the_same() {
    all_are_equal(3, |job| job.env("SCASH_PREFETCH", "1"));
}

#[test]
fn two_threads_a_rank_have_the_sequential_result() {
    all_are_equal(2, |job| job.option("--threads", "2"));
}

#[test]
fn a_user_without_privileges_can_run_a_job() {
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: this user has no privileges to give up; all tests run without");
        return;
    }
    if Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("skipped: there is no setpriv to become another user with");
        return;
    }
    // The other user may not be allowed to come where they were built.
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o755)).unwrap();
    let copy = |name: &str| {
        let to = directory.path().join(name);
        // By another process: a test that starts a process meanwhile would hold a file that this one writes,
        // which then cannot be run.
        assert!(Command::new("cp").arg(built(name)).arg(&to).status().unwrap().success());
        to
    };
    let scash = copy("scash");
    let programs = APPLICATIONS.map(|(name, arguments)| (copy(name), arguments));
    for kind in all_kinds() {
        for (program, arguments) in &programs {
            let job = kind.job(2).command_from(&scash, program, arguments);
            run(as_nobody(&job, directory.path())).is_equal(2);
        }
    }
}

/// The same command, run by a user who may nothing.
fn as_nobody(command: &Command, directory: &Path) -> Command {
    let mut nobody = Command::new("setpriv");
    nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--no-new-privs"]);
    nobody.arg(command.get_program()).args(command.get_args()).current_dir(directory);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nobody.env(name, value),
            None => nobody.env_remove(name),
        };
    }
    nobody
}
