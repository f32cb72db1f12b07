//! What well-known patterns of sharing cost: faults, messages and pages, counted exactly. A change of the
//! protocol that makes one of them dearer shows here, on any machine and under any load.

#![allow(clippy::unwrap_used)]

use scash_proto::node::{Collective, Counters, Outcome};
use scash_proto::{AllocOptions, PAGE_SIZE, Placement, Protocol, Rank};
use scash_sim::program::{Interval, Op, Script, Span};
use scash_sim::report::{Report, Traffic};
use scash_sim::{Setup, World};
use std::ops::Range;

fn run(setup: Setup, script: Script) -> Report {
    World::new(setup, script.into_program()).run().unwrap_or_else(|failure| panic!("{failure}"))
}

/// Shared memory (puts land at once), and a network.
fn both_kinds(ranks: u32, pages: u32) -> [Setup; 2] {
    [true, false].map(|puts_at_once| Setup { puts_at_once, slow: 10, ..Setup::new(ranks, pages) })
}

fn options(placement: Placement, protocol: Protocol) -> AllocOptions {
    AllocOptions { placement, protocol, block: 1 }
}

/// What the intervals of a range gained, added up.
fn gained(report: &Report, intervals: Range<usize>, counter: impl Fn(Counters) -> u64) -> u64 {
    intervals.map(|i| counter(report.gained(i))).sum()
}

/// Jacobi iteration: two arrays in turns, `rows` pages of each a rank, plain allocation. Returns the number
/// of the first iteration's interval, too.
fn stencil(ranks: u32, rows: u32, iterations: u32, protocol: Protocol) -> (Script, usize) {
    let total = ranks * rows;
    let mut script = Script::new(ranks, 2 * total);
    let options = options(Placement::FirstTouch, protocol);
    let arrays = [script.alloc(total, options), script.alloc(total, options)];
    let first = script.len();
    for i in 0..iterations {
        let (from, to) = (arrays[(i % 2) as usize].first, arrays[((i + 1) % 2) as usize].first);
        script.interval(|interval| {
            for rank in 0..ranks {
                let mine = rank * rows..(rank + 1) * rows;
                for row in mine.start.saturating_sub(1)..(mine.end + 1).min(total) {
                    interval.push(rank, Op::Read(Span::page(from + row)));
                }
                for row in mine {
                    let salt = (i * 7 + row).to_le_bytes()[0];
                    interval.push(rank, Op::Write(Span::page(to + row), salt));
                }
            }
        });
    }
    (script, first)
}

#[test]
fn a_stencil_takes_no_faults_and_moves_its_boundary_pages_only() {
    let (ranks, boundaries) = (4, 6);
    for setup in both_kinds(ranks, 64) {
        let (script, first) = stencil(ranks, 8, 60, Protocol::Update);
        let end = script.len();
        let report = run(setup, script);
        for i in first + 6..end {
            let g = report.gained(i);
            assert_eq!((g.read_faults, g.write_faults, g.twins, g.invalidated), (0, 0, 0, 0), "interval {i}");
            assert_eq!((g.updates, g.predicted, g.second_meetings), (boundaries, boundaries, 0));
            // A put of all bytes of a page; over a network a word says that it is complete.
            let controls = if setup.puts_at_once { 0 } else { boundaries };
            let traffic = report.periods[i].traffic;
            // A token takes 13 bytes and 2 for each rank that is announced something (9 times in all), a
            // control of no words 10.
            let message_bytes = if setup.puts_at_once { 8 * 13 } else { 8 * 13 + 9 * 2 + 6 * 10 };
            let put_bytes = boundaries * (PAGE_SIZE as u64 + 4);
            let puts = boundaries;
            let expected =
                Traffic { tokens: 8, controls, message_bytes, puts, put_bytes, ..Traffic::default() };
            assert_eq!(traffic, expected, "interval {i}");
        }
    }
}

#[test]
fn an_adaptive_stencil_is_asked_about_less_and_less() {
    let ranks = 4;
    for setup in both_kinds(ranks, 64) {
        let (script, first) = stencil(ranks, 8, 140, Protocol::Adaptive);
        let report = run(setup, script);
        let steady = first + 8..first + 140;
        assert_eq!(gained(&report, steady.clone(), |c| c.write_faults), 0);
        assert_eq!(gained(&report, steady.clone(), |c| c.fetched), 0);
        // Each of the twelve subscribed pages is taken out of view when it was brought 4 times, and then 8,
        // 16 and 32 times more, and found read: in every second interval one array's pages are brought.
        let asks = |i: &usize| report.gained(*i).read_faults > 0;
        let asked: Vec<usize> = steady.clone().filter(asks).map(|i| i - first).collect();
        assert_eq!(asked, [11, 12, 27, 28, 59, 60, 123, 124]);
        assert_eq!(gained(&report, steady.clone(), |c| c.read_faults), 12 * 4);
        assert_eq!(gained(&report, steady.clone(), |c| c.updates), 6 * steady.len() as u64);
    }
}

#[test]
fn invalidate_costs_a_stencil_a_fetch_of_each_boundary_page() {
    let (ranks, boundaries) = (4, 6);
    for setup in both_kinds(ranks, 64) {
        let (script, first) = stencil(ranks, 8, 40, Protocol::Invalidate);
        let report = run(setup, script);
        for i in first + 6..first + 40 {
            let g = report.gained(i);
            assert_eq!((g.fetched, g.updates, g.second_meetings), (boundaries, 0, 0), "interval {i}");
            assert_eq!(report.periods[i].traffic.puts, 0);
        }
    }
}

/// LU without pivoting on `steps` column blocks, dealt out in turn: in step k the owner of block k finishes
/// it, then all others read it, once, and go on with their own blocks behind it.
#[test]
fn blocks_that_are_read_once_cost_their_homes_nothing() {
    let (ranks, steps, pages) = (4u32, 24u32, 4u32);
    for setup in both_kinds(ranks, steps * pages) {
        let mut script = Script::new(ranks, steps * pages);
        let matrix = script.alloc(steps * pages, AllocOptions::default());
        let block = |k: u32| (k * pages..(k + 1) * pages).map(move |p| matrix.first + p);
        let own = |interval: &mut Interval, k: u32, salt: u8| {
            block(k).for_each(|p| interval.push(k % ranks, Op::Write(Span::page(p), salt)));
        };
        script.interval(|i| (0..steps).for_each(|k| own(i, k, 1)));
        for k in 0..steps {
            script.interval(|i| own(i, k, 2));
            script.interval(|i| {
                for rank in (0..ranks).filter(|&r| r != k % ranks) {
                    block(k).for_each(|p| i.push(rank, Op::Read(Span::page(p))));
                }
                (k + 1..steps).for_each(|j| own(i, j, 3 + k.to_le_bytes()[0]));
            });
        }
        let report = run(setup, script);
        let c = report.counters();
        assert_eq!(c.first_touches, u64::from(steps * pages));
        assert_eq!(c.write_faults, u64::from(steps * 3), "first touches only: a page, a page, two pages");
        assert_eq!((c.twins, c.diffs, c.updates, c.second_meetings), (0, 0, 0, 0));
        assert_eq!(c.fetched, u64::from(steps * pages * (ranks - 1)), "each page once by each other rank");
        assert!(report.periods.iter().all(|p| p.directory == 0 && p.traffic.controls == 0));
        // Windows learn the length of a block: the first blocks take a few fetches, later ones (nearly
        // always) one.
        assert!(c.read_faults < u64::from(steps * (ranks - 1)) * 3 / 2, "{} fetches", c.read_faults);
    }
}

#[test]
fn a_page_that_nobody_caches_takes_no_write_fault_for_100_intervals() {
    for setup in both_kinds(3, 30) {
        let mut script = Script::new(3, 30);
        let area = script.alloc(30, options(Placement::Block, Protocol::Adaptive));
        for i in 0..101u8 {
            script.interval(|interval| {
                for page in area.iter() {
                    interval.push((page - area.first) / 10, Op::Write(Span { page, first: 40, len: 900 }, i));
                }
            });
        }
        let report = run(setup, script);
        assert_eq!(gained(&report, 2..102, |c| c.write_faults + c.read_faults), 0);
        assert_eq!(gained(&report, 2..102, |c| c.avoided), 100 * 30);
        assert_eq!(report.counters().twins, 0);
    }
}

#[test]
fn a_long_run_of_home_pages_with_invalidate_copies_is_rewritten_without_faults() {
    let pages = 8;
    for setup in both_kinds(3, pages) {
        let setup = Setup { watch_from: 4, seed: 2, ..setup };
        let mut script = Script::new(3, pages);
        let area = script.alloc(pages, options(Placement::Rank(0), Protocol::Invalidate));
        for i in 0..40u8 {
            script.interval(|interval| {
                area.iter().for_each(|p| interval.push(0, Op::Write(part(p, 0), i)));
                for reader in 1..3 {
                    area.iter().for_each(|p| interval.push(reader, Op::Read(part(p, 2048))));
                }
            });
        }
        let report = run(setup, script);
        let steady = 10..40;
        assert_eq!(gained(&report, steady.clone(), |c| c.write_faults + c.twins), 0);
        assert_eq!(gained(&report, steady.clone(), |c| c.noticed), 30 * u64::from(pages));
    }
}

fn part(page: u32, first: usize) -> Span {
    Span { page, first, len: 2000 }
}

#[test]
fn a_reader_that_stops_reading_is_sent_nothing_any_more_and_the_home_writes_freely_again() {
    for setup in both_kinds(2, 1) {
        let mut script = Script::new(2, 1);
        let page = script.alloc(1, options(Placement::Rank(0), Protocol::Adaptive)).first;
        for i in 0..80u8 {
            script.interval(|interval| {
                if i % 2 == 0 {
                    interval.push(0, Op::Write(Span::page(page), i));
                } else if i < 20 {
                    interval.push(1, Op::Read(Span::page(page)));
                }
            });
        }
        let report = run(setup, script);
        assert_eq!(report.periods[15].directory, 1);
        let last = report.periods.len() - 1;
        assert_eq!(report.periods[last].directory, 0);
        assert_eq!(gained(&report, 50..last, |c| c.updates + c.write_faults + c.read_faults), 0);
    }
}

#[test]
fn an_empty_barrier_is_one_message_a_rank_and_round() {
    for (ranks, rounds) in
        [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (16, 4), (32, 5), (33, 6), (64, 6)]
    {
        let mut script = Script::new(ranks, 1);
        (0..5).for_each(|_| script.interval(|_| {}));
        let report = run(Setup::new(ranks, 1), script);
        for period in &report.periods {
            let tokens = u64::from(ranks) * rounds;
            let expected = Traffic { tokens, message_bytes: 13 * tokens, ..Traffic::default() };
            assert_eq!(period.traffic, expected, "{ranks} ranks");
        }
        assert_eq!(report.counters().second_meetings, 0);
    }
}

#[test]
fn a_second_meeting_follows_only_where_somebody_wrote_away_from_home() {
    let ranks = 6;
    let rounds = 3;
    for setup in both_kinds(ranks, 6) {
        let mut script = Script::new(ranks, 6);
        let area = script.alloc(6, options(Placement::Block, Protocol::Update));
        for i in 0..30u8 {
            script.interval(|interval| {
                for rank in 0..ranks {
                    // In every third interval, one rank writes on its neighbour's page instead of its own.
                    let away = i % 3 == 2 && rank == 4;
                    let page = area.first + if away { 5 } else { rank };
                    let first = if away { 100 } else { 200 };
                    interval.push(rank, Op::Write(Span { page, first, len: 50 }, i));
                }
            });
        }
        let report = run(setup, script);
        for i in 0..30 {
            let meetings = if i % 3 == 2 { 2 } else { 1 };
            let period = 1 + i;
            assert_eq!(
                report.gained(period).second_meetings,
                u64::from(ranks) * (meetings - 1),
                "interval {period}"
            );
            assert_eq!(report.periods[period].traffic.tokens, u64::from(ranks) * rounds * meetings);
        }
        assert_eq!(report.counters().third_meetings, 0);
    }
}

#[test]
fn one_meeting_is_enough_where_others_only_read_what_its_home_writes() {
    let (ranks, pages) = (4, 8);
    for protocol in [Protocol::Invalidate, Protocol::Update, Protocol::Adaptive] {
        for setup in both_kinds(ranks, pages) {
            let mut script = Script::new(ranks, pages);
            let area = script.alloc(pages, options(Placement::Rank(0), protocol));
            let page = |p: u32| area.first + p;
            for i in 0..24u8 {
                // Now and then one half is left alone, or not read.
                let written = if i % 3 == 2 { 4..pages } else { 0..pages };
                let read = if i % 5 == 4 { 0..4 } else { 0..pages };
                script.interval(|interval| {
                    written.for_each(|p| interval.push(0, Op::Write(Span::page(page(p)), i)));
                });
                script.interval(|interval| {
                    for rank in 1..ranks {
                        read.clone().for_each(|p| interval.push(rank, Op::Read(Span::page(page(p)))));
                    }
                });
            }
            let report = run(setup, script);
            // Copies that get updates are brought once more after the interval in which their sharers fetch
            // them, in a second meeting.
            let begins = if protocol == Protocol::Invalidate { 0 } else { u64::from(ranks) };
            let (seconds, after) =
                (report.counters().second_meetings, gained(&report, 9..49, |c| c.second_meetings));
            assert_eq!((seconds, after), (begins, 0), "{protocol:?}");
        }
    }
}

#[test]
fn pages_written_one_after_the_other_away_from_home_take_few_faults_and_only_what_changed_goes_home() {
    let pages = 64;
    for setup in both_kinds(2, pages) {
        let mut script = Script::new(2, pages);
        let area = script.alloc(pages, options(Placement::Rank(1), Protocol::Update));
        // A run that ends in the middle of pages that could be written, too.
        for i in 0..8u8 {
            script.interval(|interval| {
                (0..pages).for_each(|p| interval.push(0, Op::Read(Span::page(area.first + p))));
                (0..32).for_each(|p| interval.push(0, Op::Write(Span::page(area.first + p), i)));
            });
        }
        let report = run(setup, script);
        for i in 2..9 {
            let g = report.gained(i);
            assert_eq!(g.diffs, 32, "interval {i}");
            assert_eq!(g.write_faults + g.predicted, 32, "interval {i}");
            assert!(g.write_faults <= 6 && g.twins <= 32 + 32, "interval {i}: {g:?}");
        }
    }
}

#[test]
fn pages_that_two_ranks_write_in_every_interval_take_no_faults() {
    let pages = 64;
    for setup in both_kinds(2, pages) {
        let mut script = Script::new(2, pages);
        let area = script.alloc(pages, AllocOptions::default());
        for i in 0..12u8 {
            script.interval(|interval| {
                for page in area.iter() {
                    (0..2)
                        .for_each(|rank| interval.push(rank, Op::Write(part(page, rank as usize * 2048), i)));
                }
            });
        }
        let report = run(setup, script);
        for i in 8..12 {
            let g = report.gained(i);
            assert_eq!((g.write_faults, g.predicted, g.diffs), (0, 128, 64), "interval {i}");
        }
    }
}

#[test]
fn a_page_with_more_than_64_sharers_reaches_them_all() {
    let ranks = 100;
    for setup in both_kinds(ranks, 1) {
        let mut script = Script::new(ranks, 1);
        let page = script.alloc(1, options(Placement::Rank(7), Protocol::Update)).first;
        for i in 0..12u8 {
            script.interval(|interval| {
                let (written, read) = if i % 2 == 0 { (0, 64) } else { (64, 0) };
                interval.push(7, Op::Write(Span { page, first: written, len: 64 }, i));
                for rank in (0..ranks).filter(|&r| r != 7) {
                    interval.push(rank, Op::Read(Span { page, first: read, len: 64 }));
                }
            });
        }
        let report = run(setup, script);
        for i in 5..13 {
            let g = report.gained(i);
            assert_eq!((g.updates, g.read_faults, g.fetched), (99, 0, 0), "interval {i}");
        }
    }
}

#[test]
fn a_thousand_ranks_agree_with_a_dozen_messages_a_barrier_each() {
    let (ranks, barriers) = (1000u32, 6);
    let pages = 50;
    for setup in both_kinds(ranks, pages) {
        let mut script = Script::new(ranks, pages);
        let area = script.alloc(
            pages,
            options(Placement::Cyclic { pages: 1.try_into().unwrap(), first: 0 }, Protocol::Adaptive),
        );
        for i in 0..barriers - 2 {
            script.interval(|interval| {
                // Twenty ranks share each page; each writes its own bytes in one half of the intervals, and
                // reads its neighbour's in the other half.
                for rank in 0..ranks {
                    let at = |r: u32| Span {
                        page: area.first + r % pages,
                        first: 200 * (r / pages) as usize,
                        len: 16,
                    };
                    if i % 2 == 0 {
                        interval.push(rank, Op::Write(at(rank), rank.to_le_bytes()[0]));
                    } else {
                        interval.push(rank, Op::Read(at((rank + 1) % ranks)));
                    }
                }
            });
        }
        script.interval(|interval| {
            for page in area.iter() {
                interval.push(999, Op::Read(Span::page(page)));
                interval.push(0, Op::Read(Span::page(page)));
            }
        });
        let report = run(setup, script);
        let c = report.counters();
        assert_eq!(c.barriers, u64::from(ranks * barriers));
        let meetings = c.barriers / u64::from(ranks) + c.second_meetings / u64::from(ranks);
        let most = report.sent.iter().copied().max().unwrap();
        // Ten tokens a meeting, and a few words and diffs for what the rank itself did. Homes have 20 sharers
        // each.
        assert!(most <= meetings * (10 + 25), "{most} messages in {meetings} meetings");
        let tokens: u64 = report.periods.iter().map(|p| p.traffic.tokens).sum();
        assert_eq!(tokens, meetings * u64::from(ranks) * 10);
    }
}

#[test]
fn an_allocation_that_does_not_fit_fails_alike_everywhere_and_the_job_goes_on() {
    let mut script = Script::new(5, 10);
    let area = script.alloc(6, AllocOptions::default());
    let mut heap = scash_proto::heap::Heap::new(10);
    heap.alloc(6 * PAGE_SIZE as u64, std::num::NonZeroU32::MIN, ()).unwrap();
    let bytes = 5 * PAGE_SIZE as u64;
    let error = heap.alloc(bytes, std::num::NonZeroU32::MIN, ()).unwrap_err();
    script.interval(|i| {
        i.end = Collective::Alloc(bytes, AllocOptions::default());
        i.outcome = Outcome::OutOfSpace(error);
    });
    script.interval(|i| i.push(3, Op::Write(Span::page(area.first), 9)));
    script.interval(|i| (0..5).for_each(|r| i.push(r, Op::Read(Span::page(area.first)))));
    run(Setup::new(5, 10), script);
}

#[test]
fn a_home_that_moves_takes_its_data_along() {
    for setup in both_kinds(4, 8) {
        let mut script = Script::new(4, 8);
        let area = script.alloc(8, options(Placement::Rank(0), Protocol::Adaptive));
        for round in 0..12u8 {
            let writer = u32::from(round % 4);
            script.interval(|i| area.iter().for_each(|p| i.push(writer, Op::Write(Span::page(p), round))));
            script.interval(|i| {
                i.push((writer + 1) % 4, Op::SetHome(area, Rank((writer + 2) % 4)));
                (0..4).for_each(|r| area.iter().for_each(|p| i.push(r, Op::Read(Span::page(p)))));
            });
        }
        let report = run(setup, script);
        assert_eq!(report.counters().third_meetings, 4 * 12);
    }
}

/// How many messages rank `rank` of `size` sends in a reduction: one up, and one down to each child in the
/// binomial tree.
fn messages_of_a_reduction(rank: u32, size: u32) -> u64 {
    let below = if rank == 0 { 32 } else { rank.trailing_zeros() };
    let children = (0..below).filter(|k| rank.checked_add(1 << k).is_some_and(|child| child < size)).count();
    u64::from(rank > 0) + children as u64
}

#[test]
fn a_reduction_takes_two_messages_a_pair_of_a_binomial_tree() {
    for size in [1, 2, 3, 5, 8, 13, 64, 1000] {
        let sent = |reductions: u64| {
            let mut script = Script::new(size, 1);
            script.interval(|interval| {
                for rank in 0..size {
                    (0..reductions).for_each(|_| interval.push(rank, Op::Reduce(1, u64::from(size))));
                }
            });
            run(Setup::new(size, 1), script).sent
        };
        let (without, with) = (sent(0), sent(3));
        for (rank, (without, with)) in (0..size).zip(without.iter().zip(with)) {
            assert_eq!(with - without, 3 * messages_of_a_reduction(rank, size), "rank {rank} of {size}");
        }
        let most = (0..size).map(|rank| messages_of_a_reduction(rank, size)).max();
        assert!(most <= Some(u64::from(size.next_power_of_two().trailing_zeros()) + 1));
    }
}
