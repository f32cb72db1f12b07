//! Objects that one rank makes, and one destroys.

use super::*;
use crate::node::own::{OwnNumber, OwnObjects};
use crate::wire::sync::{Request, Signal, SyncBody, SyncMessage};

const SEMAPHORE: ObjectKind = ObjectKind::Semaphore(0);
const KINDS: [ObjectKind; 5] =
    [ObjectKind::Lock, ObjectKind::RwLock, SEMAPHORE, ObjectKind::Condition, ObjectKind::Flag];

/// Ranks that have made a lock together, whose number is 0.
fn job(size: u32) -> Job {
    let mut job = Job::new(size);
    job.all(Collective::Make(ObjectKind::Lock, 1));
    job
}

impl Job {
    fn make(&mut self, rank: u32, kind: ObjectKind) -> u32 {
        let number = self.nodes[rank as usize].make_own(kind).unwrap();
        assert_eq!(self.nodes[rank as usize].poll_output(), None, "making takes no message");
        number
    }

    /// A thread of a rank does something, all that follows happens, and this is what threads of that rank are
    /// told.
    fn tell(&mut self, rank: u32, input: Input) -> Vec<Output> {
        self.give(rank, input);
        self.calm();
        self.answers(rank)
    }

    /// What one rank has for another one arrives.
    fn deliver(&mut self, from: u32, to: u32) {
        while let Some(order) = self.nodes[from as usize].poll_output() {
            match order {
                Output::Closed { .. } => self.give(from, Input::Closed { behind: false }),
                Output::Sync(Rank(receiver), message) => {
                    assert_eq!(receiver, to);
                    self.give(to, Input::Sync(Rank(from), message));
                }
                order => self.orders[from as usize].push(order),
            }
        }
    }

    fn answers(&mut self, rank: u32) -> Vec<Output> {
        let mut orders = self.orders(rank);
        orders.retain(|order| {
            matches!(
                order,
                Output::Acquired { .. }
                    | Output::Refused { .. }
                    | Output::Unmade { .. }
                    | Output::Absent { .. }
            )
        });
        orders
    }

    /// How many such objects the nodes keep something of.
    fn keep(&self) -> Vec<usize> {
        let own = |n: &Node| {
            let locks = n.sync.locks.keys().filter(|&&lock| lock != 0).count();
            locks + n.sync.served.known() + n.sync.unmaking.len() + n.sync.own.there()
        };
        self.nodes.iter().map(own).collect()
    }
}

fn who(rank: u32) -> u64 {
    70 + u64::from(rank)
}

fn lock(rank: u32, lock: u32) -> Input {
    Input::Acquire { lock, who: who(rank) }
}

fn request(rank: u32, object: u32, request: Request) -> Input {
    Input::Request { object, who: who(rank), request }
}

fn unmake(rank: u32, object: u32) -> Input {
    Input::Unmake { object, who: who(rank) }
}

fn has(rank: u32, object: u32) -> Vec<Output> {
    vec![Output::Acquired { object, who: who(rank) }]
}

fn unmade(rank: u32, object: u32, user: Option<u32>) -> Vec<Output> {
    vec![Output::Unmade { object, who: who(rank), user: user.map(Rank) }]
}

fn absent(rank: u32, object: u32, missing: u32) -> Vec<Output> {
    vec![Output::Absent { object, who: who(rank), missing }]
}

#[test]
fn a_number_says_what_an_object_is_and_who_made_it() {
    let mut job = job(3);
    for (rank, kind) in (0..3).flat_map(|rank| KINDS.map(|kind| (rank, kind))) {
        let number = job.make(rank, kind);
        assert!(job.nodes.iter().all(|n| n.kind(number) == Some(kind) && n.manager(number) == Rank(rank)));
    }
    let semaphore = job.make(1, ObjectKind::Semaphore(9));
    assert_eq!(job.nodes[1].kind(semaphore), Some(ObjectKind::Semaphore(9)), "its maker knows the count");
    assert_eq!(job.nodes[1].kind(semaphore + 3), None, "which it has not made");
    // Three bits would do for more kinds than there are.
    assert_eq!(OwnNumber::of(u32::MAX), None);
    assert_eq!(OwnNumber::of((1 << 31) - 1), None);
}

#[test]
fn it_is_used_as_any_other_and_destroyed_by_whichever_rank() {
    for (maker, user, ender) in [(0, 1, 2), (0, 0, 0), (0, 1, 0), (1, 1, 2), (2, 0, 0)] {
        for kind in KINDS {
            let mut job = job(3);
            let object = job.make(maker, kind);
            let signal = |signal| Input::Signal { object, who: who(user), signal };
            match kind {
                ObjectKind::Lock => {
                    assert_eq!(job.tell(user, lock(user, object)), has(user, object));
                    job.tell(user, Input::Release(object));
                }
                ObjectKind::RwLock => {
                    assert_eq!(job.tell(user, request(user, object, Request::Read)), has(user, object));
                    job.tell(user, signal(Signal::HasRead));
                }
                ObjectKind::Semaphore(_) => {
                    job.tell(user, signal(Signal::Post(1)));
                    assert_eq!(job.tell(user, request(user, object, Request::Take)), has(user, object));
                }
                ObjectKind::Condition => drop(job.tell(user, signal(Signal::WakeAll))),
                ObjectKind::Flag => {
                    job.tell(user, signal(Signal::Raise(3)));
                    let wait = request(user, object, Request::AtLeast(2));
                    assert_eq!(job.tell(user, wait), has(user, object));
                }
            }
            assert_eq!(job.tell(ender, unmake(ender, object)), unmade(ender, object, None), "{kind:?}");
            assert_eq!(job.keep(), [0; 3], "{kind:?} of {maker}, used by {user}, destroyed by {ender}");
        }
    }
}

#[test]
fn a_rank_that_has_handed_a_lock_on_keeps_nothing_of_it() {
    let mut job = job(3);
    let object = job.make(0, ObjectKind::Lock);
    for rank in [1, 2, 0] {
        assert_eq!(job.tell(rank, lock(rank, object)), has(rank, object));
        job.tell(rank, Input::Release(object));
    }
    // At rank 0 the object, and its queue.
    assert_eq!(job.keep(), [2, 0, 0]);
}

#[test]
fn who_destroys_a_lock_waits_until_nobody_has_it() {
    for (kind, take, give) in [
        (ObjectKind::Lock, None, None),
        (ObjectKind::RwLock, Some(Request::Read), Some(Signal::HasRead)),
        (ObjectKind::RwLock, Some(Request::Write), Some(Signal::HasWritten)),
    ] {
        let mut job = job(3);
        let object = job.make(0, kind);
        let take = take.map_or(lock(1, object), |take| request(1, object, take));
        assert_eq!(job.tell(1, take), has(1, object));
        assert_eq!(job.tell(2, unmake(2, object)), [], "somebody has it");
        assert_eq!(job.nodes[2].awaited(), Some(object));
        let give =
            give.map_or(Input::Release(object), |signal| Input::Signal { object, who: who(1), signal });
        job.tell(1, give);
        assert_eq!(job.answers(2), unmade(2, object, None), "{kind:?}");
        assert_eq!((job.nodes[2].awaited(), job.keep()), (None, vec![0; 3]));
    }
}

#[test]
fn what_a_thread_waits_for_is_not_destroyed_and_it_goes_on() {
    let cases = [
        (SEMAPHORE, Request::Take, Signal::Post(1)),
        (ObjectKind::Flag, Request::AtLeast(4), Signal::Raise(4)),
    ];
    for (kind, wait, signal) in cases {
        let mut job = job(3);
        let object = job.make(0, kind);
        assert_eq!(job.tell(1, request(1, object, wait)), []);
        assert_eq!(job.tell(2, unmake(2, object)), unmade(2, object, Some(1)), "{kind:?}");
        job.tell(0, Input::Signal { object, who: who(0), signal });
        assert_eq!(job.answers(1), has(1, object));
        assert_eq!(job.tell(2, unmake(2, object)), unmade(2, object, None));
    }
    let mut job = job(3);
    let condition = job.make(0, ObjectKind::Condition);
    job.tell(1, lock(1, 0));
    job.tell(1, Input::Wait { condition, lock: 0, who: who(1) });
    assert_eq!(job.tell(2, unmake(2, condition)), unmade(2, condition, Some(1)));
}

#[test]
fn who_comes_behind_the_one_that_destroys_a_lock_gets_it() {
    for kind in [ObjectKind::Lock, ObjectKind::RwLock] {
        let mut job = job(4);
        let object = job.make(0, kind);
        let take = |rank| match kind {
            ObjectKind::Lock => lock(rank, object),
            _ => request(rank, object, Request::Write),
        };
        assert_eq!(job.tell(1, take(1)), has(1, object));
        assert_eq!(job.tell(2, unmake(2, object)), []);
        assert_eq!(job.tell(3, take(3)), [], "behind the one that destroys it");
        let give = match kind {
            ObjectKind::Lock => Input::Release(object),
            _ => Input::Signal { object, who: who(1), signal: Signal::HasWritten },
        };
        job.tell(1, give);
        assert_eq!(job.answers(2), unmade(2, object, Some(3)), "{kind:?}");
        assert_eq!(job.answers(3), has(3, object), "{kind:?}");
    }
}

#[test]
fn whoever_has_tried_to_get_a_lock_and_left_is_nobody_who_waits() {
    for ender in [0, 1] {
        let mut job = job(3);
        let object = job.make(0, ObjectKind::Lock);
        assert_eq!(job.tell(ender, lock(ender, object)), has(ender, object));
        let attempt = Input::TryAcquire { lock: object, who: who(2) };
        assert_eq!(job.tell(2, attempt), [Output::Refused { object, who: who(2) }]);
        job.tell(ender, Input::Release(object));
        // Now the end of the queue is a place of rank 2 that nobody waits at.
        assert_eq!(job.tell(ender, unmake(ender, object)), unmade(ender, object, None));
        assert_eq!(job.keep(), [0; 3]);
    }
}

#[test]
fn a_thread_that_asks_for_what_is_no_more_is_told_and_waits_for_nothing() {
    for kind in [ObjectKind::Lock, ObjectKind::RwLock, SEMAPHORE, ObjectKind::Flag] {
        let mut job = job(3);
        let object = job.make(0, kind);
        job.tell(0, unmake(0, object));
        let asks = match kind {
            ObjectKind::Lock => vec![lock(1, object), Input::TryAcquire { lock: object, who: who(1) }],
            ObjectKind::RwLock => vec![request(1, object, Request::Read), request(1, object, Request::Write)],
            ObjectKind::Flag => vec![request(1, object, Request::AtLeast(0))],
            _ => vec![request(1, object, Request::Take)],
        };
        for ask in asks.into_iter().chain([unmake(1, object)]) {
            assert_eq!(job.tell(1, ask), absent(1, object, object), "{kind:?}");
            assert_eq!((job.nodes[1].awaited(), job.keep()), (None, vec![0; 3]));
        }
    }
}

#[test]
fn who_destroys_an_object_waits_for_the_answer() {
    for kind in KINDS {
        let mut job = job(3);
        let object = job.make(0, kind);
        job.give(2, unmake(2, object));
        // Of a lock, until it has that; and then until it is no more.
        let taken = matches!(kind, ObjectKind::Lock | ObjectKind::RwLock);
        for (from, to) in [(2, 0), (0, 2)].repeat(if taken { 2 } else { 1 }) {
            assert_eq!(job.nodes[2].awaited(), Some(object), "{kind:?}");
            job.deliver(from, to);
        }
        job.calm();
        assert_eq!((job.answers(2), job.nodes[2].awaited()), (unmade(2, object, None), None), "{kind:?}");
    }
}

/// Two threads of a rank: one destroys a lock, and the other one asks for it, too late.
#[test]
fn a_thread_that_asks_behind_another_one_of_its_rank_that_destroys_a_lock_is_told() {
    let mut job = job(3);
    let object = job.make(0, ObjectKind::Lock);
    job.give(2, unmake(2, object));
    // It has the lock, and asks for its end. Before the answer another thread wants the lock, whose word
    // comes to the manager behind the end.
    for (from, to) in [(2, 0), (0, 2), (2, 0)] {
        job.deliver(from, to);
    }
    job.give(2, Input::Acquire { lock: object, who: 99 });
    job.calm();
    let told = [unmade(2, object, None), vec![Output::Absent { object, who: 99, missing: object }]].concat();
    assert_eq!(job.answers(2), told);
    assert_eq!((job.nodes[2].awaited(), job.keep()), (None, vec![0; 3]));
}

#[test]
fn who_waits_with_a_condition_that_is_no_more_still_has_its_lock() {
    let mut job = job(3);
    let condition = job.make(0, ObjectKind::Condition);
    job.tell(0, unmake(0, condition));
    job.tell(1, lock(1, 0));
    let wait = Input::Wait { condition, lock: 0, who: who(1) };
    assert_eq!(job.tell(1, wait), absent(1, 0, condition));
    assert_eq!((job.nodes[1].holder(0), job.nodes[1].awaited()), (Some(who(1)), None));
}

#[test]
fn who_is_woken_for_a_lock_that_is_no_more_is_told_so_whoever_made_it() {
    for maker in [0, 1] {
        let mut job = job(3);
        let (condition, object) = (job.make(0, ObjectKind::Condition), job.make(maker, ObjectKind::Lock));
        job.tell(1, lock(1, object));
        job.tell(1, Input::Wait { condition, lock: object, who: who(1) });
        assert_eq!(job.tell(2, unmake(2, object)), unmade(2, object, None));
        job.tell(0, Input::Signal { object: condition, who: who(0), signal: Signal::WakeOne });
        assert_eq!(job.answers(1), absent(1, object, object));
        assert_eq!(job.nodes[1].awaited(), None);
    }
}

#[test]
fn a_signal_that_comes_after_the_end_of_its_object_is_lost_and_the_barrier_is_not_kept_waiting() {
    let mut job = job(3);
    let semaphore = job.make(0, SEMAPHORE);
    // It is on its way while another rank destroys the semaphore.
    job.give(1, Input::Signal { object: semaphore, who: who(1), signal: Signal::Post(1) });
    let mut late = Vec::new();
    while let Some(order) = job.nodes[1].poll_output() {
        match order {
            Output::Closed { .. } => job.give(1, Input::Closed { behind: false }),
            order => late.push(order),
        }
    }
    let [Output::Sync(Rank(0), message)] = &late[..] else { panic!("{late:?}") };
    assert_eq!(job.tell(2, unmake(2, semaphore)), unmade(2, semaphore, None));
    (0..3).for_each(|rank| job.give(rank, Input::Arrive(Collective::Barrier)));
    assert_eq!(job.calm()[0], None, "the barrier waits for the signal");
    job.give(0, Input::Sync(Rank(1), message.clone()));
    assert_eq!(job.calm()[0], Some(Outcome::Done));
}

#[test]
fn a_number_is_not_given_twice_before_a_memory_barrier() {
    let mut objects = OwnObjects::default();
    let mut given = BTreeSet::new();
    for kind in KINDS.into_iter().cycle().take(100) {
        let number = objects.make(kind, Rank(1), 3).unwrap();
        assert!(given.insert(number), "{number:#x} was given before");
        assert!(objects.remove(number) && !objects.remove(number));
    }
    // 100 objects, of which a place has 16 one after the other.
    assert_eq!(objects.places, 7);
    objects.rested();
    (0..100).for_each(|_| assert!(objects.make(ObjectKind::Lock, Rank(1), 3).is_some()));
    assert_eq!((objects.places, objects.there()), (100, 100), "all places had come to rest");
}

#[test]
fn a_rank_has_its_part_of_the_places_and_no_more() {
    let ranks = 1 << 20;
    let mut objects = OwnObjects::default();
    let numbers: Vec<u32> = (0..16).map(|_| objects.make(SEMAPHORE, Rank(3), ranks).unwrap()).collect();
    assert!(numbers.iter().all(|&number| OwnNumber::of(number).unwrap().maker(ranks) == Rank(3)));
    assert_eq!(objects.make(SEMAPHORE, Rank(3), ranks), None);
    objects.remove(numbers[5]);
    assert!(objects.make(ObjectKind::Lock, Rank(3), ranks).is_some());
}

#[test]
fn lies_about_the_end_of_objects_are_refused() {
    let mut job = job(3);
    let object = job.make(0, ObjectKind::Lock);
    let gone = job.make(0, SEMAPHORE);
    job.tell(0, unmake(0, gone));
    job.tell(1, lock(1, object));
    let lies = [
        // To the manager.
        (0, 2, object, SyncBody::Unmade { ticket: 0, user: None }),
        (0, 2, object, SyncBody::Absent { ticket: 0 }),
        (0, 2, gone, SyncBody::Queued { ticket: 0 }),
        (0, 9, gone, SyncBody::Unmake { ticket: 0 }),
        // To others.
        (1, 0, object, SyncBody::Unmade { ticket: 1, user: None }),
        (1, 0, object, SyncBody::Absent { ticket: 1 }),
        (1, 2, object, SyncBody::Unmake { ticket: 1 }),
        (1, 0, u32::MAX, SyncBody::Absent { ticket: 0 }),
    ];
    for (to, from, object, body) in lies {
        let message = SyncMessage { epoch: job.nodes[to].epoch(), object, body };
        let before = format!("{:?}", job.nodes[to]);
        let told = job.nodes[to].handle(Input::Sync(Rank(from), message.clone()));
        assert!(told.is_err(), "rank {to} believes {message:?} of rank {from}");
        assert_eq!(format!("{:?}", job.nodes[to]), before);
    }
    assert_eq!(job.nodes[1].holder(object), Some(who(1)));
}
