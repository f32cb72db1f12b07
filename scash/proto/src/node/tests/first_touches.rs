//! Pages that are touched first one after the other.

use super::*;

/// Rank 0 writes pages 0 to 9 of 32, in order, and stores something in each.
fn filled() -> Job {
    let mut job = Job::with(2, PAGES, AllocOptions::default());
    (0..10).for_each(|page| job.write(0, page));
    job
}

fn homes(job: &Job, rank: usize, pages: std::ops::Range<u32>) -> Vec<Option<Rank>> {
    pages.map(|page| job.nodes[rank].home(page)).collect()
}

#[test]
fn pages_that_are_touched_in_order_are_opened_in_runs() {
    let mut job = filled();
    let counters = job.nodes[0].counters();
    assert_eq!((counters.write_faults, counters.first_touches), (5, 9), "pages 0, 1, 2, 4 and 8");
    assert_eq!(job.nodes[0].access(15), Access::Write);
    job.barrier();
    for rank in 0..2 {
        assert_eq!(homes(&job, rank, 0..10), [Some(Rank(0)); 10]);
        assert_eq!(homes(&job, rank, 10..17), [None; 7], "they were opened in vain");
    }
    assert_eq!(job.nodes[0].counters().first_touches, 10);
    assert!(job.orders(0).contains(&Output::Discard(Pages { first: 10, count: 6 })));
    assert_eq!(job.nodes[0].access(10), Access::None);
    assert_eq!(job.nodes[0].access(9), Access::Write);
}

#[test]
fn a_run_that_goes_on_has_touched_what_is_behind_it_whatever_is_there() {
    let mut job = Job::with(2, PAGES, AllocOptions::default());
    // Nothing but zeros.
    (0..10).for_each(|page| job.touch(0, page, Access::Write));
    job.barrier();
    assert_eq!(homes(&job, 1, 0..9), [Some(Rank(0)); 9], "up to the last fault");
    assert_eq!(homes(&job, 1, 9..17), [None; 8]);
}

#[test]
fn zeros_that_are_only_read_are_soon_at_home_with_their_reader() {
    let mut job = Job::with(2, PAGES, AllocOptions::default());
    (0..10).for_each(|page| job.touch(0, page, Access::Write));
    job.barrier();
    for _ in 0..3 {
        (9..14).for_each(|page| job.touch(0, page, Access::Read));
        job.barrier();
    }
    assert_eq!(job.nodes[0].counters().read_faults, 5);
    assert_eq!(homes(&job, 1, 9..15)[..5], [Some(Rank(0)); 5]);
    assert_eq!(job.nodes[1].home(14), None);
}

#[test]
fn runs_of_two_threads_prove_each_its_own_and_open_nothing() {
    let mut job = Job::with(2, PAGES, AllocOptions::default());
    for page in 0..4 {
        job.touch(0, page, Access::Write);
    }
    // Page 3 is open. Another thread begins at 16, and this one goes on behind what is open.
    job.touch(0, 16, Access::Write);
    job.touch(0, 4, Access::Write);
    (17..20).zip(5..8).for_each(|(there, here)| {
        job.touch(0, there, Access::Write);
        job.touch(0, here, Access::Write);
    });
    job.barrier();
    assert_eq!(homes(&job, 1, 0..8), [Some(Rank(0)); 8]);
    assert_eq!(homes(&job, 1, 16..20), [Some(Rank(0)); 4]);
    assert_eq!(homes(&job, 1, 8..16), [None; 8]);
}

#[test]
fn pages_that_are_touched_here_and_there_open_nothing_whatever_runs_there_were() {
    let mut job = filled();
    job.barrier();
    let before = job.nodes[0].counters().first_touches;
    job.touch(0, 20, Access::Write);
    job.touch(0, 25, Access::Write);
    assert_eq!((job.nodes[0].access(21), job.nodes[0].access(26)), (Access::None, Access::None));
    assert_eq!(job.nodes[0].counters().first_touches, before + 2);
}

#[test]
fn what_was_opened_in_vain_is_of_whoever_touches_it() {
    let mut job = filled();
    job.barrier();
    (10..16).for_each(|page| job.write(1, page));
    job.barrier();
    for rank in 0..2 {
        assert_eq!(job.nodes[rank].home(9), Some(Rank(0)));
        assert_eq!(homes(&job, rank, 10..16), [Some(Rank(1)); 6]);
    }
}

#[test]
fn what_one_rank_opens_and_another_one_touches_is_the_other_one_s() {
    let mut job = filled();
    (10..20).for_each(|page| job.write(1, page));
    job.barrier();
    for rank in 0..2 {
        assert_eq!(homes(&job, rank, 0..10), [Some(Rank(0)); 10]);
        assert_eq!(homes(&job, rank, 10..20), [Some(Rank(1)); 10]);
    }
    assert_eq!(job.nodes[0].counters().third_meetings, 0, "nothing was disputed");
}

#[test]
fn a_block_is_opened_as_a_whole_and_nothing_behind_it() {
    let mut blocks = Job::with(2, PAGES, AllocOptions { block: 2, ..AllocOptions::default() });
    (0..10).for_each(|page| blocks.write(0, page));
    assert_eq!(blocks.nodes[0].counters().write_faults, 5);
    assert_eq!(blocks.nodes[0].access(10), Access::None);
}

#[test]
fn a_page_that_is_operated_on_is_touched_whatever_it_holds() {
    let mut job = filled();
    job.give(0, Input::Operate { page: 12, changes: true });
    let orders = job.ordered(0);
    assert!(matches!(orders[..], [Output::Claim { page: 12, take: true, .. }]), "{orders:?}");
    job.give(0, Input::Claimed { page: 12, home: Some(Rank(0)) });
    job.barrier();
    assert_eq!(homes(&job, 1, 10..14), [None, None, Some(Rank(0)), None]);
}

#[test]
fn a_page_that_a_thread_touches_while_it_is_looked_at_is_told_of() {
    let mut job = filled();
    job.give(0, Input::Arrive(Collective::Barrier));
    let orders = job.ordered(0);
    assert!(orders.contains(&Output::CompareToZeros(Pages { first: 9, count: 7 })), "{orders:?}");
    job.fault(0, 12, Access::Write);
    (9..16).for_each(|page| job.give(0, Input::IsZero { page, zero: page != 9 }));
    job.give(0, Input::Flushed);
    job.give(1, Input::Arrive(Collective::Barrier));
    job.told();
    let known = [true, false, false, true, false].map(|known| known.then_some(Rank(0)));
    assert_eq!(homes(&job, 1, 9..14), known);
}

#[test]
fn a_page_with_a_home_ends_what_is_opened() {
    let mut job = Job::with(2, PAGES, AllocOptions::default());
    job.write(1, 11);
    job.barrier();
    (0..9).for_each(|page| job.write(0, page));
    assert_eq!((job.nodes[0].access(10), job.nodes[0].access(11)), (Access::Write, Access::None));
    assert_eq!(job.nodes[0].access(12), Access::None);
}

#[test]
fn a_rank_that_is_alone_keeps_all_that_it_has_opened() {
    let mut job = Job::with(1, PAGES, AllocOptions::default());
    (0..10).for_each(|page| job.touch(0, page, Access::Write));
    job.barrier();
    assert_eq!(homes(&job, 0, 0..16), [Some(Rank(0)); 16]);
}
