//! First touches, fetches and the way to a writable page.

use super::*;

#[test]
fn an_untouched_page_reads_as_zeros_until_the_barrier() {
    let mut job = Job::with(2, 4, AllocOptions::default());
    assert_eq!(job.fault(0, 2, Access::Read), [Output::MapZero(one(2), Access::Read)]);
    assert_eq!(job.nodes[0].home(2), None);
    job.barrier();
    assert_eq!(job.orders(0)[0], Output::Unmap(one(2)));
    assert_eq!(job.nodes[0].access(2), Access::None);
}

#[test]
fn the_first_writer_is_the_home_and_everybody_learns_it() {
    let mut job = Job::with(5, 4, AllocOptions::default());
    assert_eq!(job.fault(3, 1, Access::Write), [Output::MapZero(one(1), Access::Write)]);
    job.barrier();
    assert!(job.nodes.iter().all(|n| n.home(1) == Some(Rank(3))));
    assert_eq!(job.nodes[3].access(1), Access::Write, "nobody caches it: it is not protected");
    assert!(job.nodes.iter().all(|n| n.counters().second_meetings == 0));
}

#[test]
fn a_page_that_was_read_as_zeros_becomes_writable_without_being_cleared() {
    let mut job = Job::with(2, 4, AllocOptions::default());
    job.touch(0, 0, Access::Read);
    assert_eq!(job.fault(0, 0, Access::Write), [Output::Protect(one(0), Access::Write)]);
}

#[test]
fn of_two_first_writers_the_lower_is_the_home_and_the_other_sends_what_it_wrote() {
    let mut job = Job::with(3, 4, AllocOptions::default());
    job.touch(2, 0, Access::Write);
    job.touch(1, 0, Access::Write);
    job.barrier();
    assert!(job.nodes.iter().all(|n| n.home(0) == Some(Rank(1))));
    let orders = job.orders(2);
    assert!(orders.contains(&Output::DiffZero { page: 0, to: Rank(1) }));
    assert!(orders.contains(&Output::Unmap(one(0))));
    assert!(job.nodes.iter().all(|n| n.counters().third_meetings == 1));
}

#[test]
fn a_block_is_first_touched_as_a_whole() {
    let mut job = Job::with(2, 8, AllocOptions { block: 4, ..AllocOptions::default() });
    assert_eq!(
        job.fault(1, 6, Access::Write),
        [Output::MapZero(Pages { first: 4, count: 4 }, Access::Write)],
        "by one order"
    );
    job.barrier();
    let homes: Vec<_> = (0..8).map(|p| job.nodes[0].home(p)).collect();
    assert_eq!(homes, [vec![None; 4], vec![Some(Rank(1)); 4]].concat());
}

#[test]
fn writing_an_absent_page_fetches_it_then_makes_a_twin_then_opens_it() {
    let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
    assert_eq!(job.fault(0, 3, Access::Write), [Output::Get { from: Rank(1), pages: one(3).into() }]);
    job.give(0, Input::Fetched(one(3).into()));
    assert_eq!(job.nodes[0].access(3), Access::Read);
    let orders = job.fault(0, 3, Access::Write);
    assert_eq!(orders, [Output::Twin(3), Output::Protect(one(3), Access::Write)]);
    job.barrier();
    let orders = job.orders(0);
    assert_eq!(orders[0], Output::Diff { page: 3, to: Rank(1), force: false });
    assert!(orders.contains(&Output::DropTwin(3)));
}

#[test]
fn a_second_thread_waits_for_the_page_that_the_first_is_fetching() {
    let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
    job.fault(0, 3, Access::Read);
    assert_eq!(job.fault(0, 3, Access::Write), [Output::Wait(3)]);
    assert!(job.nodes[0].is_fetching(3));
    job.give(0, Input::FetchFailed(one(3).into()));
    assert!(!job.nodes[0].is_fetching(3));
    assert_eq!(job.fault(0, 3, Access::Read), [Output::Get { from: Rank(1), pages: one(3).into() }]);
}

#[test]
fn consecutive_faults_double_their_run_with_each_fetch() {
    let mut job = Job::with(2, 32, at(1, Protocol::Adaptive));
    let mut page = 0;
    for count in [1, 1, 2, 4, 8, 16] {
        let pages = Pages { first: page, count };
        assert_eq!(job.fault(0, page, Access::Read), [Output::Get { from: Rank(1), pages: pages.into() }]);
        job.give(0, Input::Fetched(pages.into()));
        page += count;
    }
}

#[test]
fn a_run_of_which_some_pages_are_here_already_is_no_shorter_for_that() {
    let mut job = Job::with(2, 32, at(1, Protocol::Adaptive));
    for (first, count) in [(26, 1), (27, 1), (0, 2), (2, 2), (12, 4), (24, 2), (16, 4)] {
        let pages = Pages { first, count };
        assert_eq!(fetched(&mut job, first).0, pages);
    }
}

#[test]
fn memory_of_no_allocation_is_denied() {
    let mut job = Job::with(2, 4, AllocOptions::default());
    assert_eq!(job.fault(0, 4, Access::Read), [Output::Denied(4)]);
    assert_eq!(job.fault(0, PAGES + 7, Access::Write), [Output::Denied(PAGES + 7)]);
    job.touch(0, 1, Access::Write);
    job.all(Collective::Free(0));
    assert!(job.orders(0).contains(&Output::Discard(Pages { first: 0, count: 4 })));
    assert_eq!(job.fault(0, 1, Access::Read), [Output::Denied(1)]);
}

#[test]
fn a_page_that_this_rank_claimed_while_it_asked_whose_the_page_is_stays_its_own() {
    let mut job = Job::with(2, 4, AllocOptions { block: 2, ..AllocOptions::default() });
    job.all(Collective::Make(ObjectKind::Lock, 1));
    let asks = |page, take| [Output::Claim { page, key: 0, at: Rank(0), take }];
    assert_eq!(job.fault(0, 0, Access::Read), asks(0, false));
    // Another thread writes the other page of the block, and hears first.
    assert_eq!(job.fault(0, 1, Access::Write), asks(1, true));
    job.give(0, Input::Claimed { page: 1, home: Some(Rank(0)) });
    job.give(0, Input::Claimed { page: 0, home: None });
    assert_eq!((job.nodes[0].home(0), job.nodes[0].access(0)), (Some(Rank(0)), Access::Write));
}

#[test]
fn where_frames_are_given_back_a_thread_waits_for_another_one_that_asks_whose_the_block_is() {
    let mut job = Job::new(2);
    let limited = |rank| Config { cache: 4, ..Config::plain(Rank(rank), 2, PAGES) };
    job.nodes = (0..2).map(|rank| Node::new(limited(rank))).collect();
    let options = AllocOptions { block: 2, ..AllocOptions::default() };
    job.all(Collective::Alloc(4 * PAGE_SIZE as u64, options));
    job.all(Collective::Make(ObjectKind::Lock, 1));
    let asks = |page, take| [Output::Claim { page, key: 0, at: Rank(0), take }];
    assert_eq!(job.fault(0, 0, Access::Read), asks(0, false));
    assert_eq!(job.fault(0, 1, Access::Write), [Output::Wait(1)]);
    job.give(0, Input::Claimed { page: 0, home: None });
    assert_eq!(job.ordered(0), [Output::MapZero(Pages::one(0), Access::Read)]);
    assert_eq!(job.fault(0, 1, Access::Write), asks(1, true));
    // Others may know by now that the block is this rank's.
    assert!(job.nodes[0].is_fetching(0));
    assert_eq!(job.fault(0, 0, Access::Write), [Output::Wait(0)]);
    job.give(0, Input::Claimed { page: 1, home: Some(Rank(0)) });
    for page in 0..2 {
        assert_eq!((job.nodes[0].home(page), job.nodes[0].access(page)), (Some(Rank(0)), Access::Write));
        assert!(!job.nodes[0].is_fetching(page));
    }
}

/// A node that begins runs with four pages, where nothing is known of them.
fn guessing() -> Job {
    let mut job = Job::new(2);
    let config = |rank| Config { fetch_first: 4, fetch_most: 8, ..Config::plain(Rank(rank), 2, PAGES) };
    job.nodes = (0..2).map(|rank| Node::new(config(rank))).collect();
    job.all(Collective::Alloc(u64::from(PAGES) * PAGE_SIZE as u64, at(1, Protocol::Adaptive)));
    job
}

/// Reads a page that is not here. Returns which pages come, and what is ordered when they are here.
fn fetched(job: &mut Job, page: u32) -> (Pages, Vec<Output>) {
    let [Output::Get { pages, .. }] = job.fault(0, page, Access::Read)[..] else { panic!("no fetch") };
    job.give(0, Input::Fetched(pages));
    (pages.first, job.ordered(0))
}

#[test]
fn a_guess_that_is_read_to_its_end_takes_two_faults_more_and_the_next_ones_none() {
    let mut job = guessing();
    let (pages, last) = (Pages { first: 0, count: 4 }, [2, 3].map(|page| Output::Unmap(one(page))));
    assert_eq!(fetched(&mut job, 0), (pages, last.into()));
    assert!((0..2).all(|page| job.nodes[0].access(page) == Access::Read));
    for page in 2..4 {
        assert_eq!(job.fault(0, page, Access::Read), [Output::Map(one(page), Access::Read)]);
    }
    for first in [4, 8, 16, 24] {
        let pages = Pages { first, count: first.min(8) };
        assert_eq!(fetched(&mut job, first), (pages, vec![]));
    }
}

#[test]
fn of_pages_that_are_read_at_a_distance_those_between_come_only_until_that_is_seen() {
    let mut job = guessing();
    let pages: Vec<Pages> = [0, 4, 8, 12].map(|page| fetched(&mut job, page).0).into();
    let counts: Vec<u32> = pages.iter().map(|pages| pages.count).collect();
    assert_eq!(counts, [4, 4, 1, 1]);
}

#[test]
fn an_acquire_that_ends_what_was_read_does_not_make_it_look_unread_nor_read() {
    let mut job = guessing();
    job.all(Collective::Make(ObjectKind::Lock, 1));
    for first in [0, 4] {
        assert_eq!(fetched(&mut job, first).1.len(), 2, "it is looked at");
        job.touch(0, first + 3, Access::Read);
        job.section(1, 0);
        job.write(1, 31);
        job.section(1, 0);
        job.section(0, 0);
        assert_eq!(job.nodes[0].access(first + 3), Access::None);
    }
    assert_eq!(fetched(&mut job, 8).0.count, 8);
}

/// Ten runs of pages grow side by side, one page of each in turn, at no distance that stays, up to this
/// length.
fn write_runs(job: &mut Job, length: u32) {
    for place in 0..length {
        [0, 3, 1, 6, 2, 8, 4, 9, 5, 7].into_iter().for_each(|run| job.write(0, 3 * run + place));
    }
    job.barrier();
}

#[test]
fn runs_that_grow_side_by_side_open_as_wholes_once_it_is_known_how_long_they_are() {
    let mut job = Job::with(2, 30, at(1, Protocol::Adaptive));
    write_runs(&mut job, 2);
    let both = Pages { first: 3, count: 2 };
    assert_eq!(job.fault(0, 3, Access::Write), [Output::Get { from: Rank(1), pages: both.into() }]);
    job.give(0, Input::Fetched(both.into()));
    let opened = [Output::Twin(3), Output::Twin(4), Output::Protect(both, Access::Write)];
    assert_eq!(job.fault(0, 3, Access::Write), opened);
}

#[test]
fn a_long_run_that_is_written_in_any_order_opens_in_large_pieces_the_next_time() {
    let all = Pages { first: 0, count: 128 };
    let mut job = Job::new(2);
    let config = |rank| Config { fetch_most: 64, ..Config::plain(Rank(rank), 2, all.count) };
    job.nodes = (0..2).map(|rank| Node::new(config(rank))).collect();
    job.all(Collective::Alloc(u64::from(all.count) * PAGE_SIZE as u64, at(1, Protocol::Adaptive)));
    (0..all.count).for_each(|n| job.write(0, n * 37 % all.count));
    job.barrier();
    let piece = Pages { first: 70, count: MOST_AHEAD };
    assert_eq!(job.fault(0, 70, Access::Write), [Output::Get { from: Rank(1), pages: piece.into() }]);
}

#[test]
fn a_page_for_reading_brings_no_others_however_long_runs_of_writes_are() {
    let mut job = Job::with(2, 30, at(1, Protocol::Adaptive));
    write_runs(&mut job, 2);
    let get = Output::Get { from: Rank(1), pages: one(3).into() };
    assert_eq!(job.fault(0, 3, Access::Read), [get]);
}

#[test]
fn what_was_opened_with_other_pages_and_not_written_does_not_count() {
    let all = Pages { first: 0, count: 32 };
    let mut job = Job::with(2, all.count, at(1, Protocol::Adaptive));
    let mut worth = |length| {
        write_runs(&mut job, length);
        // No copy is used so often that it is kept, and predicted to be written.
        (0..8).for_each(|_| drop(job.barrier()));
        job.nodes[0].worth_opening(0, 0, all, true)
    };
    assert_eq!(worth(2), 2);
    assert_eq!(worth(1), 2, "half of all runs had two pages");
    assert_eq!(worth(1), 1);
}

#[test]
fn nothing_is_opened_with_other_pages_in_a_job_that_has_locks() {
    let mut job = Job::with(2, 30, at(1, Protocol::Adaptive));
    write_runs(&mut job, 2);
    job.all(Collective::Make(ObjectKind::Lock, 1));
    let get = Output::Get { from: Rank(1), pages: one(3).into() };
    assert_eq!(job.fault(0, 3, Access::Write), [get]);
}
