//! C programs whose ranks are killed: they come back, whatever they are linked with, and print and write what
//! they would have.

use crate::support::{Ended, Job, Link, Program, cc, resume, run};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a run has left: its output, and the files that it has written.
type Left = (Vec<String>, BTreeMap<String, Vec<u8>>);

/// Runs it in a job of this kind, with these options of `scash run`. Also returns how often its ranks came
/// back.
fn left_by(program: &Program, job: Job, options: &[&str]) -> (Left, usize) {
    let directory = tempfile::tempdir().unwrap();
    let input: String = (0..100).map(|i| format!("{}\n", i * i % 37)).collect();
    std::fs::write(directory.path().join("input"), input).unwrap();
    let ended = program.run_with(job, options, &[], &[directory.path().to_str().unwrap()]);
    assert_eq!(ended.status, Some(0), "{job:?} {options:?}: {}{}", ended.out, ended.err);
    let lines = ended.sorted().into_iter().map(str::to_owned).collect();
    ((lines, files(directory.path())), came_back(&ended))
}

/// How often ranks came back from a checkpoint.
fn came_back(ended: &Ended) -> usize {
    let restarts = ended.err.lines().filter(|line| line.contains("go on from barrier"));
    // One line tells of several where ranks die again before they go on.
    let times = |line: &str| line.rsplit_once(" and ")?.1.strip_suffix(" restarts")?.parse().ok();
    restarts.map(|line| times(line).unwrap_or(1)).sum()
}

/// Options of `scash run`: checkpoints at these barriers, and these deaths.
fn replicas<'a>(every: &'a str, deaths: &[&'a str]) -> Vec<&'a str> {
    let mut options = vec!["--replicas", "1", "--checkpoint", every];
    deaths.iter().for_each(|death| options.extend(["--inject", death]));
    options
}

fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let all = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    all.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect()
}

fn survives(link: Link) {
    let deaths = [
        "kill rank 1 at barrier 20",
        "kill all ranks at barrier 17 after flush in incarnation 1",
        "kill all ranks at checkpoint 3 after mark in incarnation 2",
        "kill rank 1 at checkpoint 1 after copy in incarnation 3",
    ];
    for address in [["-fPIE", "-pie"], ["-fno-pie", "-no-pie"]] {
        let program = Program::compile_with("phoenix", &address, link);
        for job in Job::all().into_iter().filter(|job| job.ranks == 2) {
            let (expected, _) = left_by(&program, job, &[]);
            assert_eq!(expected.0.len(), 2, "a line for each rank: {:?}", expected.0);
            for every in ["every=1", "every=9"] {
                let (left, times) = left_by(&program, job, &replicas(every, &deaths));
                assert_eq!(left, expected, "{address:?} {every} {job:?}");
                assert_eq!(times, deaths.len(), "{address:?} {every} {job:?}");
            }
        }
    }
}

#[test]
fn a_c_program_comes_back_with_the_shared_library() {
    survives(Link::Shared);
}

#[test]
fn a_c_program_comes_back_with_the_archive() {
    survives(Link::Static);
}

#[test]
fn objects_that_are_newer_than_the_checkpoint_are_not_known_any_more() {
    let program = Program::compile("newer", Link::Shared);
    let deaths = ["kill rank 0 at barrier 4", "kill rank 1 at barrier 4 in incarnation 1"];
    for job in Job::all().into_iter().filter(|job| job.ranks > 1) {
        let directory = tempfile::tempdir().unwrap();
        let arguments = [directory.path().to_str().unwrap()];
        let ended = program.run_with(job, &replicas("every=1000", &deaths), &[], &arguments);
        ended.succeeded();
        let lines: Vec<String> = (0..job.ranks).map(|rank| format!("rank {rank} ends")).collect();
        assert_eq!(ended.sorted(), lines, "{ended}");
        assert_eq!(came_back(&ended), deaths.len(), "{ended}");
    }
}

#[test]
fn objects_that_single_ranks_make_come_back() {
    let program = Program::compile("own", Link::Shared);
    let deaths = [
        "kill rank 1 at barrier 5",
        "kill rank 0 at barrier 31 in incarnation 1",
        "kill all ranks at barrier 20 in incarnation 2",
        "kill rank 1 at barrier 10 in incarnation 3",
    ];
    for job in Job::all().into_iter().filter(|job| job.ranks == 2) {
        let ended = program.run_with(job, &replicas("every=3", &deaths), &[], &[]);
        ended.succeeded();
        assert_eq!(came_back(&ended), deaths.len(), "{job:?}: {ended}");
    }
}

/// In the program's rounds a lock is held as ranks pass barriers 4 and 5, 8 and 9, and so on: each of these
/// restarts is from one of them.
#[test]
fn a_lock_that_is_held_in_barriers_comes_back_with_its_holder() {
    let program = Program::compile("held", Link::Shared);
    for job in Job::all().into_iter().filter(|job| job.ranks > 1) {
        for (every, deaths) in [
            // Both have the lock as they die.
            ("every=1", ["kill rank 0 at barrier 5", "kill rank 1 at barrier 5 in incarnation 1"]),
            // It has been released since; another rank has it.
            (
                "every=4",
                ["kill rank 1 at barrier 10 after done", "kill rank 0 at barrier 9 in incarnation 1"],
            ),
            (
                "every=4",
                ["kill all ranks at checkpoint 3 after mark", "kill rank 1 at checkpoint 2 in incarnation 1"],
            ),
        ] {
            let ended = program.run_with(job, &replicas(every, &deaths), &[], &[]);
            ended.succeeded();
            assert_eq!(ended.sorted().len(), job.ranks as usize, "{ended}");
            assert_eq!(came_back(&ended), deaths.len(), "{every} {deaths:?} {ended}");
        }
    }
}

/// Rank 0 has a lock at barrier 5: it dies in each step of that checkpoint, or the other rank does, and then
/// one of them in a step of the recovery.
#[test]
fn ranks_that_have_locks_die_in_each_step_of_checkpoint_and_recovery() {
    let program = Program::compile("held", Link::Shared);
    let steps = [
        "checkpoint 5 after due",
        "checkpoint 5 after stop",
        "checkpoint 5 after copy",
        "checkpoint 5 after fence",
        "checkpoint 5 after mark",
        "checkpoint 5 after meet",
        "checkpoint 5 after done",
        "image 5 after described",
    ];
    let recovery =
        ["image after restored", "recovery after joined", "recovery after copied", "recovery after resumed"];
    for job in Job::all().into_iter().filter(|job| job.ranks == 2) {
        for (number, step) in steps.iter().enumerate() {
            for rank in [0, 1] {
                let again =
                    format!("kill rank {} at {}", (rank + number) % 2, recovery[number % recovery.len()]);
                let deaths = [format!("kill rank {rank} at {step}"), again];
                let deaths = deaths.each_ref().map(String::as_str);
                let ended = program.run_with(job, &replicas("every=1", &deaths), &[], &[]);
                ended.succeeded();
                assert_eq!(ended.sorted().len(), job.ranks as usize, "{ended}");
                assert_eq!(came_back(&ended), deaths.len(), "{deaths:?} {ended}");
            }
        }
    }
}

#[test]
fn a_c_program_that_asks_for_checkpoints_is_told_of_them_and_of_restarts() {
    let program = Program::compile("asks", Link::Shared);
    let deaths = ["kill rank 1 at checkpoint 2 after done", "kill rank 0 at barrier 4 in incarnation 1"];
    for job in Job::all().into_iter().filter(|job| job.ranks > 1) {
        // No barrier is a checkpoint by itself.
        let ended = program.run_with(job, &replicas("every=1000000", &deaths), &[], &["1", "2"]);
        ended.succeeded();
        assert_eq!(came_back(&ended), deaths.len(), "{ended}");
        program.run(job, &[], &["0", "0"]).succeeded();
    }
}

/// Runs one part of the program `carried`, whose ranks are killed twice.
fn is_carried(what: &str) -> (Left, String) {
    let program = Program::compile("carried", Link::Shared);
    let directory = tempfile::tempdir().unwrap();
    let deaths = ["kill rank 1 at barrier 4", "kill rank 0 at barrier 3 in incarnation 1"];
    let options = replicas("every=1", &deaths);
    let arguments = [what, directory.path().to_str().unwrap()];
    let ended = program.run_with(Job::of(2), &options, &[], &arguments);
    ended.succeeded();
    let lines = ended.sorted().into_iter().map(str::to_owned).collect();
    ((lines, files(directory.path())), ended.err)
}

/// The same, and each rank comes to its end, each time from an epoch: nothing stood in the way of
/// checkpoints.
fn comes_back_with(what: &str) -> BTreeMap<String, Vec<u8>> {
    let ((lines, files), err) = is_carried(what);
    assert_eq!(lines.iter().filter(|line| line.ends_with("ends")).count(), 2, "{what}: {lines:?}");
    let times = err.lines().filter(|line| line.contains("go on from barrier")).count();
    // Each rank names what it has set.
    let named = if what == "limit" { 2 } else { 0 };
    assert_eq!((times, err.lines().count()), (2, 2 + named), "{what}: {err}");
    files
}

/// The same of a part with more barriers, at each of some that are killed.
fn comes_back_late_with(what: &str) {
    let program = Program::compile("carried", Link::Shared);
    let directory = tempfile::tempdir().unwrap();
    for barrier in [5, 8, 13, 16, 20] {
        let death = format!("kill rank 1 at barrier {barrier}");
        let options = ["--replicas", "1", "--checkpoint", "every=1", "--inject", &death];
        let arguments = [what, directory.path().to_str().unwrap()];
        let ended = program.run_with(Job::of(2), &options, &[], &arguments);
        ended.succeeded();
        ended.said(&["go on from barrier"]);
        assert_eq!(ended.err.lines().count(), 1, "{ended}");
    }
}

#[test]
fn bytes_that_were_written_over_those_of_a_mapped_file_come_back_unless_they_are_gone() {
    comes_back_late_with("patched");
}

#[test]
fn static_data_and_a_heap_right_behind_it_come_back() {
    comes_back_late_with("static");
}

/// What a file has in which each rank writes a line a round.
fn a_line_a_round() -> String {
    (0..12).map(|round| format!("line {round}\n")).collect()
}

#[test]
fn what_a_thread_writes_to_a_file_while_ranks_are_saved_is_there_once() {
    comes_back_with("records");
}

#[test]
fn what_a_thread_prints_while_ranks_are_saved_appears_once() {
    let ((lines, _), _) = is_carried("lines");
    let mut numbers: Vec<u32> = lines.iter().filter_map(|line| line.parse().ok()).collect();
    // Of each of two ranks, from 0 on.
    let most = numbers.iter().max().copied().unwrap();
    numbers.sort_unstable();
    for number in 0..most {
        let times = numbers.iter().filter(|one| **one == number).count();
        assert!((1..=2).contains(&times), "line {number}: {times} times");
    }
}

#[test]
fn a_program_that_redirects_its_output_finds_it_redirected() {
    let ((lines, files), err) = is_carried("redirected");
    assert!(lines.is_empty(), "{lines:?}");
    for rank in 0..2 {
        let text = format!("{}rank {rank} ends\n", a_line_a_round());
        assert_eq!(String::from_utf8_lossy(&files[&format!("of-{rank}")]), text, "{err}");
    }
}

#[test]
fn descriptors_of_one_open_file_have_one_position() {
    for (name, text) in comes_back_with("two") {
        assert_eq!(String::from_utf8_lossy(&text), a_line_a_round(), "{name}");
    }
}

#[test]
fn files_keep_their_numbers_however_high_and_many_they_are() {
    for (name, text) in comes_back_with("high") {
        assert_eq!(String::from_utf8_lossy(&text), a_line_a_round(), "{name}");
    }
}

#[test]
fn a_thread_that_could_not_be_stopped_goes_on() {
    let ((lines, _), err) = is_carried("deaf");
    assert_eq!(lines, ["rank 0 ends", "rank 1 ends"], "{err}");
    assert!(err.contains("blocks all signals"), "{err}");
}

#[test]
fn programs_with_threads_protected_memory_signals_and_limits_come_back() {
    for what in ["named", "heap", "system", "pending", "limit"] {
        comes_back_with(what);
    }
}

#[test]
fn data_below_the_stack_of_a_coroutine_come_back() {
    comes_back_with("coroutine");
}

/// They lie below where the process stands, on one stack.
#[test]
fn data_below_a_coroutine_that_has_a_part_of_the_first_stack_come_back() {
    comes_back_with("inner");
}

/// The launcher, and so each process that it starts, has less than the program sets.
#[test]
fn a_program_that_has_raised_its_limits_comes_back_with_them() {
    let program = Program::compile("carried", Link::Shared);
    let directory = tempfile::tempdir().unwrap();
    let deaths = ["kill rank 1 at barrier 4", "kill rank 0 at barrier 3 in incarnation 1"];
    let arguments = ["raised", directory.path().to_str().unwrap()];
    let mut command = program.command(Job::of(2), &replicas("every=1", &deaths), &[], &arguments);
    let lower = || {
        for (limit, soft) in [(libc::RLIMIT_STACK, 8 << 20), (libc::RLIMIT_NOFILE, 1000)] {
            let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: it writes a value of this stack.
            unsafe { libc::getrlimit(limit, &raw mut limits) };
            limits.rlim_cur = soft;
            // SAFETY: it reads a value of this stack.
            if unsafe { libc::setrlimit(limit, &raw const limits) } != 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the calls may be made between fork and exec.
    unsafe { command.pre_exec(lower) };
    let ended = run(&mut command, "raised limits".to_owned());
    ended.succeeded();
    assert_eq!(ended.sorted(), ["rank 0 ends", "rank 1 ends"], "{ended}");
    // Nobody says that limits are as at the start.
    assert_eq!((came_back(&ended), ended.err.lines().count()), (2, 2), "{ended}");
}

/// A system call that writes to its store would be one too many.
#[test]
fn a_program_that_limits_its_files_is_saved_to_a_disk_too() {
    let program = Program::compile("carried", Link::Shared);
    let directory = tempfile::tempdir().unwrap();
    let kept = directory.path().join("kept");
    let deaths = ["kill rank 1 at barrier 4", "kill rank 0 at barrier 3 in incarnation 1"];
    let options =
        [&["--checkpoint-dir", kept.to_str().unwrap()], &replicas("every=1", &deaths)[2..]].concat();
    let ended = program.run_with(Job::of(2), &options, &[], &["limit", directory.path().to_str().unwrap()]);
    ended.succeeded();
    assert_eq!(ended.sorted(), ["rank 0 ends", "rank 1 ends"], "{ended}");
    let named = ended.err.lines().filter(|line| line.ends_with(": limits (setrlimit)")).count();
    assert_eq!((came_back(&ended), named, ended.err.lines().count()), (2, 2, 4), "{ended}");
}

#[test]
fn threads_compute_in_the_modes_that_they_have_set() {
    let program = Program::compile_with("modes", &["-lm"], Link::Shared);
    let deaths = [
        "kill rank 1 at barrier 4",
        "kill rank 0 at checkpoint 3 after stop in incarnation 1",
        "kill all ranks at checkpoint 2 after mark in incarnation 2",
    ];
    let ended = program.run_with(Job::of(2), &replicas("every=1", &deaths), &[], &[]);
    ended.succeeded();
    assert_eq!(ended.sorted(), ["rank 0 ends", "rank 1 ends"], "{ended}");
    // The C library has a thread begin with all signals blocked. On a busy machine that may take long.
    let others = ended.err.lines().filter(|line| !line.contains("blocks all signals")).count();
    assert_eq!((came_back(&ended), others), (3, 3), "{ended}");
}

#[test]
fn a_program_that_has_threads_before_it_begins_is_named_and_goes_on_from_the_beginning() {
    let program = Program::compile_with("early", &["-pthread"], Link::Static);
    let ended = program.run_with(Job::of(2), &replicas("every=1", &["kill rank 1 at barrier 9"]), &[], &[]);
    ended.said(&["rank 0 cannot be saved", "rank 1 cannot be saved", "started threads before main"]);
    ended.said(&["all 2 ranks go on from the beginning"]);
    assert_eq!((ended.status, ended.sorted()), (Some(0), vec!["rank 0 ends", "rank 1 ends"]), "{ended}");
}

/// Locks know their owner by a number that is another one in each process. So no rank comes back from a
/// barrier at which a thread had one, but from the newest one before or behind.
#[test]
fn no_rank_comes_back_with_a_lock_that_would_not_know_its_owner() {
    let program = Program::compile_with("owners", &["-pthread"], Link::Shared);
    let deaths = ["kill rank 1 at barrier 7", "kill rank 0 at barrier 2 in incarnation 1"];
    for lock in ["recursive", "checking", "inheriting", "robust", "written"] {
        for owner in ["self", "sleeper"] {
            let ended = program.run_with(Job::of(2), &replicas("every=1", &deaths), &[], &[lock, owner]);
            ended.succeeded();
            assert_eq!(ended.sorted(), ["rank 0 ends", "rank 1 ends"], "{lock} {owner} {ended}");
            assert_eq!((came_back(&ended), ended.err.lines().count()), (2, 2), "{lock} {owner} {ended}");
            for barrier in ["5", "6"] {
                assert!(
                    !ended.err.contains(&format!("go on from barrier {barrier} ")),
                    "{lock} {owner} {ended}"
                );
            }
            // It is found no more when it has been given back.
            let options = replicas("every=1", &["kill rank 1 at barrier 9"]);
            let ended = program.run_with(Job::of(2), &options, &[], &[lock, owner]);
            ended.said(&["go on from barrier 8 "]);
        }
    }
}

#[test]
fn a_lock_that_stands_in_the_way_of_ten_checkpoints_is_named() {
    let program = Program::compile_with("owners", &["-pthread"], Link::Shared);
    let run = |arguments: &[&str]| {
        program.run_with(Job::of(2), &replicas("every=1", &["kill rank 1 at barrier 16"]), &[], arguments)
    };
    let ended = run(&["recursive", "sleeper", "long"]);
    assert_eq!((ended.status, ended.sorted()), (Some(0), vec!["rank 0 ends", "rank 1 ends"]), "{ended}");
    ended.said(&["rank 0 cannot be saved", "a thread of it has a lock, at 0x", "go on from barrier "]);
    let has_come_back_from = |barrier: u32| ended.err.contains(&format!("go on from barrier {barrier} "));
    assert!(!(5..=16).any(has_come_back_from), "{ended}");
}

#[test]
fn a_program_that_forks_comes_back() {
    let fork = Program::compile("fork", Link::Shared);
    let ended = fork.run_with(Job::of(2), &replicas("every=1", &["kill rank 1 at barrier 2"]), &[], &[]);
    assert_eq!(ended.status, Some(0), "{ended}");
    ended.said(&["all 2 ranks go on from barrier 1 ", ", shared memory, which children do not have"]);
}

#[test]
fn a_library_that_was_loaded_late_comes_back_and_one_that_was_built_anew_is_refused() {
    let program = Program::compile("carried", Link::Shared);
    let directory = tempfile::tempdir().unwrap();
    let [source, library, kept] = ["late.c", "late.so", "kept"].map(|name| directory.path().join(name));
    std::fs::write(&source, "int answer(void) { return 42; }\n").unwrap();
    let built = Command::new(cc()).args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(built.unwrap().success());
    let arguments = ["late", directory.path().to_str().unwrap()];
    let kept = kept.to_str().unwrap();
    let options = ["--checkpoint", "every=1", "--inject", "kill rank 1 at barrier 20"];
    let ended = program.run_with(Job::of(2), &[&["--replicas", "1"], &options[..]].concat(), &[], &arguments);
    ended.succeeded();
    ended.said(&["go on from barrier"]);
    assert_eq!(ended.err.lines().count(), 1, "{ended}");

    let options = [&["--checkpoint-dir", kept, "--restarts", "0"], &options[..]].concat();
    program.run_with(Job::of(2), &options, &[], &arguments).said(&["`scash resume"]);
    let mut file = std::fs::OpenOptions::new().append(true).open(&library).unwrap();
    file.write_all(b"anew").unwrap();
    let ended = resume(kept);
    assert_ne!(ended.status, Some(0), "{ended}");
    ended.said(&["late.so is not what it was"]);
}

/// Ranks of `post` that can come back, from an epoch after every third place for a checkpoint.
fn posts(job: Job, mode: &str, options: &[&str], environment: &[(&str, &str)]) -> Ended {
    let options = [&["--replicas", "1", "--checkpoint", "every=3"], options].concat();
    Program::compile("post", Link::Shared).run_with(job, &options, environment, &["-", mode])
}

#[test]
fn a_c_program_of_messages_alone_comes_back() {
    for link in [Link::Shared, Link::Static] {
        let program = Program::compile("post", link);
        for (provider, ranks) in [("shm", 2), ("shm", 4), ("tcp", 2)] {
            let job = Job { provider, ..Job::of(ranks) };
            let (expected, _) = left_by(&program, job, &[]);
            for death in ["kill rank 1 at barrier 12", "kill all ranks at checkpoint 3 after mark"] {
                let left = left_by(&program, job, &replicas("every=3", &[death]));
                assert_eq!(left, (expected.clone(), 1), "{death} {job:?}");
            }
        }
    }
}

#[test]
fn a_c_program_of_messages_alone_goes_on_from_the_newest_checkpoint() {
    let ended = posts(Job::of(2), "", &["--inject", "kill rank 1 at barrier 12"], &[]);
    ended.succeeded();
    ended.said(&["go on from barrier 9 (epoch 3"]);
    assert_eq!(ended.err.lines().count(), 1, "{ended}");
}

#[test]
fn a_c_program_without_a_place_for_checkpoints_begins_anew() {
    for provider in ["shm", "tcp"] {
        let job = Job { provider, ..Job::of(2) };
        let ended = posts(job, "never", &[], &[]);
        ended.succeeded();
        ended.said(&["rank 1 was killed by SIGKILL; all 2 ranks go on from the beginning"]);
        let usual = posts(job, "", &[], &[]);
        assert_eq!(ended.sorted(), usual.sorted(), "{ended}");
    }
}

#[test]
fn ranks_that_come_to_different_calls_where_a_checkpoint_could_be_are_told_so() {
    for (mode, words) in [
        ("reduces", &["calls all-reduce where this rank calls barrier"][..]),
        ("leaves", &["dsm_barrier", "dsm_finalize"]),
    ] {
        let ended = posts(Job::of(2), mode, &[], &[]);
        ended.ended_with(1);
        ended.said(words);
    }
}

#[test]
fn ranks_of_which_one_calls_a_barrier_in_place_of_a_checkpoint_say_what_they_wait_for() {
    let program = Program::compile("post", Link::Shared);
    let mut command =
        program.command(Job::of(2), &["--replicas", "1"], &[("SCASH_STALL", "0.3")], &["-", "meets"]);
    command.env_remove("LD_LIBRARY_PATH").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut left = vec!["rank 0: in dsm_barrier", "rank 1 has waited for"];
    let mut said = String::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap) {
        left.retain(|words| !line.contains(words));
        said += &line;
        if left.is_empty() {
            break;
        }
    }
    // They wait for ever.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(left.is_empty(), "no {left:?} in: {said}");
}
