//! Programs that do something wrong, and what they are told.

use crate::support::{Job, Link, Program};

/// How a rank ends of which a thread would wait for itself.
const DEADLOCK: i32 = 70;
/// As a shell tells of a process that SIGSEGV ended.
const SEGMENTATION_FAULT: i32 = 128 + 11;

#[test]
fn bad_arguments_are_refused_and_the_job_goes_on() {
    Program::compile("errors", Link::Shared).succeeds_everywhere(&[]);
}

#[test]
fn arguments_that_no_program_means_end_no_rank() {
    Program::compile("absurd", Link::Shared).succeeds_everywhere(&[]);
}

#[test]
fn locks_that_are_used_as_they_must_not_be_say_so_and_the_job_goes_on() {
    Program::compile("locks_wrong", Link::Shared).succeeds_everywhere(&[]);
}

#[test]
fn objects_that_are_used_as_they_must_not_be_say_so_and_the_job_goes_on() {
    Program::compile("objects_wrong", Link::Shared).succeeds_everywhere(&[]);
}

#[test]
fn a_program_that_was_not_launched_is_a_job_of_one_rank() {
    for link in [Link::Shared, Link::Static] {
        let program = Program::compile("unlaunched", link);
        program.run_alone(&[], &[]).succeeded();
        for Job { provider, engine, .. } in Job::all() {
            let settings = [("SCASH_PROVIDER", provider), ("SCASH_FAULT", engine), ("SCASH_CACHE", "256K")];
            program.run_alone(&settings, &[provider, engine]).succeeded();
        }
    }
}

#[test]
fn a_program_that_has_half_of_a_launcher_is_told_which() {
    let program = Program::compile("unlaunched", Link::Shared);
    for (name, words) in [("SCASH_RANK", "SCASH_SIZE is missing"), ("SCASH_SIZE", "SCASH_RANK is missing")] {
        program.run_alone(&[(name, "1")], &["refused"]).said(&[words]);
    }
    for name in ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"] {
        let ended = program.run_alone(&[(name, "2")], &["refused"]);
        ended.said(&[&format!("{name}=2"), "scash run -n 2 PROGRAM"]);
    }
}

#[test]
fn touching_freed_memory_kills_with_a_word_of_why() {
    let wild = Program::compile("wild", Link::Shared);
    for job in Job::all() {
        for what in ["freed", "beyond"] {
            let ended = wild.run(job, &[], &[what]);
            ended.ended_with(SEGMENTATION_FAULT);
            ended.said(&["scash: rank ", "access to 0x", "not allocated"]);
        }
    }
}

#[test]
fn a_program_that_survives_wild_accesses_uses_new_memory_in_their_place() {
    let survive = Program::compile("survive", Link::Shared);
    for job in Job::all() {
        let ended = survive.run(job, &[("SCASH_REGION", "80K")], &[]);
        ended.succeeded();
        ended.said(&["not allocated", "until dsm_finalize"]);
    }
}

#[test]
fn children_that_ranks_fork_are_told_that_they_are_no_ranks_and_disturb_nobody() {
    let fork = Program::compile("fork", Link::Shared);
    for job in Job::all() {
        let ended = fork.run(job, &[], &[]);
        ended.succeeded();
        let touched = ended.err.matches(", shared memory, which children do not have").count();
        assert_eq!(touched, 2 * job.ranks as usize, "{ended}");
    }
}

#[test]
fn a_program_that_closes_all_descriptors_keeps_its_files_and_has_right_data_or_is_told() {
    let descriptors = Program::compile("descriptors", Link::Shared);
    for job in Job::all() {
        // Those of a daemon, which are not ours where a process may have more than a few thousand; and all
        // that there are.
        for last in ["999", "70000"] {
            let files = tempfile::tempdir().unwrap();
            let ended = descriptors.run(job, &[], &[last, files.path().to_str().unwrap()]);
            assert!(!ended.err.contains("not so"), "{ended}");
            if ended.status == Some(0) {
                assert!(!ended.err.contains("wrong"), "{ended}");
                assert!(last == "999" || job.engine != "uffd", "nobody was told: {ended}");
            } else {
                ended.ended_with(3);
                ended.said(&["told: "]);
            }
            if job.ranks == 1 && job.engine == "uffd" && last == "70000" {
                ended.said(&["a userfaultfd of scash, was closed by the program"]);
            }
        }
    }
}

#[test]
fn a_rank_that_has_closed_all_descriptors_is_not_saved_and_comes_back_from_before_or_is_told() {
    let descriptors = Program::compile("descriptors", Link::Shared);
    for job in Job::all().into_iter().filter(|job| job.ranks == 2) {
        // Of the first ones none is ours.
        for last in if job.shares { &["999", "70000"][..] } else { &["70000"] } {
            let files = tempfile::tempdir().unwrap();
            let death =
                ["--replicas", "1", "--checkpoint", "every=3", "--inject", "kill rank 1 at barrier 50"];
            let ended = descriptors.run_with(job, &death, &[], &[last, files.path().to_str().unwrap()]);
            assert!(!ended.err.contains("not so") && !ended.err.contains("wrong"), "{ended}");
            if ended.status == Some(3) && *last == "70000" {
                ended.said(&["told: "]);
                continue;
            }
            let line = |rank: u32, round: u32| format!("rank {rank}, round {}", 10 * round);
            let mut expected: Vec<String> =
                (0..2).flat_map(|rank| (1..=30).map(move |round| line(rank, round))).collect();
            let mut lines: Vec<&str> = ended.out.lines().collect();
            expected.sort();
            lines.sort_unstable();
            assert_eq!(
                (ended.status, lines),
                (Some(0), expected.iter().map(String::as_str).collect()),
                "{ended}"
            );
            assert!(ended.err.contains("all 2 ranks go on"), "{ended}");
            let is_told = ended.err.contains("was closed by the program");
            assert_eq!(is_told, *last == "70000", "{ended}");
        }
    }
}

#[test]
fn a_signal_handler_on_which_its_own_thread_would_wait_is_told_of_and_ends_the_rank() {
    let handler = Program::compile("handler", Link::Shared);
    for job in Job::all() {
        // No access to frames that are shared has to wait.
        if job.shares {
            continue;
        }
        // Where memory is shared, a thread that waits has no lock that the handler's access needs.
        let actions: &[_] =
            if job.provider == "tcp" && job.ranks > 1 { &["call", "wait"] } else { &["call"] };
        for action in actions {
            let ended = handler.run(job, &[], &[action]);
            ended.ended_with(DEADLOCK);
            ended.said(&["scash: rank 0: a signal handler of the program touched shared memory"]);
        }
    }
}

#[test]
fn a_segmentation_fault_elsewhere_is_the_programs_own() {
    let wild = Program::compile("wild", Link::Shared);
    for job in Job::all() {
        let ended = wild.run(job, &[], &["elsewhere"]);
        ended.ended_with(SEGMENTATION_FAULT);
        assert!(!ended.err.contains("not allocated"), "{ended}");
    }
}

#[test]
fn ranks_that_disagree_are_all_told_who_wanted_what() {
    let disagree = Program::compile("disagree", Link::Shared);
    for job in Job::all().into_iter().filter(|job| job.ranks > 1) {
        for (what, words) in [
            ("sizes", ["dsm_alloc of 4096 bytes", "dsm_alloc of 8192 bytes"]),
            ("options", ["called dsm_alloc", "other options"]),
            ("calls", ["dsm_barrier", "dsm_finalize"]),
            ("reductions", ["dsm_all_reduce_i64 of 1 values for their sum", "of 1 values for their maximum"]),
            ("values", ["dsm_broadcast_value", "from rank 0"]),
            ("a barrier", ["dsm_all_reduce_i64", "dsm_barrier"]),
            ("an early barrier", ["dsm_all_reduce_i64", "dsm_barrier"]),
            ("an end", ["dsm_all_reduce_i64", "dsm_finalize"]),
            ("locks", ["dsm_locks_create of 1 locks", "dsm_locks_create of 2 locks"]),
            ("ends of locks", ["dsm_locks_destroy of 2 locks from 0 on", "dsm_barrier"]),
            (
                "kinds",
                ["dsm_rwlocks_create of 1 reader-writer locks", "dsm_conditions_create of 1 conditions"],
            ),
            ("numbers", ["dsm_semaphores_create of 3 semaphores of 0", "of 3 semaphores of 1"]),
        ] {
            let notes = tempfile::tempdir().unwrap();
            let ended = disagree.run(job, &[], &[what, notes.path().to_str().unwrap()]);
            assert_ne!(ended.status, Some(0), "they have not finalized: {ended}");
            let told: Vec<&str> = ended.out.lines().collect();
            assert_eq!(told.len(), job.ranks as usize, "{ended}");
            for line in told {
                assert!(words.iter().all(|word| line.contains(word)), "{ended}");
                assert!(line.matches("rank ").count() >= 2, "which ranks? {ended}");
            }
        }
    }
}

#[test]
fn a_rank_that_exits_without_finalize_ends_the_job() {
    let leave = Program::compile("leave", Link::Shared);
    for job in Job::all() {
        let ended = leave.run(job, &[], &[]);
        assert_ne!(ended.status, Some(0), "{ended}");
        ended.said(&["rank ", "dsm_finalize"]);
    }
}

#[test]
fn a_full_region_says_how_to_get_a_larger_one() {
    let room = Program::compile("room", Link::Shared);
    for job in Job::all() {
        room.run(job, &[("SCASH_REGION", "1M")], &[]).succeeded();
    }
}
