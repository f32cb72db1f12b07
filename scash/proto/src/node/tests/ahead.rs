//! Locks that are asked for before a thread wants them.

use super::*;
use crate::wire::reduce::Reduction;
use crate::wire::stall::Relation;
use crate::wire::sync::{Brought, QueuePlace, SyncBody, SyncMessage};

/// Two ranks with so many locks: rank (lock mod 2) manages each.
fn job(locks: u32, ahead: u32) -> Job {
    job_of(2, locks, ahead)
}

fn job_of(ranks: u32, locks: u32, ahead: u32) -> Job {
    let mut job = Job::new(ranks);
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
    let reach = |job: &Job| job.nodes[0].sync.ahead.reach_of(600).unwrap();
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
        // Rank 1 manages it, and sends who asks anew to where the try was, which leads it back.
        let expected: &[_] = &[(3, true), (5, false), (5, true), (5, true)];
        assert_eq!(asked(&mut job, 0), expected[..if waits { 4 } else { 2 }]);
        assert_eq!(job.nodes[0].counters().taken_ahead, 0);
        assert_eq!(job.nodes[0].sync.ahead.reach_of(64), Some(0), "that was in vain");
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
fn a_thread_that_tries_before_the_answer_is_refused_with_it() {
    let mut job = in_the_middle_of_a_walk();
    job.give(1, Input::Acquire { lock: 5, who: WHO });
    job.calm();
    job.ask_ahead();
    job.give(0, Input::TryAcquire { lock: 5, who: WHO + 1 });
    job.calm();
    let refused = Output::Refused { object: 5, who: WHO + 1 };
    assert!(job.orders(0).contains(&refused));
    assert_eq!(asked(&mut job, 0), [(3, true), (5, false)]);
}

#[test]
fn a_rank_asks_again_when_half_of_what_it_asked_for_is_used_up() {
    let mut job = job(256, 32);
    job.walk(0, 0..100);
    assert_eq!(job.nodes[0].sync.ahead.reach_of(256), Some(32));
    job.syncs[0].clear();
    let mut batches = Vec::new();
    for lock in 100..200 {
        job.section(0, lock);
        batches.extend(Some(asked(&mut job, 0).len()).filter(|&count| count > 0));
    }
    assert_eq!(batches, [8; 6]);
}

#[test]
fn several_locks_of_one_request_that_were_in_vain_count_once() {
    let mut job = job(256, 32);
    job.walk(0, 0..100);
    job.walk(1, (101..130).step_by(2));
    assert!(job.nodes[0].counters().handed_locks > 4);
    assert_eq!(job.nodes[0].sync.ahead.reach_of(256), Some(16));
}

#[test]
fn nothing_is_asked_ahead_where_races_are_looked_for_nor_of_locks_that_one_rank_has_made() {
    let mut job = job(20, 8);
    let own: Vec<u32> = (0..6).map(|_| job.nodes[1].make_own(ObjectKind::Lock).unwrap()).collect();
    job.walk(0, own);
    job.nodes[0].cfg.races = true;
    job.walk(0, [1, 3, 5, 7, 9]);
    assert!(asked(&mut job, 0).iter().all(|&(_, patient)| patient));
}

#[test]
fn what_peers_say_wrongly_of_locks_that_were_asked_for_ahead_is_refused() {
    let say = |job: &mut Job, lock, body| {
        let message = SyncMessage { epoch: job.nodes[0].epoch(), object: lock, body };
        job.nodes[0].handle(Input::Sync(Rank(1), message))
    };
    let grant = |ticket| SyncBody::Grant { ticket, records: Vec::new(), brought: Brought::default() };
    let refusal = |ticket| SyncBody::Refused { ticket, before: QueuePlace { rank: Rank(1), ticket: 0 } };
    for comes in [false, true] {
        for right in [grant, refusal] {
            let mut job = in_the_middle_of_a_walk();
            job.ask_ahead();
            let ticket = job
                .ordered(0)
                .into_iter()
                .find_map(|order| match order {
                    Output::Sync(_, SyncMessage { object: 5, body: SyncBody::Ask { ticket, .. }, .. }) => {
                        Some(ticket)
                    }
                    _ => None,
                })
                .unwrap();
            if comes {
                job.give(0, Input::Acquire { lock: 5, who: WHO + 1 });
            }
            assert!(say(&mut job, 5, right(ticket + 1)).is_err(), "another place");
            assert!(say(&mut job, 7, right(ticket)).is_err(), "another lock");
            assert_eq!(say(&mut job, 5, right(ticket)), Ok(()));
            for again in [grant, refusal] {
                assert!(say(&mut job, 5, again(ticket)).is_err(), "it was answered");
            }
        }
    }
}

#[test]
fn ranks_that_came_for_different_things_are_told_while_one_waits_for_answers() {
    let mut job = job_of(3, 60, 8);
    job.walk(0, 0..2);
    // It asks rank 2 for lock 2, and rank 1 ahead for lock 4; neither answers.
    job.give(0, Input::Acquire { lock: 2, who: WHO });
    assert_eq!(job.ordered(0).len(), 2);
    job.give(0, Input::Arrive(Collective::Barrier));
    job.give(1, Input::Arrive(Collective::Barrier));
    job.give(2, Input::Reduce(Reduction::From(Rank(1)), vec![1]));
    let told = job.calm();
    assert!(told.iter().all(|told| matches!(told, Some(Outcome::Mismatch(_)))), "{told:?}");
}

#[test]
fn who_destroys_locks_says_at_once_what_its_threads_use() {
    let mut job = in_the_middle_of_a_walk();
    job.ask_ahead();
    let destroy = Collective::Destroy { kind: ObjectKind::Lock, first: 0, count: 64 };
    job.give(0, Input::Arrive(destroy));
    job.give(1, Input::Arrive(destroy));
    let told = job.told();
    let used = InUse { rank: Rank(0), object: 3, relation: Relation::Awaits };
    assert_eq!(told, [Outcome::InUse(used), Outcome::InUse(used)]);
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
