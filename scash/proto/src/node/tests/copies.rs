//! How copies are kept, and what their homes do for them.

use super::*;
use crate::wire::sync::Brought;
use std::num::NonZeroU32;

#[test]
fn a_copy_that_is_fetched_once_is_unknown_to_its_home() {
    let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
    job.touch(1, 0, Access::Write);
    job.touch(0, 0, Access::Read);
    job.barrier();
    assert_eq!(job.nodes[0].access(0), Access::None, "a lease ends with the barrier");
    assert_eq!(job.nodes[1].access(0), Access::Write);
    assert_eq!(job.nodes[1].directory_entries(), 0);
}

#[test]
fn a_copy_that_is_fetched_again_is_subscribed_to_and_its_home_writes_with_a_twin() {
    let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
    job.touch(1, 0, Access::Write);
    for _ in 0..2 {
        job.touch(0, 0, Access::Read);
        job.barrier();
    }
    assert_eq!(job.nodes[1].update_sharers(0).collect::<Vec<_>>(), [Rank(0)]);
    assert_eq!(job.nodes[1].directory_bytes(), 4 + 24, "a page number and a small copyset");
    assert!(job.orders(1).contains(&Output::Protect(one(0), Access::Read)));
    job.touch(0, 0, Access::Read);
    assert_eq!(job.fault(1, 0, Access::Write), [Output::Twin(0), Output::Protect(one(0), Access::Write)]);
    job.changed.insert((1, 0));
    job.barrier();
    assert_eq!(job.orders(1)[0], Output::Push(0));
    assert_eq!(job.nodes[0].access(0), Access::Read, "kept up to date, so kept");
    // Once as what differed from the twin, and once whole: it was fetched while its home was writing it.
    assert_eq!(job.nodes[1].counters().updates, 2);
}

#[test]
fn a_page_written_in_two_barriers_is_compared_in_the_third_without_a_fault() {
    let mut job = Job::with(2, 4, at(1, Protocol::Update));
    job.touch(0, 0, Access::Read);
    job.barrier();
    for _ in 0..2 {
        job.write(1, 0);
        job.barrier();
    }
    assert_eq!(job.nodes[1].access(0), Access::Write);
    job.orders(1);
    job.changed.insert((1, 0));
    job.barrier();
    assert_eq!(job.orders(1)[0], Output::Push(0));
    let counters = job.nodes[1].counters();
    // The first write takes two steps: to map the page, and to make the twin.
    assert_eq!((counters.write_faults, counters.predicted, counters.updates), (3, 1, 3));
}

#[test]
fn a_prediction_that_does_not_come_true_is_given_up() {
    let mut job = Job::with(2, 4, at(1, Protocol::Update));
    job.touch(0, 0, Access::Read);
    job.barrier();
    for _ in 0..2 {
        job.write(1, 0);
        job.barrier();
    }
    (0..8).for_each(|_| drop(job.barrier()));
    let orders = job.orders(1);
    assert!(orders.contains(&Output::DropTwin(0)));
    assert_eq!(job.nodes[1].access(0), Access::Read);
    job.barrier();
    assert!(!job.orders(1).contains(&Output::Push(0)));
}

/// A job of two ranks in which rank 0 has a subscription of page 0, at home at rank 1.
fn subscribed() -> Job {
    let mut job = Job::with(2, 4, at(1, Protocol::Update));
    job.touch(0, 0, Access::Read);
    job.barrier();
    job
}

#[test]
fn a_copy_written_in_two_barriers_stays_writable_and_its_twin_is_made_anew() {
    let mut job = subscribed();
    job.write(0, 0);
    job.barrier();
    assert_eq!(job.nodes[0].access(0), Access::Read);
    job.write(0, 0);
    job.orders(0);
    job.barrier();
    let orders = job.orders(0);
    assert_eq!(job.nodes[0].access(0), Access::Write);
    assert!(
        orders.contains(&Output::Twin(0)),
        "what its home and others wrote is not this rank's: {orders:?}"
    );
    assert!(!orders.contains(&Output::DropTwin(0)));
    let faults = job.nodes[0].counters().write_faults;
    job.changed.insert((0, 0));
    job.barrier();
    assert!(job.orders(0).contains(&Output::Diff { page: 0, to: Rank(1), force: false }));
    let counters = job.nodes[0].counters();
    assert_eq!((counters.write_faults - faults, counters.diffs, counters.predicted), (0, 3, 1));
}

#[test]
fn a_copy_that_was_not_written_as_predicted_is_protected() {
    let mut job = subscribed();
    for _ in 0..2 {
        job.write(0, 0);
        job.barrier();
    }
    job.orders(0);
    job.barrier();
    let orders = job.orders(0);
    assert!(orders.contains(&Output::DropTwin(0)) && orders.contains(&Output::Protect(one(0), Access::Read)));
    job.write(0, 0);
    job.barrier();
    assert_eq!(job.nodes[0].access(0), Access::Read, "written once since");
}

#[test]
fn a_copy_that_was_not_written_as_predicted_counts_as_written_until_it_is_open_again() {
    let mut job = subscribed();
    let facts = |job: &Job| {
        let copy = job.nodes[0].table.cached(0).unwrap();
        (copy.is_predicted(), copy.has_changed(), copy.was_written())
    };
    for expected in [(false, true, true), (true, true, true)] {
        job.write(0, 0);
        job.barrier();
        assert_eq!(facts(&job), expected);
    }
    for _ in 0..3 {
        job.barrier();
        assert_eq!(facts(&job), (false, false, true));
    }
    for expected in [(false, true, true), (true, true, true)] {
        job.write(0, 0);
        job.barrier();
        assert_eq!(facts(&job), expected);
    }
    job.barrier();
    job.touch(0, 0, Access::Write);
    job.barrier();
    assert_eq!(facts(&job), (false, false, false), "a fault opened it, and nothing was written");
}

#[test]
fn runs_that_are_written_in_each_fourth_interval_open_as_wholes() {
    let mut job = Job::with(2, 32, at(1, Protocol::Update));
    (0..32).for_each(|page| job.touch(0, page, Access::Read));
    job.barrier();
    let runs = [0, 16, 8, 24, 4, 20, 12, 28];
    for round in 0..12 {
        let before = job.nodes[0].counters().write_faults;
        (0..2).flat_map(|page| runs.map(|run| run + page)).for_each(|page| job.write(0, page));
        let faults = job.nodes[0].counters().write_faults - before;
        assert!(faults == 8 || round < 2, "{faults} of round {round}");
        (0..4).for_each(|_| _ = job.barrier());
    }
}

#[test]
fn a_copy_that_is_predicted_is_doubted_once_in_sixteen_intervals() {
    let mut job = subscribed();
    let mut protected = 0;
    for _ in 0..48 {
        job.write(0, 0);
        job.barrier();
        protected += u32::from(job.nodes[0].access(0) == Access::Read);
    }
    assert_eq!(protected, 1 + 3, "in the beginning, and three times to see");
}

#[test]
fn no_copy_is_predicted_to_be_written_in_a_job_that_has_locks() {
    let mut job = subscribed();
    for _ in 0..2 {
        job.write(0, 0);
        job.barrier();
    }
    assert_eq!(job.nodes[0].access(0), Access::Write);
    job.changed.insert((0, 0));
    job.all(Collective::Make(ObjectKind::Lock, 1));
    assert_eq!(job.nodes[0].access(0), Access::Read);
    for _ in 0..3 {
        job.write(0, 0);
        job.barrier();
        assert_eq!(job.nodes[0].access(0), Access::Read);
    }
}

#[test]
fn a_copy_that_is_predicted_ends_when_its_home_says_that_it_wrote_the_page() {
    let mut job = Job::with(2, 4, at(1, Protocol::Invalidate));
    job.touch(0, 0, Access::Read);
    job.barrier();
    for _ in 0..2 {
        job.write(0, 0);
        job.barrier();
    }
    assert_eq!(job.nodes[0].access(0), Access::Write);
    job.changed.insert((0, 0));
    job.touch(1, 0, Access::Write);
    job.barrier();
    assert_eq!(job.nodes[0].access(0), Access::None);
}

#[test]
fn a_copy_that_is_predicted_ends_with_its_home_its_mode_or_its_allocation() {
    for why in ["the home moves", "it is kept in another way", "it is freed"] {
        let mut job = subscribed();
        for _ in 0..2 {
            job.write(0, 0);
            job.barrier();
        }
        job.changed.insert((0, 0));
        job.orders(0);
        let call = match why {
            "the home moves" => {
                job.give(1, Input::SetHome(one(0), Rank(0)));
                Collective::Barrier
            }
            "it is kept in another way" => {
                job.give(0, Input::SetProtocol(0, Protocol::Invalidate));
                Collective::Barrier
            }
            _ => Collective::Free(0),
        };
        job.all(call);
        assert!(job.orders(0).contains(&Output::DropTwin(0)), "{why}");
        assert_ne!(job.nodes[0].access(0), Access::Write, "{why}");
    }
}

#[test]
fn under_invalidate_the_home_tells_once_and_is_not_tracked_any_more() {
    let mut job = Job::with(3, 4, at(1, Protocol::Invalidate));
    for _ in 0..2 {
        job.touch(0, 0, Access::Read);
        job.barrier();
    }
    assert_eq!(job.nodes[0].access(0), Access::Read);
    job.write(1, 0);
    assert_eq!(job.nodes[1].counters().twins, 0, "a notice needs no twin");
    job.barrier();
    assert_eq!(job.nodes[0].access(0), Access::None);
    assert_eq!(job.nodes[1].directory_entries(), 0);
    assert_eq!(job.nodes[1].access(0), Access::Write);
}

#[test]
fn what_a_sharer_wrote_goes_to_the_other_sharers_but_not_back() {
    let mut job = Job::with(3, 4, at(1, Protocol::Update));
    for rank in [0, 2] {
        job.touch(rank, 0, Access::Read);
    }
    job.barrier();
    for rank in [0, 2] {
        job.touch(rank, 0, Access::Read);
    }
    job.write(2, 0);
    job.barrier();
    assert!(job.orders(1).contains(&Output::PushWhole { page: 0, except: Some(Rank(2)) }));
    assert_eq!(job.nodes[2].access(0), Access::Read);
    assert!(job.nodes.iter().all(|n| n.counters().second_meetings == 1));
}

#[test]
fn a_written_page_that_did_not_change_costs_no_second_meeting() {
    let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
    job.touch(0, 0, Access::Write);
    job.barrier();
    assert_eq!(job.nodes[0].counters().second_meetings, 0);
    assert_eq!(job.nodes[0].counters().diffs, 0);
}

#[test]
fn what_was_written_back_is_reported_at_the_barrier_even_if_nothing_more_changed() {
    let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
    job.touch(0, 2, Access::Write);
    job.give(0, Input::WriteBack(Pages { first: 0, count: 4 }));
    let put = Output::PutDiff { page: 2, to: Rank(1) };
    assert_eq!(job.ordered(0), [Output::MarkAll(Rank(1)), put.clone()]);
    // Marked once in an interval.
    job.give(0, Input::WriteBack(one(2)));
    assert_eq!(job.ordered(0), [put]);
    job.barrier();
    assert_eq!(job.orders(0)[0], Output::Diff { page: 2, to: Rank(1), force: true });
    assert_eq!(job.nodes[1].counters().second_meetings, 1);
}

#[test]
fn copies_that_are_valid_are_refreshed_and_others_are_not() {
    let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
    job.touch(0, 2, Access::Read);
    job.give(0, Input::ReadHome(Pages { first: 0, count: 4 }));
    assert_eq!(
        job.ordered(0),
        [Output::Refresh { pages: vec![2], from: Rank(1), brought: Brought::default() }]
    );
    job.give(1, Input::ReadHome(Pages { first: 0, count: 4 }));
    assert_eq!(job.ordered(1), []);
}

#[test]
fn zeros_that_were_read_before_a_page_had_a_home_are_not_what_its_home_has() {
    let mut job = Job::with(2, 4, AllocOptions::default());
    job.all(Collective::Make(ObjectKind::Lock, 1));
    job.fault(0, 2, Access::Read);
    job.give(0, Input::Claimed { page: 2, home: None });
    assert_eq!(job.ordered(0), [Output::MapZero(one(2), Access::Read)]);
    job.fault(1, 2, Access::Write);
    job.give(1, Input::Claimed { page: 2, home: Some(Rank(1)) });
    job.give(0, Input::ReadHome(Pages { first: 0, count: 4 }));
    assert_eq!(job.ordered(0), [Output::Unmap(one(2))]);
    assert_eq!(job.nodes[0].access(2), Access::None);
    let asks = [Output::Claim { page: 2, key: 2, at: Rank(0), take: false }];
    assert_eq!(job.fault(0, 2, Access::Read), asks);
}

#[test]
fn a_get_that_is_on_its_way_is_over_before_a_page_is_read_from_its_home() {
    let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
    job.fault(0, 2, Access::Read);
    job.give(0, Input::ReadHome(Pages { first: 0, count: 4 }));
    assert_eq!(job.ordered(0), [Output::Wait(2)]);
    job.give(0, Input::Fetched(one(2).into()));
    job.ordered(0);
    job.give(0, Input::ReadHome(Pages { first: 0, count: 4 }));
    assert!(matches!(&job.ordered(0)[..], [Output::Refresh { pages, .. }] if pages == &[2]));
}

#[test]
fn a_copy_that_is_out_of_view_is_refreshed_too() {
    let mut job = Job::with(2, 4, at(1, Protocol::Adaptive));
    let refresh = [Output::Refresh { pages: vec![2], from: Rank(1), brought: Brought::default() }];
    let is_refreshed = (0..20).any(|_| {
        job.touch(0, 2, Access::Read);
        job.write(1, 2);
        job.barrier();
        let is_out = job.nodes[0].access(2) == Access::None;
        job.give(0, Input::ReadHome(one(2)));
        let ordered = job.ordered(0);
        is_out && ordered == refresh
    });
    assert!(is_refreshed, "a subscription is taken out of view now and then");
}

#[test]
fn whoever_has_a_lock_from_a_rank_has_no_older_copies_than_that_rank_has_read_from_home() {
    let mut job = Job::with(3, 4, at(1, Protocol::Adaptive));
    job.all(Collective::Make(ObjectKind::Lock, 1));
    for is_read in [false, true] {
        job.barrier();
        job.touch(2, 3, Access::Read);
        // Another rank has brought something to the page's home, of which no record has come here.
        if is_read {
            job.give(0, Input::ReadHome(one(3)));
        }
        job.section(0, 0);
        job.orders(2);
        job.give(2, Input::Acquire { lock: 0, who: WHO });
        job.calm();
        let renews = |order: &Output| matches!(order, Output::Refresh { pages, .. } if pages == &[3]);
        let is_renewed = job.orders(2).iter().any(renews);
        assert_eq!(job.nodes[2].access(3) == Access::None || is_renewed, is_read);
        job.give(2, Input::Release(0));
        job.calm();
    }
}

#[test]
fn pages_of_one_home_are_refreshed_by_one_order() {
    let cyclic = Placement::Cyclic { pages: NonZeroU32::MIN, first: 0 };
    let options = AllocOptions { placement: cyclic, protocol: Protocol::Adaptive, block: 1 };
    let mut job = Job::with(3, 6, options);
    (0..6).for_each(|page| job.touch(0, page, Access::Read));
    job.give(0, Input::ReadHome(Pages { first: 0, count: 6 }));
    let refresh = |pages: [u32; 2], home| Output::Refresh {
        pages: pages.to_vec(),
        from: Rank(home),
        brought: Brought::default(),
    };
    assert_eq!(job.ordered(0), [refresh([1, 4], 1), refresh([2, 5], 2)]);
}

#[test]
fn an_acquire_renews_all_copies_of_one_home_by_one_order() {
    let mut job = Job::with(2, 8, at(1, Protocol::Adaptive));
    job.all(Collective::Make(ObjectKind::Lock, 1));
    for round in 0..3 {
        for rank in [1, 0] {
            job.give(rank, Input::Acquire { lock: 0, who: 1 });
            job.orders(rank);
            job.calm();
            let renews = |order: &Output| matches!(order, Output::Refresh { .. });
            let renewals: Vec<Output> = job.orders(rank).into_iter().filter(renews).collect();
            // What the first acquire ends is fetched again in the second round, and renewed in the third.
            let all = Output::Refresh { pages: (0..8).collect(), from: Rank(1), brought: Brought::default() };
            assert_eq!(renewals, if (round, rank) == (2, 0) { vec![all] } else { vec![] });
            let want = if rank == 1 { Access::Write } else { Access::Read };
            (0..8).for_each(|page| job.touch(rank, page, want));
            job.give(rank, Input::Release(0));
            job.calm();
        }
    }
    assert_eq!(job.nodes[0].counters().renewed, 8);
}

#[test]
fn changes_that_went_by_message_once_go_by_message_in_the_next_barrier_too() {
    let mut job = Job::with(2, 4, at(1, Protocol::Update));
    job.touch(0, 0, Access::Read);
    job.barrier();
    job.touch(1, 0, Access::Write);
    (0..2).for_each(|r| job.give(r, Input::Arrive(Collective::Barrier)));
    assert_eq!(job.nodes[1].poll_output(), Some(Output::Push(0)));
    assert!(!job.nodes[1].must_message(0));
    let meeting = job.nodes[1].meeting();
    job.give(1, Input::Messaged { page: 0 });
    job.give(0, Input::Update(Rank(1), meeting, 0));
    finish(&mut job);
    assert!(job.nodes[1].must_message(0));
    job.barrier();
    assert!(!job.nodes[1].must_message(0));
}

/// Ends a barrier in which all ranks have arrived.
fn finish(job: &mut Job) {
    let mut done = [None, None];
    while done.iter().any(Option::is_none) {
        for rank in 0..2u32 {
            while let Some(order) = job.nodes[rank as usize].poll_output() {
                job.carry_out(rank, order, &mut done[rank as usize]);
            }
        }
    }
}

#[test]
fn a_sharer_that_is_only_told_is_told_of_a_write_that_left_all_bytes_as_they_were() {
    let mut job = Job::with(3, 4, at(1, Protocol::Update));
    job.give(2, Input::SetProtocol(0, Protocol::Invalidate));
    for _ in 0..2 {
        [0, 2].into_iter().for_each(|r| job.touch(r, 0, Access::Read));
        job.barrier();
    }
    job.touch(1, 0, Access::Write);
    job.barrier();
    assert_eq!((job.nodes[0].access(0), job.nodes[2].access(0)), (Access::Read, Access::None));
}

#[test]
fn a_page_fetched_by_a_sharer_that_gets_updates_comes_again_at_the_barrier() {
    let mut job = Job::with(2, 4, at(1, Protocol::Update));
    job.touch(0, 0, Access::Read);
    job.barrier();
    job.touch(0, 0, Access::Read);
    job.barrier();
    assert!(job.orders(1).contains(&Output::PutPages { pages: one(0), to: Rank(0) }));
    job.barrier();
    assert_eq!(job.nodes[0].counters().second_meetings, 1);
}

/// Home pages that stay writable over one more barrier because nobody caches them, as the counters have it.
fn avoided(job: &mut Job, rank: usize) -> u64 {
    let before = job.nodes[rank].counters().avoided;
    job.barrier();
    job.nodes[rank].counters().avoided - before
}

#[test]
fn a_page_that_is_freed_or_moves_away_is_not_counted_as_untracked_any_more() {
    let mut job = Job::with(2, 4, at(1, Protocol::Invalidate));
    // Its sharer comes before its home has touched it, and leaves when it is written.
    job.touch(0, 0, Access::Read);
    job.barrier();
    job.write(1, 0);
    job.barrier();
    assert_eq!(avoided(&mut job, 1), 1);
    job.all(Collective::Free(0));
    assert_eq!(avoided(&mut job, 1), 0, "the page is freed");
    let mut job = Job::with(2, 4, AllocOptions::default());
    job.touch(1, 0, Access::Write);
    assert_eq!(avoided(&mut job, 1), 1);
    job.give(1, Input::SetHome(one(0), Rank(0)));
    job.barrier();
    assert_eq!(avoided(&mut job, 1), 0, "the page is at home elsewhere");
}

#[test]
fn a_protocol_that_changes_reaches_the_home_although_an_acquire_has_ended_the_copy() {
    let mut job = Job::with(3, 4, at(1, Protocol::Update));
    job.all(Collective::Make(ObjectKind::Lock, 1));
    job.touch(0, 0, Access::Read);
    job.barrier();
    job.touch(0, 0, Access::Read);
    assert_eq!(job.nodes[1].update_sharers(0).collect::<Vec<_>>(), [Rank(0)]);
    job.give(0, Input::SetProtocol(0, Protocol::Invalidate));
    for rank in [2, 0] {
        job.give(rank, Input::Acquire { lock: 0, who: 1 });
        job.calm();
        if rank == 2 {
            job.write(2, 0);
        }
        job.give(rank, Input::Release(0));
        job.calm();
    }
    assert_eq!(job.nodes[0].access(0), Access::None, "a record has ended the copy");
    job.barrier();
    let updated: Vec<Rank> = job.nodes[1].update_sharers(0).collect();
    assert_eq!(updated, [Rank(2)], "the home is to tell rank 0, not to bring it changes");
}

#[test]
fn copies_in_columns_leave_the_view_by_one_order_with_what_is_out_of_view_between_them() {
    let mut job = Job::with(2, 32, AllocOptions::default());
    // Page 14 is at home at the reader, and stays in view.
    (0..32).for_each(|page| job.touch(u32::from(page != 14), page, Access::Write));
    job.barrier();
    (0..32).filter(|page| page % 4 < 2).for_each(|page| job.touch(0, page, Access::Read));
    job.orders(0);
    job.barrier();
    let unmapped = |order| if let Output::Unmap(pages) = order { Some(pages) } else { None };
    let runs: Vec<Pages> = job.orders(0).into_iter().filter_map(unmapped).collect();
    assert_eq!(runs, [Pages { first: 0, count: 14 }, Pages { first: 16, count: 14 }]);
    assert_eq!(job.nodes[0].access(14), Access::Write);
}
