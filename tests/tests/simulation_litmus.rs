//! Litmus programs under the simulator, each in many jobs: with and without a limit on cached pages, with
//! copies that are updated and that are invalidated; and with ranks that share frames.
//!
//! A failure begins with its seed. `SCASH_SEED=n cargo test -p scash-tests --test simulation_litmus NAME`
//! runs the test NAME with this one alone, and tells all its steps.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_proto::Sharing;
use scash_sim::litmus::orders::{self, Order, Outcome};
use scash_sim::litmus::{Job, Run, buffers, bytes, claims, counters, mixtures};
use scash_sim::report::Report;
use std::collections::BTreeMap;
use std::ops::Range;

/// Jobs of a program.
const SEEDS: Range<u64> = 0..300;
/// Those of one that few jobs answer wrongly.
const MANY_SEEDS: Range<u64> = 0..3000;

/// The seed that was asked for, or all; and whether one was.
fn seeds() -> (Range<u64>, bool) {
    seeds_of(SEEDS)
}

fn seeds_of(all: Range<u64>) -> (Range<u64>, bool) {
    let asked: Option<u64> = std::env::var("SCASH_SEED").ok().map(|seed| seed.parse().unwrap());
    (asked.map_or(all, |seed| seed..seed + 1), asked.is_some())
}

const BOTH_WAYS: [Sharing; 2] = [Sharing::Off, Sharing::Frames];

/// Runs a program with any of these numbers of ranks, and looks at what each run did.
fn litmus(ranks: &[u32], write: fn(&mut Job), check: impl Fn(u32, &Report)) {
    litmus_in(SEEDS, ranks, write, check);
}

fn litmus_in(all: Range<u64>, ranks: &[u32], write: fn(&mut Job), check: impl Fn(u32, &Report)) {
    let (seeds, trace) = seeds_of(all);
    for seed in seeds {
        // All four kinds of job with each number.
        let ranks = ranks[(seed / 4) as usize % ranks.len()];
        for sharing in BOTH_WAYS {
            let run = Run { seed, ranks, racy: false, sharing, trace }.of(write);
            check(ranks, &run.unwrap_or_else(|failure| panic!("{failure}")));
        }
    }
}

/// What is read is compared with the oracle in the run itself.
fn nothing(_: u32, _: &Report) {}

/// The outcomes of a program in all jobs, each with the first seed that has it.
fn outcomes(order: Order, locked: bool, sharing: Sharing) -> BTreeMap<Outcome, u64> {
    let (seeds, trace) = seeds();
    let mut all = BTreeMap::new();
    for seed in seeds {
        let report = order.run(seed, locked, sharing, trace).unwrap_or_else(|failure| panic!("{failure}"));
        for outcome in order.seen(&report) {
            all.entry(outcome).or_insert(seed);
        }
    }
    all
}

/// Under locks only outcomes occur that sequential consistency permits, and most of these do.
fn sequentially_consistent(order: Order) {
    for sharing in BOTH_WAYS {
        let (possible, seen) = (order.possible(), outcomes(order, true, sharing));
        let wrong: Vec<_> = seen.iter().filter(|(outcome, _)| !possible.contains(*outcome)).collect();
        assert!(wrong.is_empty(), "outcomes that must not be, and their seeds: {wrong:?} ({sharing:?})");
        let most = 4 * seen.len() >= 3 * possible.len();
        assert!(most || seeds().1, "only {seen:?} of {possible:?}: such schedules show little ({sharing:?})");
    }
}

#[test]
fn who_sees_a_flag_sees_what_was_written_before_it() {
    sequentially_consistent(orders::MESSAGE_PASSING);
}

#[test]
fn of_two_that_write_and_then_read_one_sees_the_other() {
    sequentially_consistent(orders::STORE_BUFFERING);
}

#[test]
fn all_readers_agree_on_the_order_of_two_writes() {
    sequentially_consistent(orders::INDEPENDENT_READS);
}

#[test]
fn who_sees_an_answer_sees_what_was_answered() {
    sequentially_consistent(orders::CAUSALITY);
}

#[test]
fn without_their_locks_these_programs_go_wrong() {
    let all =
        [orders::MESSAGE_PASSING, orders::STORE_BUFFERING, orders::INDEPENDENT_READS, orders::CAUSALITY];
    for order in all {
        let (possible, seen) = (order.possible(), outcomes(order, false, Sharing::Off));
        let wrong = seen.keys().any(|outcome| !possible.contains(outcome));
        assert!(wrong || seeds().1, "{order:?} is right without locks: so it shows nothing about them");
    }
}

#[test]
fn a_counter_under_a_lock_misses_no_increment() {
    litmus(&[1, 2, 4, 7], counters::one, |ranks, report| {
        assert_eq!(counters::seen_last(report), vec![counters::sum(ranks); ranks as usize]);
    });
}

#[test]
fn many_counters_under_many_locks_miss_no_increment() {
    litmus(&[2, 3, 5], counters::many, |ranks, report| {
        let loads = (ranks * counters::MANY) as usize;
        assert_eq!(counters::seen_last(report), vec![counters::sum_of_many(ranks); loads]);
    });
}

#[test]
fn who_comes_late_to_a_long_history_misses_nothing_of_it() {
    litmus(&[3, 4, 5], counters::late_comer, nothing);
}

#[test]
fn bytes_side_by_side_do_not_disturb_each_other() {
    litmus(&[2, 3, 6], bytes::side_by_side, nothing);
}

#[test]
fn many_ranks_write_one_page_between_and_inside_critical_sections() {
    litmus(&[3, 8, 16], bytes::between_and_inside, nothing);
}

#[test]
fn words_that_are_under_locks_in_one_interval_are_owned_in_the_next() {
    litmus(&[2, 4], mixtures::in_turns, nothing);
}

#[test]
fn locks_and_memory_barriers_order_the_same_interval() {
    litmus(&[2, 3, 5], mixtures::together, nothing);
}

#[test]
fn a_buffer_with_flags_hands_on_what_was_written() {
    litmus(&[2, 4], buffers::with_flags, nothing);
}

#[test]
fn a_buffer_with_conditions_hands_on_what_was_written() {
    litmus(&[2, 3, 5], buffers::with_conditions, nothing);
}

#[test]
fn a_chain_of_buffers_with_semaphores_hands_on_what_was_written() {
    litmus(&[2, 4], buffers::with_semaphores, nothing);
}

#[test]
fn what_is_read_from_home_is_what_was_there_when_it_was_called() {
    litmus(&[2, 3, 4], buffers::read_from_home, nothing);
}

#[test]
fn what_others_write_to_a_page_is_kept_while_its_home_does_not_yet_know_that_it_is() {
    litmus_in(MANY_SEEDS, &[2, 3, 4], claims::bytes, nothing);
}

#[test]
fn what_others_add_to_a_word_is_kept_while_its_home_does_not_yet_know_that_it_is() {
    litmus_in(MANY_SEEDS, &[2, 3, 4], claims::words, |ranks, report| {
        assert!(counters::seen_last(report).iter().all(|&sum| sum == claims::sum(ranks)));
    });
}

#[test]
fn a_turn_that_is_looked_at_under_a_lock_orders_what_no_lock_protects() {
    litmus(&[2, 3, 4], buffers::with_a_turn, nothing);
}
