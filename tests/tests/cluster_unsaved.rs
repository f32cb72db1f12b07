//! What of a rank no checkpoint can carry is named, and the job goes on without it, or comes back without it
//! (`scash run --replicas`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use scash_tests::cluster::{Job, hung_up, replicas};
use std::path::Path;

#[test]
fn a_thread_that_blocks_all_signals_is_named_at_once() {
    let phoenix = Path::new(env!("CARGO_BIN_EXE_phoenix"));
    // There is one checkpoint that can be tried, and no thread is stopped in it.
    let job = replicas(Job::plain(2), 20, &["kill rank 1 at checkpoint after stop"]);
    let ended = job.run(phoenix, &["deaf thread"]);
    assert_eq!(ended.status, 0, "{ended}");
    let lines: Vec<&str> = ended.err.lines().collect();
    assert_eq!((lines.len(), &lines[2..]), (4, &["something to be kept"; 2][..]), "{ended}");
    ended.said(&["rank 0 cannot be saved", "rank 1 cannot be saved", "thread \"deaf\" blocks all signals"]);
}

#[test]
fn what_of_messages_cannot_be_saved_is_named_and_checkpoints_are_taken_without_it() {
    let letters = Path::new(env!("CARGO_BIN_EXE_letters"));
    for (what, why) in [
        ("window", "close windows, and free what scomm_allocate gave, before the barrier"),
        ("buffer", "it has registered memory of message passing"),
        ("collective", "it has a collective operation of messages under way: wait for it before the barrier"),
    ] {
        let undisturbed = Job::plain(2).run(letters, &[what]);
        let deaths = ["kill rank 0 at barrier 5", "kill rank 0 at barrier 14 in incarnation 1"];
        let ended = replicas(Job::plain(2), 1, &deaths).run(letters, &[what]);
        assert_eq!((ended.status, ended.sorted()), (0, undisturbed.sorted()), "{what} {ended}");
        ended.said(&["rank 1 cannot be saved", why, "from the beginning"]);
        assert_eq!(ended.err.matches("go on from barrier").count(), 1, "{what} {ended}");
    }
}

#[test]
fn programs_of_messages_alone_are_told_once_that_they_are_not_saved() {
    let news = "no rank can be saved";
    let ring = Path::new(env!("CARGO_BIN_EXE_ring"));
    let ended = replicas(Job::plain(2), 1, &[]).option("--restarts", "2").run(ring, &["kill", "1"]);
    ended.failed(128 + 9, &["rank 1", "2 restarts from the beginning"]);
    assert_eq!(ended.err.matches(news).count(), 1, "{ended}");
    let ended = Job::plain(2).run(ring, &[]);
    assert_eq!((ended.status, ended.err.as_str()), (0, ""), "{ended}");
}

#[test]
fn a_file_that_is_not_what_it_was_is_named_where_a_rank_comes_back() {
    let phoenix = Path::new(env!("CARGO_BIN_EXE_phoenix"));
    for (what, words) in
        [("shortened file", "it had 27 bytes and has 3 now"), ("replaced file", "another one")]
    {
        // The last barrier: the checkpoint before it has the file as it was.
        let place = tempfile::tempdir().unwrap();
        let job = replicas(Job::plain(1), 5, &["kill rank 0 at barrier 30"]).env("TMPDIR", place.path());
        let ended = job.run(phoenix, &[what]);
        ended.failed(78, &["rank 0 cannot go on from epoch 5", "its file /", words]);
    }
}

#[test]
fn a_file_that_may_be_overwritten_is_named_once_and_the_job_comes_back() {
    let phoenix = Path::new(env!("CARGO_BIN_EXE_phoenix"));
    let job = replicas(Job::plain(2), 1, &["kill rank 1 at barrier 9"]);
    let ended = job.run(phoenix, &["overwritten file"]);
    assert_eq!(ended.status, 0, "{ended}");
    let said = |rank: u32| {
        let begins = format!("scash: rank {rank}: descriptor ");
        let ends = "is open for writing before the end of its file: if a rank dies, what was overwritten \
                    there since the checkpoint is not taken back";
        ended.err.lines().filter(|line| line.starts_with(&begins) && line.ends_with(ends)).count()
    };
    assert_eq!((said(0), said(1)), (1, 1), "{ended}");
    ended.said(&["all 2 ranks go on from barrier 8"]);
}

#[test]
fn what_a_program_has_set_of_its_process_is_named_once_and_the_job_comes_back() {
    let phoenix = Path::new(env!("CARGO_BIN_EXE_phoenix"));
    let deaths = ["kill rank 1 at barrier 9", "kill rank 0 at barrier 9 in incarnation 1"];
    let place = tempfile::tempdir().unwrap();
    let ended = replicas(Job::plain(2), 1, &deaths).env("TMPDIR", place.path()).run(phoenix, &["settings"]);
    assert_eq!(ended.status, 0, "{ended}");
    let ends = ": limits (setrlimit), its session or process group (setsid, setpgid), memory that is locked (mlock), \
                attributes (prctl), priorities (nice, sched_setscheduler), no new privileges (prctl), \
                locks of files (flock, fcntl)";
    assert_eq!(ended.err.lines().filter(|line| line.ends_with(ends)).count(), 2, "{ended}");
    assert_eq!(ended.err.matches("go on from barrier ").count(), 2, "{ended}");
    assert_eq!(ended.err.lines().filter(|line| !hung_up(line)).count(), 6, "{ended}");
}

/// The filter would end a rank that asks the system for the rest.
#[test]
fn filters_of_system_calls_and_other_namespaces_are_named_and_the_job_comes_back() {
    let phoenix = Path::new(env!("CARGO_BIN_EXE_phoenix"));
    let of_a_filter = ": no new privileges (prctl), filters of system calls (seccomp)";
    for (what, ends) in [("filter", of_a_filter), ("namespaces", ": namespaces (unshare, setns)")] {
        if what == "namespaces" && !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: namespaces: only root may make some");
            continue;
        }
        let ended = replicas(Job::plain(2), 1, &["kill rank 1 at barrier 9"]).run(phoenix, &[what]);
        assert_eq!(ended.status, 0, "{ended}");
        let named =
            ended.err.lines().filter(|line| line.ends_with(&format!("as at its start{ends}"))).count();
        assert_eq!((named, ended.err.matches("go on from barrier ").count()), (2, 1), "{ended}");
    }
}

/// It is set behind the eighth checkpoint: the sixteenth names it, also where ranks have come back before, or
/// come back behind it.
#[test]
fn what_a_program_sets_later_is_named_at_one_of_the_next_checkpoints_also_after_a_restart() {
    let phoenix = Path::new(env!("CARGO_BIN_EXE_phoenix"));
    for deaths in [&[][..], &["kill rank 1 at barrier 3"], &["kill rank 0 at barrier 20"]] {
        for threads in ["1", "4"] {
            let job = replicas(Job::plain(2), 1, deaths).option("--threads", threads);
            let ended = job.run(phoenix, &["late setting"]);
            assert_eq!(ended.status, 0, "{ended}");
            let lines: Vec<&str> = ended.err.lines().filter(|line| !hung_up(line)).collect();
            let ends = "this is as at its start: priorities (nice, sched_setscheduler)";
            assert_eq!(lines.iter().filter(|line| line.ends_with(ends)).count(), 2, "{ended}");
            assert_eq!(lines.len(), 2 + deaths.len(), "{ended}");
        }
    }
}

#[test]
fn what_cannot_be_saved_is_named_once_and_the_job_goes_on() {
    let phoenix = Path::new(env!("CARGO_BIN_EXE_phoenix"));
    for (what, words) in [
        ("child", "child processes"),
        ("socket", "is a socket"),
        ("one socket", "descriptor 3 is a socket"),
        ("pipe", "is a pipe"),
        ("terminal", "is a device or a terminal"),
        ("mapping", "shares memory with others"),
        ("mapped file", "shares memory with others"),
        ("removed file", "mapped, a file that was removed or replaced"),
        ("nameless file", "is a file without a name"),
        ("timer", "POSIX timers"),
        ("alarm", "a running interval timer"),
        ("epoll", "is no file"),
        ("timer descriptor", "is no file"),
        ("many threads", "more than 256 threads"),
    ] {
        let ended = replicas(Job::plain(2), 1, &[]).run(phoenix, &[what]);
        assert_eq!(ended.status, 0, "{ended}");
        ended.said(&["rank 0 cannot be saved", "rank 1 cannot be saved"]);
        // A line for each rank, and before what they had printed until then, which waits for a checkpoint.
        let lines: Vec<&str> = ended.err.lines().collect();
        assert!(lines[..2].iter().all(|line| line.contains(words)), "{ended}");
        assert_eq!(lines[2..], ["something to be kept"; 2], "{ended}");
        // Ranks that are killed leave files.
        let place = tempfile::tempdir().unwrap();
        let dies = replicas(Job::plain(2), 1, &["kill rank 1 at barrier 9"]).env("TMPDIR", place.path());
        let dies = dies.run(phoenix, &[what]);
        assert_eq!((dies.status, dies.sorted()), (0, ended.sorted()), "{what} {dies}");
        dies.said(&[words, "was killed by SIGKILL; all 2 ranks go on from "]);
    }
}

#[test]
fn a_rank_that_opens_and_closes_files_all_the_time_comes_back_with_those_that_were_open() {
    let phoenix = Path::new(env!("CARGO_BIN_EXE_phoenix"));
    let undisturbed = Job::plain(2).run(phoenix, &["changing files"]);
    let deaths = ["kill rank 1 at barrier 15", "kill rank 0 at barrier 5 in incarnation 1"];
    let ended = replicas(Job::plain(2), 1, &deaths).run(phoenix, &["changing files"]);
    assert_eq!((ended.status, ended.sorted()), (0, undisturbed.sorted()), "{ended}");
    // Checkpoints that are tried in the midst of it are left out, and nothing is said.
    assert_eq!(ended.err.matches("all 2 ranks go on from barrier ").count(), 2, "{ended}");
    assert!(!ended.err.contains("cannot be saved"), "{ended}");
}

#[test]
fn a_rank_with_as_many_threads_as_may_be_or_with_guard_pages_comes_back() {
    let phoenix = Path::new(env!("CARGO_BIN_EXE_phoenix"));
    let undisturbed = Job::plain(2).run(phoenix, &["socket"]);
    for what in ["threads", "guard page", "zeros"] {
        let ended = replicas(Job::plain(2), 1, &["kill rank 1 at barrier 9"]).run(phoenix, &[what]);
        assert_eq!((ended.status, ended.sorted()), (0, undisturbed.sorted()), "{ended}");
        // On a busy machine so many threads may take too long to stop now and then.
        ended.said(&["all 2 ranks go on from barrier "]);
    }
}
