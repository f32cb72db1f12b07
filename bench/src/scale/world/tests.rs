use super::*;
use crate::scale::presets;
use crate::scale::trace::{Laplace, Lu, Pattern, alone};

fn run(machine: &Machine, trace: &dyn Trace, ranks: u32) -> Totals {
    World::new(machine, trace, ranks).run()
}

fn speed_up(machine: &Machine, trace: impl Fn(u32) -> Box<dyn Trace>, ranks: u32) -> f64 {
    let sequential = alone(&*trace(1), &machine.compute);
    sequential.as_seconds() / run(machine, &*trace(ranks), ranks).time.as_seconds()
}

fn laplace(ranks: u32) -> Box<dyn Trace> {
    Box::new(Laplace::square(256, 10, ranks))
}

fn lu(ranks: u32) -> Box<dyn Trace> {
    Box::new(Lu::new(512, 32, ranks))
}

/// What can be told of every machine.
fn machines() -> [Machine; 3] {
    [presets::ethernet_10g(), presets::ethernet_100g(), presets::scash_1999()]
}

#[test]
fn one_rank_takes_what_its_arithmetic_takes() {
    for machine in machines() {
        for trace in [laplace(1), lu(1)] {
            let totals = run(&machine, &*trace, 1);
            assert_eq!(totals.time, alone(&*trace, &machine.compute), "{}", machine.name);
            assert_eq!((totals.sent, totals.faults), (Traffic::default(), 0));
        }
    }
}

#[test]
fn where_nothing_but_arithmetic_takes_time_rows_that_divide_evenly_are_done_n_times_as_fast() {
    for ranks in [2, 4, 16, 64] {
        let speed = speed_up(&presets::ideal(), laplace, ranks);
        assert!((speed / f64::from(ranks) - 1.0).abs() < 1e-6, "{ranks} ranks: {speed}");
    }
    // Blocks do not divide evenly, and each owner of a perimeter block factors the diagonal block itself.
    let speed = speed_up(&presets::ideal(), lu, 4);
    assert!(speed > 3.0 && speed < 4.0, "{speed}");
}

#[test]
fn a_slower_network_makes_everything_slower() {
    for trace in [laplace, lu] {
        let of = |machine: Machine| run(&machine, &*trace(8), 8).time;
        let mut slow = presets::ethernet_10g();
        let fast = of(slow.clone());
        slow.network.latency += slow.network.latency;
        let late = of(slow.clone());
        slow.network.per_byte = slow.network.per_byte * 10;
        assert!(of(presets::ideal()) < fast && fast < late && late < of(slow));
    }
}

#[test]
fn a_run_is_the_same_every_time() {
    let machine = presets::ethernet_10g();
    assert_eq!(run(&machine, &*lu(6), 6), run(&machine, &*lu(6), 6));
}

#[test]
fn an_empty_barrier_costs_each_rank_a_token_a_round() {
    for (ranks, rounds) in [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (64, 6), (100, 7)] {
        let totals = run(&presets::ethernet_10g(), &Pattern::Nothing, ranks);
        assert_eq!((totals.barriers, totals.meetings), (2, 2));
        assert_eq!(totals.most.messages, 2 * rounds, "{ranks} ranks");
        assert_eq!(totals.sent.messages, 2 * rounds * u64::from(ranks), "{ranks} ranks");
    }
}

/// Two ranks, one round: a token is sent, is on its way, and is taken.
#[test]
fn a_message_takes_what_loggp_says() {
    let Machine { network, .. } = presets::ethernet_10g();
    let totals = run(&presets::ethernet_10g(), &Pattern::Nothing, 2);
    let bytes = totals.sent.bytes / totals.sent.messages;
    let one_way = network.overhead * 2 + network.latency + network.per_byte * bytes;
    assert_eq!(totals.time, one_way * totals.barriers);
}

/// Rank 0 writes some pages, and rank 1 reads them. In between they meet once more: who comes late to a
/// barrier leaves it first, so that it is rank 1 that begins the timed part.
struct Handover {
    pages: u64,
}

impl Trace for Handover {
    fn arrays(&self) -> Vec<u64> {
        vec![self.pages * PAGE_SIZE as u64]
    }

    fn untimed(&self) -> u32 {
        2
    }

    fn timed(&self) -> u32 {
        1
    }

    fn work(&self, rank: u32, interval: u32, ops: &mut Vec<Op>) {
        let all = 0..self.pages * PAGE_SIZE as u64;
        match (rank, interval) {
            (0, 0) => ops.push(Op::Write(0, all)),
            (1, 2) => ops.push(Op::Read(0, all)),
            _ => {}
        }
    }
}

#[test]
fn a_get_is_a_round_trip_that_its_home_does_not_notice() {
    let mut machine = presets::ethernet_10g();
    let barrier = run(&machine, &Pattern::Nothing, 2).time.share(1, 2);
    let pages = u64::from(FETCH_FIRST[0]);
    let totals = run(&machine, &Handover { pages }, 2);
    let Machine { network, pages: costs, .. } = machine.clone();
    let travel = network.per_byte * (work::REQUEST + pages * PAGE_SIZE as u64) + network.latency * 2;
    let get = costs.fault + network.overhead * 2 + travel + network.serve + costs.call;
    // The last two pages of a guess are left out of view, and come into it in faults of their own.
    let look = costs.call + costs.fault + costs.call;
    // Rank 0, which has waited, leaves last.
    assert_eq!(totals.time, get + look * 2 + barrier);
    assert_eq!((totals.faults, totals.fetched), (3, pages));

    // Where memory is accessed directly, there is nothing to wait for, and pages come one by one until a run
    // is known to go on.
    machine.network.direct = true;
    let barrier = run(&machine, &Pattern::Nothing, 2).time.share(1, 2);
    let totals = run(&machine, &Handover { pages: 1 }, 2);
    let copy = network.overhead + network.per_byte * PAGE_SIZE as u64;
    assert_eq!(totals.time, costs.fault + copy + costs.call + barrier);
}

/// The seeded simulator counts the same for its stencil (`tests/tests/simulation_patterns.rs`): 8 tokens, and
/// for each of the 6 boundary pages a put and a word that it is complete. What fetches brought along for
/// nothing is given up by then, and no home asks whether its pages are read.
#[test]
fn a_stencil_sends_its_boundaries_and_tokens_only() {
    let trace = Laplace { rows: 30, columns: 510, iterations: 48, warm_up: 36, ranks: 4 };
    let totals = run(&presets::ethernet_10g(), &trace, 4);
    assert_eq!((totals.barriers, totals.meetings, totals.fetched), (12, 12, 0));
    assert_eq!((totals.updates, totals.sent.messages), (12 * 6, 12 * (8 + 6 + 6)));
    // All of a row but the two elements of the frame; a token of 13 bytes, and 2 more for each rank that is
    // announced something; a word of 10.
    let put = 4096 - 16;
    assert_eq!(totals.sent.bytes, 12 * (6 * put + 8 * 13 + 9 * 2 + 6 * 10));
    assert_eq!(totals.directory, 4 * (4 + 24), "two rows of each grid");

    let mut direct = presets::ethernet_10g();
    direct.network.direct = true;
    assert_eq!(run(&direct, &trace, 4).sent.messages, 12 * (8 + 6), "what is put is there at once");
}

/// Rows of 1,002 elements begin anywhere in a page, so neighbours share pages, and whoever is not the home of
/// one sends a diff.
#[test]
fn pages_that_two_ranks_write_go_home_as_diffs_of_what_was_written() {
    let trace = Laplace { rows: 20, columns: 1000, iterations: 12, warm_up: 8, ranks: 2 };
    let totals = run(&presets::ethernet_10g(), &trace, 2);
    assert_eq!(
        (totals.barriers, totals.meetings),
        (4, 8),
        "what is written away from home takes a second meeting"
    );
    // Bytes of the second rank's part of the page in which its rows begin.
    let begin = (1 + 10) * 1002 * 8;
    let shared = u64::from(4096 - begin % 4096u32) - 8;
    let diffs = 4 * (4 + 6 + 1 + 3 + shared);
    assert!(totals.sent.bytes > diffs, "{totals:?}");
}
