//! The rules of all kinds of objects against the protocol's own node, which is asked the same; and threads
//! that crowd for objects.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use scash_proto::node::{Collective, Outcome};
use scash_proto::wire::sync::Request as NodeRequest;
use scash_proto::{Config, Input, Node, Output};
use std::collections::BTreeMap;
use std::thread;

/// The objects that there are, by number.
struct Few(Vec<ObjectKind>);

impl Around for Few {
    fn kind(&self, number: u32, kind: ObjectKind) -> Result<ObjectKind> {
        match self.0.get(number as usize) {
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

/// What one of the threads does.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(u32, Ask),
    GiveBack(u32, ObjectKind),
    Signal(u32, ObjectKind, Signal),
    Wait(u32),
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let locks = 0..2u32;
    let step = prop_oneof![
        4 => locks.clone().prop_map(|lock| Step::Ask(lock, Ask::Lock)),
        1 => locks.clone().prop_map(|lock| Step::Ask(lock, Ask::TryLock)),
        4 => locks.clone().prop_map(|lock| Step::GiveBack(lock, ObjectKind::Lock)),
        2 => Just(Step::Ask(RWLOCK, Ask::Read)),
        2 => Just(Step::Ask(RWLOCK, Ask::Write)),
        4 => Just(Step::GiveBack(RWLOCK, ObjectKind::RwLock)),
        2 => Just(Step::Ask(SEMAPHORE, Ask::Take)),
        2 => (1..3u32).prop_map(|n| Step::Signal(SEMAPHORE, ObjectKind::Semaphore(0), Signal::Post(n))),
        3 => locks.prop_map(Step::Wait),
        2 => Just(Step::Signal(CONDITION, ObjectKind::Condition, Signal::WakeOne)),
        1 => Just(Step::Signal(CONDITION, ObjectKind::Condition, Signal::WakeAll)),
        2 => (0..9u64).prop_map(|least| Step::Ask(FLAG, Ask::AtLeast(least))),
        1 => (0..9u64).prop_map(|to| Step::Signal(FLAG, ObjectKind::Flag, Signal::Raise(to))),
    ];
    vec((1..6u64, step), 0..120)
}

/// The only rank of a job, with the same objects.
struct Oracle(Node);

impl Oracle {
    fn new(few: &Few) -> Oracle {
        let config = Config { most_objects: MOST, ..Config::plain(Rank(0), 1, 4) };
        let mut oracle = Oracle(Node::new(config));
        for &kind in &few.0 {
            oracle.0.handle(Input::Arrive(Collective::Make(kind, 1))).unwrap();
            let outcome = oracle.run().1;
            assert!(matches!(outcome, Some(Outcome::Made(_))), "{outcome:?}");
        }
        oracle
    }

    /// Carries out what it orders. Returns the threads that have got what they asked for, or have not, and
    /// how a call has ended.
    fn run(&mut self) -> (BTreeMap<u64, bool>, Option<Outcome>) {
        let (mut answers, mut outcome) = (BTreeMap::new(), None);
        while let Some(order) = self.0.poll_output() {
            match order {
                Output::Flushed => self.0.handle(Input::Flushed).unwrap(),
                Output::Closed { .. } => self.0.handle(Input::Closed { behind: false }).unwrap(),
                Output::Acquired { who, .. } => drop(answers.insert(who, true)),
                Output::Refused { who, .. } => drop(answers.insert(who, false)),
                Output::Done(done) => outcome = Some(done),
                _ => {}
            }
        }
        (answers, outcome)
    }

    /// Whether a correct thread may do this now.
    fn may(&self, who: u64, step: Step) -> bool {
        match step {
            Step::Ask(lock, Ask::Lock | Ask::TryLock) => self.0.holder(lock) != Some(who),
            Step::Ask(object, Ask::Read | Ask::Write) => self.0.holding(object, who).is_none(),
            Step::GiveBack(lock, ObjectKind::Lock) | Step::Wait(lock) => self.0.holder(lock) == Some(who),
            Step::GiveBack(object, _) => self.0.holding(object, who).is_some(),
            Step::Ask(..) | Step::Signal(..) => true,
        }
    }

    fn make(&mut self, who: u64, step: Step) -> BTreeMap<u64, bool> {
        let request = |object, request| Input::Request { object, who, request };
        let input = match step {
            Step::Ask(lock, Ask::Lock) => Input::Acquire { lock, who },
            Step::Ask(lock, Ask::TryLock) => Input::TryAcquire { lock, who },
            Step::Ask(object, Ask::Read) => request(object, NodeRequest::Read),
            Step::Ask(object, Ask::Write) => request(object, NodeRequest::Write),
            Step::Ask(object, Ask::Take) => request(object, NodeRequest::Take),
            Step::Ask(object, Ask::AtLeast(least)) => request(object, NodeRequest::AtLeast(least)),
            Step::GiveBack(lock, ObjectKind::Lock) => Input::Release(lock),
            Step::GiveBack(object, _) => {
                let signal = self.0.holding(object, who).expect("the thread has it");
                Input::Signal { object, who, signal }
            }
            Step::Signal(object, _, signal) => Input::Signal { object, who, signal },
            Step::Wait(lock) => Input::Wait { condition: CONDITION, lock, who },
        };
        self.0.handle(input).unwrap();
        self.run().0
    }
}

fn rank_of(thread: u64) -> u32 {
    u32::from(thread.is_multiple_of(2))
}

/// Threads of two ranks, of which each does its steps here, where the others stand still meanwhile.
struct Threads {
    ranks: Vec<HostObjects>,
    around: Few,
    /// Those that wait: in which slots, and whether they keep them.
    waiting: BTreeMap<u64, (u32, bool)>,
}

impl Threads {
    /// Makes a step, and returns who has got what it asked for, or has not.
    fn make(&mut self, thread: u64, step: Step) -> Result<BTreeMap<u64, bool>> {
        let rank = rank_of(thread);
        let (objects, around) = (&self.ranks[rank as usize], &self.around);
        let me = ThreadId::new(rank, thread);
        let begun = match step {
            Step::Ask(object, ask) => Some(objects.begin(around, object, ask, me)?),
            Step::GiveBack(object, kind) => objects.end(around, object, kind, me).map(|()| None)?,
            Step::Signal(object, kind, signal) => {
                objects.let_go_on(around, object, kind, signal).map(|()| None)?
            }
            Step::Wait(lock) => {
                let slot = objects.begin_wait(around, CONDITION, lock, me)?;
                Some(CallStart::Waits { slot, keeps: false })
            }
        };
        let mut answers = BTreeMap::new();
        match begun {
            Some(CallStart::Granted) => drop(answers.insert(thread, true)),
            Some(CallStart::Refused) => drop(answers.insert(thread, false)),
            Some(CallStart::Waits { slot, keeps }) => drop(self.waiting.insert(thread, (slot, keeps))),
            None => {}
        }
        for (thread, (slot, keeps)) in std::mem::take(&mut self.waiting) {
            let objects = &self.ranks[rank_of(thread) as usize];
            if Parking::is_open(&objects.table().slot(slot).gate) {
                objects.wait_in(&self.around, slot, keeps)?;
                answers.insert(thread, true);
            } else {
                self.waiting.insert(thread, (slot, keeps));
            }
        }
        Ok(answers)
    }
}

proptest! {
    #[test]
    fn what_ranks_share_grants_what_the_protocol_grants_in_the_same_order(steps in steps()) {
        let mut oracle = Oracle::new(&few());
        let mut threads = Threads { ranks: ranks(2, false), around: few(), waiting: BTreeMap::new() };
        for (at, (thread, step)) in steps.into_iter().enumerate() {
            if threads.waiting.contains_key(&thread) {
                continue;
            }
            let may = oracle.may(thread, step);
            let answers = threads.make(thread, step);
            prop_assert_eq!(answers.is_ok(), may, "step {}: thread {} {:?}: {:?}", at, thread, step, answers);
            if may {
                let want = oracle.make(thread, step);
                prop_assert_eq!(answers.unwrap(), want, "step {}: thread {} {:?}", at, thread, step);
            }
            let mut known: Vec<_> = threads.ranks.iter().flat_map(Objects::activities).collect();
            known.sort_unstable();
            prop_assert_eq!(known, oracle.0.activities().threads);
            let used = threads.ranks.iter().filter_map(|r| r.in_use_of(&threads.around, 1..5).unwrap());
            let used = used.map(|used| (used.object, used.relation)).min();
            prop_assert_eq!(used, oracle.0.in_use(1..5).map(|used| (used.object, used.relation)));
            let awaited = threads.ranks.iter().any(|objects| objects.awaited().is_some());
            prop_assert_eq!(awaited, oracle.0.awaited().is_some());
        }
    }
}

/// As many ranks as there are threads, which map one file.
fn ranks(count: u32, cores_are_scarce: bool) -> Vec<HostObjects> {
    let mut all: Vec<HostObjects> =
        (0..count).map(|rank| HostObjects::new(rank, count, cores_are_scarce).unwrap()).collect();
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
    let objects = HostObjects::new(0, 1, false).unwrap();
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
    let objects = HostObjects::new(0, 1, false).unwrap();
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
    let objects = HostObjects::new(0, 1, false).unwrap();
    while objects.slots.take().is_some() {}
    let refused = objects.begin(&few(), RWLOCK, Ask::Read, objects.me()).unwrap_err().to_string();
    assert!(refused.contains("more than 65536 threads of this rank wait"), "{refused}");
    assert!(objects.asks(RWLOCK, Ask::Write), "and what needs no slot is granted");
}
