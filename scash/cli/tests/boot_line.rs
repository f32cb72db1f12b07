//! Ranks that use the boot line. Each job here runs this very test program again, as its ranks, with a role
//! to play.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a rank that plays a role prints, and may fail")]

mod common;

use common::{Ended, command, run};
use scash_comm::Exchange;
use scash_join::boot::{Identity, Member, RankState, vars};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::exit;
use std::time::{Duration, Instant};

const ROLE: &str = "SCASH_TEST_ROLE";

/// A job of `ranks` ranks that play `role`.
fn job(ranks: u32, role: &str) -> Ended {
    let this = std::env::current_exe().unwrap();
    let mut command = command(["run", "-n", &ranks.to_string()]);
    command.arg(this).args(["--exact", "plays_its_role_if_it_is_a_rank", "--nocapture"]);
    command.env(ROLE, role);
    let ended = run(command);
    assert!(ended.left.is_empty(), "{:?}", ended.left);
    ended
}

#[test]
fn plays_its_role_if_it_is_a_rank() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match play(&role) {
        Ok(()) => exit(0),
        Err(error) => {
            // In one write, or the ranks' words would mix.
            let line = format!("rank {}: {error}\n", std::env::var(vars::RANK).unwrap_or_default());
            std::io::stderr().write_all(line.as_bytes()).unwrap();
            exit(2);
        }
    }
}

fn identity(version: &str) -> Identity {
    Identity::of_this_program(version, 1).unwrap()
}

fn play(role: &str) -> scash_comm::Result<()> {
    let line = (role == "lies").then(own_line);
    let mut member = Member::from_env()?;
    let rank = member.rank();
    let version = if role == "stranger" && rank == 1 { "9.9.9" } else { "1.0.0" };
    if role == "absent" && rank == 1 {
        return Ok(());
    }
    member.hello(&identity(version))?;
    match role {
        "leaves" if rank == 1 => return Ok(()),
        "aborts" if rank == 1 => std::process::abort(),
        "watches" if rank == 1 => exit(3),
        "watches" => return watch(&member),
        "lies" if rank == 1 => return line.map_or(Ok(()), lie),
        "has children" => return have_a_child(),
        "passes files" => pass_files(&mut member)?,
        "has a rival" => meet_rival(),
        "joins twice" => return Member::from_env().map(drop),
        _ => {}
    }
    let shares = member.all_gather(format!("share {rank}").as_bytes(), &[])?;
    for (index, (blob, _)) in shares.iter().enumerate() {
        assert_eq!(*blob, format!("share {index}").into_bytes());
    }
    member.finalized()
}

/// Says that this process has joined, and waits until a second one that was started as this rank has ended.
fn meet_rival() {
    let file = std::env::var("SCASH_TEST_FILE").unwrap() + "." + &std::env::var(vars::RANK).unwrap();
    std::fs::write(format!("{file}.joined"), "").unwrap();
    let started = Instant::now();
    while !std::path::Path::new(&format!("{file}.told")).exists() {
        assert!(started.elapsed() < common::LIMIT, "the second process does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_second_process_of_a_rank_is_told_off_and_the_job_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rank");
    let file = file.to_str().unwrap();
    let script = format!(
        "f={file}.$SCASH_RANK; \"$@\" & first=$!; until [ -e $f.joined ]; do sleep 0.01; done
        \"$@\"; status=$?; touch $f.told; wait $first && [ $status = 2 ]"
    );
    let this = std::env::current_exe().unwrap();
    let mut command = command(["run", "-n", "2", "/bin/sh", "-c", &script, "sh"]);
    command.arg(this).args(["--exact", "plays_its_role_if_it_is_a_rank", "--nocapture"]);
    command.env(ROLE, "has a rival").env("SCASH_TEST_FILE", file);
    let ended = run(command);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let mut lines: Vec<&str> = ended.stderr.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.len(), 2, "{}", ended.stderr);
    for (rank, line) in lines.iter().enumerate() {
        let words = format!("rank {rank}: another process has joined the job as this rank already");
        assert!(line.starts_with(&words), "{line}");
    }
}

/// Gives every rank 12 files.
fn pass_files(member: &mut Member) -> scash_comm::Result<()> {
    let null = std::fs::File::open("/dev/null").unwrap();
    for (_, files) in member.all_gather(b"", &[null.as_fd(); 12])? {
        assert_eq!(files.len(), 12);
    }
    Ok(())
}

/// Sees the death of rank 1 without asking anybody.
fn watch(member: &Member) -> scash_comm::Result<()> {
    let started = Instant::now();
    while member.page().alive(1) {
        assert!(started.elapsed() < common::LIMIT, "the death of rank 1 is not seen");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(member.page().state(1), RankState::Exited(3));
    println!("seen");
    Ok(())
}

/// The line to the launcher, before a member takes it.
fn own_line() -> std::fs::File {
    let value = std::env::var(vars::BOOT_FD).unwrap();
    let number = value.split_once(':').unwrap().0;
    // SAFETY: nobody has taken or closed the descriptor yet.
    let line = unsafe { BorrowedFd::borrow_raw(number.parse().unwrap()) };
    line.try_clone_to_owned().unwrap().into()
}

/// Sends rubbish on its line, and waits to be ended for it.
fn lie(mut line: std::fs::File) -> scash_comm::Result<()> {
    line.write_all(&[0xAB; 100]).unwrap();
    std::thread::sleep(common::LIMIT);
    Ok(())
}

/// Starts this program again, which must not take itself for the rank.
fn have_a_child() -> scash_comm::Result<()> {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "plays_its_role_if_it_is_a_rank", "--nocapture"])
        .env(ROLE, "child")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    print!("{}", String::from_utf8_lossy(&output.stderr));
    exit(9);
}

#[test]
fn a_job_that_joins_and_finishes_succeeds_without_a_word() {
    let ended = job(4, "finishes");
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
}

#[test]
fn many_ranks_exchange_many_descriptors() {
    // All in all 19,200 on their way: more than most users may have open, so that senders must wait for
    // receivers.
    let ended = job(40, "passes files");
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
}

#[test]
fn a_rank_that_exits_without_finalizing_fails_the_job() {
    let ended = job(3, "leaves");
    assert_eq!(ended.status, 1);
    assert!(ended.stderr.contains("scash: rank 1 (pid "), "{}", ended.stderr);
    assert!(
        ended.stderr.contains(") exited with status 0 without calling dsm_finalize or scomm_finalize; "),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("rank 0: rank 1 is gone: exited with status 0"), "{}", ended.stderr);
}

#[test]
fn a_rank_that_aborts_is_named_and_the_others_are_told() {
    let ended = job(3, "aborts");
    assert_eq!(ended.status, 128 + 6);
    assert!(
        ended.stderr.contains(") was killed by signal 6 (SIGABRT); ending the other ranks"),
        "{}",
        ended.stderr
    );
    for rank in [0, 2] {
        let told = format!("rank {rank}: rank 1 is gone: was killed by signal 6 (SIGABRT)");
        assert!(ended.stderr.contains(&told), "{}", ended.stderr);
    }
}

#[test]
fn a_death_shows_in_the_job_page() {
    let ended = job(2, "watches");
    assert_eq!(ended.status, 3);
    assert!(ended.stdout.contains("seen"), "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn a_rank_that_never_joins_does_not_keep_the_others_waiting() {
    let ended = job(2, "absent");
    assert_eq!(ended.status, 1);
    assert!(ended.stderr.contains("exited before it had joined the others"), "{}", ended.stderr);
}

#[test]
fn two_versions_in_one_job_are_refused_by_all_ranks() {
    let ended = job(3, "stranger");
    assert_ne!(ended.status, 0);
    let said = ended.stderr.matches("two different programs or versions in one job: ranks 0, 2 run").count();
    assert_eq!(said, 4, "by the launcher and by each rank: {}", ended.stderr);
    assert!(ended.stderr.contains("scash 9.9.9"), "{}", ended.stderr);
}

#[test]
fn two_programs_in_one_job_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let this = std::env::current_exe().unwrap();
    let other = directory.path().join("other");
    // A program of the same source whose build id differs in one bit.
    let mut bytes = std::fs::read(&this).unwrap();
    let build = &identity("1").build;
    let at = bytes.windows(build.len()).position(|window| window == &build[..]).expect("a build id");
    bytes[at] ^= 1;
    std::fs::write(&other, bytes).unwrap();
    std::fs::set_permissions(&other, std::fs::metadata(&this).unwrap().permissions()).unwrap();
    let script = format!(
        "[ $SCASH_RANK = 1 ] && p={} || p={}; exec $p --exact plays_its_role_if_it_is_a_rank --nocapture",
        other.display(),
        this.display()
    );
    let mut command = common::script("-n 2", &script);
    command.env(ROLE, "finishes");
    let ended = run(command);
    assert_ne!(ended.status, 0);
    assert!(
        ended.stderr.contains("two different programs or versions in one job: rank 0 runs"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("other (build "), "{}", ended.stderr);
}

#[test]
fn a_rank_that_sends_rubbish_is_named_and_the_job_ends() {
    let ended = job(2, "lies");
    assert_eq!(ended.status, 1);
    assert!(ended.stderr.contains("scash: rank 1 (pid "), "{}", ended.stderr);
    assert!(ended.stderr.contains("sent what no rank sends"), "{}", ended.stderr);
}

#[test]
fn a_child_of_a_rank_is_not_taken_for_the_rank() {
    let ended = job(1, "has children");
    assert!(ended.stdout.contains("this program was started by a rank"), "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn a_program_joins_once() {
    let ended = job(1, "joins twice");
    assert!(ended.stderr.contains("has joined its job already"), "{}", ended.stderr);
}

#[test]
fn a_program_without_a_launcher_is_a_job_of_one_rank() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "plays_its_role_if_it_is_a_rank", "--nocapture"])
        .env(ROLE, "finishes")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
