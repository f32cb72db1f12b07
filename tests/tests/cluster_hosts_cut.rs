//! Hosts of a job are cut off from the launcher, which is on one of them (`scash run --host … --replicas`):
//! it misses them by what their systems answer (`--heartbeat`), and takes them in when they are plugged in
//! again.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use scash_tests::cluster::built::built;
use scash_tests::cluster::wait_for as wait_for_some;
use scash_tests::cluster::{
    Ended, FarShell, Hosts, HostsJob, MARK, Orphan, hung_up, new_mark, run, run_beside,
};
use scash_tests::cluster::{launcher, rank_of, wait_for_status_on, wait_until_all_are_gone};
use std::path::Path;
use std::process::Command;
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
    let ended = hosts.run_through(job.until_on(HERE, Path::new(env!("CARGO_BIN_EXE_until"))), |front| {
        wait_for(job, front, "copies of each checkpoint: 1, whole\n");
        act(front);
    });
    assert!(!ended.err.contains("from the beginning"), "{ended}");
    ended
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
fn nobody_is_missed_after_all_machines_have_stood_still_for_long() {
    let Some(hosts) = Hosts::new(3) else { return };
    let job = replicas(hosts.job(THREE));
    let ended = run_through(&hosts, &job, |front| {
        (1..=3).for_each(|host| hosts.signal(host, Signal::SIGSTOP));
        std::thread::sleep(Duration::from_secs(22));
        // The launcher goes on first, before any agent can say anything.
        let launcher = launcher(front).unwrap();
        kill(Pid::from_raw(launcher), Signal::SIGCONT).unwrap();
        std::thread::sleep(Duration::from_millis(500));
        (1..=3).for_each(|host| hosts.signal(host, Signal::SIGCONT));
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
fn a_host_is_left_out_whose_ranks_come_back_and_cannot_reach_others() {
    let Some(hosts) = Hosts::new(3) else { return };
    let job = replicas(hosts.job(THREE));
    let ended = run_through(&hosts, &job, |front| {
        hosts.part(2, 3);
        // All start again before any of them has missed another one.
        kill_a_rank(&hosts, 1);
        wait_for(&job, front, "host 10.77.0.3 is lost");
        wait_for(&job, front, "copies of each checkpoint: 1, whole\n");
    });
    ended.said(&[
        "host 10.77.0.3: its agent answers, and ranks of other hosts cannot reach its ranks: rank ",
        " is out of reach: ",
        "rank 3 comes back on host",
    ]);
}

#[test]
fn ranks_that_have_never_reached_each_other_end_the_job_though_hosts_may_be_lost() {
    let Some(hosts) = Hosts::new(3) else { return };
    hosts.part(2, 3);
    let job = replicas(hosts.job(THREE));
    let ended = run(job.until_on(HERE, Path::new(env!("CARGO_BIN_EXE_until"))));
    ended.failed(1, &["has lost another rank: rank ", " is out of reach: ", "ending the other ranks"]);
    hosts.join(2, 3);
}

fn kill_a_rank(hosts: &Hosts, host: u32) {
    let rank = hosts.processes(host).into_iter().find(|pid| rank_of(*pid).is_some()).unwrap();
    kill(Pid::from_raw(rank), Signal::SIGKILL).unwrap();
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

/// It is not the other one that is left out, which has fewer ranks, though ranks say of both that they cannot
/// be reached, before the launcher misses the one that is down.
#[test]
fn without_heartbeats_a_host_that_is_down_is_lost_and_not_the_one_that_misses_it() {
    let Some(hosts) = Hosts::new(3) else { return };
    let job = replicas(hosts.job("10.77.0.2,10.77.0.3:2")).options("--heartbeat off --no-rejoin");
    let ended = run_through(&hosts, &job, |front| {
        hosts.cut(3);
        hosts.signal(3, Signal::SIGSTOP);
        wait_for(&job, front, "host 10.77.0.3 is lost");
        wait_for(&job, front, "host 10.77.0.2 is there; ranks 0, 1, 2");
    });
    ended.said(&[
        "host 10.77.0.3: its agent has said nothing for 20 s",
        "rank 1 comes back on host 10.77.0.2",
    ]);
}

/// The command that starts the program `until` by that remote shell, for a launcher that is on a host where
/// no rank is.
fn far_job(hosts: &Hosts, shell: &FarShell, options: &str, failures: &[&str]) -> Command {
    far_job_of("10.77.0.2,10.77.0.3", hosts, shell, options, failures)
}

fn far_job_of(names: &str, hosts: &Hosts, shell: &FarShell, options: &str, failures: &[&str]) -> Command {
    let job = replicas(hosts.job_by(names, shell.path())).options(options);
    let job = failures.iter().fold(job, |job, failure| job.option("--inject", failure));
    let there = job.until(Path::new(env!("CARGO_BIN_EXE_until")));
    let mut command = hosts.job("").on(HERE, there.get_program());
    command.args(there.get_args());
    command
}

/// Where a rank of the host stands that is cut off, and what goes before.
const POINTS: [(&str, &[&str]); 16] = [
    ("barrier 45 after enter", &[]),
    ("barrier 46 after flush", &[]),
    ("barrier 46 after meet", &[]),
    ("barrier 47 after done", &[]),
    ("checkpoint 2 after due", &[]),
    ("checkpoint 2 after stop", &[]),
    ("checkpoint 2 after copy", &[]),
    ("checkpoint 2 after fence", &[]),
    ("checkpoint 2 after mark", &[]),
    ("checkpoint 2 after meet", &[]),
    ("checkpoint 2 after done", &[]),
    ("image 1 after restored in incarnation 1", &["kill rank 0 at barrier 45"]),
    ("image 1 after described in incarnation 1", &["kill rank 0 at barrier 45"]),
    ("recovery 1 after joined in incarnation 1", &["kill rank 0 at barrier 45"]),
    ("recovery 1 after copied in incarnation 1", &["kill rank 0 at barrier 45"]),
    ("recovery 1 after resumed in incarnation 1", &["kill rank 0 at barrier 45"]),
];

/// Runs a job once for each point, and has `cut` see to the last host when its rank is stopped there, for two
/// seconds. Returns what was said each time, and how many ranks had died of themselves.
fn is_cut_at_each_point(options: &str, cut: impl Fn(&Hosts)) -> Vec<(Ended, usize)> {
    let Some(hosts) = Hosts::new(3) else { return Vec::new() };
    let shell = FarShell::new(&hosts);
    let run = |(point, before): &(&str, &[&str])| {
        let stop = format!("stop rank 1 for 2s at {point}");
        let failures = [&[stop.as_str()], *before].concat();
        let ended = hosts.run_through(far_job(&hosts, &shell, options, &failures), |_| {
            wait_for_some("stopped rank", || (hosts.stopped(3) > 0).then_some(()));
            cut(&hosts);
        });
        assert!(!ended.err.contains("from the beginning"), "{point}: {ended}");
        (ended, before.len())
    };
    POINTS.iter().map(run).collect()
}

#[test]
fn a_cut_at_each_point_that_heals_before_anybody_misses_the_host_changes_nothing() {
    // With a heartbeat that takes its time, nobody is missed.
    let all = is_cut_at_each_point("--heartbeat 5s", |hosts| {
        hosts.cut(3);
        std::thread::sleep(Duration::from_millis(400));
        hosts.plug_in(3);
    });
    for (ended, died) in all {
        assert_eq!(ended.err.lines().filter(|line| !hung_up(line)).count(), died, "{ended}");
    }
}

/// The host stands still meanwhile. Its agent and its rank go on behind the cut as if nothing had been.
fn a_host_that_was_done_without_does_no_harm(others: &str) {
    let all = is_cut_at_each_point("", |hosts| {
        hosts.signal(3, Signal::SIGSTOP);
        hosts.cut(3);
        wait_for_status_on(hosts, HERE, "host 10.77.0.3 is lost");
        wait_for_status_on(hosts, HERE, others);
        hosts.plug_in(3);
        hosts.signal(3, Signal::SIGCONT);
        wait_for_status_on(hosts, HERE, "host 10.77.0.3 is there; ranks 1");
    });
    for (ended, _) in all {
        ended.said(&["rank 1 comes back on host 10.77.0.2", "host 10.77.0.3 is back"]);
    }
}

#[test]
fn a_cut_at_each_point_may_heal_when_the_host_has_just_been_missed() {
    a_host_that_was_done_without_does_no_harm("host 10.77.0.3 is lost");
}

#[test]
fn a_cut_at_each_point_may_heal_when_the_others_have_gone_on() {
    a_host_that_was_done_without_does_no_harm("host 10.77.0.2 is there; ranks 0, 1");
}

#[test]
fn a_launcher_that_reaches_no_host_for_a_while_leaves_the_job_to_the_next_one() {
    let Some(hosts) = Hosts::new(3) else { return };
    let shell = FarShell::new(&hosts);
    let (mut job, mark) = (String::new(), new_mark());
    let ended = run_beside(far_job(&hosts, &shell, "", &[]), |front| {
        wait_for_status_on(&hosts, HERE, "copies of each checkpoint: 1, whole\n");
        hosts.cut(1);
        job = front.to_string();
    });
    ended.failed(125, &["it has not answered for ", &format!("`scash resume {job}")]);
    hosts.plug_in(1);
    hosts.let_end();
    let mut command = Command::new(built("scash"));
    command.args(["resume", &job, "--host", "10.77.0.3"]).env(MARK, mark);
    command.env("SCASH_RSH", hosts.file("rsh"));
    let ended = run(command);
    ended.is_right();
    ended.went_on();
    wait_until_all_are_gone(&hosts);
}

/// The hosts that are cut off from the launcher keep all that their ranks need, and commands reach them.
#[test]
fn hosts_that_are_lost_together_keep_what_they_have_though_ranks_wait_for_them() {
    let Some(hosts) = Hosts::new(3) else { return };
    let shell = FarShell::new(&hosts);
    let command = far_job_of(THREE, &hosts, &shell, "--on-loss wait --wait-for 60s", &[]);
    let (orphan, status) = Orphan::left(&hosts, command, |_| {
        wait_for_status_on(&hosts, HERE, "copies of each checkpoint: 1, whole\n");
        hosts.cut(1);
    });
    assert_eq!(status, Some(125), "{}", orphan.said());
    hosts.plug_in(1);
    let resume = orphan.resume(Some(HERE), &["--host", "10.77.0.1,10.77.0.2,10.77.0.3"]);
    let ended = orphan.ends_after(&hosts, resume, |_| {
        wait_for_status_on(&hosts, HERE, "copies of each checkpoint: 1, whole\n");
    });
    ended.is_right();
    assert!(!ended.err.contains("from the beginning"), "{ended}");
}

#[test]
fn a_host_is_not_taken_in_before_its_former_agent_has_ended() {
    let Some(hosts) = Hosts::new(3) else { return };
    let shell = FarShell::new(&hosts);
    let ended = hosts.run_through(far_job(&hosts, &shell, "", &[]), |_| {
        wait_for_status_on(&hosts, HERE, "copies of each checkpoint: 1, whole\n");
        hosts.signal(3, Signal::SIGSTOP);
        hosts.cut(3);
        wait_for_status_on(&hosts, HERE, "host 10.77.0.3 is lost");
        hosts.plug_in(3);
        wait_for_status_on(&hosts, HERE, "an agent of this job is here that does not end");
        hosts.signal(3, Signal::SIGCONT);
        wait_for_status_on(&hosts, HERE, "host 10.77.0.3 is there");
    });
    ended.said(&["host 10.77.0.3 is back"]);
    wait_until_all_are_gone(&hosts);
}
