//! Reader–writer locks, semaphores, condition variables and flags order memory in every kind of job, and
//! refuse wrong use with words.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_tests::cluster::{self, all_kinds};
use std::path::Path;

const WRONG: &str = env!("CARGO_BIN_EXE_wrong");

fn litmus(name: &str, rounds: &str, sizes: &[u32]) {
    cluster::litmus(env!("CARGO_BIN_EXE_litmus"), name, rounds, sizes);
}

#[test]
fn readers_see_whole_updates_and_never_older_ones() {
    litmus("readers and writers", "80", &[1, 2, 4]);
}

#[test]
fn readers_share_a_lock() {
    litmus("readers together", "20", &[1, 3]);
}

#[test]
fn threads_of_all_ranks_read_and_write_in_turns() {
    litmus("threads that read and write", "30", &[1, 3]);
}

#[test]
fn a_buffer_with_conditions_loses_nothing_and_keeps_the_order() {
    litmus("buffer with conditions", "60", &[1, 2, 4]);
}

#[test]
fn a_buffer_with_semaphores_loses_nothing_and_keeps_the_order() {
    litmus("buffer with semaphores", "60", &[1, 2, 4]);
}

#[test]
fn a_pipeline_with_flags_hands_on_what_was_written() {
    litmus("pipeline with flags", "60", &[1, 2, 4]);
}

#[test]
fn who_waits_for_a_flag_sees_what_was_written_before_it() {
    litmus("one flag for all", "40", &[1, 3]);
}

#[test]
fn ranks_take_turns_that_a_condition_tells() {
    litmus("turns", "30", &[1, 3]);
}

#[test]
fn ranks_of_a_pair_that_meets_see_what_both_wrote() {
    litmus("pairs that meet", "60", &[1, 2, 4]);
}

#[test]
fn an_event_that_is_reset_happens_again() {
    litmus("an event again and again", "40", &[1, 3]);
}

#[test]
fn a_signal_that_nobody_waits_for_is_lost() {
    litmus("lost signals", "20", &[2, 3]);
}

/// Runs `wrong MISTAKE`, which ends well although one of rank 0's threads is refused.
fn refused(signal: &str, words: &[&str]) {
    for kind in all_kinds() {
        for ranks in [2, 3] {
            let notes = tempfile::tempdir().unwrap();
            let ended = kind.job(ranks).run(Path::new(WRONG), &[signal, notes.path().to_str().unwrap()]);
            ended.succeeded();
            let told = ended.lines(1)[0];
            assert!(words.iter().any(|word| told.contains(word)), "none of {words:?}: {ended}");
        }
    }
}

#[test]
fn a_semaphore_cannot_be_posted_while_another_thread_is_in_the_memory_barrier() {
    refused(
        "post and meet",
        &["semaphore 0 is used while another thread of this rank is in a collective call"],
    );
}

#[test]
fn a_word_cannot_be_operated_on_while_another_thread_is_in_the_memory_barrier() {
    let words = "an atomic operation while another thread of this rank is in a collective call: let that return first";
    refused("operate and meet", &[words]);
}

#[test]
fn a_rank_cannot_wait_and_come_to_the_memory_barrier_at_the_same_time() {
    let either = [
        "a collective call while another thread of this rank waits for semaphore 0",
        "semaphore 0 is used while another thread of this rank is in a collective call",
    ];
    refused("wait and meet", &either);
}

/// What is answered to each wrong call of `wrong objects`, in their order.
const ANSWERS: [&[&str]; 14] = [
    &["lock 0 is taken by the thread that has it", "not recursive"],
    &["lock 1 is given back by a thread that does not have it"],
    &["reader-writer lock 2 is taken by the thread that has it to read", "no reader becomes a writer"],
    &["reader-writer lock 2 is taken by the thread that has it to write", "not recursive"],
    &["reader-writer lock 2 is given back by a thread that does not have it"],
    &["waits for condition 4 with lock 1, which it does not have", "take the lock first"],
    &["2 is a reader-writer lock: use a number that was returned when locks were made"],
    &["0 is a lock: use a number that was returned when reader-writer locks were made"],
    &["5 is a flag: use a number that was returned when semaphores were made"],
    &["3 is a semaphore: use a number that was returned when flags were made"],
    &["3 is a semaphore: use a number that was returned when conditions were made"],
    &["there is no lock 6: locks, semaphores and the like have numbers 0 to 5"],
    &["semaphore 3 is posted 0 times"],
    &["0 flags asked for: ask for at least one"],
];

#[test]
fn wrong_use_of_each_object_is_refused_with_words_and_disturbs_nothing() {
    for kind in all_kinds() {
        for ranks in [1, 3] {
            let ended = kind.job(ranks).run(Path::new(WRONG), &["objects"]);
            ended.succeeded();
            let lines = ended.lines(u32::try_from(ANSWERS.len()).unwrap());
            for (line, words) in lines.iter().zip(ANSWERS) {
                assert!(words.iter().all(|word| line.contains(word)), "no {words:?} in {line:?}: {ended}");
            }
        }
    }
}
