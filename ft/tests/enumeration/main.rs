//! All that can happen to a small job: every order of the ranks' steps, every crash between two of them,
//! every set of marks that arrives, every crash of the recovery. The ranks drive the real `Commit` and
//! `Slots`, the coordinator the real `plan`.
//!
//! What must hold: an epoch that a rank has run on in is never lost; all ranks restore one epoch of one
//! history, and every slot of it holds what it held; a rank is given up only if all of its stores are gone;
//! somebody can always go on.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test of its own, which tells what it has seen"
)]

mod rank;
mod recovery;
mod search;
mod store;
mod world;

use search::search;
use std::time::Instant;

/// A world to enumerate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) hosts: u8,
    pub(crate) ranks: u8,
    /// Holders of a rank's store beside the one on its own host.
    pub(crate) k: u8,
    /// A host that died is replaced by an empty one. If not, its ranks move to other hosts.
    pub(crate) spares: bool,
    /// Hosts may be left out and come back with old stores.
    pub(crate) cut_off: bool,
    pub(crate) crashes: u8,
    /// Checkpoints that a rank leaves out.
    pub(crate) left_out: u8,
    /// Epochs until the job is over.
    pub(crate) epochs: u64,
    pub(crate) mutant: Option<Mutant>,
}

/// Mistakes that the enumeration must find. They are made by what carries out the outputs and steps of the
/// real values, or by what tells them of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    Maximum,
    NoFenceBeforeTheMark,
    MeetingBeforeTheMarks,
    LeavingEarly,
    InPlace,
    EarlyReuse,
    AnyIncarnation,
    MarksStay,
    NoCatchingUp,
    BaseRecordsFirst,
    NothingKnown,
}

const TWO_HOSTS: Setup = Setup {
    hosts: 2,
    ranks: 2,
    k: 1,
    spares: true,
    cut_off: false,
    crashes: 2,
    left_out: 0,
    epochs: 3,
    mutant: None,
};

const ONE_HOST: Setup = Setup { hosts: 1, k: 0, crashes: 3, left_out: 1, ..TWO_HOSTS };
const THREE_HOSTS: Setup = Setup { hosts: 3, ranks: 3, ..TWO_HOSTS };

fn holds(name: &str, setup: Setup) {
    let start = Instant::now();
    match search(&setup) {
        Ok(seen) => println!("{name}: {seen:?}, {:.1} s", start.elapsed().as_secs_f64()),
        Err(wrong) => panic!("{name}: {wrong}"),
    }
}

fn is_found(mutant: Mutant, setup: Setup) {
    assert!(search(&setup).is_ok(), "the enumeration is wrong about a job without the mistake");
    let wrong = search(&Setup { mutant: Some(mutant), ..setup }).expect_err("the mistake is not found");
    println!("{mutant:?}: {wrong}");
}

#[test]
fn ranks_of_one_host_may_die_three_times() {
    holds("1 host, 2 ranks", ONE_HOST);
}

#[test]
fn two_hosts_may_die_and_be_replaced() {
    holds("2 hosts, k = 1", Setup { left_out: 1, ..TWO_HOSTS });
}

#[test]
fn two_hosts_may_die_and_their_ranks_move() {
    holds("2 hosts, k = 1, no spares", Setup { spares: false, cut_off: true, left_out: 1, ..TWO_HOSTS });
}

#[test]
fn three_hosts_with_one_replica_may_die_and_be_replaced() {
    holds("3 hosts, k = 1", THREE_HOSTS);
}

#[test]
fn three_hosts_with_one_replica_may_die_and_their_ranks_move() {
    holds("3 hosts, k = 1, no spares", Setup { spares: false, ..THREE_HOSTS });
    // Two epochs are enough to be left out in one and back in the other.
    let cut_off = Setup { spares: false, cut_off: true, epochs: 2, ..THREE_HOSTS };
    holds("3 hosts, k = 1, no spares, cut off", cut_off);
}

#[test]
fn three_hosts_with_two_replicas_may_die() {
    holds("3 hosts, k = 2", Setup { k: 2, ..THREE_HOSTS });
}

#[test]
fn the_maximum_of_marks_is_found() {
    is_found(Mutant::Maximum, TWO_HOSTS);
}

#[test]
fn a_mark_without_a_fence_before_it_is_found() {
    is_found(Mutant::NoFenceBeforeTheMark, TWO_HOSTS);
}

#[test]
fn a_meeting_before_the_marks_have_arrived_is_found() {
    is_found(Mutant::MeetingBeforeTheMarks, TWO_HOSTS);
}

#[test]
fn a_rank_that_leaves_early_is_found() {
    is_found(Mutant::LeavingEarly, TWO_HOSTS);
}

#[test]
fn writing_in_place_is_found() {
    is_found(Mutant::InPlace, TWO_HOSTS);
}

#[test]
fn a_slot_that_is_used_again_too_early_is_found() {
    is_found(Mutant::EarlyReuse, TWO_HOSTS);
}

#[test]
fn a_mark_of_any_incarnation_is_found() {
    is_found(Mutant::AnyIncarnation, TWO_HOSTS);
}

#[test]
fn a_mark_that_stays_after_a_checkpoint_was_left_out_is_found() {
    is_found(Mutant::MarksStay, Setup { left_out: 1, ..TWO_HOSTS });
}

#[test]
fn a_store_that_falls_two_incarnations_behind_is_found() {
    is_found(Mutant::NoCatchingUp, ONE_HOST);
}

#[test]
fn base_records_that_are_written_before_the_copies_are_found() {
    is_found(Mutant::BaseRecordsFirst, TWO_HOSTS);
}

#[test]
fn a_coordinator_that_forgets_what_it_has_started_is_found() {
    is_found(Mutant::NothingKnown, Setup { spares: false, cut_off: true, ..TWO_HOSTS });
}

/// `cargo test --release -p scash-ft --test enumeration -- --ignored --nocapture`. Hosts are not cut
/// off here: a coordinator that begins anew, and reaches only a host that was left out, cannot know that.
#[test]
#[ignore = "three million states; two deaths are always tried"]
fn hosts_may_die_three_times() {
    let three = Setup { crashes: 3, ..TWO_HOSTS };
    holds("2 hosts, k = 1, 3 crashes", Setup { left_out: 1, ..three });
    holds("2 hosts, k = 1, no spares, 3 crashes", Setup { spares: false, left_out: 1, ..three });
    holds("3 hosts, k = 1, 3 crashes", Setup { crashes: 3, epochs: 2, ..THREE_HOSTS });
}
