//! Threads that crowd for objects, and what the rules of all kinds of objects are compared with (`rules`).

mod rules;

use super::record::encode_kind;
use super::*;
use scash_proto::node::OwnNumber;
use std::thread;

/// The objects that there are, by number.
struct Few(Vec<ObjectKind>);

impl Around for Few {
    fn kind(&self, number: u32, kind: ObjectKind) -> Result<ObjectKind> {
        let own = OwnNumber::of(number).and_then(OwnNumber::kind);
        match self.0.get(number as usize).or(own.as_ref()) {
            Some(&found) if encode_kind(found) == encode_kind(kind) => Ok(found),
            _ => Err(Error::Argument(format!("{number} is no {kind:?}"))),
        }
    }

    fn look(&self, _: &mut Option<WaitTimer>) -> Result<()> {
        Ok(())
    }
}

/// Two locks, a reader–writer lock, a semaphore of one, a condition and a flag.
fn few() -> Few {
    use ObjectKind::{Condition, Flag, Lock, RwLock, Semaphore};
    Few(vec![Lock, Lock, RwLock, Semaphore(1), Condition, Flag])
}

const RWLOCK: u32 = 2;
const SEMAPHORE: u32 = 3;
const CONDITION: u32 = 4;
const FLAG: u32 = 5;

/// As many ranks as there are threads, which map one file.
fn ranks(count: u32, cores_are_scarce: bool) -> Vec<HostObjects> {
    let mut all: Vec<HostObjects> =
        (0..count).map(|rank| HostObjects::new(rank, count, cores_are_scarce, true).unwrap()).collect();
    let file = all[0].fd().try_clone_to_owned().unwrap();
    for objects in &mut all[1..] {
        objects.adopt(file.try_clone().unwrap()).unwrap();
    }
    all
}

impl HostObjects {
    fn asks(&self, number: u32, ask: Ask) -> bool {
        match self.begin(&few(), number, ask, self.me()).unwrap() {
            CallStart::Waits { slot, keeps } => self.wait_in(&few(), slot, keeps).map(|()| true).unwrap(),
            begun => begun == CallStart::Granted,
        }
    }

    fn ends(&self, number: u32, kind: ObjectKind) {
        self.end(&few(), number, kind, self.me()).unwrap();
    }

    fn signals(&self, number: u32, kind: ObjectKind, signal: Signal) {
        self.let_go_on(&few(), number, kind, signal).unwrap();
    }

    fn waits_for_condition(&self, lock: u32) {
        let slot = self.begin_wait(&few(), CONDITION, lock, self.me()).unwrap();
        self.wait_in(&few(), slot, false).unwrap();
    }
}

/// A value without any lock of its own: two threads at it at once are a data race.
struct Plain(std::cell::UnsafeCell<u64>);

// SAFETY: the tests see to it that one thread is at it, or that all that are only read.
unsafe impl Sync for Plain {}

impl Plain {
    fn new() -> Plain {
        Plain(std::cell::UnsafeCell::new(0))
    }

    fn get(&self) -> u64 {
        // SAFETY: nobody writes now: that is what is tested.
        unsafe { *self.0.get() }
    }

    fn set(&self, value: u64) {
        // SAFETY: nobody else is at it now: that is what is tested.
        unsafe { *self.0.get() = value }
    }
}

const CROWD: u32 = 4;

/// Runs a thread of each of some ranks, where each has a core, and where cores are scarce.
fn crowd(run: impl Fn(&HostObjects) + Sync) {
    for scarce in [false, true] {
        let all = ranks(CROWD, scarce);
        thread::scope(|scope| {
            for objects in &all {
                let run = &run;
                scope.spawn(move || run(objects));
            }
        });
        assert!(all.iter().all(|objects| objects.activities().is_empty()), "something is held or awaited");
    }
}

#[test]
fn threads_of_all_ranks_have_a_lock_one_after_the_other() {
    let value = Plain::new();
    crowd(|objects| {
        for turn in 0..2_000 {
            if turn % 3 == 0 {
                while !objects.asks(0, Ask::TryLock) {
                    thread::yield_now();
                }
            } else {
                objects.asks(0, Ask::Lock);
            }
            value.set(value.get() + 1);
            objects.ends(0, ObjectKind::Lock);
        }
    });
    assert_eq!(value.get(), 2 * 2_000 * u64::from(CROWD));
}

#[test]
fn who_writes_is_alone_and_who_reads_sees_what_was_written_last() {
    let value = [Plain::new(), Plain::new()];
    crowd(|objects| {
        for turn in 0..1_000 {
            if turn % 4 == 0 {
                objects.asks(RWLOCK, Ask::Write);
                let next = value[0].get() + 1;
                value.iter().for_each(|one| one.set(next));
            } else {
                objects.asks(RWLOCK, Ask::Read);
                assert_eq!(value[0].get(), value[1].get());
            }
            objects.ends(RWLOCK, ObjectKind::RwLock);
        }
    });
    assert_eq!(value[1].get(), 2 * 250 * u64::from(CROWD));
}

#[test]
fn what_is_posted_is_taken_once_and_what_was_written_before_is_seen() {
    let value = Plain::new();
    crowd(|objects| {
        for _ in 0..1_000 {
            objects.asks(SEMAPHORE, Ask::Take);
            value.set(value.get() + 1);
            objects.signals(SEMAPHORE, ObjectKind::Semaphore(0), Signal::Post(1));
        }
    });
    assert_eq!(value.get(), 2 * 1_000 * u64::from(CROWD));
}

/// Ranks take turns: each waits under the lock until the turn is its own, and a signal is for all.
#[test]
fn no_signal_of_a_condition_is_lost_that_is_given_under_the_lock() {
    let turn = Plain::new();
    crowd(|objects| {
        for _ in 0..300 {
            objects.asks(0, Ask::Lock);
            while turn.get() % u64::from(CROWD) != u64::from(objects.rank) {
                objects.waits_for_condition(0);
            }
            turn.set(turn.get() + 1);
            objects.signals(CONDITION, ObjectKind::Condition, Signal::WakeAll);
            objects.ends(0, ObjectKind::Lock);
        }
    });
    assert_eq!(turn.get(), 2 * 300 * u64::from(CROWD));
}

#[test]
fn a_flag_lets_all_go_on_that_wait_for_less_and_what_was_written_before_is_seen() {
    for scarce in [false, true] {
        let (all, value) = (ranks(CROWD, scarce), Plain::new());
        thread::scope(|scope| {
            for objects in &all {
                let value = &value;
                scope.spawn(move || {
                    for turn in 0..400u64 {
                        objects.asks(FLAG, Ask::AtLeast(turn));
                        if turn % u64::from(CROWD) == u64::from(objects.rank) {
                            assert_eq!(value.get(), turn);
                            value.set(turn + 1);
                            objects.signals(FLAG, ObjectKind::Flag, Signal::Raise(turn + 1));
                        }
                    }
                });
            }
        });
        assert_eq!(value.get(), 400);
    }
}

#[test]
fn while_a_rank_is_in_a_collective_call_its_threads_are_refused_and_those_of_others_are_not() {
    let all = ranks(2, false);
    let lock = |rank: usize| all[rank].begin(&few(), 0, Ask::Lock, all[rank].me());
    all[0].meets(true);
    assert!(lock(0).unwrap_err().to_string().contains("in a collective call"));
    assert_eq!(lock(1).unwrap(), CallStart::Granted);
    all[0].meets(false);
    assert!(matches!(lock(0).unwrap(), CallStart::Waits { .. }));
    assert_eq!(all[0].awaited(), Some(0));
    all[1].ends(0, ObjectKind::Lock);
    all[0].meets(true);
    assert!(all[0].awaited().is_none(), "the lock has come");
}

/// Its object is there, but it has not seen that yet: its process is not saved as it is.
#[test]
fn a_thread_that_has_waited_is_on_its_way_out_until_it_has_given_its_slot_back() {
    let all = ranks(2, false);
    assert!(all[1].asks(0, Ask::Lock));
    let Ok(CallStart::Waits { slot, keeps }) = all[0].begin(&few(), 0, Ask::Lock, all[0].me()) else {
        panic!("the other rank has it");
    };
    all[1].ends(0, ObjectKind::Lock);
    all[0].meets(true);
    assert_eq!((all[0].awaited(), all[0].has_leavers(), all[1].has_leavers()), (None, true, false));
    all[0].wait_in(&few(), slot, keeps).unwrap();
    assert!(!all[0].has_leavers());
}

/// Words may be saved when a rank has come to a collective call: nobody has a guard then.
#[test]
fn a_rank_comes_to_a_collective_call_when_none_of_its_threads_is_at_the_words() {
    let objects = HostObjects::new(0, 1, false, true).unwrap();
    thread::scope(|scope| {
        let user = objects.users.come();
        let guarded = objects.enter(&few(), 0, ObjectKind::Lock).unwrap();
        let meets = scope.spawn(|| {
            objects.meets(true);
            objects.table().records[0].guard.load(SeqCst)
        });
        while !objects.meeting.load(SeqCst) {
            thread::yield_now();
        }
        thread::sleep(std::time::Duration::from_millis(20));
        assert!(!meets.is_finished());
        drop((guarded, user));
        assert_eq!(meets.join().unwrap(), 0);
    });
    objects.table().records[1].guard.store(1, SeqCst);
    assert!(objects.begin_own_with(&few(), 1, ObjectKind::Lock).is_err(), "the rank meets");
    // One that has waited, and that nothing stops any more, is on its way out.
    let user = objects.users.come();
    assert!(objects.has_leavers());
    drop(user);
    assert!(!objects.has_leavers());
}

/// A wait that is refused leaves nothing behind: the thread has the lock still, and nobody waits.
#[test]
fn a_wait_that_is_refused_leaves_the_lock_and_no_trace() {
    let all = ranks(2, false);
    let (me, other) = (&all[0], &all[1]);
    assert!(me.asks(0, Ask::Lock));
    me.meets(true);
    let refused = me.begin_wait(&few(), CONDITION, 0, me.me()).unwrap_err().to_string();
    assert!(refused.contains("in a collective call"), "{refused}");
    me.meets(false);
    while me.slots.take().is_some() {}
    let refused = me.begin_wait(&few(), CONDITION, 0, me.me()).unwrap_err().to_string();
    assert!(refused.contains("more than 65536 threads"), "{refused}");
    assert_eq!((me.awaited(), me.waiting.load(SeqCst)), (None, 0));
    other.signals(CONDITION, ObjectKind::Condition, Signal::WakeAll);
    me.ends(0, ObjectKind::Lock);
    assert!(other.asks(0, Ask::TryLock), "nobody was let go on");
}

/// A collective call may begin between the look at an object and the slot at which a thread would wait for
/// it: what is destroyed in that call is not in use because of the slot.
#[test]
fn a_wait_that_a_collective_call_refuses_leaves_no_slot() {
    let objects = HostObjects::new(0, 1, false, true).unwrap();
    objects.meets(true);
    let refused = objects.sit(SEMAPHORE, ObjectKind::Semaphore(0), Request::Take, objects.me());
    assert!(refused.unwrap_err().to_string().contains("in a collective call"));
    assert_eq!((objects.awaited(), objects.waiting.load(SeqCst)), (None, 0));
    assert_eq!((objects.activities(), objects.in_use_of(&few(), 0..6).unwrap()), (Vec::new(), None));
}

/// An object that is destroyed while a thread comes to it for the first time does not come alive again.
#[test]
fn what_is_destroyed_meanwhile_is_looked_up_again() {
    struct Late<'a>(&'a HostObjects, AtomicBool);
    impl Around for Late<'_> {
        fn kind(&self, number: u32, kind: ObjectKind) -> Result<ObjectKind> {
            if self.1.swap(true, SeqCst) {
                return Err(Error::Argument(format!("{number} was destroyed")));
            }
            self.0.forget(0..1)?;
            Ok(kind)
        }

        fn look(&self, _: &mut Option<WaitTimer>) -> Result<()> {
            Ok(())
        }
    }
    let objects = HostObjects::new(0, 1, false, true).unwrap();
    let late = Late(&objects, AtomicBool::new(false));
    let refused = objects.begin(&late, 0, Ask::Lock, objects.me()).unwrap_err().to_string();
    assert!(refused.contains("was destroyed"), "{refused}");
    assert_eq!(objects.activities(), []);
}

/// A rank that died left the guard taken: whatever another one does with the object fails when it looks.
#[test]
fn who_comes_to_a_guard_of_a_rank_that_is_gone_is_told() {
    struct Gone;
    impl Around for Gone {
        fn kind(&self, _: u32, kind: ObjectKind) -> Result<ObjectKind> {
            Ok(kind)
        }

        fn look(&self, _: &mut Option<WaitTimer>) -> Result<()> {
            Err(Error::Lost { rank: 1, why: String::new() })
        }
    }
    let all = ranks(2, true);
    let (dead, me) = (&all[1], &all[0]);
    assert!(dead.asks(0, Ask::Lock) && dead.asks(1, Ask::Lock) && me.asks(2, Ask::Write));
    for number in 0..6 {
        dead.table().records[number].guard.store(1, SeqCst);
    }
    let gone = |ended: Result<()>| assert!(matches!(ended, Err(Error::Lost { rank: 1, .. })), "{ended:?}");
    gone(me.begin(&Gone, 0, Ask::Lock, me.me()).map(drop));
    gone(me.end(&Gone, RWLOCK, ObjectKind::RwLock, me.me()));
    gone(me.let_go_on(&Gone, SEMAPHORE, ObjectKind::Semaphore(0), Signal::Post(1)));
    gone(me.let_go_on(&Gone, CONDITION, ObjectKind::Condition, Signal::WakeAll));
    gone(me.begin_wait(&Gone, CONDITION, 0, me.me()).map(drop));
    gone(me.in_use_of(&Gone, 0..1).map(drop));
}

#[test]
fn a_rank_that_has_no_slots_left_is_told_so() {
    let objects = HostObjects::new(0, 1, false, true).unwrap();
    while objects.slots.take().is_some() {}
    let refused = objects.begin(&few(), RWLOCK, Ask::Read, objects.me()).unwrap_err().to_string();
    assert!(refused.contains("more than 65536 threads of this rank wait"), "{refused}");
    assert!(objects.asks(RWLOCK, Ask::Write), "and what needs no slot is granted");
}
