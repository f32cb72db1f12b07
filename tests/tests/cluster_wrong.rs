//! What users, programs and machines do wrong is answered with words that say what it was, and never with a
//! hang.
//!
//! That no process and no file is left behind is checked after every run ([`scash_tests::cluster::run`]).

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use libc::{SIGKILL, SIGSEGV};
use scash_tests::cluster::{Ended, Job, all_kinds, kinds, run};
use std::ffi::OsStr;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

const WRONG: &str = env!("CARGO_BIN_EXE_wrong");
const STORM: &str = env!("CARGO_BIN_EXE_storm");
/// How a rank ends that cannot complete an access to shared memory.
const EXIT_LOST: i32 = 74;

/// Runs `wrong MISTAKE` with a directory for its notes.
fn wrong(job: &Job, signal: &str) -> Ended {
    let notes = tempfile::tempdir().unwrap();
    job.run(Path::new(WRONG), &[signal, notes.path().to_str().unwrap()])
}

/// In every kind of job, with one rank and with several.
fn every_job(check: impl Fn(Job, u32)) {
    for kind in all_kinds() {
        [1, 3].into_iter().for_each(|ranks| check(kind.job(ranks), ranks));
    }
}

#[test]
fn a_program_that_does_nothing_wrong_ends_well() {
    every_job(|job, _| wrong(&job, "nothing").succeeded());
}

#[test]
fn a_program_that_has_half_of_a_launcher_is_told_which() {
    for (name, other) in [("SCASH_RANK", "SCASH_SIZE"), ("SCASH_SIZE", "SCASH_RANK")] {
        let mut command = Command::new(WRONG);
        command.arg("nothing").env(name, "1").env_remove(other).env_remove("SCASH_BOOT_FD");
        run(command).refused(&["is missing although", "scash run"]);
    }
}

#[test]
fn two_programs_in_one_job_are_both_named() {
    let script = "[ $SCASH_RANK = 1 ] && exec \"$2\"; exec \"$1\" nothing";
    for kind in all_kinds() {
        let ended = kind.job(3).run_script(script, &[WRONG, STORM]);
        ended.refused(&["two different programs", "ranks 0, 2", "rank 1", WRONG, STORM]);
    }
}

/// Checks that every rank was told who called what.
fn all_are_told(signal: &str, words: &[&str]) {
    for kind in all_kinds() {
        for ranks in [2, 4] {
            let ended = wrong(&kind.job(ranks), signal);
            ended.refused(&["rank "]);
            for line in ended.lines(ranks) {
                let told = line.split_once("was told: ").expect("what it was told").1;
                assert!(words.iter().all(|word| told.contains(word)), "no {words:?}: {ended}");
                assert!(
                    told.contains(&format!("rank {} called", ranks - 1)),
                    "the last rank is not named: {ended}"
                );
                assert!(told.matches(" called ").count() >= 2 && told.contains("same calls"), "{ended}");
            }
        }
    }
}

#[test]
fn ranks_that_allocate_different_sizes_are_all_told_who_asked_for_what() {
    all_are_told("sizes", &["dsm_alloc of 4096 bytes", "dsm_alloc of 8192 bytes"]);
}

#[test]
fn ranks_that_disagree_are_told_so_even_if_others_have_left_over_it() {
    for _ in 0..5 {
        all_are_told("sizes, then leave", &["dsm_alloc of 4096 bytes", "dsm_alloc of 8192 bytes"]);
    }
}

#[test]
fn ranks_that_free_different_memory_are_all_told() {
    all_are_told("frees", &["dsm_free of the allocation at page 0", "dsm_free of the allocation at page 1"]);
}

#[test]
fn ranks_that_mean_other_owners_or_other_values_by_an_array_are_all_told() {
    for mistake in ["turns to others", "types", "shapes", "divisions", "values"] {
        all_are_told(mistake, &["Dsm::turn (or the making) of arrays"]);
    }
}

#[test]
fn ranks_that_make_different_calls_are_all_told() {
    all_are_told("ends", &["dsm_barrier", "dsm_finalize"]);
    all_are_told("publishes", &["dsm_barrier", "Partition::publish of the partition at page 2"]);
    all_are_told(
        "semaphores",
        &["dsm_semaphores_create of 2 semaphores of 7", "dsm_flags_create of 2 flags"],
    );
    all_are_told("broadcasts", &["dsm_barrier", "dsm_broadcast of 1 pages from page 0"]);
    all_are_told("turns alone", &["dsm_barrier", "Dsm::turn (or the making) of arrays"]);
    all_are_told("destroys", &["dsm_barrier", "dsm_locks_destroy of 2 locks from 1 on"]);
    all_are_told(
        "destroys others",
        &["dsm_locks_destroy of 4 locks from 0 on", "dsm_locks_destroy of 2 locks from 1 on"],
    );
}

#[test]
fn what_is_in_use_at_one_rank_is_destroyed_by_none_and_all_are_told_whose_it_is() {
    for kind in all_kinds() {
        for ranks in [1, 2, 4] {
            let ended = wrong(&kind.job(ranks), "destroy what is in use");
            ended.succeeded();
            let lines = ended.lines(6 * ranks);
            let last = ranks - 1;
            for rank in 0..ranks {
                let told =
                    lines.iter().filter_map(|line| line.strip_prefix(&format!("rank {rank} was told: ")));
                let words = [
                    format!(
                        "lock 1 cannot be destroyed, because a thread of rank {last} has it: give it back first"
                    ),
                    format!(
                        "reader-writer lock 3 cannot be destroyed, because a thread of rank {last} has it"
                    ),
                    format!(
                        "reader-writer lock 3 cannot be destroyed, because a thread of rank {last} has it"
                    ),
                    format!(
                        "condition 4 cannot be destroyed, because a thread of rank {last} waits for it: let it go on first"
                    ),
                    format!("lock 0 cannot be destroyed, because a thread of rank {last} waits for it"),
                    format!("lock 2 cannot be destroyed, because a thread of rank {last} has it"),
                ];
                let told: Vec<&str> = told.collect();
                let right = told.len() == words.len() && told.iter().zip(&words).all(|(t, w)| t.contains(w));
                assert!(right, "not {words:#?}: {ended}");
                assert!(told.iter().all(|told| told.contains("no rank has destroyed anything")), "{ended}");
            }
        }
    }
}

#[test]
fn what_was_destroyed_cannot_be_used_or_destroyed_again_and_never_means_another() {
    let gone = |what: &str, number: u32| format!("there is no {what} {number} any more: it was destroyed");
    let words = [
        gone("lock", 0),
        gone("lock", 0),
        gone("lock", 0),
        gone("reader-writer lock", 2),
        gone("reader-writer lock", 2),
        gone("semaphore", 4),
        gone("semaphore", 4),
        gone("condition", 6),
        gone("flag", 8),
        gone("lock", 0),
        gone("lock", 2),
        "3 is a reader-writer lock: use a number that was returned when locks were made".to_owned(),
        "there is no lock 20: locks, semaphores and the like have numbers 0 to 19".to_owned(),
        "there is no lock 4294967295".to_owned(),
        "0 locks are to be destroyed: name at least one".to_owned(),
    ];
    every_job(|job, _| {
        let ended = wrong(&job, "destroy what is gone");
        ended.succeeded();
        let lines = ended.lines(u32::try_from(words.len()).unwrap());
        for (line, words) in lines.iter().zip(&words) {
            assert!(line.contains(words), "no {words:?} in {line:?}: {ended}");
        }
    });
}

#[test]
fn a_second_thread_in_a_collective_call_is_refused_and_the_first_is_not_disturbed() {
    for kind in all_kinds() {
        for ranks in [2, 3] {
            let ended = wrong(&kind.job(ranks), "meet twice");
            ended.succeeded();
            let told = ended.lines(1)[0];
            assert!(told.contains("another thread of this rank is in a collective call"), "{ended}");
        }
    }
}

#[test]
fn a_region_that_is_too_small_says_how_to_make_it_larger() {
    every_job(|job, _| {
        let job = job.env("SCASH_REGION", "1M");
        wrong(&job, "much").refused(&["2097152 bytes of shared memory", "raise SCASH_REGION (now 1 MiB)"]);
    });
}

#[test]
fn settings_that_make_no_sense_are_named_with_what_would() {
    for (name, value, words) in [
        ("SCASH_REGION", "junk", &["SCASH_REGION=junk", "512M"][..]),
        ("SCASH_FAULT", "junk", &["\"junk\"", "uffd", "mprotect"]),
        ("SCASH_TRANSFER", "junk", &["SCASH_TRANSFER=junk", "zero-copy and message"]),
        ("SCASH_PREDICT", "junk", &["SCASH_PREDICT=junk", "on or off"]),
        ("SCASH_STALL", "junk", &["SCASH_STALL=junk", "a number of seconds"]),
        ("SCASH_STALL", "-1", &["SCASH_STALL=-1", "a number of seconds"]),
        ("SCASH_MIGRATE", "junk", &["SCASH_MIGRATE=junk", "on or off"]),
        ("SCASH_COPIES", "junk", &["SCASH_COPIES=junk", "adaptive, update and invalidate"]),
        ("SCASH_BLOCK", "junk", &["SCASH_BLOCK=junk", "a number"]),
        ("SCASH_BLOCK", "0", &["SCASH_BLOCK", "1 to 1024 pages"]),
        ("SCASH_RENEW", "junk", &["SCASH_RENEW=junk", "on or off"]),
        ("SCASH_EXACT", "junk", &["SCASH_EXACT=junk", "on or off"]),
        ("SCASH_AHEAD", "junk", &["SCASH_AHEAD=junk", "on or off"]),
        ("SCASH_CACHE", "junk", &["SCASH_CACHE=junk", "512M"]),
        ("SCASH_CACHE", "100K", &["SCASH_CACHE=100K", "256K"]),
        ("SCASH_EVICTION", "junk", &["SCASH_EVICTION=junk", "fifo and sieve"]),
        ("SCASH_RACES", "junk", &["SCASH_RACES=junk", "off, report and abort"]),
        ("SCASH_WATCH", "junk", &["SCASH_WATCH=junk", "on or off"]),
        ("SCASH_ENCRYPT", "junk", &["SCASH_ENCRYPT=junk", "on or off"]),
        ("SCASH_STATS", "junk", &["SCASH_STATS=junk", "on or off"]),
        ("SCASH_PREFETCH", "junk", &["SCASH_PREFETCH=junk", "a number"]),
        ("SCASH_PORT", "junk", &["SCASH_PORT=junk", "a number"]),
        ("SCASH_PROVIDER", "junk", &["\"junk\"", "shm", "tcp"]),
        ("SCASH_THREADS", "junk", &["junk", "--threads"]),
    ] {
        wrong(&Job::plain(2).env(name, value), "nothing").refused(words);
    }
    wrong(&Job::plain(2).option("--provider", "junk"), "nothing").refused(&[
        "no provider \"junk\"",
        "shm",
        "tcp",
    ]);
    let over_tcp = Job::plain(2).option("--provider", "tcp").env("SCASH_CONGESTION", "junk");
    wrong(&over_tcp, "nothing").refused(&["SCASH_CONGESTION=junk", "the kernel refuses it"]);
    // Past the launcher, which looks at these itself.
    wrong(&Job::plain(2).option("--env", "SCASH_FAULT=junk"), "nothing")
        .refused(&["junk", "uffd", "mprotect"]);
}

#[test]
fn settings_that_differ_where_they_must_not_are_named() {
    for (name, value) in [("SCASH_CACHE", "1M"), ("SCASH_COPIES", "update"), ("SCASH_BLOCK", "2")] {
        let script = r#"if [ "$SCASH_RANK" = 1 ]; then export "$1=$2"; fi; exec "$3" nothing /dev/null"#;
        let ended = Job::plain(3).run_script(script, &[name, value, WRONG]);
        ended.refused(&[&format!("{name} is not the same at rank"), "set it for the whole job"]);
    }
}

#[test]
fn settings_that_are_not_text_are_named() {
    let bytes = OsStr::from_bytes(b"\xff\xfe");
    for name in [
        "SCASH_REGION",
        "SCASH_TRANSFER",
        "SCASH_PREDICT",
        "SCASH_CACHE",
        "SCASH_EVICTION",
        "SCASH_MIGRATE",
        "SCASH_COPIES",
        "SCASH_BLOCK",
        "SCASH_STALL",
        "SCASH_RACES",
        "SCASH_RENEW",
        "SCASH_EXACT",
        "SCASH_AHEAD",
        "SCASH_WATCH",
        "SCASH_ENCRYPT",
        "SCASH_STATS",
        "SCASH_PREFETCH",
        "SCASH_INTERFACE",
        "SCASH_PORT",
        "SCASH_CONGESTION",
    ] {
        wrong(&Job::plain(2).env(name, bytes), "nothing").refused(&[name, "\\xFF\\xFE", "text (UTF-8)"]);
    }
    // The launcher's own.
    for name in ["SCASH_FAULT", "SCASH_PROVIDER", "SCASH_THREADS", "SCASH_RSH"] {
        wrong(&Job::plain(2).env(name, bytes), "nothing").refused(&[name, "UTF-8"]);
    }
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    // That of rank 0, and that of rank 1.
    for (first, ranks) in [(port, 1), (port, 3), (port - 1, 3)] {
        let job = tcp_from(first, ranks);
        wrong(&job, "nothing").refused(&[&format!("port {port} of 127.0.0.1 is in use")]);
    }
}

/// A job whose ranks listen on the ports from `first` on.
fn tcp_from(first: u16, ranks: u32) -> Job {
    Job::plain(ranks).option("--provider", "tcp").env("SCASH_PORT", first.to_string())
}

#[test]
fn ranks_listen_on_ports_one_after_the_other() {
    // Where the system takes no ports from for others.
    let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let first = (20_000..30_000).step_by(3).find(|&port| (port..port + 3).all(is_free)).unwrap();
    wrong(&tcp_from(first, 3), "nothing").succeeded();
}

#[test]
fn ports_that_end_before_the_last_rank_are_refused_with_those_that_do_not() {
    wrong(&tcp_from(65_534, 3), "nothing")
        .refused(&["SCASH_PORT=65534", "with 3 ranks, choose 65533 or less"]);
}

#[test]
fn an_interface_that_is_not_this_hosts_is_named() {
    for name in ["no such host", "192.0.2.1", "0.0.0.0"] {
        let job = Job::plain(2).option("--provider", "tcp").env("SCASH_INTERFACE", name);
        wrong(&job, "nothing").refused(&[&format!("cannot listen on `{name}`"), "an address of this host"]);
    }
}

#[test]
fn limits_of_memory_are_named_with_the_command_that_raises_them() {
    let limited =
        |job: Job, limit: &str| job.run_script(&format!("ulimit {limit}; exec \"$1\" nothing"), &[WRONG]);
    for kind in all_kinds() {
        for (limit, words) in [("-v 4000000", "raise `ulimit -v`"), ("-f 1024", "raise `ulimit -f`")] {
            limited(kind.job(2), limit).refused(&["132096 MiB", words]);
        }
        let small = kind.job(2).env("SCASH_REGION", "512K").env("SCASH_HEAP", "0");
        limited(small.clone(), "-v 4000000").succeeded();
        limited(small.clone(), "-f 200000").succeeded();
        if kind.provider == "shm" {
            // Room for the region, but not for the messages.
            limited(small, "-f 1024").refused(&["for messages", "raise `ulimit -f`"]);
        }
    }
}

#[test]
fn a_rank_that_leaves_without_a_word_ends_the_job() {
    every_job(|job, _| {
        wrong(&job, "leave").refused(&["rank ", "without calling dsm_finalize or scomm_finalize"])
    });
}

/// Checks that rank 1 is named, which was killed, and that all others are told so.
fn rank_1_is_gone(mistake: &str) {
    for kind in all_kinds() {
        rank_1_is_gone_from(|ranks| kind.job(ranks), mistake);
    }
}

fn rank_1_is_gone_from(job: impl Fn(u32) -> Job, mistake: &str) {
    for ranks in [2, 4] {
        let ended = wrong(&job(ranks), mistake);
        ended.failed(128 + SIGKILL, &["scash: rank 1 (pid ", "was killed by signal 9 (SIGKILL)"]);
        for line in ended.lines(ranks - 1) {
            assert!(line.contains("rank 1 is gone"), "{ended}");
        }
    }
}

#[test]
fn a_rank_killed_in_the_middle_of_barriers_is_named_and_the_others_are_told() {
    rank_1_is_gone("die in barriers");
}

#[test]
fn a_rank_killed_in_the_middle_of_frees_is_named_and_the_others_are_told() {
    rank_1_is_gone("die in frees");
}

#[test]
fn a_rank_killed_with_a_lock_is_named_and_those_that_wait_for_it_are_told() {
    for what in ["a lock", "a lock to read", "a lock to write"] {
        rank_1_is_gone(&format!("die with {what}"));
    }
}

#[test]
fn a_rank_killed_before_its_signal_is_named_and_those_that_wait_for_it_are_told() {
    for what in ["a semaphore", "a condition", "a flag"] {
        rank_1_is_gone(&format!("die with {what}"));
    }
}

/// Each use of an object takes its guard for some tens of nanoseconds. A rank that is killed meanwhile leaves
/// it taken for ever.
#[test]
fn a_rank_killed_with_the_guard_of_an_object_is_named_and_those_that_come_to_the_object_are_told() {
    let job = |ranks| Job::plain(ranks).env("SCASH_SHARE", "on").env("SCASH_REGION", "64M");
    for what in ["a lock", "a reader-writer lock", "a semaphore", "a condition", "a flag"] {
        rank_1_is_gone_from(job, &format!("die with the guard of {what}"));
    }
}

#[test]
fn a_rank_that_dies_while_others_fetch_from_it_is_named_and_the_others_are_told() {
    for kind in all_kinds() {
        let ended = wrong(&kind.job(3), "die while fetched from");
        ended.failed(128 + SIGKILL, &["scash: rank 0 (pid ", "was killed by signal 9 (SIGKILL)"]);
        // In an access, or, if what it fetched was still there, at the next barrier.
        assert_eq!(ended.err.matches("rank 0 is gone").count(), 2, "{ended}");
    }
}

#[test]
fn a_rank_that_gets_no_memory_in_an_access_says_what_to_do_and_the_others_are_told() {
    // Not where frames are shared: there the system gives memory to accesses without being asked.
    for kind in kinds() {
        let ended = wrong(&kind.job(3), "out of memory");
        let remedy = if kind.engine == "uffd" {
            "raise the limit of the job's cgroup"
        } else {
            "raise it with `sysctl"
        };
        let told = format!("scash: rank 0: access to shared memory at {}: ", touched(&ended));
        ended.failed(EXIT_LOST, &[&told, remedy, "scash: rank 0 (pid ", "exited with status 74"]);
        // Not lines: ranks may talk over each other.
        assert_eq!(ended.err.matches("rank 0 is gone").count(), 2, "{ended}");
    }
}

/// The address that rank 0 was about to touch.
fn touched(ended: &Ended) -> &str {
    ended.err.lines().find_map(|line| line.strip_prefix("about to touch ")).expect("an address")
}

#[test]
fn memory_that_was_freed_kills_whoever_touches_it_with_its_address() {
    every_job(|job, _| {
        let ended = wrong(&job, "freed");
        ended.failed(128 + SIGSEGV, &["was killed by signal 11 (SIGSEGV)"]);
        let address = touched(&ended);
        ended
            .said(&[&format!("scash: rank 0: access to {address}, which is in the region"), "not allocated"]);
    });
}

#[test]
fn memory_past_the_end_kills_whoever_touches_it() {
    every_job(|job, _| {
        let ended = wrong(&job, "beyond");
        ended.failed(128 + SIGSEGV, &["scash: rank 0: access to 0x", "not allocated"]);
    });
}

#[test]
fn shared_memory_kills_whoever_touches_it_after_the_end_with_its_address() {
    every_job(|job, _| {
        let ended = wrong(&job, "finalized");
        let told = format!("scash: rank 0: access to {}, which was shared memory until", touched(&ended));
        ended.failed(128 + SIGSEGV, &[&told, "was killed by signal 11 (SIGSEGV)"]);
    });
}

#[test]
fn a_segmentation_fault_of_the_programs_own_stays_one() {
    every_job(|job, _| {
        let ended = wrong(&job, "null");
        ended.failed(128 + SIGSEGV, &["was killed by signal 11 (SIGSEGV)"]);
        assert!(!ended.err.contains("access to"), "{ended}");
    });
}

#[test]
fn what_was_not_allocated_cannot_be_freed() {
    let hint = "give an address that dsm_alloc returned";
    every_job(|job, _| {
        wrong(&job, "wild free").refused(&["is not shared memory", hint]);
        wrong(&job, "inner free").refused(&["lies inside an allocation", hint]);
        wrong(&job, "double free").refused(&["is not allocated", hint]);
    });
}

#[test]
fn a_launcher_that_is_killed_takes_its_ranks_along() {
    for kind in all_kinds() {
        let job = kind.job(2);
        // The first rank kills the launcher, which is its parent.
        let ended = job.run_script("[ $SCASH_RANK = 0 ] && kill -9 $PPID; exec \"$1\" stay", &[WRONG]);
        assert_ne!(ended.status, 0, "{ended}");
    }
}

#[test]
fn a_collective_call_while_threads_wait_for_each_other_is_refused() {
    for kind in all_kinds() {
        let ended = wrong(&kind.job(1).option("--threads", "2"), "stay away from the crew");
        ended.succeeded();
        let words = "a collective call while 1 of the rank's 2 threads wait in dsm_barrier_threads";
        assert!(ended.lines(1)[0].contains(words), "{ended}");
    }
}

#[test]
fn a_thread_more_than_the_rank_has_is_refused_and_the_others_meet() {
    for kind in all_kinds() {
        let ended = wrong(&kind.job(2), "crowd");
        ended.succeeded();
        let words = "one thread more in dsm_barrier_threads than the 1 that the rank has";
        assert!(ended.lines(1)[0].contains(words), "{ended}");
    }
}
