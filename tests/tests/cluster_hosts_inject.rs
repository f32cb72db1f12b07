//! Hosts, agents and launchers of jobs on several hosts fail as the user says (`--inject`). The results are
//! what they would have been.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use scash_tests::cluster::{Hosts, HostsJob, Orphan, wait_for_death, wait_for_status};
use std::path::Path;
use std::time::Duration;

/// Two hosts of two ranks each.
const TWO: &str = "10.77.0.1:2,10.77.0.2:2";
const WHOLE: &str = "copies of each checkpoint: 1, whole\n";

/// A job in which that goes wrong.
fn job(hosts: &Hosts, failures: &[&str]) -> HostsJob {
    let job = hosts.job(TWO).options("--replicas 1 --checkpoint every=20 --no-rejoin");
    failures.iter().fold(job, |job, failure| job.option("--inject", failure))
}

fn until() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_until"))
}

#[test]
fn a_host_and_an_agent_are_killed_and_a_host_comes_back() {
    let Some(hosts) = Hosts::new(2) else { return };
    for kill in ["kill host 10.77.0.2 at checkpoint 3", "kill agent 10.77.0.2 after 200ms"] {
        let job = job(&hosts, &[kill, "return host 10.77.0.2 after 1s"]);
        let ended = hosts.run_through(job.until(until()), |front| {
            wait_for_status(front, "host 10.77.0.2 is lost\n");
            wait_for_status(front, "host 10.77.0.2 is there; ranks 2, 3");
        });
        ended.said(&[
            "host 10.77.0.2: its agent is gone",
            "rank 2 comes back on host 10.77.0.1",
            "host 10.77.0.2 is back",
        ]);
    }
}

#[test]
fn a_host_that_stops_for_a_while_is_not_missed() {
    let Some(hosts) = Hosts::new(2) else { return };
    let job = job(&hosts, &["stop host 10.77.0.2 for 700ms at checkpoint 3"]);
    let ended = hosts.run_through(job.until(until()), |front| {
        wait_for_status(front, WHOLE);
        // Two ranks, the agent and its front.
        wait_until(|| hosts.stopped(2) == 4);
        wait_until(|| hosts.stopped(2) == 0);
        std::thread::sleep(Duration::from_millis(500));
    });
    assert_eq!(ended.err, "", "{ended}");
}

#[test]
fn a_launcher_that_is_killed_leaves_the_job_to_the_next_one() {
    let Some(hosts) = Hosts::new(2) else { return };
    goes_on_with_the_next_one(&hosts, &["kill launcher at checkpoint 3"]);
}

/// The launcher dies of one of these failures, and the next one goes on with the job.
fn goes_on_with_the_next_one(hosts: &Hosts, failures: &[&str]) {
    let _ = std::fs::remove_file(hosts.file("end"));
    let orphan = Orphan::of(hosts, job(hosts, failures).until(until()), wait_for_death);
    let command = orphan.resume(None, &["--host", "10.77.0.1,10.77.0.2"]);
    let ended = orphan.ends_after(hosts, command, |front| wait_for_status(front, WHOLE));
    ended.is_right();
    ended.went_on();
    ended.said(&["the launcher of job"]);
}

/// A rank dies; the launcher dies as it brings all back, and has told no host what is next, or some, or all.
#[test]
fn a_launcher_that_dies_as_it_brings_ranks_back_leaves_the_job_to_the_next_one() {
    let Some(hosts) = Hosts::new(2) else { return };
    for moment in ["after recalled", "after ended", "after rewound", "2 after rewound", "after started"] {
        let dies = format!("kill launcher at recovery {moment}");
        goes_on_with_the_next_one(&hosts, &["kill rank 3 at barrier 100", &dies]);
    }
}

/// A rank dies, and in the middle of its recovery a host that it is not on, or is on.
#[test]
fn a_host_that_dies_as_ranks_are_brought_back_is_done_without() {
    let Some(hosts) = Hosts::new(2) else { return };
    for moment in ["after recalled", "after ended", "after rewound", "2 after rewound", "after started"] {
        for rank in [1, 3] {
            let dies = format!("kill host 10.77.0.2 at recovery {moment}");
            let job = job(&hosts, &[&format!("kill rank {rank} at barrier 100"), &dies]);
            let ended = hosts.run_through(job.until(until()), |front| {
                wait_for_status(front, "host 10.77.0.2 is lost\n");
                wait_for_status(front, "last checkpoint: ");
            });
            ended.said(&["host 10.77.0.2: its agent is gone", "rank 2 comes back on host 10.77.0.1"]);
        }
    }
}

#[test]
fn what_cannot_fail_is_refused_with_the_reason() {
    let Some(hosts) = Hosts::new(2) else { return };
    for (failure, why) in [
        ("kill host elsewhere at checkpoint 3", "the hosts of this job are 10.77.0.1, 10.77.0.2"),
        ("stop host 10.77.0.2 at checkpoint 3", "expected 'for', not 'at'"),
        ("kill launcher", "expected 'at' or 'after' at the end"),
        ("cut link 10.77.0.1-elsewhere after 1s", "the hosts of this job are 10.77.0.1, 10.77.0.2"),
        (
            "kill host 10.77.0.2 at recovery after joined",
            "expected 'recalled', 'ended', 'rewound' or 'started'",
        ),
        ("kill launcher at checkpoint 0", "expected a number from 1 on, not '0'"),
    ] {
        job(&hosts, &[failure]).run(until(), &[]).failed(2, &[why]);
    }
    let cut = job(&hosts, &["cut host 10.77.0.2 at checkpoint 1"]).options("--heartbeat off");
    cut.run(until(), &[]).failed(2, &["leave --heartbeat on"]);
}

fn wait_until(holds: impl Fn() -> bool) {
    let started = std::time::Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(30), "it does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}
