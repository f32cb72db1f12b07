//! A second launcher goes on with a job by itself when the first one is lost (`scash run --standby HOST`).
//! The results are what they would have been.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use nix::sys::signal::Signal;
use scash_tests::cluster::{
    Ended, FarShell, Hosts, HostsJob, Orphan, observe_losable, run_beside, wait_for_death, wait_for_status,
    wait_for_status_on, wait_until_all_are_gone,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Two hosts of two ranks each, and one that has none.
const THREE: &str = "10.77.0.1:2,10.77.0.2:2,10.77.0.3:spare";
/// Where the launcher is, and where the other one waits.
const HERE: &str = "10.77.0.1";
const THERE: &str = "10.77.0.3";
const WHOLE: &str = "copies of each checkpoint: 1, whole\nanother launcher waits on host 10.77.0.3\n";

const NO_SAY_OF_4: &str = "no say in which launcher goes on: 10.77.0.4\n";

/// Lost hosts stay so.
fn job(hosts: &Hosts, three: &str) -> HostsJob {
    job_with_returns(hosts, three).options("--no-rejoin")
}

fn job_with_returns(hosts: &Hosts, three: &str) -> HostsJob {
    hosts.job(three).options("--replicas 1 --checkpoint every=20 --standby").options(THERE)
}

/// Starts it on the first host, in the directory of these hosts: files will be there.
fn command(hosts: &Hosts, job: &HostsJob) -> Command {
    let mut command = job.until_on(HERE, Path::new(env!("CARGO_BIN_EXE_until")));
    command.current_dir(hosts.file(""));
    command
}

/// Has the job end when the other launcher has gone on with it, and returns what that has printed, when
/// nobody is left.
fn goes_on_there(hosts: &Hosts, words: &str) -> Ended {
    wait_for_status_on(hosts, THERE, words);
    hosts.let_end();
    wait_until_all_are_gone(hosts);
    let [out, err] = ["out", "err"].map(|end| {
        let is_one = |path: &PathBuf| path.extension().is_some_and(|extension| extension == end);
        let files = std::fs::read_dir(hosts.file("")).unwrap().map(|entry| entry.unwrap().path());
        let file = files.filter(|path| path.display().to_string().contains("scash-")).find(is_one);
        let file = file.unwrap_or_else(|| panic!("no file scash-JOB.{end}"));
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(file).unwrap();
        text
    });
    Ended { what: "the other launcher".to_owned(), status: 0, out, err }
}

#[test]
fn the_user_hears_at_once_which_hosts_the_other_launcher_does_not_reach() {
    let Some(hosts) = Hosts::new(3) else { return };
    let find = r#"case "$*" in *" --find "*) exit 7;; esac"#;
    let options = "--replicas 1 --checkpoint every=20 --standby";
    let job = hosts.job_where(THREE, 2, find).options(options).options(THERE);
    let ended = hosts.run_through(job.until(Path::new(env!("CARGO_BIN_EXE_until"))), |front| {
        wait_for_status(front, "it did not reach host 10.77.0.2 when it looked\n");
    });
    ended.said(&[
        "the other launcher, on host 10.77.0.3 (--standby), has not found the agent of host 10.77.0.2",
    ]);
    assert_eq!(ended.err.matches("has not found").count(), 1, "{ended}");
}

#[test]
fn the_other_launcher_goes_on_when_the_first_one_is_lost_alone_or_with_its_host() {
    let Some(hosts) = Hosts::new(3) else { return };
    for (with_host, words, said) in [
        (false, "host 10.77.0.1 is there", "is lost; all 4 ranks go on from barrier"),
        (true, "host 10.77.0.3 is there; ranks 0, 1", "rank 0 comes back on host 10.77.0.3"),
    ] {
        let _ = std::fs::remove_file(hosts.file("end"));
        // On a busy machine a host that is there may be too slow to say so. It comes back, as a spare one.
        let job = if with_host { job(&hosts, THREE) } else { job_with_returns(&hosts, THREE) };
        Orphan::of(&hosts, command(&hosts, &job), |_| {
            wait_for_status_on(&hosts, HERE, WHOLE);
            if with_host {
                hosts.kill(1);
            }
        });
        let ended = goes_on_there(&hosts, words);
        ended.is_right();
        ended.said(&[said]);
    }
}

/// Both hosts that are left miss the first launcher, but one does not come when it is called, the first time.
#[test]
fn the_other_launcher_does_not_go_on_with_fewer_hosts_than_have_a_say() {
    let Some(hosts) = Hosts::new(3) else { return };
    let once = hosts.file("once").display().to_string();
    let fails = format!(r#"case "$*" in *" --of "*) mkdir '{once}' 2> /dev/null && exit 7;; esac"#);
    let options = "--replicas 2 --checkpoint every=20 --no-rejoin --standby";
    let three = "10.77.0.1:1,10.77.0.2:1,10.77.0.3:1";
    let job = hosts.job_where(three, 2, &fails).options(options).options(THERE);
    Orphan::of(&hosts, command(&hosts, &job), |_| {
        wait_for_status_on(&hosts, HERE, "copies of each checkpoint: 2, whole\nanother launcher waits");
        hosts.kill(1);
    });
    let ended = goes_on_there(&hosts, "host 10.77.0.2 is there; rank");
    ended.is_right();
    ended.said(&["1 of the 3 hosts that have a say have come: too few to go on with", "rank 0 comes back"]);
}

/// A host is lost; the first launcher dies as it brings that one's ranks back, and has told no host what is
/// next, or some, or all.
#[test]
fn the_other_launcher_goes_on_when_the_first_one_dies_as_it_does_without_a_host() {
    let Some(hosts) = Hosts::new(3) else { return };
    for moment in ["after recalled", "after ended", "after rewound", "2 after rewound", "after started"] {
        let _ = std::fs::remove_file(hosts.file("end"));
        let dies = format!("kill launcher at recovery {moment}");
        let job = job(&hosts, THREE).option("--inject", &dies);
        Orphan::of(&hosts, command(&hosts, &job), |front| {
            wait_for_status_on(&hosts, HERE, WHOLE);
            hosts.kill(2);
            wait_for_death(front);
        });
        let ended = goes_on_there(&hosts, "host 10.77.0.3 is there; ranks 2, 3");
        ended.is_right();
        ended.went_on();
    }
}

#[test]
fn a_host_that_was_too_slow_to_say_anything_is_told_when_the_job_is_over() {
    let Some(hosts) = Hosts::new(3) else { return };
    Orphan::of(&hosts, command(&hosts, &job(&hosts, THREE)), |_| {
        wait_for_status_on(&hosts, HERE, WHOLE);
        hosts.signal(2, Signal::SIGSTOP);
    });
    wait_for_status_on(&hosts, THERE, "host 10.77.0.2 is lost");
    hosts.signal(2, Signal::SIGCONT);
    let ended = goes_on_there(&hosts, "host 10.77.0.3 is there; ranks 2, 3");
    ended.is_right();
    ended.said(&["rank 2 comes back on host 10.77.0.3"]);
}

#[test]
fn a_launcher_that_is_cut_off_with_the_smaller_part_of_the_hosts_leaves_the_job_to_the_other_one() {
    let Some(hosts) = Hosts::new(3) else { return };
    // Its agents stay.
    let observed = observe_losable(command(&hosts, &job(&hosts, THREE)), Duration::from_secs(100), |_| {
        wait_for_status_on(&hosts, HERE, WHOLE);
        hosts.cut(1);
        true
    });
    hosts.plug_in(1);
    observed.ended.failed(
        125,
        &["1 of the 3 hosts that have a say are left, and with --standby the launcher that has more"],
    );
}

#[test]
fn of_two_halves_that_cannot_reach_each_other_neither_goes_on() {
    let Some(hosts) = Hosts::new(4) else { return };
    let four = "10.77.0.1:1,10.77.0.2:1,10.77.0.3:1,10.77.0.4:1";
    let job = job(&hosts, four).options("--linger 5s");
    let observed = observe_losable(command(&hosts, &job), Duration::from_secs(100), |_| {
        wait_for_status_on(&hosts, HERE, WHOLE);
        hosts.split_off(&[3, 4]);
        true
    });
    let why = "2 of the 4 hosts that have a say are left, and with --standby the launcher";
    observed.ended.failed(125, &[why]);
    wait_until_all_are_gone(&hosts);
    assert_eq!(outputs(&hosts), 0, "the other launcher has printed");
}

/// How many launchers print to files.
fn outputs(hosts: &Hosts) -> usize {
    let files = std::fs::read_dir(hosts.file("")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "out")).count()
}

#[test]
fn hosts_that_are_switched_off_one_after_the_other_do_not_count_against_a_launcher() {
    let Some(hosts) = Hosts::new(4) else { return };
    let four = "10.77.0.1:2,10.77.0.2:spare,10.77.0.3:2,10.77.0.4:spare";
    let ended = hosts.run_through(command(&hosts, &job(&hosts, four)), |_| {
        wait_for_status_on(&hosts, HERE, WHOLE);
        hosts.kill(4);
        wait_for_status_on(&hosts, HERE, NO_SAY_OF_4);
        hosts.kill(2);
        // The other launcher has said that it knows of the first.
        wait_for_status_on(&hosts, HERE, "no say in which launcher goes on: 10.77.0.2, 10.77.0.4\n");
    });
    ended.is_right();
    wait_until_all_are_gone(&hosts);
}

/// Of four hosts two are left, which is not more than half. But the one before was known to be lost.
#[test]
fn the_other_launcher_knows_which_hosts_were_switched_off() {
    let Some(hosts) = Hosts::new(4) else { return };
    let four = "10.77.0.1:2,10.77.0.2:2,10.77.0.3:spare,10.77.0.4:spare";
    Orphan::of(&hosts, command(&hosts, &job(&hosts, four)), |_| {
        wait_for_status_on(&hosts, HERE, WHOLE);
        hosts.kill(4);
        wait_for_status_on(&hosts, HERE, NO_SAY_OF_4);
        hosts.kill(1);
    });
    let ended = goes_on_there(&hosts, "host 10.77.0.3 is there; ranks 0, 1");
    ended.is_right();
    ended.said(&["rank 0 comes back on host 10.77.0.3"]);
}

/// The commands by which agents and the other launcher were called stay when the first launcher is gone.
#[test]
fn after_a_network_has_split_the_launcher_of_the_greater_part_alone_goes_on() {
    let Some(hosts) = Hosts::new(5) else { return };
    let shell = FarShell::new(&hosts);
    let five = "10.77.0.1:1,10.77.0.2:1,10.77.0.3:1,10.77.0.4:1,10.77.0.5:1";
    let job = hosts.job_by(five, shell.path());
    // The first launcher may have ranks go on without one part of the hosts before it misses the rest.
    let job = job.options("--replicas 4 --checkpoint every=20 --no-rejoin --standby").options(THERE);
    let here = job.until(Path::new(env!("CARGO_BIN_EXE_until")));
    let mut command = hosts.job("").on(HERE, here.get_program());
    command.args(here.get_args()).current_dir(hosts.file(""));
    // Its agents stay.
    let limit = Duration::from_secs(100);
    let observed = observe_losable(command, limit, |_| {
        wait_for_status_on(&hosts, HERE, "copies of each checkpoint: 4, whole\nanother launcher waits");
        hosts.split_off(&[3, 4, 5]);
        // From where the other launcher is.
        ["10.77.0.1", "10.77.0.2"].into_iter().for_each(|host| shell.reach_no_more(host));
        true
    });
    let why = "hosts that have a say are left, and with --standby the launcher that has more than half";
    observed.ended.failed(125, &[why]);
    wait_for_status_on(&hosts, THERE, "host 10.77.0.2 is lost");
    // Agents there would wait for a launcher that reaches them.
    for host in [1, 2] {
        hosts.kill(host);
    }
    let ended = goes_on_there(&hosts, "host 10.77.0.3 is there");
    ended.is_right();
    ended.went_on();
    ended.said(&["rank 0 comes back on host 10.77.0.", "is lost; all 5 ranks go on from barrier"]);
}

#[test]
fn the_other_launcher_is_gone_when_the_job_is_over() {
    let Some(hosts) = Hosts::new(3) else { return };
    let ended = hosts.run_through(command(&hosts, &job(&hosts, THREE)), |_| {
        wait_for_status_on(&hosts, HERE, WHOLE);
    });
    assert_eq!(ended.err, "", "{ended}");
    // It may be over before the other launcher has begun to wait.
    for _ in 0..5 {
        let ended = run_beside(command(&hosts, &job(&hosts, THREE)), |_| ());
        ended.is_right();
        assert_eq!(ended.err, "", "{ended}");
    }
}

#[test]
fn another_launcher_that_could_not_go_on_is_refused() {
    let Some(hosts) = Hosts::new(3) else { return };
    let until = Path::new(env!("CARGO_BIN_EXE_until"));
    for (three, options, why) in [
        ("10.77.0.1:2,10.77.0.2:2", "", "--standby: of two hosts none knows"),
        (THREE, "--linger off", "--standby: with --linger off"),
    ] {
        job(&hosts, three).options(options).run(until, &[]).failed(2, &[why]);
    }
}
