//! Jobs whose ranks die, and that go on (`--replicas`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;
mod walker;

use common::{Ended, LIMIT, Scash, child_of, command, kill, start_reading};
use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use walker::{DEATHS, FILE, PACE, POINTS, STEPS, are_complete, said, words_of};

const ROLE: &str = "SCASH_TEST_ROLE";

#[test]
fn plays_its_part_if_it_is_a_rank() {
    if std::env::var_os(ROLE).is_some() {
        walker::walk();
    }
}

/// A job of walkers that die so.
fn walkers(options: &str, deaths: &str) -> Command {
    let this = std::env::current_exe().unwrap();
    let mut command = command("run --replicas 1".split(' ').chain(options.split_whitespace()));
    command.arg(this).args(["--exact", "plays_its_part_if_it_is_a_rank", "--nocapture"]);
    command.env(ROLE, "walker").env(DEATHS, deaths);
    command
}

fn script(options: &str, text: &str) -> Command {
    common::script(&format!("--replicas 1 {options}"), text)
}

fn start(command: Command) -> Scash {
    start_reading(Stdio::null(), command)
}

fn run(command: Command) -> Ended {
    let ended = start(command).end();
    assert!(ended.left.is_empty(), "{:?}", ended.left);
    ended
}

#[test]
fn a_job_that_loses_nobody_ends_without_a_word() {
    let ended = run(walkers("-n 3", ""));
    are_complete(&ended, 3, "no death");
    assert!(said(&ended).is_empty(), "{}", ended.stderr);
}

#[test]
fn a_rank_may_die_anywhere_and_everything_is_printed_once() {
    for point in POINTS {
        for (rank, step) in [(0, 3), (1, 1), (2, STEPS)] {
            let what = format!("0 {rank} {point} {step} 9");
            let ended = run(walkers("-n 3", &what));
            are_complete(&ended, 3, &what);
            let said = said(&ended);
            assert_eq!(said.len(), 1, "{what}: {said:?}");
            let begin = format!("rank {rank} was killed by SIGKILL; all 3 ranks go on from ");
            assert!(said[0].starts_with(&begin), "{what}: {said:?}");
            assert!(said[0].contains("incarnation 1) after 0."), "{what}: {said:?}");
        }
    }
}

#[test]
fn ranks_go_on_from_the_newest_epoch_that_all_have() {
    // Rank 1 dies before it has marked epoch 4, and after.
    for (point, whence) in [("staged", "barrier 3"), ("met", "barrier 4")] {
        let ended = run(walkers("-n 2", &format!("0 1 {point} 4 9")));
        are_complete(&ended, 2, point);
        assert!(said(&ended)[0].contains(&format!("go on from {whence} (")), "{}", ended.stderr);
    }
    let ended = run(walkers("-n 2", "0 1 printed 1 9"));
    assert!(said(&ended)[0].contains("go on from the beginning ("), "{}", ended.stderr);
}

#[test]
fn ranks_may_die_of_any_signal() {
    for (signal, name) in [(6, "SIGABRT"), (7, "SIGBUS"), (11, "SIGSEGV"), (15, "SIGTERM"), (40, "signal 40")]
    {
        let ended = run(walkers("-n 2", &format!("0 1 printed 2 {signal}")));
        are_complete(&ended, 2, name);
        assert!(said(&ended)[0].starts_with(&format!("rank 1 was killed by {name}; ")), "{}", ended.stderr);
        let ended = run(walkers("-n 1", &format!("0 0 printed 2 {signal}")));
        are_complete(&ended, 1, name);
    }
}

#[test]
fn all_ranks_may_die_at_once_and_again_while_they_start() {
    let ended = run(walkers("-n 3", "0 * printed 4 9; 1 1 started 0 9; 2 0 joined 0 11; 3 * marked 5 9"));
    are_complete(&ended, 3, "deaths upon deaths");
    let said = said(&ended);
    assert!(said.last().unwrap().contains("incarnation 4)"), "{said:?}");
}

#[test]
fn a_rank_that_was_killed_after_the_last_step_comes_back_to_it() {
    for deaths in ["0 1 finalized 0 9", "0 * finalized 0 9"] {
        let ended = run(walkers("-n 2", deaths));
        are_complete(&ended, 2, deaths);
        assert!(said(&ended)[0].contains(&format!("(epoch {STEPS}, incarnation 1)")), "{}", ended.stderr);
    }
}

#[test]
fn a_rank_that_dies_at_one_place_again_and_again_ends_the_job() {
    let ended = run(walkers("-n 2 --restarts 2", "* 1 printed 3 11"));
    assert_eq!(ended.status, 128 + 11);
    let said = said(&ended);
    let last = said.last().unwrap();
    assert!(last.starts_with("rank 1 (pid "), "{said:?}");
    let why = ") was killed by signal 11 (SIGSEGV), after 2 restarts from epoch 2 without a new checkpoint (--restarts)";
    assert!(last.ends_with(why), "{said:?}");
    // What no checkpoint has is printed all the same, as of a job that is over.
    for rank in 0..2 {
        let words = words_of(&ended.stdout, rank);
        assert_eq!(words[..2], [format!("{rank}:1"), format!("{rank}:2")]);
        assert!(words.len() <= 3, "{words:?}");
    }
    assert_eq!(words_of(&ended.stdout, 1).len(), 3);
}

#[test]
fn deaths_at_ever_new_places_do_not() {
    let deaths: Vec<String> = (1..=STEPS).map(|step| format!("{} 1 printed {step} 9", step - 1)).collect();
    are_complete(&run(walkers("-n 2 --restarts 1", &deaths.join(";"))), 2, "a death each step");
}

#[test]
fn a_program_that_fails_by_itself_is_not_started_again() {
    let ended = run(walkers("-n 2", "0 1 committed 2 exit"));
    assert_eq!(ended.status, 3);
    let said = said(&ended);
    assert!(said.len() == 1 && said[0].contains("exited with status 3; ending the other ranks"), "{said:?}");
    assert_eq!(words_of(&ended.stdout, 1), ["1:1", "1:2"]);
}

#[test]
fn programs_that_know_nothing_of_scash_begin_again() {
    let ended = run(script("-n 2", "echo $SCASH_INCARNATION; [ $SCASH_INCARNATION = 1 ] || kill -9 $$"));
    assert_eq!((ended.status, ended.stdout.as_str()), (0, "1\n1\n"));
    assert!(said(&ended)[0].contains("from the beginning (incarnation 1)"), "{}", ended.stderr);
}

#[test]
fn ranks_that_are_killed_from_outside_at_any_instant_print_everything_once() {
    // Not random, but not in step with anything either.
    let (mut pause, mut all_kills) = (7, 0);
    for round in 0..12 {
        let mut command = walkers("-n 3 --restarts 1000", "");
        command.env(PACE, "4");
        let scash = start(command);
        let launcher = || common::children_of(scash.pid());
        let mut kills = 0;
        for turn in 0..15 {
            std::thread::sleep(Duration::from_millis(pause % 37));
            pause = pause * 31 % 1009;
            let ranks: Vec<i32> = launcher().into_iter().flat_map(common::children_of).collect();
            if let Some(rank) = ranks.get((round + turn) % 3) {
                // It may be gone by now; no number is used again so soon.
                let killed =
                    Command::new("kill").args(["-9", &rank.to_string()]).stderr(Stdio::null()).status();
                kills += usize::from(killed.unwrap().success());
            }
        }
        let ended = scash.end();
        are_complete(&ended, 3, &format!("round {round}, {kills} kills"));
        assert!(said(&ended).len() <= kills, "a restart without a death: {}", ended.stderr);
        assert!(ended.left.is_empty(), "{:?}", ended.left);
        all_kills += kills;
    }
    assert!(all_kills > 12, "only {all_kills} ranks were killed");
}

/// A job in whose first restart rank 1 hangs, when it does.
fn hanging(options: &str, point: &str, directory: &Path) -> Scash {
    let file = directory.join("hangs");
    let mut command = walkers(options, &format!("0 0 printed 3 9; 1 1 {point} 0 hang"));
    command.env(FILE, &file);
    let scash = start(command);
    let started = Instant::now();
    while !directory.join("hangs.1").exists() {
        assert!(started.elapsed() < LIMIT, "it does not come so far: {:?}", scash.processes());
        std::thread::sleep(Duration::from_millis(1));
    }
    scash
}

#[test]
fn an_interrupt_ends_a_job_that_is_being_started_again() {
    for (point, signal, status) in [("started", "INT", 130), ("joined", "INT", 130), ("started", "TERM", 143)]
    {
        let directory = tempfile::tempdir().unwrap();
        let scash = hanging("-n 2", point, directory.path());
        scash.signal(signal);
        let ended = scash.end();
        assert_eq!(ended.status, status, "{}", ended.stderr);
        assert!(point == "joined" || !ended.stderr.contains("go on"), "{}", ended.stderr);
        assert!(ended.left.is_empty(), "{:?}", ended.left);
    }
}

#[test]
fn ranks_that_fail_as_they_are_started_again_do_not_go_on() {
    // Before it has joined, and as soon as it has: then the news may be that all went on.
    for (point, is_certain) in [("started", true), ("joined", false)] {
        let ended = run(walkers("-n 2", &format!("0 0 printed 3 9; 1 1 {point} 0 exit")));
        let said = said(&ended);
        assert_eq!((ended.status, said.len()), (3, 2), "{}", ended.stderr);
        assert!(said[0].starts_with("rank 0 was killed by SIGKILL; all 2 ranks "), "{said:?}");
        assert!(said[1].contains("exited with status 3"), "{said:?}");
        let news = "all 2 ranks were started again from barrier 2 (epoch 2, incarnation 1)";
        assert!(!is_certain || said[0].ends_with(news), "{said:?}");
    }
}

#[test]
fn an_interrupt_at_any_instant_ends_a_job_whose_ranks_die_all_the_time() {
    for milliseconds in (0..120).step_by(9) {
        let scash = start(script("-n 3 --restarts 1000000", "kill -9 $$"));
        // The front must have begun to take signals.
        while scash.processes().len() < 2 {}
        std::thread::sleep(Duration::from_millis(milliseconds));
        scash.signal("INT");
        let ended = scash.end();
        // By the interrupt, or by the death of a rank after it.
        assert!([130, 137].contains(&ended.status), "{}: {}", ended.status, ended.stderr);
        assert!(ended.left.is_empty(), "{:?}", ended.left);
    }
}

#[test]
fn the_time_limit_ends_a_job_that_is_being_started_again() {
    let directory = tempfile::tempdir().unwrap();
    let ended = hanging("-n 2 --timeout 2", "started", directory.path()).end();
    assert_eq!(ended.status, 124, "{}", ended.stderr);
    assert!(said(&ended)[0].starts_with("the job has run for 2 s"), "{}", ended.stderr);
    let ended = run(script("-n 2 --timeout 1 --restarts 1000000", "kill -9 $$"));
    assert_eq!(ended.status, 124, "{}", ended.stderr);
}

#[test]
fn a_launcher_that_dies_in_a_restart_takes_the_ranks_along() {
    for is_front in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let scash = hanging("-n 2", "started", directory.path());
        kill("KILL", if is_front { scash.pid() } else { child_of(scash.pid()) });
        let left = scash.processes_left();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(scash.end().status, 128 + 9);
    }
}

#[test]
fn what_ranks_left_behind_does_not_meet_the_next_incarnation() {
    let text = "if [ $SCASH_INCARNATION = 0 ]; then setsid sleep 98765 & kill -9 $$; fi; pgrep -fx 'sleep 98765'; exit 0";
    let ended = run(script("-n 1", text));
    assert_eq!((ended.status, ended.stdout.as_str()), (0, ""), "{}", ended.stderr);
}

#[test]
fn ranks_have_the_same_addresses_in_each_incarnation() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("maps").display().to_string();
    let text =
        format!("cat /proc/self/maps > {file}.$SCASH_INCARNATION; [ $SCASH_INCARNATION = 2 ] || kill -9 $$");
    assert_eq!(run(script("-n 1", &text)).status, 0);
    let maps = |incarnation| std::fs::read_to_string(format!("{file}.{incarnation}")).unwrap();
    assert!(maps(0).contains("[stack]"));
    assert_eq!((maps(1), maps(2)), (maps(0), maps(0)));
}

#[test]
fn rank_0_reads_its_file_again_and_other_inputs_are_refused() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"skipped\nfirst\nsecond\n").unwrap();
    file.seek(std::io::SeekFrom::Start(8)).unwrap();
    let text = "read line; echo $line; [ $SCASH_INCARNATION = 1 ] || kill -9 $$";
    let ended = start_reading(file.into(), script("-n 1", text)).end();
    assert_eq!((ended.status, ended.stdout.as_str()), (0, "first\n"), "{}", ended.stderr);

    let ended = common::run(script("-n 1", "exit 0"));
    assert_eq!(ended.status, 2);
    assert!(ended.stderr.contains("rank 0's standard input is a pipe"), "{}", ended.stderr);
    assert!(ended.stderr.contains("< /dev/null"), "{}", ended.stderr);
    let device = File::open("/dev/zero").unwrap();
    assert_eq!(start_reading(device.into(), script("-n 1", "exit 0")).end().status, 2);
}

#[test]
fn both_streams_of_a_rank_stay_in_order_in_one_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("output");
    let file = File::create(&path).unwrap();
    let text = "echo 1; echo 2 >&2; echo 3; [ $SCASH_INCARNATION = 1 ] || kill -9 $$; echo 4 >&2; echo 5";
    let mut command = script("-n 1 --label", text);
    command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
    assert!(command.status().unwrap().success());
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("scash: ")).collect();
    assert_eq!(lines, ["[0] 1", "[0] 2", "[0] 3", "[0] 4", "[0] 5"]);
}

#[test]
fn what_is_committed_is_printed_while_ranks_run() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("hangs");
    let mut command = walkers("-n 2", "0 * printed 5 hang");
    command.env(FILE, &file);
    let mut scash = start(command);
    // The line of three steps is whole at step 3.
    let started = Instant::now();
    let limit = || assert!(started.elapsed() < LIMIT);
    while !scash.line().starts_with("1:1 1:2 1:3") {
        limit();
    }
    while !["0", "1"].iter().all(|rank| file.with_extension(rank).exists()) {
        limit();
        std::thread::sleep(Duration::from_millis(5));
    }
    scash.signal("INT");
    let ended = scash.end();
    assert_eq!(ended.status, 130);
    assert_eq!(words_of(&ended.stdout, 1).len(), 5, "the rest comes in the end: {ended:?}");
}

#[test]
fn what_a_rank_says_to_its_user_is_said_at_once_and_once_only() {
    // No rank has an epoch yet, so that nothing is printed.
    let directory = tempfile::tempdir().unwrap();
    let mut command = walkers("-n 2", "* 1 printed 1 say; 0 1 printed 1 hang");
    command.env(FILE, directory.path().join("hangs"));
    let mut scash = start(command);
    assert_eq!(scash.error_line(), "scash: rank 1 says so at step 1");
    scash.signal("INT");
    assert_eq!(scash.end().status, 130);

    // Rank 1 comes to the third step three times, and to the fourth twice.
    let deaths = "* 1 printed 3 say; 0 1 staged 3 9; 1 0 marked 3 9; * 1 staged 4 say; 2 1 staged 4 9";
    let ended = run(walkers("-n 2 --label", deaths));
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let own = |step: u64| {
        said(&ended).iter().filter(|line| **line == format!("rank 1 says so at step {step}")).count()
    };
    assert_eq!((own(3), own(4), said(&ended).len()), (1, 1, 5), "{}", ended.stderr);
}

#[test]
fn a_job_whose_output_nobody_reads_ends_as_in_any_pipeline() {
    let mut command = walkers("-n 2", "0 1 printed 6 hang");
    let directory = tempfile::tempdir().unwrap();
    command.env(FILE, directory.path().join("hangs"));
    let (read, write) = nix::unistd::pipe().unwrap();
    drop(read);
    command.stdin(Stdio::null()).stdout(write).stderr(Stdio::piped());
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 13));
}

#[test]
fn ranks_of_other_jobs_hear_nothing_of_replicas() {
    let print =
        "env | grep -E 'SCASH_(STORE|INCARNATION|EPOCH|CHECKPOINT|MTBF|INJECT|COMMITTED|SAYS)=' | sort";
    let mut other = common::script("-n 1", print);
    other.env("SCASH_STORE", "5").env("SCASH_INCARNATION", "3");
    assert_eq!(common::run(other).stdout, "");
    let ended = run(script("-n 1 --checkpoint every=2 --mtbf 5m --chaos 3", print));
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines[0], "SCASH_CHECKPOINT=every=2");
    assert!(lines[1].starts_with("SCASH_COMMITTED="), "{lines:?}");
    assert_eq!(lines[2..4], ["SCASH_EPOCH=0", "SCASH_INCARNATION=0"]);
    assert!(lines[4].starts_with("SCASH_INJECT="), "{lines:?}");
    assert_eq!(lines[5], "SCASH_MTBF=300s");
    assert!(lines[6].starts_with("SCASH_SAYS=") && lines[6].contains(":socket:["), "{lines:?}");
}

#[test]
fn what_replicas_cannot_do_is_refused_by_name() {
    for (options, word) in [
        ("-n 2 --replicas 1 --provider ofi", "libfabric"),
        ("--checkpoint-dir d --host a,b", "use --replicas"),
        ("-n 2 --replicas 0", "1..=7"),
        ("-n 2 --restarts 3", "--replicas"),
        ("-n 2 --replicas 1 --mtbf soon", "unit"),
        ("-n 2 --replicas 1 --env SCASH_EPOCH=1", "sets this variable itself"),
    ] {
        let ended = run(common::script(options, "exit 0"));
        assert_eq!(ended.status, 2, "{options}: {}", ended.stderr);
        assert!(ended.stderr.contains(word), "{options}: {}", ended.stderr);
    }
}
