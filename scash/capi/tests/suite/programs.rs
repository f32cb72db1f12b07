//! Programs that do nothing wrong, in every kind of job: 1, 2 and 4 ranks, both providers, both fault
//! engines.

use crate::support::{Job, Link, Program};

#[test]
fn ranks_know_who_they_are_whichever_library_is_linked() {
    for link in [Link::Shared, Link::Static] {
        let hello = Program::compile("hello", link);
        for job in Job::all() {
            let ended = hello.run(job, &[("SCASH_THREADS", "3")], &[job.provider]);
            ended.succeeded();
            let want: Vec<String> =
                (0..job.ranks).map(|rank| format!("rank {rank} of {}, 3 threads", job.ranks)).collect();
            assert_eq!(ended.sorted(), want, "{link:?}: {ended}");
        }
    }
}

#[test]
fn neighbouring_bytes_have_different_writers_and_pointers_are_shared() {
    Program::compile("sum", Link::Shared).succeeds_everywhere(&[]);
}

#[test]
fn a_static_program_shares_memory_as_well() {
    Program::compile("sum", Link::Static).run(Job::of(2), &[], &[]).succeeded();
}

#[test]
fn every_placement_protocol_and_block_size_gives_right_data() {
    Program::compile("options", Link::Shared).succeeds_everywhere(&[]);
}

#[test]
fn homes_are_asked_and_set() {
    Program::compile("homes", Link::Shared).succeeds_everywhere(&[]);
}

#[test]
fn data_move_between_barriers_on_request() {
    Program::compile("between", Link::Shared).succeeds_everywhere(&[]);
}

#[test]
fn threads_fault_at_once_and_have_errors_of_their_own() {
    Program::compile("threads", Link::Shared).succeeds_everywhere(&[]);
}

#[test]
fn what_the_system_takes_out_of_memory_comes_back_as_it_was() {
    Program::compile("taken", Link::Shared).succeeds_everywhere(&[]);
}

#[test]
fn all_threads_of_all_ranks_meet_in_one_memory_barrier() {
    let crew = Program::compile("crew", Link::Shared);
    for job in Job::all() {
        for threads in ["1", "3"] {
            crew.run(job, &[("SCASH_THREADS", threads)], &[]).succeeded();
        }
    }
}

#[test]
fn what_is_touched_under_a_lock_only_needs_no_barrier() {
    Program::compile("locks", Link::Shared).succeeds_everywhere(&[]);
}

#[test]
fn a_lock_is_tried_without_waiting_and_readers_share_one() {
    Program::compile("rwlocks", Link::Shared).succeeds_everywhere(&[]);
}

#[test]
fn some_threads_meet_and_events_happen_again_and_again() {
    Program::compile("groups", Link::Shared).succeeds_everywhere(&[]);
}

#[test]
fn who_goes_on_sees_what_was_written_before_it_was_let_go_on() {
    Program::compile("signals", Link::Shared).succeeds_everywhere(&[]);
}

#[test]
fn objects_are_destroyed_at_all_ranks_or_at_none_and_nothing_else_has_their_numbers() {
    Program::compile("destroy", Link::Shared).succeeds_everywhere(&[]);
}

#[test]
fn one_rank_makes_a_lock_and_another_one_destroys_it() {
    Program::compile("own", Link::Shared).succeeds_everywhere(&[]);
}

#[test]
fn atomic_operations_miss_nothing_and_disturb_nobody() {
    Program::compile("atomics", Link::Shared).succeeds_everywhere(&[]);
}

#[test]
fn one_rank_allocates_and_another_one_frees() {
    Program::compile("heap", Link::Shared).succeeds_everywhere(&[]);
}

#[test]
fn files_are_read_into_shared_memory_and_written_from_it() {
    Program::compile("files", Link::Shared).succeeds_everywhere(&[]);
}

#[test]
fn values_of_all_ranks_become_one() {
    Program::compile("reduce", Link::Shared).succeeds_everywhere(&[]);
}
