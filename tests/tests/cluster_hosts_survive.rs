//! Ranks of jobs on several hosts, which are network namespaces, are killed, and come back
//! (`scash run --host … --replicas`): the results are what they would have been.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use scash_tests::cluster::built::built;
use scash_tests::cluster::{Ended, Hosts, HostsJob, MARK, hung_up, new_mark, run, run_beside};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Points at which ranks can be killed, each passed in a run of the programs below.
const POINTS: [&str; 18] = [
    "kill rank 1 at barrier 7 after enter",
    "kill rank 0 at barrier 8 after flush",
    "kill rank 2 at barrier 8 after meet",
    "kill rank 1 at barrier 9 after done",
    "kill rank 0 at checkpoint 2 after due",
    "kill rank 1 at checkpoint 2 after stop",
    "kill rank 2 at checkpoint 1 after copy",
    "kill rank 0 at checkpoint 2 after fence",
    "kill rank 1 at checkpoint 2 after mark",
    "kill rank 0 at checkpoint 1 after meet",
    "kill rank 2 at checkpoint 2 after done",
    "kill all ranks at checkpoint 2 after mark",
    "kill all ranks at barrier 5 after meet",
    "stop rank 1 for 20ms at checkpoint 2 after copy",
    // In the process that has come back, which barrier 7 of the first has made necessary.
    "kill rank 0 at image after restored",
    "kill rank 1 at recovery after joined",
    "kill rank 2 at recovery after copied",
    "kill rank 0 at recovery after resumed",
];

const LAPLACE: [&str; 4] = ["--size", "126", "--iterations", "40"];
const LU: [&str; 4] = ["--size", "256", "--block", "16"];

/// Two hosts of two ranks each.
const TWO: &str = "10.77.0.1:2,10.77.0.2:2";
/// Three hosts of one to three ranks.
const THREE: &str = "10.77.0.1,10.77.0.2:3,10.77.0.3:2";

/// Functions for scripts of ranks: the parent of a process, and the processes between a rank and the shell.
const FAMILY: &str = r#"
parent() { cut -d' ' -f4 "/proc/$1/stat"; }
agent=$PPID; agent_front=$(parent $agent); launcher=$(parent $agent_front); front=$(parent $launcher)
"#;

/// A script that ends when it is killed, or at last after a minute.
const WAIT: &str = "sleep 60 & wait";

fn replicas(job: HostsJob, every: u32, deaths: &[&str]) -> HostsJob {
    let job = job.options(&format!("--replicas 1 --checkpoint every={every}"));
    deaths.iter().fold(job, |job, death| job.option("--inject", death))
}

/// Checks that an application's result is bitwise that of the sequential program. Returns how often ranks
/// came back.
fn is_the_same(ended: &Ended, ranks: u32) -> usize {
    assert_eq!(ended.is_right()["ranks"], ranks, "{ended}");
    came_back(ended)
}

/// How often ranks were started again. There is nothing else on stderr, but that a rank may have been killed
/// while others connected with it.
fn came_back(ended: &Ended) -> usize {
    let times = |line: &str| {
        assert!(
            line.contains(" on host 10.77.0.") && line.contains(" was killed by SIGKILL; all "),
            "{ended}"
        );
        let several = line.rsplit_once(" and ").and_then(|(_, times)| times.strip_suffix(" restarts"));
        several.map_or(1, |times| times.parse().unwrap())
    };
    ended.err.lines().filter(|line| !hung_up(line)).map(times).sum()
}

/// The arguments of an application that compares its result.
fn checked<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [arguments, &["--check", "--json"]].concat()
}

fn dies_at_each_point(list: &str, ranks: u32, provider: &str, program: &str, arguments: &[&str]) {
    let Some(hosts) = Hosts::new(3) else { return };
    for point in POINTS {
        let in_recovery = point.contains("image") || point.contains("recovery");
        let deaths = if in_recovery { vec!["kill rank 1 at barrier 7", point] } else { vec![point] };
        let job = replicas(hosts.job(list).options(&format!("--provider {provider}")), 3, &deaths);
        let times = is_the_same(&job.run(&built(program), &checked(arguments)), ranks);
        let expected = if point.starts_with("stop") { 0 } else { deaths.len() };
        assert_eq!(times, expected, "{program} {list} {deaths:?}");
    }
}

/// Checks that one line was said, on stderr, with these words.
fn in_one_line(ended: &Ended, status: i32, words: &[&str]) {
    ended.failed(status, words);
    let lines: Vec<_> = ended.err.lines().filter(|line| line.starts_with("scash: ")).collect();
    assert_eq!(lines.len(), 1, "{ended}");
}

#[test]
fn laplace_on_two_hosts_survives_a_death_at_each_point() {
    dies_at_each_point(TWO, 4, "auto", "laplace", &LAPLACE);
}

#[test]
fn lu_on_two_hosts_survives_a_death_at_each_point() {
    dies_at_each_point(TWO, 4, "auto", "lu", &LU);
}

#[test]
fn laplace_on_three_hosts_with_unequal_slots_survives_a_death_at_each_point() {
    dies_at_each_point(THREE, 6, "auto", "laplace", &LAPLACE);
}

#[test]
fn lu_on_three_hosts_with_unequal_slots_survives_a_death_at_each_point() {
    dies_at_each_point(THREE, 6, "auto", "lu", &LU);
}

#[test]
fn ranks_that_speak_tcp_within_a_host_too_survive_a_death_at_each_point() {
    dies_at_each_point(TWO, 4, "tcp", "laplace", &LAPLACE);
}

#[test]
fn any_rank_of_any_host_may_die() {
    let Some(hosts) = Hosts::new(3) else { return };
    for rank in 0..6 {
        let deaths = [
            format!("kill rank {rank} at barrier 6"),
            format!("kill rank {rank} at checkpoint 3 after mark in incarnation 1"),
        ];
        let job = replicas(hosts.job(THREE), 2, &deaths.each_ref().map(String::as_str));
        assert_eq!(is_the_same(&job.run(&built("laplace"), &checked(&LAPLACE)), 6), 2, "rank {rank}");
    }
}

#[test]
fn ranks_of_one_host_that_is_named_share_frames_and_come_back() {
    let Some(hosts) = Hosts::new(1) else { return };
    let deaths = ["kill rank 1 at barrier 7", "kill rank 0 at checkpoint 2 after mark in incarnation 1"];
    for program in ["laplace", "lu"] {
        let arguments = if program == "lu" { LU } else { LAPLACE };
        let job = replicas(hosts.job("10.77.0.1:3"), 3, &deaths);
        assert_eq!(is_the_same(&job.run(&built(program), &checked(&arguments)), 3), 2, "{program}");
    }
}

#[test]
fn ranks_with_both_fault_engines_locks_threads_and_encryption_come_back() {
    let Some(hosts) = Hosts::new(2) else { return };
    let deaths = ["kill rank 1 at barrier 3", "kill rank 3 at checkpoint 2 after copy in incarnation 1"];
    let job = || replicas(hosts.job(TWO), 1, &deaths);
    for (job, program) in [
        (job().options("--encrypt"), "laplace"),
        (job().options("--fault mprotect"), "lu"),
        (job().options("--threads 2"), "laplace"),
        (job().options("--bind core"), "laplace"),
        (job(), "water"),
        (job(), "market"),
        (job(), "fft"),
        (job(), "radix"),
    ] {
        assert_eq!(is_the_same(&job.run(&built(program), &checked(&[])), 4), 2, "{program}");
    }
}

#[test]
fn random_failures_do_not_change_the_result() {
    let Some(hosts) = Hosts::new(3) else { return };
    for seed in 0..12 {
        let (program, arguments) = if seed % 2 == 0 { ("laplace", &LAPLACE[..]) } else { ("lu", &LU[..]) };
        let job = replicas(hosts.job(THREE), 2, &[]).options(&format!("--chaos {seed} --restarts 100"));
        is_the_same(&job.run(&built(program), &checked(arguments)), 6);
    }
}

/// Processes of the run that has this mark, whose command lines are so.
fn processes_of(mark: &str, is_meant: impl Fn(&[u8]) -> bool) -> Vec<i32> {
    let mark = format!("{MARK}={mark}");
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok());
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let read = |pid: &i32, name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let is_marked =
        |pid: &i32| read(pid, "environ").split(|byte| *byte == 0).any(|one| one == mark.as_bytes());
    numbers.filter(|pid| is_marked(pid) && is_meant(&read(pid, "cmdline"))).collect()
}

/// The agents of a job on two hosts, and their fronts. A process that is about to become a rank looks like
/// them for a moment.
fn agents_of_two_hosts(mark: &str) -> Vec<i32> {
    let all = || processes_of(mark, |words| words.ends_with(b"/scash\0agent\0"));
    loop {
        let before = all();
        std::thread::sleep(Duration::from_millis(10));
        let now = all();
        let agents: Vec<i32> = before.into_iter().filter(|pid| now.contains(pid)).collect();
        if agents.len() == 4 {
            return agents;
        }
    }
}

fn parent_of(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Kills processes; they may be gone by now, and no number is used again so soon.
fn kill(pids: &[i32]) -> usize {
    // SAFETY: the call takes numbers.
    pids.iter().filter(|pid| unsafe { libc::kill(**pid, libc::SIGKILL) } == 0).count()
}

#[test]
fn ranks_that_are_killed_from_outside_at_any_instant_one_some_or_all_compute_the_same() {
    let Some(hosts) = Hosts::new(2) else { return };
    // Not random, but not in step with anything either.
    let (mut pause, mut all_kills, mut restarts) = (7, 0, 0);
    // The faster jobs are, the fewer kills hit them.
    for round in 0.. {
        if round >= 10 && all_kills > 10 && restarts > 5 {
            break;
        }
        assert!(round < 60, "only {all_kills} kills and {restarts} restarts");
        let job = replicas(hosts.job(TWO), 4, &[]).options("--restarts 1000");
        let (program, arguments) = if round % 2 == 0 {
            ("laplace", &["--size", "254", "--iterations", "200"][..])
        } else {
            ("lu", &["--size", "512", "--block", "16"][..])
        };
        let (mark, path) = (new_mark(), format!("{}\0", built(program).display()));
        let mut command = job.command(&built(program), &checked(arguments));
        command.env(MARK, &mark);
        let mut kills = 0;
        let ended = run_beside(command, |_| {
            for turn in 0..6 {
                std::thread::sleep(Duration::from_millis(50 + pause % 400));
                pause = pause * 31 % 1009;
                let ranks = processes_of(&mark, |words| words.starts_with(path.as_bytes()));
                let some = match turn % 3 {
                    0 => &ranks[..],
                    1 => &ranks[..ranks.len() / 2],
                    _ => &ranks[..ranks.len().min(1)],
                };
                kills += usize::from(kill(some) > 0);
            }
        });
        let times = is_the_same(&ended, 4);
        assert!(times <= kills, "a restart without a death: {ended}");
        (all_kills, restarts) = (all_kills + kills, restarts + times);
    }
}

#[test]
fn what_ranks_print_comes_once_and_in_order() {
    let Some(hosts) = Hosts::new(2) else { return };
    let phoenix = Path::new(env!("CARGO_BIN_EXE_phoenix"));
    let lines = |ended: &Ended, rank: u32| -> Vec<String> {
        ended.out.lines().filter(|line| line.starts_with(&format!("[{rank}] "))).map(str::to_owned).collect()
    };
    let job = || hosts.job(TWO).options("--label");
    let expected = job().run(phoenix, &["loud"]);
    expected.succeeded();
    for deaths in [
        &["kill rank 0 at barrier 6", "kill rank 3 at checkpoint 5 after mark in incarnation 1"][..],
        &[
            "kill all ranks at barrier 9",
            "kill rank 1 at recovery after joined",
            "kill rank 2 at checkpoint 2 after done in incarnation 2",
        ],
    ] {
        let ended = replicas(job(), 2, deaths).run(phoenix, &["loud"]);
        assert_eq!((ended.status, came_back(&ended)), (0, deaths.len()), "{ended}");
        for rank in 0..4 {
            assert_eq!(lines(&ended, rank), lines(&expected, rank), "{ended}");
        }
        assert_eq!(ended.out.lines().count(), expected.out.lines().count(), "{ended}");
    }
}

#[test]
fn programs_that_know_nothing_of_scash_begin_again_and_print_once() {
    let Some(hosts) = Hosts::new(2) else { return };
    let text = "echo rank $SCASH_RANK; echo error $SCASH_RANK >&2; read line && echo read; \
        [ $SCASH_INCARNATION = 2 ] || { [ $SCASH_RANK = $SCASH_INCARNATION ] && kill -9 $$; sleep 60; }";
    let ended = hosts.job("10.77.0.1,10.77.0.2:2").options("--replicas 1").run_script(text);
    let sorted = |text: &str, words: &str| {
        let mut lines: Vec<_> =
            text.lines().filter(|line| line.starts_with(words)).map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(ended.status, 0, "{ended}");
    assert_eq!(sorted(&ended.out, ""), ["rank 0", "rank 1", "rank 2"], "{ended}");
    assert_eq!(sorted(&ended.err, "error"), ["error 0", "error 1", "error 2"], "{ended}");
    ended.said(&["was killed by SIGKILL; all 3 ranks go on from the beginning (incarnation 2)"]);
}

#[test]
fn each_rank_tells_how_long_each_part_of_its_restart_took() {
    let Some(hosts) = Hosts::new(2) else { return };
    let job = replicas(hosts.job(TWO), 2, &["kill rank 3 at barrier 7"]).options("--stats");
    let ended = job.run(&built("laplace"), &checked(&LAPLACE));
    assert_eq!(ended.status, 0, "{ended}");
    assert_eq!(ended.err.matches(": end ").count(), 4, "{ended}");
}

#[test]
fn ranks_that_die_again_and_again_at_one_place_end_the_job() {
    let Some(hosts) = Hosts::new(2) else { return };
    let job = replicas(hosts.job(TWO), 1, &["kill rank 2 at checkpoint with probability 1 seed 1"]);
    let ended = job.options("--restarts 3").run(&built("laplace"), &LAPLACE);
    ended.failed(
        128 + 9,
        &[
            "rank 2 (pid ",
            " on host 10.77.0.2) was killed by signal 9 (SIGKILL), after 3 restarts from the beginning",
            "--restarts",
        ],
    );
    let job = hosts.job(TWO).options("--replicas 1 --restarts 0");
    let ended = job.run_script(&format!("[ $SCASH_RANK = 1 ] && kill -9 $$; {WAIT}"));
    in_one_line(&ended, 137, &["and is not to be started again (--restarts)"]);
}

#[test]
fn a_rank_that_fails_by_itself_ends_the_job() {
    let Some(hosts) = Hosts::new(2) else { return };
    let text = format!("[ $SCASH_RANK = 2 ] && exit 7; {WAIT}");
    let ended = hosts.job(TWO).options("--replicas 1").run_script(&text);
    in_one_line(
        &ended,
        7,
        &["rank 2 (pid ", "on host 10.77.0.2) exited with status 7; ending the other ranks"],
    );
    // Also one that was started again.
    let text = format!(
        "[ $SCASH_RANK = 0 ] && [ $SCASH_INCARNATION = 0 ] && kill -9 $$; [ $SCASH_RANK = 2 ] && [ $SCASH_INCARNATION = 1 ] && exit 7; {WAIT}"
    );
    let ended = hosts.job(TWO).options("--replicas 1").run_script(&text);
    ended.failed(
        7,
        &["rank 0 on host 10.77.0.1 was killed by SIGKILL; all 4 ranks were started again from the beginning", "exited with status 7"],
    );
    assert_eq!(ended.err.lines().count(), 2, "{ended}");
}

#[test]
fn an_agent_that_is_killed_ends_the_job_at_whatever_it_is() {
    let Some(hosts) = Hosts::new(2) else { return };
    let words = ["host 10.77.0.2: its agent is gone, and its ranks with it"];
    for victims in ["$agent", "$agent_front", "$agent $agent_front"] {
        // While ranks run that nobody has lost, and when they have just been started again.
        for (incarnation, death) in [(0, ""), (1, "[ $SCASH_INCARNATION$SCASH_RANK = 00 ] && kill -9 $$")] {
            let text = format!(
                "{FAMILY} [ $SCASH_INCARNATION$SCASH_RANK = {incarnation}3 ] && kill -9 {victims}
                {death}
                {WAIT}"
            );
            let ended = hosts.job(TWO).options("--replicas 1 --on-loss fail").run_script(&text);
            ended.failed(125, &words);
            assert!(ended.err.lines().count() <= 2, "{ended}");
        }
        // With a rank, which the launcher may hear of or not.
        let text = format!("{FAMILY} [ $SCASH_RANK = 3 ] && kill -9 {victims} $$; {WAIT}");
        let ended = hosts.job(TWO).options("--replicas 1 --on-loss fail").run_script(&text);
        ended.failed(125, &words);
        assert!(ended.err.lines().count() <= 2, "{ended}");
    }
}

#[test]
fn an_agent_that_is_killed_at_any_instant_of_restarts_ends_the_job() {
    let Some(hosts) = Hosts::new(2) else { return };
    for milliseconds in (0..300).step_by(17) {
        let job = hosts.job(TWO).options("--replicas 1 --on-loss fail --restarts 1000000 --timeout 100");
        let mark = new_mark();
        let mut command =
            job.command(Path::new("/bin/sh"), &["-c", &format!("[ $SCASH_RANK = 0 ] && kill -9 $$; {WAIT}")]);
        command.env(MARK, &mark);
        let ended = run_beside(command, |_| {
            while processes_of(&mark, |words| words.starts_with(b"/bin/sh\0-c\0[ ")).is_empty() {}
            let agents = agents_of_two_hosts(&mark);
            std::thread::sleep(Duration::from_millis(milliseconds));
            let victim = agents[usize::try_from(milliseconds).unwrap() % agents.len()];
            assert_eq!(kill(&[victim]), 1);
        });
        ended.failed(125, &[" its agent is gone, and its ranks with it"]);
        // Ranks may just have been started again, and not all have joined.
        assert!(ended.err.lines().count() <= 2 && !ended.err.contains("panicked"), "{ended}");
    }
}

#[test]
fn an_agent_that_says_what_no_agent_says_ends_the_job() {
    let Some(hosts) = Hosts::new(2) else { return };
    let state = r"\003\000\000\000".to_owned() + &r"\000".repeat(18);
    let store = format!(r"\027\000\000\000\012{state}");
    for (frame, words) in [
        (r"\001\000\000\000\013", "the end of ranks that nobody has ended"),
        (r"\001\000\000\000\014", "that it has written what nobody has asked for"),
        (r"\001\000\000\000\016", "Resumed while ranks may die"),
        (&store, "the store of rank 3, which nobody has asked for"),
        (r"\001\000\000\000\007", "Done while ranks may die"),
        (r"\003\000\000\000\012xy", "4 bytes expected where 2 are left"),
    ] {
        // The agent's words, and behind them, when ranks run, others.
        let _ = hosts.job(TWO); // it writes the script of the usual way
        let rsh = format!(
            "exec 3<&0; {} $host \"$@\" <&3 3<&- & exec 3<&-; sleep 1; printf '{frame}'; wait; exit",
            hosts.file("rsh").display()
        );
        let ended = hosts.job_where(TWO, 2, &rsh).options("--replicas 1 --on-loss fail").run_script(WAIT);
        in_one_line(&ended, 125, &["says what no agent says: ", words]);
    }
}

#[test]
fn an_agent_that_does_not_end_its_ranks_is_taken_for_gone() {
    let Some(hosts) = Hosts::new(2) else { return };
    let text = format!(
        "{FAMILY} [ $SCASH_RANK = 3 ] && kill -STOP $agent; [ $SCASH_RANK = 0 ] && sleep 0.3 && kill -9 $$; {WAIT}"
    );
    let ended = hosts.job(TWO).options("--replicas 1 --on-loss fail").run_script(&text);
    in_one_line(&ended, 125, &["host 10.77.0.2: its agent has said nothing for 20 s"]);
}

/// It is stopped when a rank of its own dies: the ranks of the other host miss that one, and wait.
#[test]
fn an_agent_that_takes_its_time_is_waited_for() {
    let Some(hosts) = Hosts::new(2) else { return };
    let job = replicas(hosts.job(TWO), 2, &["kill rank 3 at barrier 30", "delay rank 0 by 3s at barrier 4"]);
    let mark = new_mark();
    let mut command = job.command(&built("laplace"), &checked(&LAPLACE));
    command.env(MARK, &mark);
    let mut stopped = 0;
    let ended = run_beside(command, |_| {
        while processes_of(&mark, |words| words.starts_with(built("laplace").as_os_str().as_encoded_bytes()))
            .len()
            < 4
        {}
        std::thread::sleep(Duration::from_secs(1));
        let agents = agents_of_two_hosts(&mark);
        // Those of both hosts, and not their fronts.
        let victims = agents.iter().filter(|pid| agents.contains(&parent_of(**pid)));
        for pid in victims.clone() {
            // SAFETY: the call takes numbers.
            stopped += i32::from(unsafe { libc::kill(*pid, libc::SIGSTOP) } == 0);
        }
        std::thread::sleep(Duration::from_secs(6));
        // SAFETY: likewise.
        victims.for_each(|pid| assert_eq!(unsafe { libc::kill(*pid, libc::SIGCONT) }, 0));
    });
    assert_eq!((stopped, is_the_same(&ended, 4)), (2, 1), "{ended}");
}

#[test]
fn a_network_that_is_cut_between_ranks_is_an_error_if_they_cannot_come_back_elsewhere() {
    let Some(hosts) = Hosts::new(2) else { return };
    let job = replicas(hosts.job(TWO), 50, &[]).options("--on-loss fail");
    let command = job.command(&built("laplace"), &["--size", "126", "--iterations", "100000000"]);
    let ended = run_beside(command, |_| {
        std::thread::sleep(Duration::from_secs(2));
        hosts.cut(2);
    });
    let why =
        "its agent answers, and ranks of other hosts cannot reach its ranks: the connection between rank ";
    ended.failed(125, &["host 10.77.0.2: ", why]);
}

#[test]
fn an_interrupt_ends_a_job_that_is_being_started_again() {
    let Some(hosts) = Hosts::new(2) else { return };
    let text = format!(
        "{FAMILY} trap '' INT TERM; [ $SCASH_INCARNATION$SCASH_RANK = 13 ] && kill -INT $front
        [ $SCASH_INCARNATION$SCASH_RANK = 00 ] && kill -9 $$; while :; do {WAIT}; done"
    );
    let ended = hosts.job(TWO).options("--replicas 1").run_script(&text);
    assert_eq!((ended.status, &ended.err[..]), (130, ""), "{ended}");
}

#[test]
fn an_interrupt_at_any_instant_ends_a_job_whose_ranks_die_all_the_time() {
    let Some(hosts) = Hosts::new(2) else { return };
    for milliseconds in (0..300).step_by(21) {
        let job = hosts.job(TWO).options("--replicas 1 --restarts 1000000 --timeout 100");
        let command = job.command(Path::new("/bin/sh"), &["-c", "kill -9 $$"]);
        let ended = run_beside(command, |front| {
            std::thread::sleep(Duration::from_millis(200 + milliseconds));
            // SAFETY: the call takes numbers.
            assert_eq!(unsafe { libc::kill(front, libc::SIGINT) }, 0);
        });
        // By the interrupt, or by the death of a rank after it.
        assert!([130, 137].contains(&ended.status), "{ended}");
    }
}

#[test]
fn the_time_limit_ends_a_job_that_is_being_started_again() {
    let Some(hosts) = Hosts::new(2) else { return };
    let job = hosts.job(TWO).options("--replicas 1 --restarts 1000000 --timeout 1.5");
    let ended = job.run_script("[ $SCASH_RANK = 3 ] && kill -9 $$; sleep 60");
    ended.failed(124, &["the job has run for 1.5 s, its time limit"]);
}

#[test]
fn a_launcher_that_is_killed_ends_a_job_whose_ranks_come_back() {
    let Some(hosts) = Hosts::new(2) else { return };
    // That nothing is left is checked for every job.
    for victims in ["$front", "$launcher", "$front $launcher"] {
        let text = format!(
            "{FAMILY} [ $SCASH_INCARNATION$SCASH_RANK = 13 ] && kill -9 {victims}
            [ $SCASH_INCARNATION$SCASH_RANK = 00 ] && kill -9 $$; {WAIT}"
        );
        let ended = hosts.job(TWO).options("--replicas 1 --linger off").run_script(&text);
        assert_eq!(ended.status, 137, "{ended}");
    }
}

#[test]
fn what_ranks_left_behind_does_not_meet_the_next_incarnation() {
    let Some(hosts) = Hosts::new(2) else { return };
    let text = "if [ $SCASH_INCARNATION = 0 ]; then setsid sleep 98764 >/dev/null 2>&1 & [ $SCASH_RANK = 2 ] && kill -9 $$; sleep 60; fi
        pgrep -fx 'sleep 98764'; exit 0";
    let ended = hosts.job(TWO).options("--replicas 1").run_script(text);
    assert_eq!((ended.status, ended.out.as_str(), came_back(&ended)), (0, "", 1), "{ended}");
}

#[test]
fn output_that_nobody_reads_ends_a_job_as_in_any_pipeline() {
    let Some(hosts) = Hosts::new(2) else { return };
    let phoenix = Path::new(env!("CARGO_BIN_EXE_phoenix"));
    let job = replicas(hosts.job(TWO), 1, &["stop rank 3 for 60s at barrier 20"]).command(phoenix, &["loud"]);
    let mut pipeline = Command::new("/bin/sh");
    pipeline
        .args(["-c", "{ \"$@\"; echo status $? >&2; } | true", "sh"])
        .arg(job.get_program())
        .args(job.get_args());
    let ended = run(pipeline);
    ended.said(&["status 141"]);
}

#[test]
fn what_hosts_cannot_keep_is_refused_by_name() {
    let Some(hosts) = Hosts::new(2) else { return };
    let directory = hosts.file("checkpoints");
    let job = hosts.job(TWO).option("--checkpoint-dir", directory.to_str().unwrap());
    in_one_line(
        &job.run_script("true"),
        2,
        &["--checkpoint-dir: its files are on one host", "use --replicas"],
    );
    assert!(!directory.exists());
    let ended = hosts.job(TWO).options("--replicas 1 --copy").run_script("true");
    in_one_line(&ended, 2, &["--copy: ", "install it on all hosts"]);
}

/// As much again is in the buffers by which the first checkpoint of a restart goes to its copy.
#[test]
fn thirty_two_restarts_let_a_rank_on_hosts_grow_by_less_than_two_megabytes() {
    let Some(hosts) = Hosts::new(2) else { return };
    let kept_after = |restarts: u32| {
        let death = |number| format!("kill rank 1 at checkpoint 2 after mark in incarnation {number}");
        let deaths: Vec<String> = (0..restarts).map(death).collect();
        let deaths: Vec<&str> = deaths.iter().map(String::as_str).collect();
        let job = replicas(hosts.job(TWO), 1, &deaths).options("--restarts 100");
        let mut command = job.command(&built("laplace"), &["--size", "126", "--iterations", "100"]);
        command.env("SCASH_STATS", "1");
        let ended = run(command);
        let times = ended.err.matches("all 4 ranks go on").count();
        assert_eq!((ended.status, times), (0, restarts as usize), "{ended}");
        ended.pages_kept()
    };
    let (first, last) = (kept_after(1), kept_after(33));
    assert!(last <= first + 512, "{first} pages, {last} after 32 restarts more");
}
