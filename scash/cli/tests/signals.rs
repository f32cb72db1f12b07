//! Signals to the launcher reach the ranks, and end the job where they should.

mod common;

use common::{LIMIT, child_of, kill, run, script, start};
use std::time::Instant;

#[test]
fn ctrl_c_ends_all_ranks_and_leaves_nothing() {
    let mut scash = start(script("-n 3", "echo up; exec sleep 60"));
    scash.sorted_lines(3);
    scash.signal("INT");
    let ended = scash.end();
    assert_eq!(ended.status, 128 + 2);
    assert_eq!(ended.stderr, "", "the user knows why");
    assert!(ended.left.is_empty(), "{:?}", ended.left);
}

#[test]
fn sigterm_ends_all_ranks() {
    let mut scash = start(script("-n 2", "echo up; exec sleep 60"));
    scash.sorted_lines(2);
    scash.signal("TERM");
    let ended = scash.end();
    assert_eq!(ended.status, 128 + 15);
    assert!(ended.left.is_empty(), "{:?}", ended.left);
}

#[test]
fn ranks_may_take_an_interrupt_as_a_wish_to_finish() {
    let mut scash =
        start(script("-n 2", "trap 'echo saved; exit 0' INT; echo up; while :; do sleep 0.01; done"));
    scash.sorted_lines(2);
    scash.signal("INT");
    let ended = scash.end();
    assert_eq!((ended.status, ended.stdout.as_str()), (0, "up\nup\nsaved\nsaved\n"));
}

#[test]
fn a_second_ctrl_c_kills_ranks_that_ignore_the_first() {
    let mut scash =
        start(script("-n 2", "trap 'echo ignored' INT; trap '' TERM; echo up; while :; do sleep 0.01; done"));
    scash.sorted_lines(2);
    scash.signal("INT");
    scash.sorted_lines(2);
    // The second must be told from an echo of the first.
    std::thread::sleep(std::time::Duration::from_millis(250));
    scash.signal("INT");
    let ended = scash.end();
    assert_eq!(ended.status, 128 + 2);
    assert!(ended.left.is_empty(), "{:?}", ended.left);
}

#[test]
fn user_signals_and_job_control_are_passed_on() {
    let traps = "for s in USR1 USR2 TSTP CONT; do trap \"echo $s\" $s; done; trap 'exit 0' HUP";
    let mut scash = start(script("-n 2", &format!("{traps}; echo up; while :; do sleep 0.01; done")));
    scash.sorted_lines(2);
    for signal in ["USR1", "USR2", "CONT"] {
        scash.signal(signal);
        assert_eq!(scash.sorted_lines(2), [signal, signal]);
    }
    // The launcher stops itself too, as a shell expects of it.
    scash.signal("TSTP");
    assert_eq!(scash.sorted_lines(2), ["TSTP", "TSTP"]);
    scash.signal("CONT");
    assert_eq!(scash.sorted_lines(2), ["CONT", "CONT"]);
    scash.signal("HUP");
    assert_eq!(scash.end().status, 0);
}

#[test]
fn ranks_do_not_inherit_the_signals_that_the_launcher_blocks() {
    let ended = run(common::command(["run", "-n", "1", "grep", "SigBlk", "/proc/self/status"]));
    let blocked = u64::from_str_radix(ended.stdout.trim_start_matches("SigBlk:").trim(), 16).unwrap();
    let [hup, int, quit, term] = [1, 2, 3, 15].map(|signal: u64| 1 << (signal - 1));
    assert_eq!(blocked & (hup | int | quit | term), 0, "{blocked:#x}");
}

#[test]
fn signals_that_the_launcher_was_told_to_ignore_stay_ignored() {
    let mut scash = start({
        let inner = script("-n 1", "echo up; read line; echo $line");
        let mut nohup = std::process::Command::new("nohup");
        nohup.arg(inner.get_program()).args(inner.get_args());
        nohup.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        nohup
    });
    assert_eq!(scash.line(), "up");
    let stdin = scash.stdin();
    scash.signal("HUP");
    common::write(stdin, b"still here\n");
    let ended = scash.end();
    assert_eq!((ended.status, ended.stdout.as_str()), (0, "up\nstill here\n"));
}

#[test]
fn the_launchers_end_by_sigkill_ends_the_ranks_and_what_they_started() {
    // The shell has a child of its own, which the kernel would not kill with its parent.
    let mut scash = start(script("-n 3", "echo up; sleep 1000; echo never"));
    scash.sorted_lines(3);
    let started = Instant::now();
    while scash.processes().iter().filter(|name| name.contains("sleep 1000 ")).count() < 3 {
        assert!(started.elapsed() < LIMIT, "{:?}", scash.processes());
    }
    scash.signal("KILL");
    let left = scash.processes_left();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(scash.end().status, 128 + 9);
}

#[test]
fn the_second_processs_end_by_sigkill_ends_them_too() {
    let mut scash = start(script("-n 2", "echo up; sleep 1000; echo never"));
    scash.sorted_lines(2);
    kill("KILL", child_of(scash.pid()));
    let ended = scash.end();
    assert_eq!(ended.status, 128 + 9);
    assert!(ended.left.is_empty(), "{:?}", ended.left);
    assert!(ended.stderr.contains("was killed by signal 9 (SIGKILL)"), "{}", ended.stderr);
}

#[test]
fn grandchildren_do_not_outlive_the_job_even_in_sessions_of_their_own() {
    let ended = run(script("-n 2", "setsid sleep 1000 & (sleep 1000 &) ; exit 0"));
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert!(ended.left.is_empty(), "{:?}", ended.left);
}

#[test]
fn a_job_leaves_the_children_alone_that_its_process_had_before() {
    let mut scash = start({
        let inner = script("-n 1", "echo up; exec sleep 1000");
        let words: Vec<_> = inner.get_args().map(|word| format!("'{}'", word.to_str().unwrap())).collect();
        let line = format!(
            "sleep 0.1 & echo $!; exec {} {}",
            inner.get_program().to_str().unwrap(),
            words.join(" ")
        );
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-c", &line]).envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell
    });
    scash.line();
    assert_eq!(scash.line(), "up");
    scash.signal("INT");
    assert_eq!(scash.end().status, 128 + 2);
}
