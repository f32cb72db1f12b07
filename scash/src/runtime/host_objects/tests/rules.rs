//! The rules of all kinds of objects against the protocol's own node, which is asked the same.

use super::super::own::EndStart;
use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use scash_proto::node::{Collective, Outcome};
use scash_proto::wire::sync::Request as NodeRequest;
use scash_proto::{Config, Input, Node, Output};
use std::collections::BTreeMap;

/// What one of the threads does.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(u32, Ask),
    GiveBack(u32, ObjectKind),
    Signal(u32, ObjectKind, Signal),
    Wait(u32),
    /// Destroys an object that one rank has made; and, if that is done, makes another one in its place.
    Unmake(u32),
}

/// What a thread is told.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Got,
    Refused,
    Ended,
    Kept(Rank),
    Absent,
}

fn step() -> impl Strategy<Value = Step> {
    let locks = 0..2u32;
    prop_oneof![
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
    ]
}

/// Steps of a few threads.
fn steps(step: impl Strategy<Value = Step>) -> impl Strategy<Value = Vec<(u64, Step)>> {
    vec((1..6u64, step), 0..120)
}

/// Steps of which every fifth destroys an object.
fn steps_and_ends() -> impl Strategy<Value = Vec<(u64, Step)>> {
    steps(prop_oneof![4 => step(), 1 => (0..6u32).prop_map(Step::Unmake)])
}

/// The only rank of a job, with the same objects.
struct Oracle {
    node: Node,
    /// Their numbers.
    numbers: Vec<u32>,
}

impl Oracle {
    fn new(few: &Few) -> Oracle {
        let config = Config { most_objects: MOST, ..Config::plain(Rank(0), 1, 4) };
        let mut oracle = Oracle { node: Node::new(config), numbers: (0..6).collect() };
        for &kind in &few.0 {
            oracle.node.handle(Input::Arrive(Collective::Make(kind, 1))).unwrap();
            let outcome = oracle.run().1;
            assert!(matches!(outcome, Some(Outcome::Made(_))), "{outcome:?}");
        }
        oracle
    }

    /// With objects that single ranks make.
    fn with_own(few: &Few) -> Oracle {
        let mut oracle = Oracle::new(few);
        oracle.numbers = few.0.iter().map(|&kind| oracle.node.make_own(kind).unwrap()).collect();
        oracle
    }

    /// Carries out what it orders. Returns the threads that have got what they asked for, or have not, and
    /// how a call has ended.
    fn run(&mut self) -> (BTreeMap<u64, Told>, Option<Outcome>) {
        let (mut answers, mut outcome) = (BTreeMap::new(), None);
        while let Some(order) = self.node.poll_output() {
            match order {
                Output::Flushed => self.node.handle(Input::Flushed).unwrap(),
                Output::Closed { .. } => self.node.handle(Input::Closed { behind: false }).unwrap(),
                Output::Acquired { who, .. } => answers.extend([(who, Told::Got)]),
                Output::Refused { who, .. } => answers.extend([(who, Told::Refused)]),
                Output::Absent { who, .. } => answers.extend([(who, Told::Absent)]),
                Output::Unmade { who, user, .. } => {
                    answers.extend([(who, user.map_or(Told::Ended, Told::Kept))]);
                }
                Output::Done(done) => outcome = Some(done),
                _ => {}
            }
        }
        (answers, outcome)
    }

    /// Whether a correct thread may do this now.
    fn may(&self, who: u64, step: Step) -> bool {
        let number = |object: u32| self.numbers[object as usize];
        let has_lock = |object| self.node.holder(number(object)) == Some(who);
        let has_rwlock = |object| self.node.holding(number(object), who).is_some();
        match step {
            Step::Ask(lock, Ask::Lock | Ask::TryLock) => !has_lock(lock),
            Step::Ask(object, Ask::Read | Ask::Write) => !has_rwlock(object),
            Step::GiveBack(lock, ObjectKind::Lock) | Step::Wait(lock) => has_lock(lock),
            Step::GiveBack(object, _) => has_rwlock(object),
            Step::Unmake(object) => !has_lock(object) && !has_rwlock(object),
            Step::Ask(..) | Step::Signal(..) => true,
        }
    }

    fn make(&mut self, who: u64, step: Step) -> BTreeMap<u64, Told> {
        let number = |object: u32| self.numbers[object as usize];
        let request = |object, request| Input::Request { object: number(object), who, request };
        let input = match step {
            Step::Ask(lock, Ask::Lock) => Input::Acquire { lock: number(lock), who },
            Step::Ask(lock, Ask::TryLock) => Input::TryAcquire { lock: number(lock), who },
            Step::Ask(object, Ask::Read) => request(object, NodeRequest::Read),
            Step::Ask(object, Ask::Write) => request(object, NodeRequest::Write),
            Step::Ask(object, Ask::Take) => request(object, NodeRequest::Take),
            Step::Ask(object, Ask::AtLeast(least)) => request(object, NodeRequest::AtLeast(least)),
            Step::GiveBack(lock, ObjectKind::Lock) => Input::Release(number(lock)),
            Step::GiveBack(object, _) => {
                let object = number(object);
                let signal = self.node.holding(object, who).expect("the thread has it");
                Input::Signal { object, who, signal }
            }
            Step::Signal(object, _, signal) => Input::Signal { object: number(object), who, signal },
            Step::Wait(lock) => Input::Wait { condition: number(CONDITION), lock: number(lock), who },
            Step::Unmake(object) => Input::Unmake { object: number(object), who },
        };
        self.node.handle(input).unwrap();
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
    /// The numbers of the objects.
    numbers: Vec<u32>,
    /// Those that wait: in which slots, and for what.
    waiting: BTreeMap<u64, (u32, Then)>,
}

/// What a thread does when its gate is open.
#[derive(Debug)]
enum Then {
    /// It goes on, and whether it keeps its slot.
    GoesOn(bool),
    /// It takes its lock again.
    HasLock(u32),
    /// It destroys the object of that number.
    Ends(u32),
}

impl Threads {
    /// Makes a step, and returns who has got what it asked for, or has not.
    fn make(&mut self, thread: u64, step: Step) -> Result<BTreeMap<u64, Told>> {
        let rank = rank_of(thread);
        let (objects, around) = (&self.ranks[rank as usize], &self.around);
        let me = ThreadId::new(rank, thread);
        let number = |object: u32| self.numbers[object as usize];
        let mut answers = BTreeMap::new();
        let mut wait = |slot, then| self.waiting.extend([(thread, (slot, then))]);
        match step {
            Step::Ask(object, ask) => match objects.begin(around, number(object), ask, me)? {
                CallStart::Granted => answers.extend([(thread, Told::Got)]),
                CallStart::Refused => answers.extend([(thread, Told::Refused)]),
                CallStart::Waits { slot, keeps } => wait(slot, Then::GoesOn(keeps)),
            },
            Step::GiveBack(object, kind) => objects.end(around, number(object), kind, me)?,
            Step::Signal(object, kind, signal) => objects.let_go_on(around, number(object), kind, signal)?,
            Step::Wait(lock) => {
                let lock = number(lock);
                wait(objects.begin_wait(around, number(CONDITION), lock, me)?, Then::HasLock(lock));
            }
            Step::Unmake(object) => {
                let number = number(object);
                match objects.begin_end(around, number, few().0[object as usize], me)? {
                    EndStart::Over(user) => answers.extend([(thread, ended(user))]),
                    EndStart::Taken => answers.extend([(thread, ended(objects.end_owned(around, number)?))]),
                    EndStart::Waits(slot) => wait(slot, Then::Ends(number)),
                }
            }
        }
        self.go_on(&mut answers)?;
        Ok(answers)
    }

    /// Those go on whose gates are open.
    fn go_on(&mut self, answers: &mut BTreeMap<u64, Told>) -> Result<()> {
        let mut moved = true;
        while std::mem::take(&mut moved) {
            for (thread, (slot, then)) in std::mem::take(&mut self.waiting) {
                let objects = &self.ranks[rank_of(thread) as usize];
                if !Parking::is_open(&objects.table().slot(slot).gate) {
                    self.waiting.insert(thread, (slot, then));
                    continue;
                }
                moved = true;
                let told = match then {
                    Then::GoesOn(keeps) => objects.wait_in(&self.around, slot, keeps).map(|()| Told::Got)?,
                    Then::HasLock(lock) => match objects.wait_for_lock(&self.around, slot, lock) {
                        Ok(()) => Told::Got,
                        Err(_) => Told::Absent,
                    },
                    Then::Ends(number) => {
                        objects.wait_in(&self.around, slot, false)?;
                        ended(objects.end_owned(&self.around, number)?)
                    }
                };
                answers.insert(thread, told);
            }
        }
        Ok(())
    }

    /// As [`Oracle::with_own`], with the same numbers.
    fn with_own(oracle: &Oracle) -> Threads {
        let threads = Threads {
            ranks: ranks(2, false),
            around: few(),
            numbers: oracle.numbers.clone(),
            waiting: BTreeMap::new(),
        };
        for (&number, kind) in oracle.numbers.iter().zip(few().0) {
            threads.ranks[0].begin_own_with(&threads.around, number, kind).unwrap();
        }
        threads
    }

    /// Makes others in place of those objects that are no more, at both.
    fn make_again(&mut self, oracle: &mut Oracle) {
        for (at, kind) in few().0.into_iter().enumerate() {
            if oracle.node.kind(oracle.numbers[at]).is_none() {
                let number = oracle.node.make_own(kind).unwrap();
                (oracle.numbers[at], self.numbers[at]) = (number, number);
                self.ranks[at % 2].begin_own_with(&self.around, number, kind).unwrap();
            }
        }
    }
}

fn ended(user: Option<Rank>) -> Told {
    // The oracle's threads are of one rank.
    user.map_or(Told::Ended, |_| Told::Kept(Rank(0)))
}

/// A thread that does not wait makes its step number `at` here and there: both tell the same, and then know
/// the same of what threads do.
fn same(
    threads: &mut Threads,
    oracle: &mut Oracle,
    at: usize,
    thread: u64,
    step: Step,
) -> std::result::Result<(), TestCaseError> {
    if threads.waiting.contains_key(&thread) {
        return Ok(());
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
    prop_assert_eq!(known, oracle.node.activities().threads);
    let awaited = threads.ranks.iter().any(|objects| objects.awaited().is_some());
    prop_assert_eq!(awaited, oracle.node.awaited().is_some());
    Ok(())
}

proptest! {
    #[test]
    fn what_single_ranks_make_and_destroy_is_the_same_on_words_as_by_the_protocol(steps in steps_and_ends()) {
        let mut oracle = Oracle::with_own(&few());
        let mut threads = Threads::with_own(&oracle);
        for (at, (thread, step)) in steps.into_iter().enumerate() {
            same(&mut threads, &mut oracle, at, thread, step)?;
            threads.make_again(&mut oracle);
        }
        // Each rank finds those of its objects that are no more, and keeps the others.
        for objects in &threads.ranks {
            (0..120).for_each(|_| drop(objects.find_gone(false)));
        }
        let mut left: Vec<u32> = threads.ranks.iter().flat_map(|objects| objects.made_here.numbers()).collect();
        left.sort_unstable();
        oracle.numbers.sort_unstable();
        prop_assert_eq!(left, oracle.numbers);
    }

    #[test]
    fn what_ranks_share_grants_what_the_protocol_grants_in_the_same_order(steps in steps(step())) {
        let mut oracle = Oracle::new(&few());
        let (around, numbers) = (few(), oracle.numbers.clone());
        let mut threads = Threads { ranks: ranks(2, false), around, numbers, waiting: BTreeMap::new() };
        for (at, (thread, step)) in steps.into_iter().enumerate() {
            same(&mut threads, &mut oracle, at, thread, step)?;
            let used = threads.ranks.iter().filter_map(|r| r.in_use_of(&threads.around, 1..5).unwrap());
            let used = used.map(|used| (used.object, used.relation)).min();
            prop_assert_eq!(used, oracle.node.in_use(1..5).map(|used| (used.object, used.relation)));
        }
    }
}
