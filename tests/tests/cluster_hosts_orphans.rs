//! Jobs on several hosts lose their launcher (`scash run --host … --replicas`), and others go on with them
//! (`scash resume JOB`). The results are what they would have been.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use scash_tests::cluster::built::built;
use scash_tests::cluster::{
    Ended, Hosts, HostsJob, Orphan, children, run, run_beside, wait_for, wait_for_death, wait_for_status,
    wait_for_status_on, wait_until_all_are_gone,
};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Two hosts of two ranks each.
const TWO: &str = "10.77.0.1:2,10.77.0.2:2";
const WHOLE: &str = "copies of each checkpoint: 1, whole\n";

fn replicas(job: HostsJob) -> HostsJob {
    job.options("--replicas 1 --checkpoint every=20")
}

/// A job that has lost its launcher after a checkpoint. The launcher was on no host.
fn orphan(hosts: &Hosts, job: &HostsJob) -> Orphan {
    Orphan::of(hosts, job.until(until()), |front| wait_for_status(front, WHOLE))
}

fn until() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_until"))
}

/// Goes on with a job from a machine that is none of its hosts, until it is whole.
fn goes_on(hosts: &Hosts, orphan: Orphan, first: &str) -> Ended {
    let command = orphan.resume(None, &["--host", first]);
    let ended = orphan.ends_after(hosts, command, |front| wait_for_status(front, WHOLE));
    assert!(!ended.err.contains("from the beginning"), "{ended}");
    ended
}

#[test]
fn a_job_that_has_lost_its_launcher_goes_on_with_another_one() {
    let Some(hosts) = Hosts::new(2) else { return };
    let orphan = orphan(&hosts, &replicas(hosts.job(TWO)));
    wait_for_status_on(&hosts, "10.77.0.2", &format!("job {}-", orphan.job));
    wait_for_status_on(&hosts, "10.77.0.2", "its launcher is lost, and host 10.77.0.2 keeps what it has");
    let ended = goes_on(&hosts, orphan, TWO_NAMES);
    ended.is_right();
    ended.said(&["the launcher of job", "is lost; all 4 ranks go on from barrier"]);
}

#[test]
fn whoever_kills_the_second_process_of_a_launcher_is_told_how_the_job_goes_on() {
    let Some(hosts) = Hosts::new(2) else { return };
    let mut job = 0;
    let ended = run_beside(replicas(hosts.job(TWO)).until(until()), |front| {
        job = front;
        wait_for_status(front, WHOLE);
        let launcher = children(front).into_iter().min().unwrap();
        kill(Pid::from_raw(launcher), Signal::SIGKILL).unwrap();
    });
    ended.failed(
        137,
        &["the launcher's second process was killed by signal 9", &format!("`scash resume {job}`")],
    );
}

#[test]
fn a_job_whose_first_process_is_killed_is_left_to_another_launcher() {
    let Some(hosts) = Hosts::new(2) else { return };
    let (orphan, status) =
        Orphan::left(&hosts, replicas(hosts.job_behind_shell(TWO)).until(until()), |front| {
            wait_for_status(front, WHOLE);
            let launcher = children(front).into_iter().min().unwrap();
            kill(Pid::from_raw(front), Signal::SIGKILL).unwrap();
            wait_for_death(launcher);
        });
    assert_eq!(status, None, "{}", orphan.said());
    assert!(orphan.said().contains(&format!("`scash resume {}-", orphan.job)), "{}", orphan.said());
    goes_on(&hosts, orphan, TWO_NAMES).is_right();
}

/// It is being built anew, as it were, when ranks are to be started again.
#[test]
fn a_job_whose_program_is_nowhere_for_a_moment_is_left_to_another_launcher() {
    let Some(hosts) = Hosts::new(2) else { return };
    let [program, away] = ["program", "away"].map(|name| hosts.file(name));
    std::fs::copy(until(), &program).unwrap();
    let (orphan, status) =
        Orphan::left(&hosts, replicas(hosts.job_behind_shell(TWO)).until(&program), |front| {
            wait_for_status(front, WHOLE);
            std::fs::rename(&program, &away).unwrap();
            let is_rank = |pid: &i32| {
                std::fs::read_to_string(format!("/proc/{pid}/comm"))
                    .is_ok_and(|name| name.trim() == "program")
            };
            let rank = hosts.processes(1).into_iter().find(is_rank).unwrap();
            kill(Pid::from_raw(rank), Signal::SIGKILL).unwrap();
        });
    assert_eq!(status, Some(125), "{}", orphan.said());
    assert!(orphan.said().contains(&format!("`scash resume {}-", orphan.job)), "{}", orphan.said());
    std::fs::rename(&away, &program).unwrap();
    goes_on(&hosts, orphan, TWO_NAMES).is_right();
}

#[test]
fn what_a_full_disk_has_not_taken_is_printed_by_another_launcher() {
    let Some(hosts) = Hosts::new(2) else { return };
    let out = hosts.file("out");
    std::os::unix::fs::symlink("/dev/full", &out).unwrap();
    let job = replicas(hosts.job_behind_shell(TWO));
    let program = job.command(until(), &[&hosts.file("end").to_string_lossy(), "breaks"]);
    let (orphan, status) = Orphan::left(&hosts, program, |front| {
        // Its launcher has it open.
        std::fs::remove_file(&out).unwrap();
        std::fs::write(&out, "").unwrap();
        wait_for_status(front, WHOLE);
        hosts.let_end();
    });
    assert_eq!(status, Some(125), "{}", orphan.said());
    let words = [
        "cannot write to standard output: No space left on device; for ",
        &format!("`scash resume {}-", orphan.job),
    ];
    words.iter().for_each(|words| assert!(orphan.said().contains(words), "{}", orphan.said()));
    let ended = orphan.ends(TWO_NAMES);
    assert!(ended.status == 0 && ended.out.contains(r#""check":"equal""#), "{ended}");
    ended.said(&["the job had ended: what it had printed and nobody has seen follows"]);
    for rank in 0..4 {
        // A line without an end is printed, too.
        assert_eq!(ended.out.matches(&format!("rank {rank} breaks o")).count(), 1, "{ended}");
    }
}

#[test]
fn the_host_of_the_launcher_is_lost_and_its_ranks_come_back_on_the_host_that_is_left() {
    let Some(hosts) = Hosts::new(2) else { return };
    let job = replicas(hosts.job(TWO));
    let orphan = Orphan::of(&hosts, job.until_on("10.77.0.1", until()), |_| {
        wait_for_status_on(&hosts, "10.77.0.1", WHOLE);
        hosts.kill(1);
        std::thread::sleep(Duration::from_millis(100));
    });
    let command = orphan.resume(Some("10.77.0.2"), &["--host", "10.77.0.2"]);
    let ended = orphan.ends_after(&hosts, command, |_| {
        wait_for_status_on(&hosts, "10.77.0.2", "host 10.77.0.2 is there; ranks 0, 1, 2, 3");
    });
    ended.is_right();
    ended.said(&["rank 0 comes back on host 10.77.0.2", "rank 1 comes back on host 10.77.0.2"]);
}

#[test]
fn all_hosts_are_called_and_those_that_keep_nothing_are_lost_and_come_back() {
    let Some(hosts) = Hosts::new(2) else { return };
    let orphan = orphan(&hosts, &replicas(hosts.job(TWO)));
    hosts.kill(1);
    let command = orphan.resume(Some("10.77.0.2"), &[]);
    let ended = orphan.ends_after(&hosts, command, |_| {
        wait_for_status_on(&hosts, "10.77.0.2", "host 10.77.0.1 is there; ranks 0, 1");
    });
    ended.is_right();
    ended.said(&["host 10.77.0.1: nothing is kept of job", "host 10.77.0.1 is back"]);
    assert!(!ended.err.contains("cannot be saved"), "nothing of the launcher's is in ranks: {ended}");
}

/// It is lost for the new launcher when that has waited for it long enough (30 s), and comes back as others
/// do.
#[test]
fn a_host_whose_agent_does_not_answer_is_left_behind_and_may_come_back() {
    let Some(hosts) = Hosts::new(2) else { return };
    let orphan = orphan(&hosts, &replicas(hosts.job(TWO)));
    hosts.signal(2, Signal::SIGSTOP);
    let command = orphan.resume(None, &["--host", TWO_NAMES]);
    let ended = orphan.ends_after(&hosts, command, |front| {
        wait_for_status(front, "host 10.77.0.2 is lost");
        hosts.signal(2, Signal::SIGCONT);
        wait_for_status(front, "host 10.77.0.2 is there; ranks 2, 3");
    });
    ended.is_right();
    ended.said(&["has brought no agent that is ready in 30 s", "rank 2 comes back on host 10.77.0.1"]);
    ended.said(&["host 10.77.0.2 is back"]);
}

#[test]
fn a_launcher_is_lost_at_any_instant_also_while_ranks_come_back_and_so_is_the_next_one() {
    let Some(hosts) = Hosts::new(2) else { return };
    let job =
        replicas(hosts.job(TWO)).option("--inject", "kill rank 3 at barrier with probability 0.001 seed 5");
    for milliseconds in [0, 10, 20, 30, 40, 60, 80, 200] {
        let _ = std::fs::remove_file(hosts.file("end"));
        let pause = || std::thread::sleep(Duration::from_millis(milliseconds));
        let orphan = Orphan::of(&hosts, job.until(until()), |front| {
            wait_for_status(front, WHOLE);
            pause();
        });
        let command = orphan.resume(None, &["--host", TWO_NAMES]);
        let orphan = orphan.is_lost_again(&hosts, command, |_| pause());
        goes_on(&hosts, orphan, TWO_NAMES).is_right();
    }
}

const TWO_NAMES: &str = "10.77.0.1,10.77.0.2";

#[test]
fn ranks_of_a_lost_host_go_back_to_it_under_the_next_launcher_too() {
    let Some(hosts) = Hosts::new(2) else { return };
    let orphan = Orphan::of(&hosts, replicas(hosts.job(TWO)).until(until()), |front| {
        wait_for_status(front, WHOLE);
        hosts.kill(2);
        wait_for_status(front, "copies of each checkpoint: 0 of 1");
    });
    let command = orphan.resume(None, &["--host", "10.77.0.1"]);
    let ended = orphan.ends_after(&hosts, command, |front| {
        wait_for_status(front, "host 10.77.0.2 is there; ranks 2, 3");
    });
    ended.is_right();
    ended.said(&["rank 2 comes back on host 10.77.0.1", "host 10.77.0.2 is back"]);
}

#[test]
fn what_ranks_have_printed_is_neither_lost_nor_said_twice_if_launchers_had_the_time_to_print_it() {
    let Some(hosts) = Hosts::new(2) else { return };
    let phoenix = Path::new(env!("CARGO_BIN_EXE_phoenix"));
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let expected = hosts.job(TWO).run(phoenix, &["loud"]);
    let job = hosts.job(TWO).options("--replicas 1 --checkpoint every=2");
    let job = job.option("--inject", "stop rank 3 for 4s at barrier 17");
    let orphan = Orphan::of(&hosts, job.command(phoenix, &["loud"]), |_| {
        std::thread::sleep(Duration::from_secs(2));
    });
    let ended = orphan.ends(TWO_NAMES);
    assert_eq!(ended.status, 0, "{ended}");
    assert_eq!(sorted(&ended.out), sorted(&expected.out), "{ended}");
}

#[test]
fn whoever_goes_on_with_a_job_while_its_launcher_is_dying_waits_until_that_is_gone() {
    let Some(hosts) = Hosts::new(2) else { return };
    let (rsh, asked) = (hosts.file("slow"), hosts.file("asked"));
    let script = format!("#!/bin/sh\n{} \"$@\"\ntouch {}\n", hosts.file("rsh").display(), asked.display());
    std::fs::write(&rsh, script).unwrap();
    std::fs::set_permissions(&rsh, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut resuming = None;
    let orphan = Orphan::of(&hosts, replicas(hosts.job(TWO)).until(until()), |front| {
        wait_for_status(front, WHOLE);
        let mut command = Command::new(built("scash"));
        command.args(["resume", &front.to_string(), "--host", TWO_NAMES, "--rsh"]).arg(&rsh);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        resuming = Some(command.spawn().unwrap());
        // The launcher is there when the agent is asked first, and for a while after.
        let started = Instant::now();
        while !asked.exists() {
            assert!(started.elapsed() < Duration::from_secs(60), "nobody asks the agent");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(500));
    });
    let resuming = resuming.unwrap();
    wait_for_status(i32::try_from(resuming.id()).unwrap(), WHOLE);
    hosts.let_end();
    let output = resuming.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let goes_on = format!("the launcher of job {}", orphan.job);
    assert!(output.status.success() && said.contains(&goes_on), "{output:?}");
    wait_until_all_are_gone(&hosts);
}

#[test]
fn an_agent_that_misses_its_launcher_later_than_others_is_asked_again() {
    let Some(hosts) = Hosts::new(2) else { return };
    let _ = hosts.job(TWO);
    // The remote shell holds the agent's pipes open for a while, as a network does that has failed.
    let late = format!("(cat; sleep 5) | {} $host \"$@\" | cat\nexit", hosts.file("rsh").display());
    let orphan = orphan(&hosts, &replicas(hosts.job_where(TWO, 2, &late)));
    let started = Instant::now();
    let command = orphan.resume(None, &["--host", TWO_NAMES]);
    let ended = orphan.ends_after(&hosts, command, |front| {
        wait_for_status(front, WHOLE);
        assert!(started.elapsed() > Duration::from_secs(2), "the agent was missing its launcher at once");
    });
    ended.is_right();
    ended.said(&["is lost; all 4 ranks go on from barrier"]);
}

#[test]
fn nobody_has_a_host_begin_with_nothing_while_another_one_is_asked_what_it_keeps() {
    let Some(hosts) = Hosts::new(2) else { return };
    let _ = hosts.job(TWO);
    let late = format!("(cat; sleep 15) | {} $host \"$@\" | cat\nexit", hosts.file("rsh").display());
    let orphan = orphan(&hosts, &replicas(hosts.job_where(TWO, 2, &late)));
    let command = orphan.resume(None, &["--host", "10.77.0.2"]);
    let ended = orphan.ends_after(&hosts, command, |front| {
        wait_for("the launcher", || {
            let mut rejoin = Command::new(built("scash"));
            rejoin.args(["rejoin", &front.to_string(), "10.77.0.1"]);
            run(rejoin).err.contains("other hosts are still being called").then_some(())
        });
        wait_for_status(front, WHOLE);
    });
    ended.is_right();
    ended.said(&["is lost; all 4 ranks go on from barrier"]);
}

#[test]
fn a_job_that_has_its_launcher_is_left_alone() {
    let Some(hosts) = Hosts::new(2) else { return };
    let job = replicas(hosts.job(TWO));
    let rsh = hosts.file("rsh");
    let ended = hosts.run_through(job.until(until()), |front| {
        wait_for_status(front, WHOLE);
        let mut command = Command::new(built("scash"));
        command.args(["resume", &front.to_string(), "--host", TWO_NAMES, "--rsh"]).arg(&rsh);
        let refused = run(command);
        refused
            .refused(&["its agent has a launcher, which said something", "the job goes on without this one"]);
    });
    assert_eq!(ended.err, "", "{ended}");
}

#[test]
fn agents_do_not_wait_for_longer_than_the_user_wants() {
    let Some(hosts) = Hosts::new(2) else { return };
    let orphan = orphan(&hosts, &replicas(hosts.job(TWO)).options("--linger 500ms"));
    std::thread::sleep(Duration::from_secs(1));
    let command = orphan.resume(Some("10.77.0.1"), &[]);
    // That nothing is left is checked for it.
    orphan.ends_by(command).refused(&["no agent of job", "say with --host"]);
}

#[test]
fn an_interrupt_while_agents_are_called_leaves_the_job_to_the_next_launcher() {
    let Some(hosts) = Hosts::new(2) else { return };
    let orphan = orphan(&hosts, &replicas(hosts.job(TWO)));
    hosts.kill(1);
    // A host that does not answer: the agent of the other one has been called by then.
    let silent = hosts.file("silent");
    std::fs::write(
        &silent,
        format!(
            "#!/bin/sh\n[ $1 = 10.77.0.1 ] && exec sleep 60\nexec {} \"$@\"\n",
            hosts.file("rsh").display()
        ),
    )
    .unwrap();
    std::fs::set_permissions(&silent, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = orphan.resume(None, &["--host", "10.77.0.2,10.77.0.1", "--rsh"]);
    command.arg(&silent).process_group_of_its_own();
    let mut child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    // SAFETY: the call takes numbers; the child was not waited for.
    unsafe { libc::kill(i32::try_from(child.id()).unwrap(), libc::SIGINT) };
    assert_eq!(child.wait().unwrap().code(), Some(130));
    hosts.let_end();
    orphan.ends("10.77.0.2").is_right();
}

/// A terminal's Ctrl-C is not meant.
trait OfItsOwn {
    fn process_group_of_its_own(&mut self) -> &mut Self;
}

impl OfItsOwn for Command {
    fn process_group_of_its_own(&mut self) -> &mut Self {
        std::os::unix::process::CommandExt::process_group(self, 0)
    }
}

#[test]
fn a_job_that_is_not_there_and_a_host_that_is_none_of_its_are_refused() {
    let Some(hosts) = Hosts::new(2) else { return };
    let orphan = orphan(&hosts, &replicas(hosts.job(TWO)));
    let wrong = orphan.resume(None, &["--host", "10.77.0.2,10.77.0.9"]);
    let ended = run_to_an_error(wrong);
    assert!(ended.contains("has no host 10.77.0.9: its hosts are 10.77.0.1, 10.77.0.2"), "{ended}");
    goes_on(&hosts, orphan, TWO_NAMES).is_right();
    let mut none = Command::new(built("scash"));
    none.args(["resume", "999999999"]);
    run(none).refused(&["no agent of job 999999999 is here; say with --host where it has been"]);
}

/// Ranks of the host before have copies on it, and no others have them.
#[test]
fn a_launcher_that_reaches_too_few_hosts_leaves_the_job_to_one_that_reaches_more() {
    let Some(hosts) = Hosts::new(3) else { return };
    let job = replicas(hosts.job("10.77.0.1:1,10.77.0.2:1,10.77.0.3:1"));
    let orphan = orphan(&hosts, &job);
    let said = run_to_an_error(orphan.resume(None, &["--host", "10.77.0.1"]));
    assert!(said.contains("rank 1 is lost: no store that is left has "), "{said}");
    assert!(
        said.contains(&format!("`scash resume {}-", orphan.job))
            && said.contains("goes on with what hosts keep"),
        "{said}"
    );
    goes_on(&hosts, orphan, "10.77.0.1,10.77.0.2,10.77.0.3").is_right();
}

/// It has no store of any rank, and so nothing that would tell of a checkpoint; but it was told of them.
#[test]
fn a_launcher_that_reaches_a_spare_host_alone_does_not_begin_anew() {
    let Some(hosts) = Hosts::new(3) else { return };
    let job = replicas(hosts.job("10.77.0.1:2,10.77.0.2:2,10.77.0.3:spare"));
    let orphan = orphan(&hosts, &job);
    let said = run_to_an_error(orphan.resume(None, &["--host", "10.77.0.3"]));
    assert!(said.contains("is lost: no store that is left has its checkpoint of epoch "), "{said}");
    let ended = goes_on(&hosts, orphan, "10.77.0.1,10.77.0.2,10.77.0.3");
    ended.is_right();
    ended.went_on();
}

/// On its machine there is no hostfile, no program and no directory of those names.
#[test]
fn a_launcher_on_a_machine_that_has_no_file_of_the_job_goes_on_with_it() {
    let Some(hosts) = Hosts::new(2) else { return };
    let above = hosts.file("above");
    let there = above.join("there");
    std::fs::create_dir_all(&there).unwrap();
    std::fs::copy(until(), there.join("until")).unwrap();
    std::fs::write(there.join("hosts"), "10.77.0.1 slots=2\n10.77.0.2 slots=2\n").unwrap();
    let mut command = replicas(hosts.job_of_file("hosts")).until(Path::new("until"));
    let path = [there.as_os_str(), &std::env::var_os("PATH").unwrap()].join(":".as_ref());
    command.current_dir(&there).env("PATH", path);
    let orphan = Orphan::of(&hosts, command, |front| wait_for_status(front, WHOLE));
    let resume = orphan.resume(None, &["--host", TWO_NAMES]);
    let mut elsewhere = Command::new("unshare");
    elsewhere.args(["--mount", "sh", "-c", "mount -t tmpfs none \"$0\" && exec \"$@\""]).arg(&above);
    elsewhere.arg(resume.get_program()).args(resume.get_args());
    elsewhere.envs(resume.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ended = orphan.ends_after(&hosts, elsewhere, |front| wait_for_status(front, WHOLE));
    ended.is_right();
    ended.went_on();
}

/// Host 3 has rebooted after the newest checkpoint, and knows of it as the launcher has told it.
#[test]
fn a_launcher_that_reaches_only_a_host_that_had_just_come_back_does_not_begin_anew() {
    let Some(hosts) = Hosts::new(3) else { return };
    let job = hosts.job("10.77.0.1:2,10.77.0.2:2,10.77.0.3:spare");
    // No other checkpoint follows.
    let job = job.options("--replicas 1 --checkpoint every=1000000");
    let mut command = job.until(until());
    command.arg("checkpoint");
    let orphan = Orphan::of(&hosts, command, |front| {
        wait_for_status(front, WHOLE);
        hosts.kill(3);
        wait_for_status(front, "host 10.77.0.3 is lost");
        wait_for_status(front, "host 10.77.0.3 is there");
    });
    let said = run_to_an_error(orphan.resume(None, &["--host", "10.77.0.3"]));
    assert!(said.contains("is lost: no store that is left has its checkpoint of epoch "), "{said}");
    let command = orphan.resume(None, &["--host", "10.77.0.1,10.77.0.2,10.77.0.3"]);
    let ended = orphan.ends_after(&hosts, command, |front| {
        wait_for_status(front, "host 10.77.0.1 is there; ranks 0, 1");
    });
    ended.is_right();
    ended.went_on();
}

/// Ranks wait for host 2, which comes back with nothing. The launcher dies before anything is copied to it,
/// or when it has, and was told to start its rank or not. All that this had printed was seen.
#[test]
fn what_a_rank_had_printed_whose_host_had_come_back_when_the_launcher_died_comes_once() {
    let Some(hosts) = Hosts::new(2) else { return };
    let chatty = Path::new(env!("CARGO_BIN_EXE_chatty"));
    let directory = hosts.file("");
    let arguments = ["100", directory.to_str().unwrap(), "0", "early"];
    hosts.let_end();
    let two = "10.77.0.1,10.77.0.2";
    let undisturbed = hosts.job(two).run(chatty, &arguments);
    let expected = undisturbed.sorted();
    for moment in ["after ended", "after rewound", "2 after rewound", "after started"] {
        std::fs::remove_file(hosts.file("end")).unwrap();
        let job = replicas(hosts.job(two)).options("--on-loss wait");
        let job = job.option("--inject", &format!("kill launcher at recovery {moment}"));
        let orphan = Orphan::of(&hosts, job.command(chatty, &arguments), |front| {
            let seen = || std::fs::read_to_string(hosts.file("out")).unwrap().lines().count();
            wait_for("output", || (seen() == expected.len()).then_some(()));
            wait_for_status(front, WHOLE);
            hosts.kill(2);
            wait_for_death(front);
        });
        let command = orphan.resume(None, &["--host", two]);
        let ended = orphan.ends_after(&hosts, command, |front| wait_for_status(front, WHOLE));
        assert_eq!((ended.status, ended.sorted()), (0, expected.clone()), "{moment}: {ended}");
    }
}

/// Rank 1 has its store on host 2, and a copy on host 3 alone, which is dead.
#[test]
fn hosts_that_a_launcher_does_not_call_at_first_bring_what_they_have_kept_while_ranks_wait_for_them() {
    let Some(hosts) = Hosts::new(3) else { return };
    let job = replicas(hosts.job("10.77.0.1:1,10.77.0.2:1,10.77.0.3:1")).options("--on-loss wait");
    let orphan = orphan(&hosts, &job);
    hosts.kill(3);
    let ended = goes_on(&hosts, orphan, "10.77.0.1");
    ended.is_right();
    ended.said(&["host 10.77.0.2 is back, with what it has kept", "all 3 ranks go on from barrier"]);
    assert!(ended.err.lines().any(|line| line.ends_with("host 10.77.0.3 is back")), "{ended}");
}

fn run_to_an_error(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}
