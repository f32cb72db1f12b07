//! Ranks that share frames: what is left of the protocol.

use super::*;

fn job(size: u32) -> Job {
    Job::sharing(size, Sharing::Frames)
}

/// A job with one allocation, whose ranks have carried its orders out.
fn with(size: u32, pages: u32, options: AllocOptions) -> Job {
    let mut job = job(size);
    job.all(Collective::Alloc(u64::from(pages) * PAGE_SIZE as u64, options));
    job.orders.iter_mut().for_each(Vec::clear);
    job
}

/// What a rank was ordered, but for messages.
fn quiet(order: &Output) -> bool {
    !matches!(order, Output::Token(..) | Output::Flushed | Output::Closed { .. } | Output::Done(_))
}

fn orders(job: &mut Job, rank: u32) -> Vec<Output> {
    job.orders(rank).into_iter().filter(quiet).collect()
}

#[test]
fn an_allocation_is_open_at_every_rank_and_no_access_to_it_orders_anything() {
    let mut job = job(3);
    job.all(Collective::Alloc(4 * PAGE_SIZE as u64, AllocOptions::default()));
    let pages = Pages { first: 0, count: 4 };
    for rank in 0..3 {
        assert_eq!(orders(&mut job, rank), [Output::MapZero(pages, Access::Write)]);
        assert!(pages.iter().all(|page| job.nodes[rank as usize].access(page) == Access::Write));
        assert_eq!(job.fault(rank, 3, Access::Write), []);
        assert_eq!(job.fault(rank, 4, Access::Read), [Output::Denied(4)]);
    }
}

#[test]
fn a_memory_barrier_is_one_meeting_whatever_was_asked_of_pages() {
    let mut job = with(4, 8, at(1, Protocol::Update));
    let pages = Pages { first: 0, count: 8 };
    for rank in 0..4 {
        job.give(rank, Input::SetHome(pages, Rank(rank)));
        job.give(rank, Input::SetProtocol(2, Protocol::Invalidate));
        job.give(rank, Input::WriteBack(pages));
        job.give(rank, Input::ReadHome(pages));
        job.give(rank, Input::Operate { page: rank, changes: true });
        let place = Output::Operate { page: rank, at: Rank(rank), mark: false };
        assert_eq!(job.ordered(rank), [place]);
    }
    let calls =
        [Collective::Barrier, Collective::Broadcast(pages), Collective::Publish(0), Collective::Finalize];
    for call in calls {
        assert_eq!(job.all(call), vec![Outcome::Done; 4]);
        for rank in 0..4 {
            assert_eq!(orders(&mut job, rank), []);
        }
    }
    assert!(job.nodes.iter().all(|node| node.counters().second_meetings == 0));
}

#[test]
fn every_rank_closes_what_is_freed_before_the_lowest_one_gives_it_back() {
    let mut job = with(3, 4, AllocOptions::default());
    let pages = Pages { first: 0, count: 4 };
    for rank in 0..3 {
        job.give(rank, Input::Arrive(Collective::Free(0)));
        // Ordered before this rank says that it has come.
        assert_eq!(job.nodes[rank as usize].poll_output(), Some(Output::Unmap(pages)));
        assert_eq!(job.nodes[rank as usize].access(2), Access::None);
    }
    job.told();
    assert_eq!(orders(&mut job, 0), [Output::Discard(pages)]);
    assert_eq!((orders(&mut job, 1), orders(&mut job, 2)), (vec![], vec![]));
    assert_eq!(job.fault(1, 2, Access::Read), [Output::Denied(2)]);
}

#[test]
fn a_thread_that_touches_what_is_being_freed_waits_and_is_refused() {
    let mut job = with(2, 4, AllocOptions::default());
    job.give(1, Input::Arrive(Collective::Free(0)));
    job.ordered(1);
    assert_eq!(job.fault(1, 2, Access::Write), [Output::Wait(2)]);
    assert_eq!(job.fault(0, 2, Access::Write), []);
}

#[test]
fn ranks_that_disagree_free_nothing() {
    let mut job = with(2, 4, AllocOptions::default());
    job.each(|rank| if rank == 0 { Collective::Free(0) } else { Collective::Barrier });
    assert_eq!(orders(&mut job, 0), [Output::Unmap(Pages { first: 0, count: 4 })]);
    assert!(job.nodes.iter().all(|node| node.access(2) == Access::Write));
}

#[test]
fn a_program_is_told_the_homes_that_it_has_given() {
    let mut job = with(3, PAGES, AllocOptions::default());
    let told = |job: &Job| (0..4).map(|page| job.nodes[2].told_home(page)).collect::<Vec<_>>();
    assert_eq!(told(&job), [None; 4]);
    job.give(0, Input::SetHome(Pages { first: 1, count: 2 }, Rank(2)));
    job.give(1, Input::SetHome(one(2), Rank(0)));
    job.barrier();
    assert_eq!(told(&job), [None, Some(Rank(2)), Some(Rank(0)), None]);
    job.all(Collective::Free(0));
    job.all(Collective::Alloc(u64::from(PAGES) * PAGE_SIZE as u64, at(1, Protocol::Adaptive)));
    assert_eq!(told(&job), [Some(Rank(1)); 4]);
}

#[test]
fn a_lock_comes_with_nothing_but_itself() {
    let mut job = with(2, 4, AllocOptions::default());
    job.all(Collective::Make(ObjectKind::Lock, 1));
    job.orders.iter_mut().for_each(Vec::clear);
    for rank in [0, 1, 0] {
        job.touch(rank, 1, Access::Write);
        job.give(rank, Input::Acquire { lock: 0, who: 7 });
        job.calm();
        let acquired = Output::Acquired { object: 0, who: 7 };
        let all = job.orders(rank);
        assert!(all.contains(&acquired), "{all:?}");
        job.give(rank, Input::Release(0));
        job.calm();
    }
    for rank in 0..2 {
        let memory = |order: &Output| {
            matches!(order, Output::Unmap(_) | Output::Protect(..) | Output::PutDiff { .. } | Output::Twin(_))
        };
        assert!(!orders(&mut job, rank).iter().any(memory));
    }
}
