//! Homes that move, broadcasts, and ranks that do not make the same call.

use super::*;
use crate::wire::Purpose;

#[test]
fn a_home_that_moves_hands_its_page_over_and_all_copies_end() {
    let mut job = Job::with(3, 4, at(1, Protocol::Update));
    job.touch(1, 0, Access::Write);
    for _ in 0..2 {
        job.touch(0, 0, Access::Read);
        job.barrier();
    }
    job.give(0, Input::SetHome(one(0), Rank(2)));
    job.barrier();
    assert!(job.orders(1).contains(&Output::Hand { page: 0, to: Rank(2) }));
    assert!(job.nodes.iter().all(|n| n.home(0) == Some(Rank(2)) && n.access(0) == Access::None));
    assert_eq!(job.nodes[1].directory_entries(), 0);
}

#[test]
fn of_two_calls_that_move_a_page_the_later_counts_and_of_two_ranks_the_higher() {
    let mut job = Job::with(4, 8, at(1, Protocol::Adaptive));
    for home in [3, 0] {
        job.give(2, Input::SetHome(Pages { first: 0, count: 4 }, Rank(home)));
    }
    job.give(0, Input::SetHome(Pages { first: 3, count: 3 }, Rank(2)));
    job.barrier();
    let homes: Vec<u32> = (0..8).filter_map(|p| job.nodes[1].home(p)).map(|r| r.0).collect();
    assert_eq!(homes, [0, 0, 0, 0, 2, 2, 1, 1]);
    assert!(job.nodes.iter().all(|n| (0..8).all(|p| n.home(p) == job.nodes[1].home(p))));
}

#[test]
fn a_page_that_is_first_touched_and_moved_in_one_interval_moves_at_the_next_barrier() {
    let mut job = Job::with(3, 8, AllocOptions::default());
    job.touch(2, 4, Access::Write);
    job.give(0, Input::SetHome(Pages { first: 3, count: 3 }, Rank(1)));
    job.barrier();
    let homes = |job: &Job| (3..6).map(|p| job.nodes[0].home(p)).collect::<Vec<_>>();
    assert_eq!(homes(&job), [Some(Rank(1)), Some(Rank(2)), Some(Rank(1))]);
    job.barrier();
    assert_eq!(homes(&job), [Some(Rank(1)); 3]);
}

#[test]
fn a_broadcast_sends_each_homes_pages_down_a_tree() {
    let options = AllocOptions { placement: Placement::Block, ..AllocOptions::default() };
    let mut job = Job::with(4, 8, options);
    let pages = Pages { first: 0, count: 4 };
    job.all(Collective::Broadcast(pages));
    let mine = |to| Output::PutPages { pages: Pages { first: 0, count: 2 }, to: Rank(to) };
    let puts: Vec<_> = job.orders(0).into_iter().filter(|o| matches!(o, Output::PutPages { .. })).collect();
    assert_eq!(puts[..2], [mine(1), mine(2)]);
    assert!((2..4).all(|r| pages.iter().all(|p| job.nodes[r].access(p) == Access::Read)));
    job.barrier();
    assert!((2..4).all(|r| pages.iter().all(|p| job.nodes[r].access(p) == Access::None)));
}

#[test]
fn ranks_that_come_for_different_things_are_named_to_all() {
    let mut job = Job::with(7, 4, AllocOptions::default());
    let outcomes = job.each(|r| if r == 4 { Collective::Free(0) } else { Collective::Barrier });
    for outcome in outcomes {
        let Outcome::Mismatch([a, b]) = outcome else { panic!("{outcome:?}") };
        assert_eq!((a, b.rank), (Attendance { purpose: Purpose([0; 4]), rank: Rank(0) }, Rank(4)));
        assert_ne!(b.purpose, a.purpose);
    }
}

#[test]
fn allocations_of_different_size_or_options_are_a_mismatch() {
    let bytes = |r: u32| Collective::Alloc(4096 + u64::from(r == 2), AllocOptions::default());
    let block = |r: u32| Collective::Alloc(9, AllocOptions { block: 1 + r / 3, ..AllocOptions::default() });
    let home = |r: u32| Collective::Alloc(9, at(r / 3, Protocol::Adaptive));
    let protocol = |r: u32| match r {
        1 => Collective::Alloc(9, at(0, Protocol::Update)),
        _ => Collective::Alloc(9, at(0, Protocol::Invalidate)),
    };
    let calls: [&dyn Fn(u32) -> Collective; 4] = [&bytes, &block, &home, &protocol];
    for call in calls {
        let outcomes = Job::new(4).each(call);
        assert!(outcomes.iter().all(|o| matches!(o, Outcome::Mismatch(_))), "{outcomes:?}");
    }
}
