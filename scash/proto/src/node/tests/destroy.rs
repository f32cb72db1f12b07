//! The end of objects of synchronisation: together, or not at all.

use super::*;
use crate::wire::reduce::{Direction, ReduceMessage};
use crate::wire::stall::Relation;
use crate::wire::sync::{Request, Signal, SyncBody, SyncMessage};
use Relation::{Awaits, Holds};

const SEMAPHORE: ObjectKind = ObjectKind::Semaphore(0);

/// Ranks with objects of a kind; the number of the first is 0.
fn with(size: u32, kind: ObjectKind, count: u32) -> Job {
    let mut job = Job::new(size);
    job.all(Collective::Make(kind, count));
    job
}

fn destroy(kind: ObjectKind, first: u32, count: u32) -> Collective {
    Collective::Destroy { kind, first, count }
}

impl Job {
    /// A thread of a rank does something, and all that follows happens.
    fn act(&mut self, rank: u32, input: Input) {
        self.give(rank, input);
        self.calm();
    }

    /// Checks what every rank is told.
    fn all_are_told(&mut self, call: Collective, outcome: &Outcome) {
        let told = self.all(call);
        assert!(told.iter().all(|told| told == outcome), "{told:?} instead of {outcome:?}");
    }

    /// How many objects the nodes keep something of.
    fn kept(&self) -> Vec<usize> {
        let kept = |n: &Node| {
            n.sync.locks.len() + n.sync.served.known() + (0..n.objects()).filter_map(|o| n.kind(o)).count()
        };
        self.nodes.iter().map(kept).collect()
    }
}

fn in_use(rank: u32, object: u32, relation: Relation) -> Outcome {
    Outcome::InUse(InUse { rank: Rank(rank), object, relation })
}

fn lock(lock: u32) -> Input {
    Input::Acquire { lock, who: 7 }
}

fn request(object: u32, request: Request) -> Input {
    Input::Request { object, who: 7, request }
}

fn signal(object: u32, signal: Signal) -> Input {
    Input::Signal { object, who: 7, signal }
}

#[test]
fn what_nobody_uses_is_gone_at_all_ranks_and_its_numbers_mean_nothing_again() {
    let mut job = with(3, ObjectKind::Lock, 4);
    for rank in [1, 2, 0] {
        (0..4).for_each(|number| {
            job.act(rank, lock(number));
            job.act(rank, Input::Release(number));
        });
    }
    job.all_are_told(destroy(ObjectKind::Lock, 1, 2), &Outcome::Done);
    let kinds = |n: &Node| [0, 1, 2, 3].map(|o| n.kind(o).is_some());
    assert!(job.nodes.iter().all(|n| kinds(n) == [true, false, false, true]));
    assert!(job.nodes.iter().all(|n| n.sync.locks.keys().all(|&o| o == 0 || o == 3)));
    job.all_are_told(Collective::Make(ObjectKind::Flag, 1), &Outcome::Made(4));
    // The others are as they were.
    job.act(1, lock(3));
    assert_eq!(job.nodes[1].holder(3), Some(7));
}

/// What a thread of a rank does with an object, how that is told, and what lets it be over.
type Use = (ObjectKind, Vec<Input>, Relation, Vec<(u32, Input)>);

/// Each way to use object 0, of which there are two. Rank 2 uses it, and rank 0 has lock 1 and the like.
fn uses() -> Vec<Use> {
    vec![
        (ObjectKind::Lock, vec![lock(0)], Holds, vec![(2, Input::Release(0))]),
        (ObjectKind::RwLock, vec![request(0, Request::Read)], Holds, vec![(2, signal(0, Signal::HasRead))]),
        (
            ObjectKind::RwLock,
            vec![request(0, Request::Write)],
            Holds,
            vec![(2, signal(0, Signal::HasWritten))],
        ),
        (SEMAPHORE, vec![request(0, Request::Take)], Awaits, vec![(1, signal(0, Signal::Post(1)))]),
        (
            ObjectKind::Flag,
            vec![request(0, Request::AtLeast(3))],
            Awaits,
            vec![(1, signal(0, Signal::Raise(3)))],
        ),
    ]
}

#[test]
fn what_a_thread_of_one_rank_has_or_waits_for_is_destroyed_by_none_and_all_are_told_whose_it_is() {
    for (kind, begin, relation, end) in uses() {
        let mut job = with(4, kind, 2);
        begin.into_iter().for_each(|input| job.act(2, input));
        let epochs = job.nodes.iter().map(Node::epoch).sum::<u32>();
        job.all_are_told(destroy(kind, 0, 2), &in_use(2, 0, relation));
        assert!(job.nodes.iter().all(|n| n.kind(0) == Some(kind) && !n.in_collective_call()), "{kind:?}");
        assert_eq!(job.nodes.iter().map(Node::epoch).sum::<u32>(), epochs, "no memory barrier");
        // Others can be destroyed meanwhile, if no thread waits.
        if relation == Holds {
            job.all_are_told(destroy(kind, 1, 1), &Outcome::Done);
        }
        end.into_iter().for_each(|(rank, input)| job.act(rank, input));
        job.all_are_told(destroy(kind, 0, 2), &Outcome::Done);
        assert_eq!(job.kept(), [0; 4], "{kind:?}");
    }
}

#[test]
fn a_queue_for_a_lock_uses_it_wherever_its_places_are() {
    let mut job = with(3, ObjectKind::Lock, 1);
    job.act(1, lock(0));
    job.act(2, lock(0));
    job.all_are_told(destroy(ObjectKind::Lock, 0, 1), &in_use(1, 0, Holds));
    job.act(1, Input::Release(0));
    job.all_are_told(destroy(ObjectKind::Lock, 0, 1), &in_use(2, 0, Holds));
    job.act(2, Input::Release(0));
    job.all_are_told(destroy(ObjectKind::Lock, 0, 1), &Outcome::Done);
    assert_eq!(job.kept(), [0; 3]);
}

#[test]
fn a_request_that_is_under_way_is_a_use() {
    for request in [lock(1), Input::TryAcquire { lock: 1, who: 7 }] {
        let mut job = with(2, ObjectKind::Lock, 2);
        // Its manager, rank 1, has not heard of it yet.
        job.give(0, request);
        let request = job.nodes[0].poll_output();
        job.all_are_told(destroy(ObjectKind::Lock, 0, 2), &in_use(0, 1, Awaits));
        let Some(Output::Sync(to, message)) = request else { panic!("{request:?}") };
        job.act(to.0, Input::Sync(Rank(0), message));
        assert_eq!(job.nodes[0].holder(1), Some(7));
    }
}

#[test]
fn who_waits_for_a_condition_uses_it_and_the_lock_that_it_will_take_again() {
    let mut job = with(3, ObjectKind::Lock, 1);
    job.all(Collective::Make(ObjectKind::Condition, 1));
    job.act(1, lock(0));
    job.act(1, Input::Wait { condition: 1, lock: 0, who: 7 });
    assert_eq!(job.nodes[1].holder(0), None);
    job.all_are_told(destroy(ObjectKind::Lock, 0, 1), &in_use(1, 0, Awaits));
    job.all_are_told(destroy(ObjectKind::Condition, 1, 1), &in_use(1, 1, Awaits));
    job.act(2, signal(1, Signal::WakeOne));
    assert_eq!(job.nodes[1].holder(0), Some(7), "it goes on as ever");
    job.all_are_told(destroy(ObjectKind::Condition, 1, 1), &Outcome::Done);
    job.act(1, Input::Release(0));
    job.all_are_told(destroy(ObjectKind::Lock, 0, 1), &Outcome::Done);
    assert_eq!(job.kept(), [0; 3]);
}

#[test]
fn of_several_uses_that_of_the_lowest_rank_is_told_and_there_the_lowest_object() {
    let mut job = with(6, ObjectKind::Lock, 9);
    for (rank, number) in [(5, 0), (3, 8), (3, 4), (4, 2)] {
        job.act(rank, lock(number));
    }
    job.all_are_told(destroy(ObjectKind::Lock, 0, 9), &in_use(3, 4, Holds));
    job.all_are_told(destroy(ObjectKind::Lock, 5, 4), &in_use(3, 8, Holds));
}

#[test]
fn a_rank_that_has_come_still_serves_those_that_have_not() {
    let mut job = with(2, ObjectKind::Lock, 1);
    // The lock is with rank 0, which manages it.
    job.give(0, Input::Arrive(destroy(ObjectKind::Lock, 0, 1)));
    job.calm();
    assert!(job.nodes[0].in_collective_call());
    job.act(1, lock(0));
    assert_eq!(job.nodes[1].holder(0), Some(7));
    job.give(1, Input::Arrive(destroy(ObjectKind::Lock, 0, 1)));
    assert_eq!(job.told(), [in_use(1, 0, Holds), in_use(1, 0, Holds)]);
    job.give(0, Input::Arrive(destroy(ObjectKind::Lock, 0, 1)));
    job.act(1, Input::Release(0));
    job.give(1, Input::Arrive(destroy(ObjectKind::Lock, 0, 1)));
    assert_eq!(job.told(), [Outcome::Done, Outcome::Done]);
}

#[test]
fn a_signal_that_is_under_way_arrives_before_its_object_is_gone() {
    let mut job = with(2, SEMAPHORE, 2);
    // For rank 1, which manages it.
    job.give(0, signal(1, Signal::Post(1)));
    job.give(0, Input::Closed { behind: false });
    let post = std::iter::from_fn(|| job.nodes[0].poll_output()).find(|o| matches!(o, Output::Sync(..)));
    let Some(Output::Sync(to, post)) = post else { panic!("no signal") };
    (0..2).for_each(|rank| job.give(rank, Input::Arrive(destroy(SEMAPHORE, 0, 2))));
    assert_eq!(job.calm(), [Some(Outcome::Done), None]);
    assert!(job.nodes[1].kind(1).is_some());
    job.give(to.0, Input::Sync(Rank(0), post));
    assert_eq!(job.calm(), [None, Some(Outcome::Done)]);
    assert_eq!(job.kept(), [0; 2]);
}

#[test]
fn ranks_that_destroy_different_objects_are_all_told() {
    let calls: [&dyn Fn(u32) -> Collective; 4] = [
        &|r| destroy(ObjectKind::Lock, r / 3, 1),
        &|r| destroy(ObjectKind::Lock, 0, 1 + r / 3),
        &|r| if r == 2 { Collective::Barrier } else { destroy(ObjectKind::Lock, 0, 1) },
        &|r| if r == 0 { destroy(ObjectKind::Lock, 0, 1) } else { Collective::Make(ObjectKind::Lock, 1) },
    ];
    for used in [false, true] {
        for call in calls {
            let mut job = with(4, ObjectKind::Lock, 4);
            if used {
                job.act(0, lock(0));
            }
            let told = job.each(call);
            assert!(told.iter().all(|o| matches!(o, Outcome::Mismatch(_))), "{told:?}");
            assert!(job.nodes.iter().all(|n| (0..4).all(|o| n.kind(o).is_some())));
        }
    }
}

#[test]
fn objects_that_are_made_and_destroyed_again_and_again_leave_nothing() {
    for kind in [ObjectKind::Lock, ObjectKind::RwLock, SEMAPHORE, ObjectKind::Flag] {
        let mut job = Job::new(2);
        for first in (0..if cfg!(miri) { 8 } else { 200 }).step_by(2) {
            job.all_are_told(Collective::Make(kind, 2), &Outcome::Made(first));
            for (rank, object) in [(0, first), (1, first), (0, first + 1), (1, first + 1)] {
                match kind {
                    ObjectKind::Lock => {
                        job.act(rank, lock(object));
                        job.act(rank, Input::Release(object));
                    }
                    ObjectKind::RwLock => {
                        job.act(rank, request(object, Request::Write));
                        job.act(rank, signal(object, Signal::HasWritten));
                    }
                    ObjectKind::Flag => job.act(rank, signal(object, Signal::Raise(9))),
                    _ => job.act(rank, signal(object, Signal::Post(3))),
                }
            }
            job.all_are_told(destroy(kind, first, 2), &Outcome::Done);
        }
        assert_eq!(job.kept(), [0; 2], "{kind:?}");
    }
}

#[test]
fn a_peer_cannot_talk_a_rank_into_destroying_what_it_uses() {
    let mut job = with(2, ObjectKind::Lock, 1);
    job.act(1, lock(0));
    job.give(1, Input::Arrive(destroy(ObjectKind::Lock, 0, 1)));
    let Some(Output::Reduce(_, up)) = job.nodes[1].poll_output() else { panic!("an announcement") };
    for values in [vec![u64::MAX], vec![], vec![0, 0]] {
        let down = ReduceMessage { direction: Direction::Down, values, ..up.clone() };
        assert!(job.nodes[1].handle(Input::Reducing(Rank(0), down)).is_err());
    }
    assert_eq!(job.nodes[1].holder(0), Some(7));
}

#[test]
fn a_word_about_an_object_that_was_destroyed_is_a_violation() {
    let mut job = with(2, ObjectKind::Lock, 1);
    job.all(destroy(ObjectKind::Lock, 0, 1));
    let epoch = job.nodes[0].epoch();
    let body = SyncBody::Ask { ticket: 0, known: Vec::new(), patient: true, wants: Vec::new() };
    let message = SyncMessage { epoch, object: 0, body };
    assert!(job.nodes[0].handle(Input::Sync(Rank(1), message)).is_err());
}
