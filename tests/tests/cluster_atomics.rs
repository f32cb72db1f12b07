//! Atomic operations on shared memory, and reductions, in every kind of job.

use scash_tests::cluster::{self, all_kinds};
use std::path::Path;

const LITMUS: &str = env!("CARGO_BIN_EXE_litmus");

fn litmus(name: &str, rounds: &str, sizes: &[u32]) {
    cluster::litmus(LITMUS, name, rounds, sizes);
}

#[test]
fn every_ticket_is_taken_once() {
    litmus("tickets", "100", &[1, 2, 4]);
}

#[test]
fn words_that_all_add_to_and_bytes_beside_them_are_right_after_every_barrier() {
    litmus("histograms", "8", &[2, 3]);
}

#[test]
fn a_word_is_replaced_only_by_who_knows_it() {
    litmus("maximum", "50", &[2, 4]);
}

#[test]
fn words_and_values_that_a_lock_protects_share_pages() {
    litmus("words beside locks", "4", &[1, 3]);
}

#[test]
fn words_and_values_that_a_lock_protects_share_pages_of_which_few_may_be_cached() {
    for kind in all_kinds() {
        let job = kind.job(3).env("SCASH_REGION", "16M").env("SCASH_CACHE", "256K");
        let ended = job.run(Path::new(LITMUS), &["words beside locks", "4"]);
        ended.succeeded();
        assert!(ended.lines(3).iter().all(|line| line.ends_with("saw nothing wrong")), "{ended}");
    }
}

#[test]
fn all_ranks_get_what_their_values_make_together() {
    litmus("values", "40", &[1, 2, 5]);
}

#[test]
fn a_floating_point_sum_has_the_same_bits_at_all_ranks_and_every_time() {
    litmus("bits", "30", &[4, 6]);
}

#[test]
fn a_reduction_takes_each_rank_a_logarithm_of_messages() {
    litmus("messages", "10", &[1, 2, 5, 8]);
}
