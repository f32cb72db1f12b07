//! Jobs on several hosts, which are network namespaces: the real launcher, agents, ranks and TCP connections.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_tests::cluster::built::built;
use scash_tests::cluster::{Ended, Hosts, run};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Functions for scripts of ranks: the parent of a process, and the processes between a rank and the shell.
const FAMILY: &str = r#"
parent() { cut -d' ' -f4 "/proc/$1/stat"; }
agent=$PPID; agent_front=$(parent $agent); launcher=$(parent $agent_front); front=$(parent $launcher)
"#;

/// A script that ends when it is killed, or at last after a minute.
const WAIT: &str = "sleep 60 & wait";

/// Checks that one line was said, on stderr, with these words.
fn in_one_line(ended: &Ended, status: i32, words: &[&str]) {
    ended.failed(status, words);
    let lines: Vec<_> = ended.err.lines().filter(|line| line.starts_with("scash: ")).collect();
    assert_eq!(lines.len(), 1, "{ended}");
}

#[test]
fn laplace_and_lu_give_the_sequential_result_on_two_and_four_hosts() {
    let Some(hosts) = Hosts::new(4) else { return };
    let two = "10.77.0.1,10.77.0.2:2";
    let four = "10.77.0.1,10.77.0.2,10.77.0.3,10.77.0.4";
    for (list, ranks) in [(two, 3), (four, 4)] {
        for (program, arguments) in [
            ("laplace", &["--size", "254", "--iterations", "20"][..]),
            ("lu", &["--size", "256", "--block", "16"]),
        ] {
            let arguments = [&["--check", "--json"], arguments].concat();
            for provider in ["auto", "tcp"] {
                let job = hosts.job(list).options(&format!("--provider {provider}"));
                job.run(&built(program), &arguments).is_equal(ranks);
            }
        }
    }
}

#[test]
fn ranks_are_numbered_along_hosts_and_see_the_network_of_theirs() {
    let Some(hosts) = Hosts::new(3) else { return };
    let script =
        "echo $SCASH_RANK of $SCASH_SIZE at $(ip -4 -o address show eth0 | awk '{print $4}') in $PWD";
    let ended = hosts.job("10.77.0.2:2,10.77.0.1,10.77.0.3").options("-n 3").run_script(script);
    let mut lines = ended.lines(3);
    lines.sort_unstable();
    let here = std::env::current_dir().unwrap();
    let expected = ["0 of 3 at 10.77.0.2/24", "1 of 3 at 10.77.0.2/24", "2 of 3 at 10.77.0.1/24"];
    assert_eq!(lines, expected.map(|line| format!("{line} in {}", here.display())), "{ended}");
}

#[test]
fn all_that_ranks_print_comes_out_in_whole_lines() {
    let Some(hosts) = Hosts::new(2) else { return };
    // More than may be on its way at once, and lines that are longer than a frame.
    let script =
        "for i in 1 2 3 4 5 6 7 8 9 10; do printf '%0100000d\\n' $SCASH_RANK; done; echo to stderr >&2";
    let job = hosts.job("10.77.0.1,10.77.0.2:2");
    let ended = job.clone().options("--label").run_script(script);
    assert_eq!((ended.status, ended.out.lines().count()), (0, 30));
    for line in ended.out.lines() {
        let rank = &line[1..2];
        assert!(line.starts_with(&format!("[{rank}] 0")) && line.ends_with(&format!("0{rank}")), "{line}");
        assert_eq!(line.len(), 100_004);
    }
    let mut errors: Vec<_> = ended.err.lines().collect();
    errors.sort_unstable();
    assert_eq!(errors, ["[0] to stderr", "[1] to stderr", "[2] to stderr"]);
    let plain = job.run_script(script);
    assert_eq!((plain.status, plain.err.as_str()), (0, "to stderr\n".repeat(3).as_str()));
    for rank in 0..3 {
        let line = format!("{}{rank}", "0".repeat(99_999));
        assert_eq!(plain.out.lines().filter(|printed| **printed == line).count(), 10);
    }
    assert_eq!(plain.out.lines().count(), 30);
}

#[test]
fn output_that_cannot_be_written_ends_the_job_with_an_error_that_says_why() {
    let Some(hosts) = Hosts::new(2) else { return };
    let text = "trap '' PIPE; while sleep 0.01; do echo out; done";
    let job = hosts.job("10.77.0.1,10.77.0.2").command(Path::new("/bin/sh"), &["-c", text]);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "exec \"$@\" >/dev/full", "sh"]).arg(job.get_program()).args(job.get_args());
    let words = "cannot write to standard output: No space left on device; ending all ranks";
    in_one_line(&run(shell), 125, &[words]);
}

#[test]
fn output_that_nobody_reads_ends_ranks_as_in_any_pipeline() {
    let Some(hosts) = Hosts::new(2) else { return };
    let job =
        hosts.job("10.77.0.1,10.77.0.2").options("--timeout 60").command(Path::new("/usr/bin/yes"), &[]);
    let mut pipeline = Command::new("/bin/sh");
    pipeline
        .args(["-c", "\"$@\" | head -c 1000000 | wc -c", "sh"])
        .arg(job.get_program())
        .args(job.get_args());
    let ended = run(pipeline);
    assert_eq!(ended.out.trim(), "1000000", "{ended}");
    in_one_line(&ended, 0, &["was killed by signal 13 (SIGPIPE)"]);
}

#[test]
fn the_first_rank_that_fails_is_named_with_its_host_and_the_others_end() {
    let Some(hosts) = Hosts::new(2) else { return };
    let script = format!("[ $SCASH_RANK = 1 ] && exit 7; {WAIT}");
    let ended = hosts.job("10.77.0.1,10.77.0.2").run_script(&script);
    in_one_line(
        &ended,
        7,
        &["rank 1 (pid ", " on host 10.77.0.2) exited with status 7; ending the other ranks"],
    );
}

#[test]
fn a_rank_that_was_killed_for_want_of_memory_on_another_host_is_told_with_the_reason() {
    let Some(hosts) = Hosts::new(2) else { return };
    let counter = hosts.file("vmstat");
    fs::write(&counter, "oom_kill 3\n").unwrap();
    // A host whose kernel counts in this file.
    let mount = r#"set -- unshare -m sh -c 'mount --bind COUNTER /proc/vmstat; exec "$@"' sh "$@""#;
    let job =
        hosts.job_where("10.77.0.1,10.77.0.2", 2, &mount.replace("COUNTER", &counter.display().to_string()));
    let killed = format!("[ $SCASH_RANK = 1 ] && kill -9 $$; {WAIT}");
    let ended = job.run_script(&killed);
    in_one_line(
        &ended,
        137,
        &["on host 10.77.0.2) was killed by signal 9 (SIGKILL); ending the other ranks"],
    );
    // Rank 1 alone writes: a file that another rank truncates has no count for an instant.
    let killed_for_memory =
        format!("[ $SCASH_RANK = 1 ] && echo oom_kill 4 > {} && kill -9 $$; {WAIT}", counter.display());
    let ended = job.run_script(&killed_for_memory);
    in_one_line(
        &ended,
        137,
        &["on host 10.77.0.2) was killed by signal 9 (SIGKILL), most likely for want of memory"],
    );
}

#[test]
fn a_death_on_one_host_ends_waits_on_others() {
    let Some(hosts) = Hosts::new(2) else { return };
    // Rank 1 never joins: without word of its death the others would wait for it.
    let script = format!("[ $SCASH_RANK = 1 ] && kill -9 $$; exec {} --check", built("laplace").display());
    let ended = hosts.job("10.77.0.1,10.77.0.2").run_script(&script);
    ended.failed(137, &["rank 1 (pid ", "on host 10.77.0.2) was killed by signal 9", "rank 1 is gone"]);
}

/// At any instant of the first tenth of a second: while the job joins, or soon after.
#[test]
fn a_rank_that_is_killed_while_hosts_join_is_the_one_that_is_blamed() {
    let Some(hosts) = Hosts::new(2) else { return };
    let laplace = format!("exec {} --iterations 1000000000", built("laplace").display());
    for (victim, milliseconds) in (0..4).cycle().zip((0..100).step_by(4)) {
        let kill = format!("(sleep 0.{milliseconds:03}; kill -9 $$) >/dev/null 2>&1 &");
        let script = format!("if [ $SCASH_RANK = {victim} ]; then {kill} fi; {laplace}");
        let ended = hosts.job("10.77.0.1:2,10.77.0.2:2").run_script(&script);
        ended.failed(137, &[&format!("rank {victim} (pid "), "was killed by signal 9"]);
        assert!(!ended.err.contains("panicked"), "after {milliseconds} ms: {ended}");
        let blamed = ended.err.lines().filter(|line| line.contains(" is gone: "));
        for line in blamed {
            assert!(line.contains(&format!("rank {victim} is gone")), "after {milliseconds} ms: {ended}");
        }
    }
}

#[test]
fn signals_reach_the_ranks_of_all_hosts() {
    let Some(hosts) = Hosts::new(2) else { return };
    let there = hosts.file("there");
    fs::create_dir(&there).unwrap();
    let there = there.display();
    let script = format!(
        "{FAMILY} trap 'echo $SCASH_RANK heard; exit 0' USR1; touch {there}/$SCASH_RANK
        [ $SCASH_RANK = 0 ] && {{ until [ -e {there}/1 ]; do sleep 0.01; done; kill -USR1 $front; }}
        {WAIT}"
    );
    let ended = hosts.job("10.77.0.1,10.77.0.2").run_script(&script);
    let mut lines = ended.lines(2);
    lines.sort_unstable();
    assert_eq!((ended.status, &lines[..]), (0, &["0 heard", "1 heard"][..]), "{ended}");
}

#[test]
fn an_interrupted_job_ends_on_all_hosts_even_if_ranks_do_not_listen() {
    let Some(hosts) = Hosts::new(2) else { return };
    let script = format!(
        "{FAMILY} trap '' INT TERM; [ $SCASH_RANK = 1 ] && kill -INT $front; while :; do {WAIT}; done"
    );
    let ended = hosts.job("10.77.0.1,10.77.0.2").run_script(&script);
    assert_eq!((ended.status, &ended.err[..]), (130, ""), "{ended}");
}

#[test]
fn a_time_limit_holds_on_all_hosts() {
    let Some(hosts) = Hosts::new(2) else { return };
    let ended = hosts.job("10.77.0.1,10.77.0.2").options("--timeout 0.5").run_script(WAIT);
    in_one_line(&ended, 124, &["its time limit"]);
}

#[test]
fn a_job_starts_nowhere_if_a_host_cannot_take_part() {
    let Some(hosts) = Hosts::new(2) else { return };
    let started = hosts.file("started");
    let program = hosts.file("programs");
    fs::create_dir(&program).unwrap();
    let program = program.join("program");
    fs::copy("/bin/sh", &program).unwrap();
    let hide = r#"set -- unshare -m sh -c 'mount -t tmpfs none "$0"; exec "$@"' DIRECTORY "$@""#;
    let hide = hide.replace("DIRECTORY", &program.parent().unwrap().display().to_string());
    let greeting = r"printf '\035\000\000\000\001\013\000\000\000scash agent\001\000\000\000\005\000\000\0000.0.9'; exec cat";
    let cases = [
        (
            "echo Connection refused >&2; exit 255",
            125,
            "exited with status 255. Does that command reach the host",
        ),
        ("exec /no/such/scash agent", 125, "no agent has answered"),
        ("echo Welcome; exec cat", 125, "it begins with \"Welcome"),
        ("kill -9 $$", 125, "was killed by signal 9"),
        (greeting, 125, "its scash is version 0.0.9"),
        (&hide, 127, "no such file"),
    ];
    for (script, status, words) in cases {
        let touch = format!("touch {}", started.display());
        let ended = hosts.job_where("10.77.0.1,10.77.0.2", 2, script).run(&program, &["-c", &touch]);
        in_one_line(&ended, status, &["scash: host 10.77.0.2: ", words]);
        assert!(!started.exists(), "a rank ran: {ended}");
    }
}

#[test]
fn a_host_that_does_not_answer_can_be_waited_for_no_longer_than_the_user_wants() {
    let Some(hosts) = Hosts::new(2) else { return };
    let job = hosts.job_where("10.77.0.1,10.77.0.2", 2, "exec sleep 1000");
    in_one_line(&job.clone().options("--timeout 0.5").run_script("true"), 124, &["its time limit"]);
    let interrupt = "kill -TERM $(cut -d' ' -f4 /proc/$PPID/stat); exec sleep 1000";
    let ended = hosts.job_where("10.77.0.1,10.77.0.2", 2, interrupt).run_script("true");
    assert_eq!((ended.status, &ended.err[..]), (143, ""), "{ended}");
}

#[test]
fn a_host_that_does_not_answer_is_named_while_it_is_waited_for() {
    let Some(hosts) = Hosts::new(3) else { return };
    let mute = hosts.job_where("10.77.0.1,10.77.0.2", 2, "sleep 7");
    // Nobody answers for a while, and all goes well then.
    let ended = mute.run_script("echo up");
    assert_eq!((ended.status, ended.out.as_str()), (0, "up\nup\n"), "{ended}");
    assert_eq!(ended.err.lines().count(), 1, "{ended}");
    let words =
        ["scash: host 10.77.0.2: `", " 10.77.0.2 ", " has not answered", "waiting for it, for up to 120 s"];
    assert!(words.iter().all(|words| ended.err.contains(words)), "{ended}");
}

#[test]
fn a_remote_shell_that_there_is_not_is_named() {
    let Some(hosts) = Hosts::new(1) else { return };
    let ended = hosts.job_by("10.77.0.1", Path::new("no-such-rsh")).run_script("true");
    in_one_line(&ended, 125, &["host 10.77.0.1: there is no command `no-such-rsh`", "--rsh"]);
}

#[test]
fn a_killed_agent_takes_its_ranks_with_it_and_the_others_are_told() {
    let Some(hosts) = Hosts::new(2) else { return };
    for victims in ["$agent", "$agent_front", "$agent $agent_front"] {
        let script = format!(
            "{FAMILY} {{ trap '' TERM; sleep 61; }} & [ $SCASH_RANK = 1 ] && kill -9 {victims}; {WAIT}"
        );
        let ended = hosts.job("10.77.0.1,10.77.0.2").run_script(&script);
        in_one_line(&ended, 125, &["host 10.77.0.2: its agent is gone, and its ranks with it"]);
    }
}

#[test]
fn a_rank_that_exits_because_another_one_is_gone_is_not_blamed() {
    let Some(hosts) = Hosts::new(2) else { return };
    let agent_is_gone = (125, "host 10.77.0.2: its agent is gone, and its ranks with it");
    let rank_is_gone = (137, "rank 1 (pid ");
    for (victim, (status, words)) in
        [("agent", agent_is_gone), ("agent_front", agent_is_gone), ("rank", rank_is_gone)]
    {
        let file = hosts.file(victim);
        let file = file.display();
        // Rank 0 is the first to know, as one that is connected to rank 1 may be.
        let script = format!(
            "{FAMILY} rank=$$; [ $SCASH_RANK = 1 ] && {{ echo ${victim} > {file}; mv {file} {file}.there; }}
            [ $SCASH_RANK = 0 ] && {{ until [ -e {file}.there ]; do sleep 0.01; done; kill -9 $(cat {file}.there); exit 3; }}
            {WAIT}"
        );
        let ended = hosts.job("10.77.0.1,10.77.0.2").run_script(&script);
        in_one_line(&ended, status, &[words]);
    }
}

#[test]
fn an_agent_that_stops_answering_is_taken_for_gone() {
    let Some(hosts) = Hosts::new(2) else { return };
    // As after a host was switched off: nothing is closed, and nothing comes.
    let script = format!("{FAMILY} [ $SCASH_RANK = 1 ] && kill -STOP $agent; {WAIT}");
    let ended = hosts.job("10.77.0.1,10.77.0.2").run_script(&script);
    in_one_line(&ended, 125, &["host 10.77.0.2: its agent has said nothing for 20 s"]);
}

#[test]
fn a_killed_launcher_ends_the_job_on_all_hosts() {
    let Some(hosts) = Hosts::new(2) else { return };
    // That nothing is left is checked for every job.
    for (victims, status) in [("$front", 137), ("$launcher", 137), ("$front $launcher", 137)] {
        let script = format!("{FAMILY} [ $SCASH_RANK = 1 ] && kill -9 {victims}; {WAIT}");
        let ended = hosts.job("10.77.0.1,10.77.0.2").run_script(&script);
        assert_eq!(ended.status, status, "{ended}");
    }
}

#[test]
fn a_link_that_is_cut_at_the_start_is_an_error_that_names_the_rank() {
    let Some(hosts) = Hosts::new(3) else { return };
    hosts.cut(2);
    let ended = hosts.job("10.77.0.1,10.77.0.2,10.77.0.3").run(&built("laplace"), &["--check"]);
    ended.refused(&["no connection to it at 10.77.0."]);
}

#[test]
fn a_link_that_is_cut_while_ranks_work_is_told_as_such_by_ranks_and_launcher() {
    let Some(hosts) = Hosts::new(2) else { return };
    let notes = hosts.file("notes");
    fs::create_dir(&notes).unwrap();
    let job = hosts.job("10.77.0.1,10.77.0.2");
    let command =
        job.command(Path::new(env!("CARGO_BIN_EXE_wrong")), &["compute for long", notes.to_str().unwrap()]);
    let running = std::thread::spawn(move || run(command));
    while !notes.join("came.0").exists() && !running.is_finished() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    hosts.cut(2);
    let ended = running.join().unwrap();
    let link = "the connection between rank 0 (10.77.0.1) and rank 1 (10.77.0.2) broke: ";
    assert_eq!(ended.status, 1, "{ended}");
    assert!(ended.err.contains(&format!("rank 1 is gone: {link}")), "{ended}");
    in_one_line(
        &ended,
        1,
        &[
            "scash: rank 0 (pid ",
            " on host 10.77.0.1) has lost another rank: ",
            link,
            "; ending the other ranks",
        ],
    );
}

#[test]
fn ranks_listen_where_scash_interface_says() {
    let Some(hosts) = Hosts::new(2) else { return };
    let job = || hosts.job("10.77.0.1,10.77.0.2").options("--env");
    for good in ["10.77.0.0/24", "eth0"] {
        let ended = job()
            .options(&format!("SCASH_INTERFACE={good}"))
            .run(&built("laplace"), &["--check", "--json", "--size", "62", "--iterations", "2"]);
        ended.is_equal(2);
    }
    job()
        .options("SCASH_INTERFACE=10.78.0.0/24")
        .run(&built("laplace"), &[])
        .refused(&["no address in that network"]);
}
