//! What random programs do with objects of synchronisation.
//!
//! **Critical sections**: each piece of an area belongs to a lock, a reader–writer lock or a semaphore with a
//! count of one, and is used by whoever has that. At times a thread walks through locks in the order of their
//! numbers.
//!
//! **Batons**: some pieces of an area go from thread to thread. Each writes and reads them, and lets the next
//! go on: by a semaphore, a flag, or a condition. The last ones, of which there may be several, only read.
//! Each thread takes part in the order in which the batons were drawn, so no two wait for each other.

use super::RandomProgram;
use super::character::Character;
use super::destroy::Ends;
use super::own::Own;
use crate::program::Op;
use crate::rng::Rng;
use scash_proto::Pages;
use scash_proto::node::{Collective, ObjectKind, Outcome};
use scash_proto::wire::sync::{Request, Signal};
use std::collections::BTreeMap;

/// The objects of a program.
pub(super) struct Objects {
    /// How many of each kind it will have, in the order in which they are made.
    pub(super) kinds: [(ObjectKind, u32); KINDS],
    /// How many kinds have been made.
    made: usize,
    /// The numbers of those that are there, by kind.
    pub(super) there: [Vec<u32>; KINDS],
    /// How many numbers were given.
    pub(super) given: u32,
    pub(super) own: Own,
    /// What each flag was raised to.
    raised: BTreeMap<u32, u64>,
    /// Events that conditions were for.
    events: u32,
    pub(super) ends: Ends,
    walks: Walks,
}

/// How threads walk through locks. With chances of its own, so that programs are the same but for this.
struct Walks {
    rng: Rng,
    /// How many, in a hundred, of the threads with critical sections do.
    often: u32,
}

impl Walks {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::part(seed, 18);
        let often = rng.pick(&[0, 0, 20, 100]);
        Walks { rng, often }
    }
}

pub(super) const KINDS: usize = 6;

/// Kinds that critical sections use.
const GUARDS: usize = 3;
const LOCKS: usize = 0;
const SEMAPHORES: usize = 3;
const CONDITIONS: usize = 4;
const FLAGS: usize = 5;

/// Operations that belong together, in each thread of each rank.
pub(super) type Units = Vec<Vec<Vec<Vec<Op>>>>;

/// Objects that no other baton uses in this interval.
pub(super) struct Free {
    semaphores: Vec<u32>,
    conditions: Vec<u32>,
    flags: Vec<u32>,
}

impl Objects {
    pub(super) fn new(rng: &mut Rng, seed: u64) -> Self {
        let mut kinds = [
            ObjectKind::Lock,
            ObjectKind::RwLock,
            ObjectKind::Semaphore(1),
            ObjectKind::Semaphore(0),
            ObjectKind::Condition,
            ObjectKind::Flag,
        ]
        .map(|kind| (kind, rng.pick(&[0, 1, 3, 17])));
        if rng.chance(40) {
            kinds = kinds.map(|(kind, _)| (kind, 0));
            kinds[LOCKS].1 = rng.pick(&[0, 0, 1, 3, 40]);
        }
        Objects {
            kinds,
            made: 0,
            there: Default::default(),
            given: 0,
            raised: BTreeMap::new(),
            events: 0,
            own: Own::new(seed),
            ends: Ends::new(seed),
            walks: Walks::new(seed),
        }
    }

    /// The call that makes the next objects, and its outcome.
    pub(super) fn make(&mut self) -> Option<(Collective, Outcome)> {
        while let Some(&(_, count)) = self.kinds.get(self.made) {
            self.made += 1;
            if count > 0 {
                return Some(self.make_some(self.made - 1, count));
            }
        }
        None
    }

    /// The call that makes some of a kind.
    pub(super) fn make_some(&mut self, kind: usize, count: u32) -> (Collective, Outcome) {
        let first = self.given;
        self.given += count;
        self.there[kind].extend(first..self.given);
        (Collective::Make(self.kinds[kind].0, count), Outcome::Made(first))
    }

    /// Number of objects that critical sections can use.
    pub(super) fn guards(&self) -> u32 {
        (0..GUARDS).map(|kind| count(&self.of(kind))).sum()
    }

    /// The objects of a kind, whoever has made them.
    fn of(&self, kind: usize) -> Vec<u32> {
        [&self.there[kind][..], &self.own.there[kind]].concat()
    }

    /// One of these objects, and what it is.
    fn guard(&self, mut at: u32) -> (u32, ObjectKind) {
        for (which, &(kind, _)) in self.kinds.iter().enumerate() {
            let numbers = self.of(which);
            if let Some(&number) = numbers.get(at as usize) {
                return (number, kind);
            }
            at -= count(&numbers);
        }
        unreachable!("guards are counted")
    }

    /// Whether there is anything that batons can go by.
    pub(super) fn has_batons(&self) -> bool {
        self.made > SEMAPHORES && !self.free().is_empty()
    }

    pub(super) fn free(&self) -> Free {
        let conditions = if self.of(LOCKS).is_empty() { Vec::new() } else { self.of(CONDITIONS) };
        Free { semaphores: self.of(SEMAPHORES), conditions, flags: self.of(FLAGS) }
    }
}

fn count(numbers: &[u32]) -> u32 {
    u32::try_from(numbers.len()).unwrap_or(u32::MAX)
}

impl Free {
    fn is_empty(&self) -> bool {
        self.semaphores.is_empty() && self.conditions.is_empty() && self.flags.is_empty()
    }
}

impl RandomProgram {
    /// Critical sections of an area whose pieces are protected by locks and the like.
    pub(super) fn sections(&mut self, pages: Pages, c: &Character, sections: &mut Units) {
        let (cells, guards) = (pages.count * c.pieces, self.objects.guards());
        for threads in sections {
            if !self.rng.chance(c.locked) {
                continue;
            }
            let walk = self.walk();
            if !walk.is_empty() {
                let thread = self.rng.below(self.threads) as usize;
                threads[thread].push(self.walk_through(pages, c, &walk));
            }
            for _ in 0..self.rng.between(1, 4) {
                let thread = self.rng.below(self.threads) as usize;
                let guard = self.rng.below(guards);
                let (object, kind) = self.objects.guard(guard);
                let (enter, leave) = self.enter(c, object, kind);
                let mut section = vec![enter];
                // Pieces are dealt out to the guards in turns.
                let first = self.rng.below(cells);
                let mine = (first..cells).chain(0..first).filter(|cell| cell % guards == guard);
                for cell in mine.take(self.rng.between(1, 5) as usize).collect::<Vec<_>>() {
                    self.visit(pages, c, cell, leave == Op::Signal(object, Signal::HasRead), &mut section);
                }
                section.push(leave);
                threads[thread].push(section);
            }
        }
    }

    /// The locks that a thread walks through: some, each so many after the one before, up or down.
    fn walk(&mut self) -> Vec<u32> {
        let (locks, Walks { rng, often }) = (self.objects.of(LOCKS), &mut self.objects.walks);
        if locks.len() < 3 || !rng.chance(*often) {
            return Vec::new();
        }
        let (step, most) = (rng.pick(&[1, 1, 1, 2, 3]), rng.between(3, 20));
        let first = rng.below(count(&locks) / 2);
        let mut walk: Vec<u32> = (first..count(&locks)).step_by(step).take(most as usize).collect();
        if rng.chance(30) {
            walk.reverse();
        }
        walk
    }

    /// A critical section of each lock of a walk, one after the other.
    fn walk_through(&mut self, pages: Pages, c: &Character, walk: &[u32]) -> Vec<Op> {
        let (cells, guards) = (pages.count * c.pieces, self.objects.guards());
        let mut sections = Vec::new();
        for &guard in walk {
            let (object, kind) = self.objects.guard(guard);
            let (enter, leave) = self.enter(c, object, kind);
            sections.push(enter);
            for cell in (guard..cells).step_by(guards as usize).take(2) {
                self.visit(pages, c, cell, false, &mut sections);
            }
            sections.push(leave);
        }
        sections
    }

    /// How a critical section begins and ends.
    fn enter(&mut self, c: &Character, guard: u32, kind: ObjectKind) -> (Op, Op) {
        match kind {
            ObjectKind::RwLock if self.rng.chance(50) => {
                (Op::Request(guard, Request::Read), Op::Signal(guard, Signal::HasRead))
            }
            ObjectKind::RwLock => (Op::Request(guard, Request::Write), Op::Signal(guard, Signal::HasWritten)),
            ObjectKind::Semaphore(_) => {
                (Op::Request(guard, Request::Take), Op::Signal(guard, Signal::Post(1)))
            }
            _ if self.rng.chance(c.tried) => (Op::TryLock(guard), Op::Unlock(guard)),
            _ => (Op::Lock(guard), Op::Unlock(guard)),
        }
    }

    /// Reads and writes a piece that nobody else uses now.
    fn visit(&mut self, pages: Pages, c: &Character, cell: u32, reads: bool, unit: &mut Vec<Op>) {
        let Some(span) = self.span(pages, c, cell) else { return };
        let salt = self.rng.bits().to_le_bytes()[0];
        for part in self.rng.cut(span) {
            match self.rng.below(4) {
                _ if reads => unit.push(Op::Read(part)),
                0 => unit.push(Op::Read(part)),
                1 if self.rng.chance(c.silent) => unit.push(Op::Rewrite(part)),
                2 if self.rng.chance(c.flickers) => unit.push(Op::Flicker(part, salt)),
                1 => unit.push(Op::Write(part, salt)),
                _ => unit.extend([Op::Read(part), Op::Write(part, salt), Op::Read(part)]),
            }
        }
    }

    /// Batons with pieces of an area.
    pub(super) fn batons(&mut self, pages: Pages, c: &Character, free: &mut Free, units: &mut Units) {
        let cells = pages.count * c.pieces;
        let batons = self.rng.between(1, 3).min(cells);
        for baton in 0..batons {
            let first = self.rng.below(cells);
            let mine = (first..cells).chain(0..first).filter(|cell| cell % batons == baton);
            let mine: Vec<u32> = mine.take(self.rng.between(1, 6) as usize).collect();
            self.baton(pages, c, &mine, free, units);
        }
    }

    fn baton(&mut self, pages: Pages, c: &Character, cells: &[u32], free: &mut Free, units: &mut Units) {
        let hops = self.rng.between(1, 6);
        let mut at = self.somebody();
        for hop in 1..=hops {
            self.visit_all(pages, c, cells, false, &mut units[at.0][at.1]);
            let next = if hop == hops { self.rng.between(1, 3) } else { 1 };
            let Some((give, take)) = self.hand_over(next, free) else { return };
            units[at.0][at.1].push(give);
            for _ in 0..next {
                at = self.somebody();
                units[at.0][at.1].push(take.clone());
                if hop == hops {
                    self.visit_all(pages, c, cells, true, &mut units[at.0][at.1]);
                }
            }
        }
    }

    fn somebody(&mut self) -> (usize, usize) {
        (self.rng.below(self.size) as usize, self.rng.below(self.threads) as usize)
    }

    fn visit_all(
        &mut self,
        pages: Pages,
        c: &Character,
        cells: &[u32],
        reads: bool,
        units: &mut Vec<Vec<Op>>,
    ) {
        let mut unit = Vec::new();
        cells.iter().for_each(|&cell| self.visit(pages, c, cell, reads, &mut unit));
        units.push(unit);
    }

    /// What is done to let so many others go on, and what each of them does first. `None` if all objects are
    /// used up.
    fn hand_over(&mut self, next: u32, free: &mut Free) -> Option<(Vec<Op>, Vec<Op>)> {
        match self.rng.below(3) {
            0 => {
                let semaphore = free.semaphores.pop()?;
                let give = if self.rng.chance(50) {
                    vec![Op::Signal(semaphore, Signal::Post(next))]
                } else {
                    vec![Op::Signal(semaphore, Signal::Post(1)); next as usize]
                };
                Some((give, vec![Op::Request(semaphore, Request::Take)]))
            }
            1 => {
                let flag = free.flags.pop()?;
                let raised = self.objects.raised.entry(flag).or_default();
                let least = *raised + 1 + u64::from(self.rng.below(3));
                *raised = least + u64::from(self.rng.below(3));
                let give = vec![Op::Signal(flag, Signal::Raise(*raised))];
                Some((give, vec![Op::Request(flag, Request::AtLeast(least))]))
            }
            _ => self.announce(next, free),
        }
    }

    /// The first of the conditions is for all that have none of their own.
    fn announce(&mut self, next: u32, free: &mut Free) -> Option<(Vec<Op>, Vec<Op>)> {
        let own = free.conditions.len() > 1;
        let condition = if own { free.conditions.pop()? } else { *free.conditions.first()? };
        let event = self.objects.events;
        self.objects.events += 1;
        let lock = self.rng.pick(&self.objects.of(LOCKS));
        let signal = if own && next == 1 { Signal::WakeOne } else { Signal::WakeAll };
        let mut give =
            vec![Op::Lock(lock), Op::Announce(event), Op::Signal(condition, signal), Op::Unlock(lock)];
        if self.rng.chance(50) {
            give.swap(2, 3);
        }
        let take = vec![Op::Lock(lock), Op::WaitFor { condition, lock, event }, Op::Unlock(lock)];
        Some((give, take))
    }
}

impl Rng {
    /// Two lists as one, in which each keeps its order.
    pub(super) fn merge<T>(&mut self, first: Vec<T>, second: Vec<T>) -> Vec<T> {
        let (mut first, mut second) = (first.into_iter().peekable(), second.into_iter().peekable());
        let mut all = Vec::new();
        while first.peek().is_some() || second.peek().is_some() {
            let (one, other) =
                if self.chance(50) { (&mut first, &mut second) } else { (&mut second, &mut first) };
            all.extend(one.next().or_else(|| other.next()));
        }
        all
    }
}
