//! Pages that their home writes one after the other, and brings to sharers.

use super::*;
use crate::copyset::CopyMode;

/// A job of two ranks in which rank 0 is brought what rank 1 writes of all pages.
fn shared(pages: u32) -> Job {
    let mut job = Job::with(2, pages, at(1, Protocol::Adaptive));
    (0..pages).for_each(|page| job.touch(1, page, Access::Write));
    for _ in 0..3 {
        (0..pages).for_each(|page| job.touch(0, page, Access::Read));
        job.barrier();
    }
    job.orders(1);
    job
}

/// Faults of rank 1 while it writes these pages, in this order.
fn faults(job: &mut Job, pages: impl IntoIterator<Item = u32>) -> Vec<Pages> {
    let mut faults = Vec::new();
    for page in pages {
        if job.nodes[1].access(page) < Access::Write {
            let orders = job.fault(1, page, Access::Write);
            faults.extend(orders.into_iter().filter_map(|order| match order {
                Output::Protect(pages, Access::Write) => Some(pages),
                _ => None,
            }));
        }
        job.changed.insert((1, page));
    }
    faults
}

fn pushed(orders: &[Output]) -> Vec<u32> {
    let pushed = |order: &Output| if let &Output::Push(page) = order { Some(page) } else { None };
    orders.iter().filter_map(pushed).collect()
}

#[test]
fn a_home_that_writes_in_order_what_others_are_brought_opens_several_pages_with_a_fault() {
    let mut job = shared(16);
    let before = job.nodes[1].counters().updates;
    let runs = faults(&mut job, 0..16);
    assert_eq!(runs.iter().map(|run| run.count).sum::<u32>(), 16);
    assert!(runs.len() < 6, "{runs:?}");
    job.barrier();
    let orders = job.orders(1);
    assert_eq!(pushed(&orders), (0..16).collect::<Vec<_>>(), "all are brought");
    assert!(orders.contains(&Output::Protect(Pages { first: 0, count: 16 }, Access::Read)));
    assert_eq!(job.nodes[1].counters().updates - before, 16);
}

#[test]
fn each_page_that_opens_has_a_twin() {
    let mut job = shared(4);
    (0..2).for_each(|page| job.touch(1, page, Access::Write));
    let orders = job.fault(1, 2, Access::Write);
    let twins = (2..4).map(Output::Twin);
    assert_eq!(
        orders,
        twins.chain([Output::Protect(Pages { first: 2, count: 2 }, Access::Write)]).collect::<Vec<_>>()
    );
}

#[test]
fn what_was_opened_and_not_written_is_brought_to_nobody_and_does_not_count_as_brought_in_vain() {
    let mut job = shared(16);
    let before = job.nodes[1].counters().updates;
    faults(&mut job, 0..3);
    assert_eq!([3, 4].map(|page| job.nodes[1].access(page)), [Access::Write, Access::Read]);
    job.barrier();
    assert_eq!(job.nodes[1].counters().updates - before, 3);
    assert_eq!([3, 4].map(|page| job.nodes[1].access(page)), [Access::Read; 2]);
    assert!((0..16).all(|page| job.nodes[0].access(page) == Access::Read), "no copy has ended");
    let brought = |page| job.nodes[1].table.at_home(page).unwrap().brought();
    assert_eq!([2, 3].map(brought), [2, 1], "the next time that they are brought");
}

#[test]
fn a_page_that_is_opened_with_others_each_time_is_predicted_to_be_written() {
    let mut job = shared(16);
    let before = job.nodes[1].counters().updates;
    for _ in 0..2 {
        faults(&mut job, 0..16);
        job.barrier();
    }
    assert_eq!(faults(&mut job, 0..16), [], "they stay writable");
    job.barrier();
    assert_eq!(job.nodes[1].counters().updates - before, 3 * 16);
}

#[test]
fn pages_in_between_that_nobody_else_has_are_passed_over() {
    let mut job = Job::with(2, 32, at(1, Protocol::Update));
    let columns = || (0..32).filter(|page| page % 4 < 2);
    (0..32).for_each(|page| job.touch(1, page, Access::Write));
    for _ in 0..2 {
        columns().for_each(|page| job.touch(0, page, Access::Read));
        job.barrier();
    }
    let runs = faults(&mut job, columns());
    assert!(runs.len() < 6, "{runs:?}");
    assert!((0..32).all(|page| job.nodes[1].access(page) == Access::Write));
}

#[test]
fn pages_of_which_one_sharer_is_only_told_are_noticed_one_by_one_and_end_no_other_copy() {
    let pages = 8;
    let mut job = Job::with(3, pages, at(1, Protocol::Adaptive));
    (0..pages).for_each(|page| job.touch(1, page, Access::Write));
    for _ in 0..3 {
        for page in 0..pages {
            job.touch(0, page, Access::Read);
            // Who writes a page, too, is only told of other writes at first.
            job.write(2, page);
        }
        job.barrier();
    }
    let modes = |job: &Job| job.nodes[1].homes.sharers(0).unwrap().iter().collect::<Vec<_>>();
    assert_eq!(modes(&job), [(0, CopyMode::Update), (2, CopyMode::Invalidate)]);
    assert_eq!(faults(&mut job, 0..4), (0..4).map(one).collect::<Vec<_>>());
    job.barrier();
    let valid = |page| job.nodes[2].access(page) >= Access::Read;
    assert_eq!((0..pages).map(valid).collect::<Vec<_>>(), [[false; 4], [true; 4]].concat());
}

#[test]
fn a_walk_by_single_pages_opens_no_others() {
    let mut job = shared(32);
    let walk = [10, 20, 11, 30, 5, 16, 6, 25, 0];
    assert_eq!(faults(&mut job, walk), walk.map(one));
}

#[test]
fn nothing_is_opened_at_home_in_a_job_that_has_locks_nor_while_races_are_looked_for() {
    let mut job = shared(16);
    job.all(Collective::Make(ObjectKind::Lock, 1));
    assert_eq!(faults(&mut job, 0..4), (0..4).map(one).collect::<Vec<_>>());
    let mut job = shared(16);
    job.nodes[1].cfg.races = true;
    assert_eq!(faults(&mut job, 0..4), (0..4).map(one).collect::<Vec<_>>());
}
