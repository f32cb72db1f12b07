//! The exit status of `scash run`, and what it says when something is wrong.

mod common;

use common::{command, run, script};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_job_of_plain_programs_that_succeed_succeeds_without_a_word() {
    let ended = run(command(["run", "-n", "4", "/bin/true"]));
    assert_eq!((ended.status, ended.stdout.as_str(), ended.stderr.as_str()), (0, "", ""));
}

#[test]
fn every_rank_knows_who_it_is() {
    let mut ranks = run(script(
        "-n 3 --threads 2 --provider tcp",
        "echo $SCASH_RANK of $SCASH_SIZE: $SCASH_THREADS $SCASH_PROVIDER",
    ))
    .stdout
    .lines()
    .map(str::to_owned)
    .collect::<Vec<_>>();
    ranks.sort();
    assert_eq!(ranks, ["0 of 3: 2 tcp", "1 of 3: 2 tcp", "2 of 3: 2 tcp"]);
}

#[test]
fn programs_are_looked_up_in_path_and_keep_the_name_they_were_called_by() {
    let ended = run(command(["run", "-n", "1", "sh", "-c", "echo $0"]));
    assert_eq!((ended.status, ended.stdout.as_str()), (0, "sh\n"));
}

#[test]
fn variables_are_set_and_scashs_own_are_passed_through() {
    let mut command =
        script("-n 1 --env GREETING=hello=you --fault mprotect", "echo $GREETING $SCASH_CACHE $SCASH_FAULT");
    command.env("SCASH_CACHE", "64M");
    assert_eq!(run(command).stdout, "hello=you 64M mprotect\n");
}

#[test]
fn the_status_of_the_rank_that_fails_is_the_jobs() {
    let ended = run(script("-n 3", "[ $SCASH_RANK != 1 ] || exit 7; sleep 60"));
    assert_eq!(ended.status, 7);
    assert!(ended.stderr.starts_with("scash: rank 1 (pid "), "{}", ended.stderr);
    assert!(ended.stderr.ends_with(") exited with status 7; ending the other ranks\n"), "{}", ended.stderr);
    assert!(ended.left.is_empty(), "{:?}", ended.left);
}

#[test]
fn the_first_rank_to_fail_wins_over_those_that_fail_in_its_wake() {
    // Ranks 0 and 2 fail because they are told to end, rank 1 by itself.
    let ended = run(script(
        "-n 3",
        "[ $SCASH_RANK != 1 ] || exit 7; trap 'exit 9' TERM; while :; do sleep 0.01; done",
    ));
    assert_eq!(ended.status, 7);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
}

#[test]
fn a_rank_that_is_killed_is_named_with_its_signal() {
    let ended = run(script("-n 2", "[ $SCASH_RANK = 1 ] && kill -9 $$; sleep 60"));
    assert_eq!(ended.status, 128 + 9);
    assert!(
        ended.stderr.contains(") was killed by signal 9 (SIGKILL); ending the other ranks\n"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.left.is_empty(), "{:?}", ended.left);
}

#[test]
fn real_time_signals_have_numbers_only() {
    let ended = run(script("-n 1", "kill -40 $$; sleep 60"));
    assert_eq!(ended.status, 128 + 40);
    assert!(ended.stderr.contains("was killed by signal 40\n"), "{}", ended.stderr);
}

#[test]
fn ranks_that_ignore_sigterm_are_killed() {
    let ended =
        run(script("-n 2", "trap '' TERM; [ $SCASH_RANK = 1 ] && exit 3; while :; do sleep 0.05; done"));
    assert_eq!(ended.status, 3);
    assert!(ended.left.is_empty(), "{:?}", ended.left);
}

#[test]
fn a_stopped_rank_does_not_hold_up_the_end() {
    let ended =
        run(script("-n 2", "[ $SCASH_RANK = 0 ] && kill -STOP $$; [ $SCASH_RANK = 1 ] && exit 5; sleep 60"));
    assert_eq!(ended.status, 5);
    assert!(ended.left.is_empty(), "{:?}", ended.left);
}

#[test]
fn the_time_limit_ends_the_job() {
    let ended = run(script("-n 2 --timeout 0.2", "sleep 60"));
    assert_eq!(ended.status, 124);
    assert_eq!(ended.stderr, "scash: the job has run for 0.2 s, its time limit; ending all ranks\n");
    assert!(ended.left.is_empty(), "{:?}", ended.left);
}

#[test]
fn a_time_limit_that_is_not_reached_does_not_matter() {
    assert_eq!(run(script("-n 2 --timeout 50", "exit 0")).status, 0);
}

/// Checks the status and the words of a refusal.
fn refused(arguments: &[&str], status: i32, words: &[&str]) {
    let ended = run(command(arguments));
    assert_eq!(ended.status, status, "{arguments:?}: {}", ended.stderr);
    for word in words {
        assert!(ended.stderr.contains(word), "{arguments:?}: no {word:?} in: {}", ended.stderr);
    }
    assert_eq!(ended.stdout, "");
}

#[test]
fn a_program_that_does_not_exist_is_said_to_be_missing() {
    refused(&["run", "-n", "2", "./no/such/program"], 127, &["./no/such/program: there is no such program"]);
    refused(
        &["run", "-n", "2", "no-such-program"],
        127,
        &["no-such-program: there is no such program in PATH"],
    );
}

#[test]
fn a_program_in_this_directory_is_recognised() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("mine"), "").unwrap();
    let mut command = command(["run", "-n", "2", "mine"]);
    command.current_dir(&directory);
    let ended = run(command);
    assert_eq!(ended.status, 127);
    assert!(ended.stderr.contains("the one in this directory is ./mine"), "{}", ended.stderr);
}

#[test]
fn what_cannot_be_executed_is_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, contents: &str, mode| {
        let path = directory.path().join(name);
        fs::write(&path, contents).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let plain = file("plain", "#!/bin/sh\n", 0o644);
    let orphan = file("orphan", "#!/no/such/interpreter\n", 0o755);
    refused(&["run", "-n", "2", &plain], 126, &["is not executable", "chmod +x"]);
    refused(&["run", "-n", "2", &orphan], 126, &["interpreter", "does not exist"]);
    refused(&["run", "-n", "2", directory.path().to_str().unwrap()], 126, &["is a directory"]);
}

#[test]
fn nonsensical_arguments_are_refused_before_anything_starts() {
    refused(&["run", "-n", "0", "/bin/true"], 2, &["0 is not in 1..=65535"]);
    refused(&["run", "-n", "many", "/bin/true"], 2, &["many"]);
    refused(&["run", "/bin/true"], 2, &["-n"]);
    refused(&["run", "-n", "2"], 2, &["PROGRAM"]);
    refused(
        &["run", "-n", "2", "--provider", "pigeon", "/bin/true"],
        2,
        &["no provider \"pigeon\"", "shm", "tcp"],
    );
    refused(
        &["run", "-n", "2", "--fault", "none", "/bin/true"],
        2,
        &["no fault engine \"none\"", "uffd", "mprotect"],
    );
    refused(&["run", "-n", "2", "--timeout", "soon", "/bin/true"], 2, &["not a number of seconds"]);
    refused(&["run", "-n", "2", "--threads", "0", "/bin/true"], 2, &["0 is not in"]);
    refused(&["start"], 2, &["start"]);
}

#[test]
fn a_wrong_setting_in_the_environment_is_refused_like_an_option() {
    let mut command = command(["run", "-n", "2", "/bin/true"]);
    command.env("SCASH_PROVIDER", "pigeon");
    let ended = run(command);
    assert_eq!(ended.status, 2);
    assert!(ended.stderr.contains("no provider \"pigeon\""), "{}", ended.stderr);
}

#[test]
fn more_ranks_than_open_files_allow_raise_the_limit_or_say_so() {
    let scash = env!("CARGO_BIN_EXE_scash");
    let limited = |limit: &str, ranks: &str| {
        let mut shell = command::<&str>([]);
        let script = format!("ulimit {limit}; exec {scash} run -n {ranks} /bin/true");
        let mark =
            shell.get_envs().find_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).unwrap();
        shell = std::process::Command::new("/bin/sh");
        shell.args(["-c", &script]).env(mark.0, mark.1);
        run(shell)
    };
    let raised = limited("-Sn 64", "40");
    assert_eq!((raised.status, raised.stderr.as_str()), (0, ""));
    let refused = limited("-n 64", "40");
    assert_eq!(refused.status, 125);
    assert!(
        refused.stderr.contains("40 ranks need 432 open files, and the limit is 64"),
        "{}",
        refused.stderr
    );
}

#[test]
fn help_names_the_subcommands_and_version_the_version() {
    let help = run(command(["--help"]));
    assert!(help.stdout.contains("run") && help.stdout.contains("info"), "{}", help.stdout);
    assert_eq!(run(command(["--version"])).stdout, format!("scash {}\n", env!("CARGO_PKG_VERSION")));
}
