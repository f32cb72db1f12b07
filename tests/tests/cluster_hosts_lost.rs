//! Hosts of a job are lost, and its ranks come back on those that are left (`scash run --host … --replicas`):
//! the results are what they would have been.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use scash_tests::cluster::built::built;
use scash_tests::cluster::{Ended, Hosts, HostsJob, run_beside, run_until_injected, wait_for_status};
use std::path::Path;
use std::time::Duration;

/// An application, and its arguments.
type Application = (&'static str, [&'static str; 4]);
const LAPLACE: Application = ("laplace", ["--size", "126", "--iterations", "60"]);
const LU: Application = ("lu", ["--size", "256", "--block", "16"]);

/// Two hosts of two ranks each.
const TWO: &str = "10.77.0.1:2,10.77.0.2:2";
/// Three hosts of one to two ranks.
const THREE: &str = "10.77.0.1,10.77.0.2:2,10.77.0.3:2";
/// As the first ones, and one that stands by.
const SPARE: &str = "10.77.0.1:2,10.77.0.2:2,10.77.0.3:spare";

/// Where a rank of the lost host dies.
const POINTS: [&str; 12] = [
    "barrier 7 after enter",
    "barrier 8 after flush",
    "barrier 8 after meet",
    "barrier 9 after done",
    "checkpoint 2 after due",
    "checkpoint 2 after stop",
    "checkpoint 2 after copy",
    "checkpoint 2 after fence",
    "checkpoint 2 after mark",
    "checkpoint 2 after meet",
    "checkpoint 2 after done",
    "checkpoint 1 after copy",
];

fn replicas(job: HostsJob, copies: u32, every: u32) -> HostsJob {
    job.options(&format!("--replicas {copies} --checkpoint every={every} --no-rejoin"))
}

/// The arguments of an application that compares its result.
fn checked<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [arguments, &["--check", "--json"]].concat()
}

/// A rank dies there, and its host with it while the others are being ended, or started again. `then`: what
/// is said of where it comes back.
fn is_lost_at_each_point(
    application: Application,
    job: impl Fn(&Hosts) -> HostsJob,
    (rank, host): (u32, u32),
    then: &str,
) {
    let Some(hosts) = Hosts::new(3) else { return };
    let (program, arguments) = application;
    for point in POINTS {
        let job = job(&hosts).options("--replicas 1 --checkpoint every=3");
        let job = job.option("--inject", &format!("kill rank {rank} at {point}"));
        let command = job.command(&built(program), &checked(&arguments));
        let ended = run_until_injected(&hosts, command, &[(0, host)]);
        ended.is_right();
        ended.said(&[then]);
        if !point.starts_with("checkpoint 1 ") {
            ended.went_on();
        }
    }
}

#[test]
fn the_loss_of_one_of_two_hosts_at_each_point_is_survived() {
    let job = |hosts: &Hosts| hosts.job(TWO).options("--no-rejoin");
    is_lost_at_each_point(LAPLACE, job, (2, 2), "rank 2 comes back on host 10.77.0.1");
    is_lost_at_each_point(LU, job, (0, 1), "rank 0 comes back on host 10.77.0.2");
}

#[test]
fn the_loss_of_one_of_three_hosts_at_each_point_is_survived() {
    let job = |hosts: &Hosts| hosts.job(THREE).options("--no-rejoin");
    is_lost_at_each_point(LU, job, (2, 2), "rank 2 comes back on host 10.77.0.3");
    is_lost_at_each_point(LAPLACE, job, (0, 1), "rank 0 comes back on host 10.77.0.2");
}

#[test]
fn the_loss_of_a_host_at_each_point_is_survived_on_a_spare_one() {
    let job = |hosts: &Hosts| hosts.job(SPARE).options("--no-rejoin");
    is_lost_at_each_point(LU, job, (2, 2), "rank 2 comes back on host 10.77.0.3");
    is_lost_at_each_point(LAPLACE, job, (0, 1), "rank 0 comes back on host 10.77.0.3");
}

#[test]
fn the_loss_of_a_host_at_each_point_is_survived_where_ranks_wait_for_it() {
    let job = |hosts: &Hosts| hosts.job(TWO).options("--on-loss wait");
    is_lost_at_each_point(LAPLACE, job, (2, 2), "host 10.77.0.2 is back");
    is_lost_at_each_point(LU, job, (0, 1), "host 10.77.0.1 is back");
}

/// Wherever the others are by then: being ended, being taken back, being started.
#[test]
fn hosts_may_be_lost_at_any_instant_of_a_restart() {
    let Some(hosts) = Hosts::new(3) else { return };
    for pause in (0..60).step_by(4) {
        for rank in [0, 4] {
            let job = replicas(hosts.job(THREE), 2, 3);
            let job = job.option("--inject", &format!("kill rank {rank} at barrier 9"));
            let command = job.command(&built("laplace"), &checked(&LAPLACE.1));
            let ended = run_until_injected(&hosts, command, &[(pause, 2), (pause / 4, 1)]);
            ended.is_right();
            ended.went_on();
        }
    }
}

/// Ends hosts one after the other, so many milliseconds after ranks were started and then again.
fn lose(hosts: &Hosts, job: &HostsJob, program: &str, arguments: &[&str], pauses: &[(u64, u32)]) -> Ended {
    run_beside(job.command(&built(program), &checked(arguments)), |front| {
        wait_for_status(front, "host 10.77.0.1 is there");
        for (pause, host) in pauses {
            std::thread::sleep(Duration::from_millis(*pause));
            hosts.kill(*host);
        }
    })
}

const LONG: [&str; 4] = ["--size", "254", "--iterations", "1500"];

#[test]
fn a_host_that_is_lost_at_any_instant_takes_no_result_along() {
    let Some(hosts) = Hosts::new(2) else { return };
    for (round, host) in (0..8).zip([1, 2].into_iter().cycle()) {
        let job = replicas(hosts.job(TWO), 1, 7);
        lose(&hosts, &job, "laplace", &LONG, &[(170 * round, host)]).is_right();
    }
}

#[test]
fn copies_are_made_anew_so_that_one_host_after_the_other_may_be_lost() {
    let Some(hosts) = Hosts::new(3) else { return };
    for (first, second) in [(2, 3), (1, 3), (3, 1)] {
        let until = replicas(hosts.job(THREE), 1, 5).until(Path::new(env!("CARGO_BIN_EXE_until")));
        hosts.run_through(until, |front| hosts.kill_in_turn(front, &[first, second])).went_on();
    }
}

#[test]
fn two_hosts_may_be_lost_at_once_where_there_are_two_copies() {
    let Some(hosts) = Hosts::new(3) else { return };
    for (first, second) in [(1, 2), (2, 3), (3, 1)] {
        let job = replicas(hosts.job(THREE), 2, 5);
        lose(&hosts, &job, "laplace", &LONG, &[(400, first), (0, second)]).is_right();
    }
}

/// Each store has one copy, and would have it on the next host, if that were not of its rack.
#[test]
fn all_hosts_of_a_rack_may_be_lost_at_once_where_racks_are_named() {
    let Some(hosts) = Hosts::new(4) else { return };
    let file = hosts.file("racks");
    let racks = "10.77.0.1 rack=north\n10.77.0.2 rack=north\n10.77.0.3 rack=south\n10.77.0.4 rack=south\n";
    std::fs::write(&file, racks).unwrap();
    for rack in [[1, 2], [4, 3]] {
        let job = replicas(hosts.job_of_file(file.to_str().unwrap()), 1, 20);
        let ended = hosts.run_through(job.until(Path::new(env!("CARGO_BIN_EXE_until"))), |front| {
            wait_for_status(front, "copies of each checkpoint: 1, whole\n");
            for host in rack {
                hosts.kill(host);
            }
            for host in rack {
                wait_for_status(front, &format!("host 10.77.0.{host} is lost"));
            }
        });
        ended.went_on();
    }
}

#[test]
fn programs_of_all_kinds_survive_the_loss_of_a_host() {
    let Some(hosts) = Hosts::new(2) else { return };
    for (program, options) in [
        ("lu", "--encrypt"),
        ("laplace", "--fault mprotect"),
        ("laplace", "--threads 2"),
        ("water", "--provider tcp"),
        ("market", "--encrypt"),
        ("fft", "--checkpoint every=2"),
        ("tsp", "--provider auto"),
    ] {
        let job = hosts.job(TWO).options("--replicas 1").options(options);
        let job = if options.contains("every") { job } else { job.options("--checkpoint every=3") };
        let job = job.option("--inject", "kill rank 3 at barrier 5");
        let ended = run_until_injected(&hosts, job.command(&built(program), &checked(&[])), &[(0, 2)]);
        ended.is_right();
        ended.went_on();
    }
}

#[test]
fn ranks_that_came_from_a_lost_host_print_on_and_each_line_comes_once() {
    let Some(hosts) = Hosts::new(2) else { return };
    let phoenix = std::path::Path::new(env!("CARGO_BIN_EXE_phoenix"));
    let job = replicas(hosts.job(TWO), 1, 2);
    let undisturbed = job.run(phoenix, &["loud"]);
    let job = job.option("--inject", "kill rank 2 at barrier 30");
    let ended = run_until_injected(&hosts, job.command(phoenix, &["loud"]), &[(0, 2)]);
    assert_eq!((ended.status, undisturbed.status), (0, 0), "{ended}");
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    if !ended.err.contains("bytes that it has printed are lost") {
        assert_eq!(sorted(&ended.out), sorted(&undisturbed.out), "{ended}");
    }
}

/// Each rank marks an epoch in its own store first, and then in the copies. If it dies in between, all go on
/// from where all copies are.
#[test]
fn a_host_may_be_lost_behind_a_rank_that_died_while_it_marked_an_epoch() {
    let Some(hosts) = Hosts::new(3) else { return };
    for (rank, host) in [(2, 2), (0, 1), (4, 3)] {
        let job = replicas(hosts.job(THREE), 1, 3)
            .option("--inject", &format!("kill rank {rank} at checkpoint 2 after mark"))
            .option("--inject", "delay all ranks by 3s at barrier 1 in incarnation 1");
        let command = job.command(&built("laplace"), &checked(&LAPLACE.1));
        let ended = run_until_injected(&hosts, command, &[(2000, host)]);
        ended.is_right();
        ended.went_on();
    }
}

#[test]
fn a_host_whose_copies_are_lost_too_ends_the_job_with_a_word_of_the_rank() {
    let Some(hosts) = Hosts::new(3) else { return };
    let job = replicas(hosts.job(THREE), 1, 3).option("--inject", "kill rank 2 at checkpoint 2 after done");
    // Else the agent that is left would wait for another launcher.
    let job = job.options("--linger off");
    let command = job.command(&built("laplace"), &checked(&LAPLACE.1));
    let ended = run_until_injected(&hosts, command, &[(0, 2), (0, 3)]);
    ended.failed(137, &["rank 1", "is lost: no store that is left has its checkpoint"]);
}

#[test]
fn a_job_without_a_checkpoint_begins_anew_however_many_hosts_are_lost() {
    let Some(hosts) = Hosts::new(3) else { return };
    let job = replicas(hosts.job(THREE), 1, 1000).option("--inject", "kill rank 2 at barrier 9");
    let command = job.command(&built("laplace"), &checked(&LAPLACE.1));
    let ended = run_until_injected(&hosts, command, &[(0, 2), (0, 3)]);
    ended.is_right();
    ended.said(&["all 5 ranks go on from the beginning"]);
}

#[test]
fn a_host_that_is_lost_ends_the_job_where_that_is_asked_for() {
    let Some(hosts) = Hosts::new(2) else { return };
    let job = replicas(hosts.job(TWO), 1, 5).options("--on-loss fail");
    let ended = lose(&hosts, &job, "laplace", &LONG, &[(400, 2)]);
    ended.failed(125, &["host 10.77.0.2: its agent is gone, and its ranks with it"]);
}

/// As a kernel holds processes that wait for a file server which is gone.
struct Held(i32);

impl Held {
    /// From now on a process that was killed does not end.
    fn new(pid: i32) -> Held {
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: the call takes numbers.
        let done = unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, none, libc::PTRACE_O_TRACEEXIT) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        Held(pid)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let none = std::ptr::null_mut::<libc::c_void>();
        let mut status = 0;
        // If a test has failed, it may live.
        let _ = kill(Pid::from_raw(self.0), Signal::SIGKILL);
        // SAFETY: the call takes numbers, and writes the variable.
        unsafe { libc::waitpid(self.0, &raw mut status, libc::__WALL) };
        // SAFETY: the call takes numbers.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, self.0, none, none) };
    }
}

#[test]
fn a_host_is_lost_whose_ranks_do_not_end_though_they_were_killed() {
    let Some(hosts) = Hosts::new(2) else { return };
    let rank_of = |host: u32| {
        let is_rank = |pid: &i32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.trim() == "until"
        };
        hosts.processes(host).into_iter().find(is_rank).unwrap()
    };
    let job = hosts.job(TWO).options("--replicas 1 --checkpoint every=20");
    let ended = hosts.run_through(job.until(Path::new(env!("CARGO_BIN_EXE_until"))), |front| {
        wait_for_status(front, "copies of each checkpoint: 1, whole");
        let _held = Held::new(rank_of(2));
        kill(Pid::from_raw(rank_of(1)), Signal::SIGKILL).unwrap();
        std::thread::sleep(Duration::from_secs(50));
        wait_for_status(front, "host 10.77.0.1 is there; ranks 0, 1, 2, 3");
        std::thread::sleep(Duration::from_secs(2));
    });
    assert!(!ended.err.contains("is back"), "it was called again: {ended}");
    ended.said(&["host 10.77.0.2: its ranks were killed, and have not ended after 60 s"]);
}
