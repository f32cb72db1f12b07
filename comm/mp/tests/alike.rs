//! Ranks that call different collective operations at the same time: an error tells, and nobody hangs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Make, Rank, on_each_provider, play};
use scash_comm::Error;
use scash_mp::{Op, Options};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const KINDS: u32 = 8;

/// Who waits in vain asks after a tick or two.
fn options() -> Options {
    Options { silence: Duration::from_millis(400), ..Options::default() }
}

fn call(rank: &Rank, kind: u32, root: u32) -> Result<(), Error> {
    let mine = [rank.rank(); 3];
    let mut all = [0; 9];
    match kind {
        0 => rank.barrier(),
        1 => rank.broadcast(root, &mut all),
        2 => rank.reduce(root, Op::Sum, &mine, &mut all[..3]),
        3 => rank.all_reduce(Op::Sum, &mine, &mut all[..3]),
        4 => rank.gather(root, &mine, &mut all),
        5 => rank.all_gather(&mine, &mut all),
        6 => rank.all_to_all(&mine, &mut all[..3]),
        _ => rank.reduce_scatter(Op::Sum, &mine, &[1; 3], &mut all[..1]),
    }
}

/// Whether a call was refused because ranks did not call the same.
fn is_refused(called: Result<(), Error>) -> bool {
    match called {
        Ok(()) => false,
        Err(Error::Protocol { .. } | Error::TooLong { .. }) => true,
        Err(error) => panic!("{error}"),
    }
}

/// All ranks make a call, and then barriers until one goes well everywhere. Whether any of them was refused:
/// a message that was one too many may come late.
fn is_anybody_told(rank: &Rank, told: &[AtomicU32], called: Result<(), Error>) -> bool {
    let mut refused = is_refused(called);
    for round in told {
        round.fetch_add(u32::from(refused), Ordering::SeqCst);
        rank.meet();
        if round.load(Ordering::SeqCst) == 0 && !std::ptr::eq(round, &told[0]) {
            return told.iter().any(|round| round.load(Ordering::SeqCst) > 0);
        }
        // What has come is looked at, which a barrier need not do that nobody waits in.
        (0..20).for_each(|_| _ = rank.probe(None, None).unwrap());
        refused = is_refused(rank.barrier());
    }
    panic!("barriers never go well again");
}

/// How many ranks were refused, by round.
type Rounds = Vec<[AtomicU32; 50]>;

fn rounds(games: u32) -> Rounds {
    (0..games).map(|_| std::array::from_fn(|_| AtomicU32::new(0))).collect()
}

fn a_rank_that_calls_another_operation_than_the_others_hangs_nobody(make: Make) {
    let told = rounds(KINDS * KINDS);
    play(make, 3, options(), move |rank| {
        // First those that are alike, so that nothing comes late.
        for kind in 0..KINDS {
            call(&rank, kind, 1).unwrap();
        }
        for (kind, other) in (0..KINDS).flat_map(|kind| (0..KINDS).map(move |other| (kind, other))) {
            let stranger = (kind + other) % 3;
            let mine = if rank.rank() == stranger { other } else { kind };
            let called = call(&rank, mine, 1);
            let told = is_anybody_told(&rank, &told[(kind * KINDS + other) as usize], called);
            assert!(told || kind == other, "{kind}, and at rank {stranger} {other}");
        }
    });
}

fn ranks_that_take_each_other_for_the_root_hang_neither(make: Make) {
    let told = rounds(3);
    play(make, 3, options(), move |rank| {
        for (kind, told) in [1, 2, 4].into_iter().zip(&told) {
            let called = call(&rank, kind, (rank.rank() + 1) % 3);
            assert!(is_anybody_told(&rank, told, called), "{kind}");
        }
    });
}

on_each_provider! {
    a_rank_that_calls_another_operation_than_the_others_hangs_nobody
    ranks_that_take_each_other_for_the_root_hang_neither
}
