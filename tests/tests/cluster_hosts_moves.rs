//! Ranks of jobs on several hosts, which are network namespaces, move to other hosts while the job goes on
//! (`scash run --host … --replicas`): the results are what they would have been.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use scash_tests::cluster::built::built;
use scash_tests::cluster::{Ended, Hosts, HostsJob, run_beside, scash, wait_for_status};
use std::path::Path;
use std::time::Duration;

/// Two hosts of two ranks each, and one for those of a host that is lost.
const SPARE: &str = "10.77.0.1:2,10.77.0.2:2,10.77.0.3:spare";
const LONG: [&str; 6] = ["--size", "254", "--iterations", "1500", "--check", "--json"];

fn replicas(job: HostsJob, copies: u32) -> HostsJob {
    job.options(&format!("--replicas {copies} --checkpoint every=5 --no-rejoin"))
}

/// Ends hosts one after the other, so many milliseconds after the first checkpoint and then again.
fn lose(hosts: &Hosts, job: &HostsJob, pauses: &[(u64, u32)]) -> Ended {
    run_beside(job.command(&built("laplace"), &LONG), |front| {
        wait_for_status(front, "last checkpoint: epoch ");
        for (pause, host) in pauses {
            std::thread::sleep(Duration::from_millis(*pause));
            hosts.kill(*host);
        }
    })
}

#[test]
fn ranks_of_a_lost_host_go_to_the_spare_one_and_then_to_whoever_has_copies() {
    let Some(hosts) = Hosts::new(3) else { return };
    for (first, second) in [(1, 2), (2, 3), (2, 1)] {
        let job = replicas(hosts.job(SPARE), 1);
        let ended =
            hosts.run_through(job.until(until()), |front| hosts.kill_in_turn(front, &[first, second]));
        ended.went_on();
        let news = ended.err.lines().filter(|line| line.ends_with("comes back on host 10.77.0.3"));
        assert!(news.count() >= 2, "{ended}");
    }
}

#[test]
fn a_spare_host_may_be_lost_at_any_instant_of_its_use() {
    let Some(hosts) = Hosts::new(3) else { return };
    for pause in (0..60).step_by(4) {
        let ended = lose(&hosts, &replicas(hosts.job(SPARE), 2), &[(200, 2), (pause, 3)]);
        ended.is_right();
        ended.went_on();
    }
}

#[test]
fn a_spare_host_that_is_lost_before_it_is_used_is_not_missed() {
    let Some(hosts) = Hosts::new(3) else { return };
    let ended = lose(&hosts, &replicas(hosts.job(SPARE), 1), &[(100, 3), (300, 2)]);
    ended.is_right();
    ended.went_on();
    ended.said(&["rank 2 comes back on host 10.77.0.1", "rank 3 comes back on host 10.77.0.1"]);
}

#[test]
fn ranks_that_have_all_been_on_one_host_go_on_on_two() {
    let Some(hosts) = Hosts::new(2) else { return };
    let until = Path::new(env!("CARGO_BIN_EXE_until"));
    for share in ["SCASH_SHARE=on", "SCASH_SHARE=off"] {
        // As they begin.
        let job = hosts.job("10.77.0.1:3,10.77.0.2:spare");
        let job = job.options("--replicas 1 --checkpoint every=20 --env").options(share);
        hosts.run_through(job.until(until), |front| {
            wait_for_status(front, "last checkpoint: epoch ");
            for rank in ["0", "2"] {
                scash(&["migrate", &front.to_string(), rank, "10.77.0.2"]).succeeded();
            }
            wait_for_status(front, "host 10.77.0.2 is there; ranks 0, 2");
        });
        // As they begin anew, since a host is lost before there is a checkpoint.
        let job = hosts.job("10.77.0.1:2,10.77.0.2:2");
        let job = job.options("--replicas 1 --checkpoint every=20 --no-rejoin --env").options(share);
        let job = job.option("--inject", "kill host 10.77.0.2 after 1ms");
        hosts.run_through(job.until(until), |front| {
            wait_for_status(front, "ranks 0, 1, 2, 3");
            wait_for_status(front, "last checkpoint: epoch ");
            scash(&["rejoin", &front.to_string(), "10.77.0.2"]).succeeded();
            wait_for_status(front, "host 10.77.0.2 is there; ranks 2, 3");
        });
    }
}

/// Its agent cannot open a file more.
#[test]
fn a_spare_host_that_cannot_take_ranks_is_done_without() {
    let Some(hosts) = Hosts::new(3) else { return };
    let ended = hosts.run_through(replicas(hosts.job(SPARE), 1).until(until()), |front| {
        wait_for_status(front, "copies of each checkpoint: 1, whole\n");
        hosts.processes(3).into_iter().for_each(open_no_more_files);
        hosts.kill(2);
        wait_for_status(front, "host 10.77.0.1 is there; ranks 0, 1, 2, 3");
    });
    ended.went_on();
    ended.said(&["host 10.77.0.3: ", "Too many open files", "rank 2 comes back on host 10.77.0.1"]);
}

fn open_no_more_files(pid: i32) {
    // One that has just ended opens none.
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return };
    let names = descriptors.flatten().map(|entry| entry.file_name().into_string().unwrap());
    let open: Vec<u64> = names.filter_map(|name| name.parse().ok()).collect();
    let free = (0..).find(|number| !open.contains(number)).unwrap();
    let limit = libc::rlimit { rlim_cur: free, rlim_max: free };
    // SAFETY: the call reads the limit, and writes none.
    let set = unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut()) };
    assert_eq!(set, 0);
}

#[test]
fn spare_hosts_without_replicas_are_refused() {
    let Some(hosts) = Hosts::new(3) else { return };
    let ended = hosts.job(SPARE).run(&built("laplace"), &[]);
    ended.failed(2, &["a host is named as spare: that needs --replicas"]);
}

fn until() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_until"))
}

const TWO: &str = "10.77.0.1:2,10.77.0.2:2";

#[test]
fn ranks_move_where_the_user_wants_them_and_a_drained_host_is_not_missed() {
    let Some(hosts) = Hosts::new(2) else { return };
    let job = replicas(hosts.job(TWO), 1);
    let ended = hosts.run_through(job.until(until()), |front| {
        let number = front.to_string();
        wait_for_status(front, "last checkpoint: epoch ");
        wait_for_status(front, "copies of each checkpoint: 1, whole\n");
        scash(&["migrate", &number, "2", "10.77.0.1"]).succeeded();
        wait_for_status(front, "host 10.77.0.1 is there; ranks 0, 1, 2");
        let ended = scash(&["migrate", &number, "2", "10.77.0.1"]);
        ended.failed(1, &["rank 2 is on host 10.77.0.1"]);
        scash(&["migrate", &number, "0", "10.77.0.2"]).succeeded();
        wait_for_status(front, "host 10.77.0.2 is there; ranks 0, 3");
        scash(&["drain", &number, "10.77.0.2"]).succeeded();
        wait_for_status(front, "host 10.77.0.2 is there, without ranks");
        wait_for_status(front, "copies of each checkpoint: 0 of 1, as no more hosts have ranks");
        hosts.kill(2);
        wait_for_status(front, "host 10.77.0.2 is lost");
    });
    let news =
        ["rank 2 moves to host 10.77.0.1; all 4 ranks go on from barrier ", "rank 0 moves to host 10.77.0.2"];
    ended.said(&news);
}

/// Where the loss of any other host ends the job.
#[test]
fn a_drained_host_is_not_missed_without_copies() {
    let Some(hosts) = Hosts::new(2) else { return };
    let job = replicas(hosts.job(TWO), 1).options("--on-loss fail");
    hosts.run_through(job.until(until()), |front| {
        wait_for_status(front, "last checkpoint: epoch ");
        scash(&["drain", &front.to_string(), "10.77.0.2"]).succeeded();
        wait_for_status(front, "host 10.77.0.2 is there, without ranks");
        hosts.kill(2);
        wait_for_status(front, "host 10.77.0.2 is lost");
    });
}

#[test]
fn a_rank_whose_new_host_is_lost_before_the_next_checkpoint_comes_back_where_it_was() {
    let Some(hosts) = Hosts::new(3) else { return };
    let job = hosts.job("10.77.0.1:1,10.77.0.2:1,10.77.0.3:1");
    let job = job.options("--replicas 1 --checkpoint seconds=8 --no-rejoin");
    let ended = hosts.run_through(job.until(until()), |front| {
        wait_for_status(front, "last checkpoint: epoch ");
        scash(&["migrate", &front.to_string(), "1", "10.77.0.3"]).succeeded();
        wait_for_status(front, "host 10.77.0.3 is there; ranks 1, 2");
        // Its copies are to lie on the first host, which has none yet.
        hosts.kill(3);
        wait_for_status(front, "host 10.77.0.3 is lost");
    });
    ended.is_right();
    ended.went_on();
    ended.said(&["rank 1 comes back on host 10.77.0.2"]);
}

#[test]
fn what_cannot_be_moved_is_refused_with_the_reason() {
    let Some(hosts) = Hosts::new(2) else { return };
    for (options, refusals) in [
        (
            "--replicas 1 --checkpoint every=5",
            [
                (["migrate", "9", "10.77.0.1"], "this job has ranks 0 to 3"),
                (
                    ["migrate", "1", "elsewhere"],
                    "this job has no host elsewhere: its hosts are 10.77.0.1, 10.77.0.2",
                ),
            ],
        ),
        (
            "",
            [
                (["migrate", "1", "10.77.0.2"], "ranks of this job cannot move: start it with --replicas"),
                (["migrate", "0", "10.77.0.2"], "ranks of this job cannot move: start it with --replicas"),
            ],
        ),
    ] {
        let job = hosts.job(TWO).options(options);
        hosts.run_through(job.until(until()), |front| {
            wait_for_status(front, "host 10.77.0.2 is there; ranks 2, 3");
            for ([what, rank, host], why) in refusals {
                scash(&[what, &front.to_string(), rank, host]).failed(1, &[why]);
            }
        });
    }
    scash(&["status", "1"]).failed(1, &["there is no job 1 of yours on this machine"]);
}
