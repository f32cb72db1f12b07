//! The NAS kernels on message passing have the published results, in real processes; and say so if they have
//! not.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use scash_tests::cluster::built::built;
use scash_tests::cluster::{
    Ended, Hosts, Job, children, launcher, newest_epoch, rank_of, replicas, run_beside, run_until_injected,
    signal_rank, wait_for,
};
use std::time::Duration;

const KERNELS: [&str; 5] = ["is", "ep", "cg", "mg", "ft"];

/// Runs a kernel of class S: its exit status, and what it printed.
fn run(kernel: &str, ranks: u32, provider: &str, more: &[&str]) -> (i32, String) {
    let job = Job::plain(ranks).option("--provider", provider);
    let ended = job.run(&built("nas"), &[&["--kernel", kernel, "--class", "S"], more].concat());
    (ended.status, ended.out + &ended.err)
}

fn all_are_verified(ranks: u32, providers: &[&str]) {
    for provider in providers {
        for kernel in KERNELS {
            let (status, text) = run(kernel, ranks, provider, &["--json"]);
            let line: serde_json::Value =
                serde_json::from_str(text.trim()).unwrap_or_else(|_| panic!("{text}"));
            assert_eq!(
                (status, &line["verification"]),
                (0, &"successful".into()),
                "{kernel}, {provider}: {text}"
            );
            assert_eq!((&line["kernel"], &line["ranks"]), (&kernel.into(), &ranks.into()));
            assert!(
                line["seconds"].as_f64().unwrap() > 0.0
                    && line["figures"]["rate_mops"].as_f64().unwrap() > 0.0
            );
        }
    }
}

#[test]
fn all_kernels_have_the_published_results_on_one_rank() {
    all_are_verified(1, &["shm", "tcp"]);
}

#[test]
fn all_kernels_have_the_published_results_on_two_ranks() {
    all_are_verified(2, &["shm", "tcp"]);
}

#[test]
fn all_kernels_have_the_published_results_on_four_ranks() {
    all_are_verified(4, &["shm", "tcp"]);
}

#[test]
fn all_kernels_have_the_published_results_on_eight_ranks() {
    all_are_verified(8, &["shm"]);
}

#[test]
fn kernels_have_the_published_results_on_eight_hosts_and_on_pairs_of_ranks_on_four() {
    let Some(hosts) = Hosts::new(8) else { return };
    let names: Vec<String> = (1..=8).map(|host| hosts.name(host)).collect();
    let pairs: Vec<String> = names[..4].iter().map(|name| format!("{name}:2")).collect();
    for list in [names, pairs] {
        for kernel in ["is", "cg", "ft"] {
            let job = hosts.job(&list.join(",")).options("--timeout 120");
            let ended = job.run(&built("nas"), &["--kernel", kernel, "--json"]);
            ended.succeeded();
            let line: serde_json::Value = serde_json::from_str(ended.out.trim()).unwrap();
            assert_eq!(
                (&line["kernel"], &line["verification"], &line["ranks"]),
                (&kernel.into(), &"successful".into(), &8.into()),
                "{ended}"
            );
        }
    }
}

/// The kernel has the published result, and its ranks came back so often, from epochs.
fn has_survived(kernel: &str, ended: &Ended, deaths: usize) {
    assert_eq!(ended.status, 0, "{ended}");
    let line: serde_json::Value =
        serde_json::from_str(ended.out.trim()).unwrap_or_else(|_| panic!("{ended}"));
    assert_eq!((&line["kernel"], &line["verification"]), (&kernel.into(), &"successful".into()), "{ended}");
    let restarts = ended.err.lines().filter(|line| line.contains(" go on from barrier "));
    assert_eq!((restarts.count(), ended.err.lines().count()), (deaths, deaths), "{kernel} {ended}");
}

#[test]
fn kernels_whose_ranks_die_have_the_published_results() {
    for (provider, ranks) in [("shm", 2), ("tcp", 2), ("shm", 4), ("tcp", 4)] {
        for kernel in KERNELS {
            let job = Job::plain(ranks).option("--provider", provider).option("--replicas", "1");
            let job = job.option("--checkpoint", "every=1").option("--inject", "kill rank 1 at barrier 3");
            let job = job.option("--inject", "kill rank 0 at checkpoint 2 after done in incarnation 1");
            has_survived(kernel, &job.run(&built("nas"), &["--kernel", kernel, "--json"]), 2);
        }
    }
}

/// The launcher is stopped when a rank dies: the others miss it in a collective operation, and wait.
#[test]
fn ranks_that_miss_another_in_a_collective_operation_wait_to_be_started_again() {
    let job = replicas(
        Job::plain(3).option("--provider", "tcp"),
        1,
        &["delay rank 0 by 100s at checkpoint 2 after done"],
    );
    let ended = run_beside(job.command(&built("nas"), &["--kernel", "ep", "--json"]), |front| {
        let launcher = wait_for("launcher", || launcher(front));
        wait_for("second epoch", || (newest_epoch(front, 0) >= 2).then_some(()));
        std::thread::sleep(Duration::from_millis(500));
        kill(Pid::from_raw(launcher), Signal::SIGSTOP).unwrap();
        signal_rank(front, 0, libc::SIGKILL);
        std::thread::sleep(Duration::from_secs(1));
        let lives = |rank: &u32| children(launcher).into_iter().any(|pid| rank_of(pid) == Some(*rank));
        let alive: Vec<u32> = (0..3).filter(lives).collect();
        kill(Pid::from_raw(launcher), Signal::SIGCONT).unwrap();
        assert_eq!(alive, [1, 2], "a rank has told its program that another one is gone");
    });
    has_survived("ep", &ended, 1);
}

#[test]
fn kernels_on_two_hosts_survive_the_death_of_ranks_and_the_loss_of_a_host() {
    let Some(hosts) = Hosts::new(2) else { return };
    let list = format!("{}:2,{}:2", hosts.name(1), hosts.name(2));
    for kernel in ["is", "cg", "mg", "ft"] {
        let arguments = ["--kernel", kernel, "--json"];
        let job = hosts.job(&list).options("--timeout 120 --replicas 1 --checkpoint every=1");
        let job = job.option("--inject", "kill rank 2 at barrier 3");
        has_survived(kernel, &job.run(&built("nas"), &arguments), 1);
        let ended = run_until_injected(&hosts, job.command(&built("nas"), &arguments), &[(0, 2)]);
        assert_eq!(ended.status, 0, "{ended}");
        assert!(ended.out.contains("\"successful\""), "{kernel} {ended}");
        ended.said(&["rank 2 comes back on host "]);
    }
}

#[test]
fn wrong_bits_in_messages_are_found_by_the_verification_of_each_kernel() {
    for kernel in KERNELS {
        let (status, text) = run(kernel, 2, "shm", &["--spoil"]);
        assert!(status == 1 && text.contains("verification FAILED"), "{kernel}: {status}, {text}");
    }
}

#[test]
fn a_number_of_ranks_that_a_kernel_cannot_use_is_refused_with_those_that_it_can() {
    for (kernel, can) in
        [("cg", "1, 2, 4, 8, 16 or 32"), ("mg", "1, 2, 4 or 8"), ("ft", "1, 2, 4, 8, 16 or 32")]
    {
        let (status, text) = run(kernel, 3, "shm", &[]);
        assert_eq!(status, 2, "{kernel}: {text}");
        assert!(text.contains(&format!("{kernel} cannot run on 3 ranks; choose {can} ranks")), "{text}");
    }
    // These can.
    for kernel in ["is", "ep"] {
        let (status, text) = run(kernel, 3, "shm", &[]);
        assert_eq!(status, 0, "{kernel}: {text}");
    }
}

#[test]
fn wrong_arguments_are_named() {
    for (arguments, hint) in [
        (&["--kernel", "sp"][..], "--kernel"),
        (&["--class", "S"], "--kernel"),
        (&["--kernel", "is", "--class", "D"], "--class"),
        (&["--kernel", "is", "--repeat", "0"], "--repeat"),
        (&["--kernel", "is", "--messages", "pvm"], "`mpi:` and the path"),
        (&["--kernel", "is", "--messages", "mpi:/nowhere"], "the MPI shim /nowhere"),
    ] {
        let done = std::process::Command::new(built("nas")).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(2) && said.contains(hint), "{arguments:?}: {said}");
    }
}

#[test]
fn a_kernel_that_no_launcher_has_started_has_one_rank() {
    let arguments = ["--kernel", "is", "--class", "S"];
    let done = std::process::Command::new(built("nas")).args(arguments).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && out.contains(", 1 rank: "), "{out}{err}");
}
