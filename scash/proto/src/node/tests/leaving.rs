//! Locks that leave a rank: which of them end an interval.

use super::*;

/// So many ranks with so many locks.
fn job(ranks: u32, locks: u32) -> Job {
    let mut job = Job::new(ranks);
    job.nodes.iter_mut().for_each(|node| node.cfg.puts_at_once = false);
    job.all(Collective::Make(ObjectKind::Lock, locks));
    job.syncs.iter_mut().for_each(Vec::clear);
    job
}

/// How many intervals a rank has ended for locks that left it.
fn ended(job: &mut Job, rank: u32) -> usize {
    let syncs = std::mem::take(&mut job.syncs[rank as usize]);
    syncs.iter().filter(|order| matches!(order, Output::Closed { .. })).count()
}

#[test]
fn a_lock_that_leaves_ends_an_interval_if_none_has_ended_since_it_was_given_back() {
    let mut job = job(2, 8);
    job.walk(1, [2]);
    assert_eq!(ended(&mut job, 0), 0, "no thread of rank 0 has had it");
    job.walk(0, [0, 4, 6]);
    job.walk(1, [0]);
    assert_eq!(ended(&mut job, 0), 1);
    job.walk(1, [4]);
    assert_eq!(ended(&mut job, 0), 0, "what was written before is recorded");
    job.walk(0, [6]);
    job.walk(1, [6]);
    assert_eq!(ended(&mut job, 0), 1, "it was taken again");
}

#[test]
fn a_lock_that_leaves_while_an_interval_ends_or_puts_are_on_their_way_elsewhere_comes_behind_them() {
    let ask = |job: &mut Job, rank: u32, lock| {
        job.give(rank, Input::Acquire { lock, who: WHO });
        let [Output::Sync(_, message)] = &job.ordered(rank)[..] else { unreachable!("it asks") };
        job.give(0, Input::Sync(Rank(rank), message.clone()));
        job.ordered(0)
    };
    let new_job = || job(3, 9);
    let mut job = new_job();
    job.walk(0, [0, 3]);
    let first = ask(&mut job, 1, 0);
    assert_eq!(first, [Output::Closed { next: Some(Rank(1)) }]);
    let second = ask(&mut job, 2, 3);
    assert_eq!(second, [Output::Closed { next: Some(Rank(2)) }], "it does not end another one, but it waits");
    job.give(0, Input::Closed { behind: true });
    assert!(matches!(job.ordered(0)[..], [Output::Sync(Rank(1), _)]));
    job.give(0, Input::Closed { behind: false });
    assert!(matches!(job.ordered(0)[..], [Output::Sync(Rank(2), _)]));

    // The same when the interval has ended, and what it put is on its way to rank 1.
    let mut job = new_job();
    job.walk(0, [0, 3, 6]);
    ask(&mut job, 1, 0);
    job.give(0, Input::Closed { behind: true });
    job.ordered(0);
    assert!(matches!(ask(&mut job, 1, 6)[..], [Output::Sync(Rank(1), _)]), "rank 1 may hear of it");
    assert_eq!(ask(&mut job, 2, 3), [Output::Closed { next: Some(Rank(2)) }], "rank 2 may not yet");
}
