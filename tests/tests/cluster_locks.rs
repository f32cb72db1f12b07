//! Locks order memory in every kind of job: small programs whose results only the right order gives.

use scash_tests::cluster;

fn litmus(name: &str, rounds: &str, sizes: &[u32]) {
    cluster::litmus(env!("CARGO_BIN_EXE_litmus"), name, rounds, sizes);
}

#[test]
fn a_counter_under_a_lock_misses_no_increment() {
    litmus("counter", "300", &[1, 2, 4]);
}

#[test]
fn a_rank_whose_threads_never_leave_the_lock_alone_keeps_nobody_from_it() {
    litmus("greed", "12", &[2, 4]);
}

#[test]
fn ranks_that_take_strict_turns_all_come_to_theirs() {
    litmus("alternation", "20", &[2, 5]);
}

#[test]
fn a_counter_misses_no_increment_whose_lock_is_only_tried() {
    litmus("tries", "60", &[1, 2, 4]);
}

#[test]
fn a_lock_is_refused_while_it_is_held_and_not_when_it_is_free() {
    litmus("tries in vain", "20", &[1, 3]);
}

#[test]
fn many_counters_under_many_locks_miss_no_increment() {
    litmus("many counters", "300", &[2, 5]);
}

#[test]
fn what_was_written_before_a_flag_is_seen_with_it() {
    litmus("message passing", "40", &[2, 3]);
}

#[test]
fn of_two_that_write_and_then_read_one_sees_the_other() {
    litmus("store buffering", "40", &[2, 3]);
}

#[test]
fn all_readers_agree_on_the_order_of_two_writes() {
    litmus("independent reads", "40", &[4]);
}

#[test]
fn bytes_side_by_side_do_not_disturb_each_other() {
    litmus("false sharing", "300", &[2, 3]);
}

#[test]
fn many_ranks_write_one_page_between_and_inside_critical_sections() {
    litmus("one page", "40", &[3, 8]);
}

#[test]
fn pages_that_are_first_touched_in_critical_sections_are_whole() {
    litmus("first touch", "2", &[2, 3]);
}

#[test]
fn pages_that_are_rewritten_in_turns_are_right() {
    litmus("pages that travel", "30", &[2, 3]);
}

#[test]
fn threads_of_all_ranks_take_turns() {
    litmus("threads", "60", &[1, 2, 3]);
}

#[test]
fn locks_and_memory_barriers_mix() {
    litmus("barriers and locks", "30", &[2, 4]);
}
