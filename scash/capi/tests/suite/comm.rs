//! Programs that pass messages, in C and C++: 1, 2 and 4 ranks over both providers.

use crate::support::{Job, Language, Link, Program};

/// Compiles `tests/c/NAME.c` as C and, if there is a compiler, as C++.
fn programs(name: &str) -> Vec<Program> {
    let all = [Language::C, Language::Cpp];
    all.iter().filter_map(|&language| Program::compile_as(language, name, Link::Shared)).collect()
}

/// Jobs that need no fault engine.
fn jobs() -> impl Iterator<Item = Job> {
    let all = ["shm", "tcp"]
        .map(|provider| [1, 2, 4].map(|ranks| Job { ranks, provider, engine: "", shares: false }));
    all.into_iter().flatten()
}

fn succeeds(name: &str) {
    for program in programs(name) {
        jobs().for_each(|job| program.run(job, &[], &[]).succeeded());
    }
}

#[test]
fn messages_come_whole_and_in_order_to_the_receives_that_they_fit() {
    succeeds("comm_messages");
}

#[test]
fn messages_come_by_every_protocol_that_the_environment_chooses() {
    let program = Program::compile("comm_messages", Link::Static);
    for large in ["get", "push", "rendezvous"] {
        for job in jobs().filter(|job| job.ranks == 2) {
            program.run(job, &[("SCASH_MP_LARGE", large), ("SCASH_MP_EAGER", "64")], &[]).succeeded();
        }
    }
}

#[test]
fn whether_messages_are_pushed_is_measured_at_the_start_unless_it_is_set() {
    for program in programs("comm_thresholds") {
        for set in ["nothing", "eager", "push", "calibrate"] {
            jobs().for_each(|job| program.run(job, &[], &[set]).succeeded());
        }
    }
}

#[test]
fn arguments_that_no_program_means_end_no_rank() {
    succeeds("comm_absurd");
    // Whether there is memory for it is the machine's business.
    let program = Program::compile("comm_absurd", Link::Shared);
    for member in ["window", "registered", "held"] {
        for job in jobs().filter(|job| job.ranks == 2) {
            let ended = program.run(job, &[], &[member]);
            assert!(ended.status == Some(0) || ended.err.contains("refused: "), "{ended}");
        }
    }
}

#[test]
fn children_that_ranks_fork_are_told_that_they_are_no_ranks_and_disturb_nobody() {
    succeeds("comm_fork");
}

#[test]
fn operations_are_waited_for_one_by_one_some_at_a_time_or_all() {
    succeeds("comm_waiting");
}

#[test]
fn collective_operations_give_what_a_program_computes_itself() {
    succeeds("comm_collective");
}

#[test]
fn memory_of_other_ranks_is_put_to_and_got_from_and_handlers_run_there() {
    succeeds("comm_one_sided");
}

#[test]
fn words_of_windows_are_operated_on_atomically_by_all_ranks() {
    succeeds("comm_atomics");
}

#[test]
fn wrong_use_of_messages_is_told_and_the_job_goes_on() {
    succeeds("comm_wrong");
}

#[test]
fn message_passing_does_not_end_while_operations_are_under_way() {
    succeeds("comm_unfinished");
}

#[test]
fn a_program_without_a_launcher_passes_messages_to_itself() {
    for program in programs("comm_unlaunched") {
        program.run_alone(&[], &[]).succeeded();
        program.run_alone(&[("SCASH_PROVIDER", "tcp"), ("SCASH_ENCRYPT", "on")], &[]).succeeded();
    }
}

#[test]
fn shared_memory_and_messages_go_together() {
    Program::compile("comm_both", Link::Shared).succeeds_everywhere(&[]);
}

#[test]
fn a_rank_that_exits_without_ending_message_passing_ends_the_job() {
    let leave = Program::compile("comm_leave", Link::Shared);
    for job in jobs() {
        let ended = leave.run(job, &[], &[]);
        assert_ne!(ended.status, Some(0), "{ended}");
        ended.said(&["rank ", "scomm_finalize"]);
    }
}

#[test]
fn a_setting_of_messages_that_makes_no_sense_is_named() {
    let program = Program::compile("ring", Link::Shared);
    for (name, value, hint) in
        [("SCASH_MP_LARGE", "pigeon", "rendezvous"), ("SCASH_MP_PUSH", "1G", "twice as large")]
    {
        let ended = program.run(Job::of(2), &[(name, value)], &[]);
        assert_ne!(ended.status, Some(0), "{ended}");
        ended.said(&[name, hint]);
    }
}

#[test]
fn the_example_of_the_header_passes_messages_round_a_ring() {
    for job in jobs() {
        let ended = Program::compile("ring", Link::Static).run(job, &[], &[]);
        ended.succeeded();
        let line =
            |rank: u32| format!("rank {rank}: 4 bytes from rank {}", (rank + job.ranks - 1) % job.ranks);
        assert_eq!(ended.sorted(), (0..job.ranks).map(line).collect::<Vec<_>>(), "{ended}");
    }
}
