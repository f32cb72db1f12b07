//! Ranks with words that all see: who has anything to say, and what follows from what the others have.

use super::*;
use crate::wire::reduce::{Combine, NumberKind, Reduction};

/// Of two ranks that can take checkpoints.
fn job() -> Job {
    let mut job = Job::of(2, Sharing::Frames, 1);
    for node in &mut job.nodes {
        node.cfg.board = true;
    }
    job
}

/// A rank comes to a call: what it orders until something must arrive, but for the flush.
fn come(job: &mut Job, rank: u32, call: Collective) -> Vec<Output> {
    job.give(rank, Input::Arrive(call));
    let mut all = Vec::new();
    while let Some(order) = job.nodes[rank as usize].poll_output() {
        match order {
            Output::Flushed => job.give(rank, Input::Flushed),
            order => all.push(order),
        }
    }
    all
}

fn without_words(orders: &[Output], call: u64) -> bool {
    matches!(orders, [Output::Come { call: c, digest: Some(_) }] if *c == call)
}

fn with_words(orders: &[Output], call: u64) -> bool {
    matches!(orders, [Output::Come { call: c, digest: None }, Output::Token(..)] if *c == call)
}

#[test]
fn ranks_that_have_nothing_to_say_meet_without_a_message() {
    let mut job = job();
    for call in 0..3 {
        for rank in 0..2 {
            assert!(without_words(&come(&mut job, rank, Collective::Barrier), call));
            assert!(job.nodes[rank as usize].waits_for_agreement());
        }
        for rank in 0..2 {
            job.give(rank, Input::Agreed(true));
            assert_eq!(job.ordered(rank), [Output::Done(Outcome::Done)]);
            assert!(!job.nodes[rank as usize].waits_for_agreement());
        }
    }
    assert_eq!(job.nodes[1].counters().barriers, 3);
}

#[test]
fn calls_for_different_things_have_different_digests() {
    let digest = |call| match come(&mut job(), 0, call)[..] {
        [Output::Come { digest, .. }, ..] => digest,
        ref other => panic!("{other:?}"),
    };
    let divide = |first| Collective::Divide { page: 0, digest: [first, 0] };
    let calls = [Collective::Barrier, Collective::Publish(0), Collective::Publish(1), divide(0), divide(1)];
    let digests: BTreeSet<_> = calls.into_iter().map(digest).collect();
    assert!(digests.len() == calls.len() && !digests.contains(&None));
    assert_eq!(digest(Collective::Alloc(1, AllocOptions::default())), None);
    assert_eq!(digest(Collective::Finalize), None);
}

#[test]
fn who_came_without_words_sends_its_tokens_when_another_has_some() {
    let mut job = job();
    assert!(without_words(&come(&mut job, 0, Collective::Barrier), 0));
    job.give(1, Input::CheckpointDue);
    let orders = come(&mut job, 1, Collective::Barrier);
    assert!(!job.nodes[1].waits_for_agreement());
    let [Output::Come { call: 0, digest: None }, Output::Token(Rank(0), token)] = &orders[..] else {
        panic!("{orders:?}")
    };
    job.give(0, Input::Token(Rank(1), token.clone()));
    assert_eq!(job.ordered(0), [], "a token is not looked at before the board says so");
    job.give(0, Input::Agreed(false));
    assert!(matches!(job.ordered(0)[..], [Output::Token(Rank(1), _), ..]));
}

#[test]
fn ranks_that_came_for_different_things_are_told_so() {
    let mut job = job();
    assert!(without_words(&come(&mut job, 0, Collective::Publish(0)), 0));
    assert!(without_words(&come(&mut job, 1, Collective::Barrier), 0));
    (0..2).for_each(|rank| job.give(rank, Input::Agreed(false)));
    assert!(matches!(job.told()[..], [Outcome::Mismatch(_), Outcome::Mismatch(_)]));
}

#[test]
fn who_came_to_a_reduction_has_words_for_the_next_barrier_and_no_longer() {
    let mut job = job();
    let sum = Reduction::All(Combine::Sum, NumberKind::U64);
    for rank in 0..2 {
        job.give(rank, Input::Reduce(sum, vec![1]));
        assert_eq!(job.nodes[rank as usize].poll_output(), Some(Output::Come { call: 0, digest: None }));
    }
    job.told();
    for rank in 0..2 {
        let orders = come(&mut job, rank, Collective::Barrier);
        assert!(matches!(orders[0], Output::Token(..)), "{orders:?}");
        orders.into_iter().for_each(|order| job.carry_out(rank, order, &mut None));
    }
    job.calm();
    assert!((0..2).all(|rank| without_words(&come(&mut job, rank, Collective::Barrier), 1)));
}

#[test]
fn a_barrier_beside_a_reduction_is_told_so() {
    let mut job = job();
    assert!(without_words(&come(&mut job, 0, Collective::Barrier), 0));
    job.give(1, Input::Reduce(Reduction::All(Combine::Sum, NumberKind::U64), vec![1]));
    assert_eq!(job.calm(), [None, None], "neither knows of the other");
    job.give(0, Input::Agreed(false));
    assert!(matches!(job.told()[..], [Outcome::Mismatch(_), Outcome::Mismatch(_)]));
}

#[test]
fn a_rank_without_words_beside_one_with_an_allocation_meets_by_tokens() {
    let mut job = job();
    let alloc = Collective::Alloc(1, AllocOptions::default());
    assert!(with_words(&come(&mut job, 0, alloc), 0));
    assert!(without_words(&come(&mut job, 1, Collective::Barrier), 0));
    job.give(1, Input::Agreed(false));
    assert!(matches!(job.ordered(1)[..], [Output::Token(Rank(0), _)]));
}

#[test]
fn whoever_sends_something_to_a_meeting_without_words_is_refused() {
    let mut job = job();
    assert!(without_words(&come(&mut job, 0, Collective::Barrier), 0));
    let orders = come(&mut job, 1, Collective::Finalize);
    let Some(Output::Token(_, token)) = orders.into_iter().next_back() else { panic!("no token") };
    job.give(0, Input::Token(Rank(1), token));
    assert!(job.nodes[0].handle(Input::Agreed(true)).is_err());
}

#[test]
fn what_a_board_says_to_a_rank_that_waits_for_nothing_is_nothing() {
    let mut job = job();
    for all in [false, true] {
        job.give(0, Input::Agreed(all));
        assert_eq!(job.ordered(0), []);
    }
}
