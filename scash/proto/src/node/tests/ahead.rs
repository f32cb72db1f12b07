//! Locks that are asked for before a thread wants them, and locks that leave without the end of an interval.

use super::*;
use crate::wire::sync::{SyncBody, SyncMessage};

/// Two ranks with so many locks: rank (lock mod 2) manages each.
fn job(locks: u32, ahead: u32) -> Job {
    let mut job = Job::new(2);
    for node in &mut job.nodes {
        node.cfg.ahead = ahead;
        node.cfg.puts_at_once = false;
    }
    job.all(Collective::Make(ObjectKind::Lock, locks));
    job.syncs.iter_mut().for_each(Vec::clear);
    job
}

/// The locks that a rank has asked for since it was last looked at, and whether each waits.
fn asked(job: &mut Job, rank: u32) -> Vec<(u32, bool)> {
    let ask = |order: Output| match order {
        Output::Sync(_, SyncMessage { object, body: SyncBody::Ask { patient, .. }, .. }) => {
            Some((object, patient))
        }
        Output::Sync(_, SyncMessage { object, body: SyncBody::Follow { next, .. }, .. }) => {
            Some((object, next.patient))
        }
        _ => None,
    };
    std::mem::take(&mut job.syncs[rank as usize]).into_iter().filter_map(ask).collect()
}

#[test]
fn who_walks_through_locks_waits_for_the_first_ones_alone() {
    let mut job = job(64, 8);
    // Rank 0 manages every second lock, and asks for the others.
    job.walk(0, 0..3);
    assert_eq!(asked(&mut job, 0), [(1, true)], "two steps make a walk");
    job.section(0, 3);
    assert_eq!(asked(&mut job, 0), [(3, true), (5, false)], "it asks two locks ahead at first");
    job.walk(0, 4..64);
    let mut ahead = asked(&mut job, 0);
    ahead.sort_unstable();
    assert!(
        ahead.into_iter().eq((7..64).step_by(2).map(|lock| (lock, false))),
        "each once, and for no thread"
    );
    let c = job.nodes[0].counters();
    assert_eq!((c.locks, c.cached_locks, c.asked_ahead, c.taken_ahead), (64, 62, 30, 30));
}

#[test]
fn a_walk_goes_up_or_down_by_any_step_through_locks_that_were_made_together() {
    let walks =
        [([9, 7, 5], vec![1, 3]), ([1, 5, 9], vec![13, 17]), ([13, 15, 17], vec![19]), ([5, 5, 5], vec![])];
    for (walk, ahead) in walks {
        let mut job = job(20, 8);
        job.all(Collective::Make(ObjectKind::Lock, 20));
        job.walk(0, walk);
        let mut tried = asked(&mut job, 0);
        tried.retain(|&(_, patient)| !patient);
        tried.sort_unstable();
        let tried: Vec<u32> = tried.into_iter().map(|(lock, _)| lock).collect();
        assert_eq!(tried, ahead, "{walk:?}");
    }
}

#[test]
fn threads_and_runs_of_locks_have_walks_of_their_own() {
    let mut job = job(20, 8);
    job.all(Collective::Make(ObjectKind::Lock, 20));
    job.syncs[0].clear();
    // In turns: a lock of one run and one of the other, which is always the same; and another thread.
    for lock in [1, 3, 5] {
        job.walk(0, [lock, 31]);
        job.give(0, Input::Acquire { lock: 18 - lock, who: WHO + 1 });
        job.calm();
        job.give(0, Input::Release(18 - lock));
        job.calm();
    }
    let tried: Vec<u32> =
        asked(&mut job, 0).into_iter().filter(|&(_, patient)| !patient).map(|(lock, _)| lock).collect();
    assert_eq!(tried, [7, 9, 11]);
}

#[test]
fn how_far_a_rank_asks_ahead_grows_while_the_locks_are_taken_and_shrinks_when_they_are_not() {
    let mut job = job(600, 8);
    let reach = |job: &Job| job.nodes[0].sync.ahead.reach;
    job.walk(0, 0..40);
    assert_eq!(reach(&job), 8, "no further than the job allows");
    // Rank 1 goes the same way, a little ahead: what rank 0 asks for is taken from it again.
    for lock in 60..130 {
        job.section(1, lock);
        job.section(0, lock - 20);
        job.section(1, lock - 19);
        job.section(1, lock - 18);
    }
    assert_eq!(reach(&job), 0);
    job.syncs[0].clear();
    job.walk(0, 200..240);
    assert!(asked(&mut job, 0).iter().all(|&(_, patient)| patient), "it rests");
    job.walk(0, 240..400);
    assert_eq!(reach(&job), 8, "it tries again");
}

/// Rank 0 walks, and has asked for lock 3 and, ahead, for lock 5, of which nothing has arrived yet.
fn in_the_middle_of_a_walk() -> Job {
    let mut job = job(64, 8);
    job.walk(0, 0..3);
    job.syncs[0].clear();
    job
}

impl Job {
    /// Rank 0 asks for lock 3, and ahead for lock 5.
    fn ask_ahead(&mut self) {
        self.give(0, Input::Acquire { lock: 3, who: WHO });
    }
}

#[test]
fn a_lock_that_a_thread_has_is_refused_and_its_rank_asks_anew_when_a_thread_waits_for_it() {
    for waits in [false, true] {
        let mut job = in_the_middle_of_a_walk();
        job.give(1, Input::Acquire { lock: 5, who: WHO });
        job.calm();
        job.ask_ahead();
        if waits {
            // Before the answer is there.
            job.give(0, Input::Acquire { lock: 5, who: WHO + 1 });
        }
        job.calm();
        assert_eq!(job.nodes[0].holder(3), Some(WHO), "it does not wait for the other one");
        let expected: &[_] =
            if waits { &[(3, true), (5, false), (5, true)] } else { &[(3, true), (5, false)] };
        assert_eq!(asked(&mut job, 0)[..expected.len()], *expected);
        job.give(1, Input::Release(5));
        job.calm();
        assert_eq!(job.nodes[0].holder(5), waits.then_some(WHO + 1));
    }
}

#[test]
fn a_thread_that_comes_before_the_answer_gets_the_lock_with_it() {
    for tries in [false, true] {
        let mut job = in_the_middle_of_a_walk();
        job.ask_ahead();
        let (lock, who) = (5, WHO + 1);
        job.give(0, if tries { Input::TryAcquire { lock, who } } else { Input::Acquire { lock, who } });
        job.calm();
        assert_eq!((job.nodes[0].holder(3), job.nodes[0].holder(5)), (Some(WHO), Some(WHO + 1)));
        assert_eq!(asked(&mut job, 0), [(3, true), (5, false)]);
    }
}

#[test]
fn a_rank_comes_to_a_memory_barrier_when_it_has_all_answers() {
    let mut job = in_the_middle_of_a_walk();
    job.ask_ahead();
    let asks = job.ordered(0);
    assert_eq!(asks.len(), 2, "{asks:?}");
    let told: Vec<Output> = asks
        .into_iter()
        .flat_map(|ask| {
            let Output::Sync(_, message) = ask else { unreachable!("only locks are asked for") };
            job.give(1, Input::Sync(Rank(0), message));
            job.ordered(1)
        })
        .collect();
    let [first, second] = &told[..] else { unreachable!("two locks come, and no interval ends: {told:?}") };
    let give = |job: &mut Job, order: &Output| {
        let Output::Sync(_, message) = order.clone() else { unreachable!("locks come") };
        job.give(0, Input::Sync(Rank(1), message));
    };
    give(&mut job, first);
    job.give(0, Input::Release(3));
    job.ordered(0);
    job.give(0, Input::Arrive(Collective::Barrier));
    assert!(job.nodes[0].in_collective_call());
    assert_eq!(job.ordered(0), []);
    give(&mut job, second);
    job.give(1, Input::Arrive(Collective::Barrier));
    assert_eq!(job.told(), [Outcome::Done, Outcome::Done]);
    job.syncs[0].clear();
    job.walk(0, [4, 5]);
    assert_eq!(asked(&mut job, 0), [(7, false)], "it has lock 5 since before the barrier");
}

#[test]
fn what_comes_with_a_lock_is_applied_when_a_thread_takes_it() {
    let mut job = job(64, 8);
    job.all(Collective::Alloc(4 * PAGE_SIZE as u64, at(1, Protocol::Invalidate)));
    let Some(page) = job.nodes[0].heap.iter().map(|a| a.first).next() else {
        unreachable!("it was allocated")
    };
    job.touch(0, page, Access::Read);
    job.walk(0, 0..3);
    job.give(1, Input::Acquire { lock: 5, who: WHO });
    job.write(1, page);
    job.give(1, Input::Release(5));
    job.calm();
    job.section(0, 3);
    assert_eq!(job.nodes[0].access(page), Access::Read, "lock 5 is here, but no thread has taken it");
    job.section(0, 4);
    assert_eq!(job.nodes[0].access(page), Access::Read);
    job.section(0, 5);
    assert_eq!(job.nodes[0].access(page), Access::None);
}
