//! Hosts of a job are cut off from the launcher, which is on one of them (`scash run --host … --replicas`):
//! it misses them by what their systems answer (`--heartbeat`), and takes them in when they are plugged in
//! again.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use scash_tests::cluster::built::built;
use scash_tests::cluster::{Ended, Hosts, HostsJob, run};
use std::path::Path;
use std::time::{Duration, Instant};

const THREE: &str = "10.77.0.1,10.77.0.2:2,10.77.0.3";
/// Where the launcher is.
const HERE: &str = "10.77.0.1";

fn replicas(job: HostsJob) -> HostsJob {
    job.options("--replicas 1 --checkpoint every=20 --restarts 1000")
}

/// Waits until the launcher says that of its job.
fn wait_for(job: &HostsJob, front: i32, words: &str) {
    let started = Instant::now();
    loop {
        let mut command = job.on(HERE, built("scash"));
        command.args(["status", &front.to_string()]);
        let ended = run(command);
        if ended.out.contains(words) {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(90), "{words}: {ended}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a job through what is done to it from its first checkpoint on, and checks the result.
fn run_through(hosts: &Hosts, job: &HostsJob, act: impl FnOnce(i32)) -> Ended {
    hosts.run_through(job.until_on(HERE, Path::new(env!("CARGO_BIN_EXE_until"))), |front| {
        wait_for(job, front, "copies of each checkpoint: 1, whole\n");
        act(front);
    })
}

#[test]
fn a_host_that_is_cut_off_is_missed_soon_and_taken_in_when_it_is_plugged_in_again() {
    let Some(hosts) = Hosts::new(3) else { return };
    let job = replicas(hosts.job(THREE));
    let ended = run_through(&hosts, &job, |front| {
        hosts.cut(2);
        wait_for(&job, front, "host 10.77.0.2 is lost");
        wait_for(&job, front, "copies of each checkpoint: 1, whole\n");
        hosts.plug_in(2);
        wait_for(&job, front, "host 10.77.0.2 is there; ranks 1, 2");
    });
    ended.said(&[
        "host 10.77.0.2: it has not answered for ",
        "rank 1 comes back on host 10.77.0.3",
        "host 10.77.0.2 is back",
        "rank 1 moves to host 10.77.0.2",
    ]);
}

#[test]
fn a_host_whose_agent_and_ranks_are_stopped_for_a_while_is_not_missed() {
    let Some(hosts) = Hosts::new(3) else { return };
    let job = replicas(hosts.job(THREE)).options("--heartbeat 50ms");
    let ended = run_through(&hosts, &job, |_| {
        let all = hosts.processes(3);
        let signal = |signal| {
            for process in &all {
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(*process), signal).unwrap();
            }
        };
        signal(nix::sys::signal::Signal::SIGSTOP);
        std::thread::sleep(Duration::from_millis(1500));
        signal(nix::sys::signal::Signal::SIGCONT);
    });
    assert_eq!(ended.err, "", "{ended}");
}

#[test]
fn a_host_whose_ranks_others_cannot_reach_is_left_out_though_its_agent_answers() {
    let Some(hosts) = Hosts::new(3) else { return };
    let job = replicas(hosts.job(THREE));
    let ended = run_through(&hosts, &job, |front| {
        // Host 3 has most cut links with one, as it has fewest ranks.
        hosts.part(2, 3);
        wait_for(&job, front, "host 10.77.0.3 is lost");
        wait_for(&job, front, "copies of each checkpoint: 1, whole\n");
        hosts.join(2, 3);
        let mut rejoin = job.on(HERE, built("scash"));
        rejoin.args(["rejoin", &front.to_string(), "10.77.0.3"]);
        run(rejoin).succeeded();
        wait_for(&job, front, "host 10.77.0.3 is there; ranks 3");
    });
    ended.said(&[
        "host 10.77.0.3: its agent answers, and ranks of other hosts cannot reach its ranks",
        "the connection between rank",
        "`scash rejoin` takes it in again",
        "host 10.77.0.3 is back",
    ]);
}

#[test]
fn connections_that_the_user_wants_cut_are_missed_as_if_the_network_were_cut() {
    let Some(hosts) = Hosts::new(3) else { return };
    for (cut, lost, why) in [
        ("host 10.77.0.2", "10.77.0.2", "it has not answered for "),
        ("link 10.77.0.2-10.77.0.3", "10.77.0.3", "ranks of other hosts cannot reach its ranks"),
    ] {
        let cut = format!("cut {cut} at checkpoint 2");
        let job = replicas(hosts.job(THREE)).options("--no-rejoin").option("--inject", &cut);
        let ended = run_through(&hosts, &job, |front| {
            wait_for(&job, front, &format!("host {lost} is lost"));
            wait_for(&job, front, "copies of each checkpoint: 1, whole\n");
        });
        ended.said(&[why, "comes back on host"]);
    }
}

#[test]
fn without_heartbeats_a_host_that_is_cut_off_is_missed_by_its_ranks_or_after_a_while() {
    let Some(hosts) = Hosts::new(3) else { return };
    let job = replicas(hosts.job(THREE)).options("--heartbeat off");
    let ended = run_through(&hosts, &job, |_| {
        hosts.cut(2);
        std::thread::sleep(Duration::from_millis(1000));
        hosts.plug_in(2);
    });
    assert!(!ended.err.contains("it has not answered"), "{ended}");
}
