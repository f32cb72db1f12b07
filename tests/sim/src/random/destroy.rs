//! Random programs destroy objects of synchronisation, and make others of the kind. At times some rank has
//! one then: nothing is destroyed, and nothing else has happened in the next interval but that it is given
//! back.

use super::RandomProgram;
use super::sync::Objects;
use crate::program::{Interval, Op};
use crate::rng::Rng;
use scash_proto::Rank;
use scash_proto::node::{Collective, InUse, ObjectKind, Outcome};
use scash_proto::wire::stall::Relation;
use scash_proto::wire::sync::{Request, Signal};

/// How a program's objects end. With chances of its own, so that programs are the same but for this.
pub(super) struct Ends {
    rng: Rng,
    /// How many, in a hundred, of the intervals end with the end of objects, or with others made in their
    /// place.
    often: u32,
    /// Kinds of which some were destroyed, and how many.
    again: Vec<(usize, u32)>,
    /// What ranks have that was to be destroyed: how it is given back.
    held: Vec<(u32, Op)>,
}

impl Ends {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::part(seed, 6);
        let often = rng.pick(&[0, 0, 5, 20, 60]);
        Ends { rng, often, again: Vec::new(), held: Vec::new() }
    }
}

impl Objects {
    /// A call that destroys some objects of a kind, or that makes as many as were destroyed.
    pub(super) fn destroy_or_make_again(&mut self) -> Option<(Collective, Outcome)> {
        let ends = &mut self.ends;
        if !ends.rng.chance(ends.often) {
            return None;
        }
        if ends.rng.chance(50)
            && let Some((kind, count)) = ends.again.pop()
        {
            return Some(self.make_some(kind, count));
        }
        let least = ends.rng.below(6) as usize;
        let kind = (least..6).chain(0..least).find(|&kind| !self.there[kind].is_empty())?;
        let numbers = &self.there[kind];
        let from = ends.rng.below(u32::try_from(numbers.len()).unwrap_or(1)) as usize;
        let first = numbers[from];
        let run = (first..).zip(&numbers[from..]).take_while(|(want, have)| want == *have).count();
        let count = ends.rng.between(1, u32::try_from(run).unwrap_or(1));
        Some((Collective::Destroy { kind: self.kinds[kind].0, first, count }, Outcome::Done))
    }

    /// They are destroyed.
    fn forget(&mut self, first: u32, count: u32) {
        let gone = first..first + count;
        for (kind, numbers) in self.there.iter_mut().enumerate() {
            if numbers.contains(&first) {
                numbers.retain(|number| !gone.contains(number));
                self.ends.again.push((kind, count));
            }
        }
    }
}

impl RandomProgram {
    /// If an interval ends with the destruction of objects, somebody may have one. Returns what ranks are
    /// told.
    pub(super) fn perhaps_in_use(
        &mut self,
        end: Collective,
        outcome: Outcome,
        work: &mut [Vec<Vec<Op>>],
    ) -> Outcome {
        let Collective::Destroy { kind, first, count } = end else { return outcome };
        let mut least: Option<InUse> = None;
        // (What ranks find in an interval without a memory barrier is not where a planted race was put.)
        let tries = if self.planted.is_none() && self.objects.ends.rng.chance(40) { 2 } else { 0 };
        for _ in 0..tries {
            let rng = &mut self.objects.ends.rng;
            let (rank, object) = (rng.below(self.size), first + rng.below(count));
            let Some((take, give)) = uses(kind, object, rng) else { continue };
            // Who has it does not give it back in this interval.
            if work.iter().flatten().flatten().any(|op| concerns(op, object)) {
                continue;
            }
            work[rank as usize][0].push(take);
            self.objects.ends.held.push((rank, give));
            let this = InUse { rank: Rank(rank), object, relation: Relation::Holds };
            least = least.into_iter().chain([this]).min_by_key(|it| (it.rank, it.object));
        }
        if let Some(in_use) = least {
            return Outcome::InUse(in_use);
        }
        self.objects.forget(first, count);
        outcome
    }

    /// The interval after a call that was no memory barrier: nobody touches memory.
    pub(super) fn give_back(&mut self) -> Option<Interval> {
        let held = std::mem::take(&mut self.objects.ends.held);
        let mut interval = (!held.is_empty()).then(|| Interval::idle(self.size))?;
        held.into_iter().for_each(|(rank, give)| interval.push(rank, give));
        Some(interval)
    }
}

/// How a thread comes to have an object, and gives it back; `None` for what nobody has.
fn uses(kind: ObjectKind, object: u32, rng: &mut Rng) -> Option<(Op, Op)> {
    match kind {
        ObjectKind::Lock if rng.chance(50) => Some((Op::Lock(object), Op::Unlock(object))),
        ObjectKind::Lock => Some((Op::TryLock(object), Op::Unlock(object))),
        ObjectKind::RwLock if rng.chance(50) => {
            Some((Op::Request(object, Request::Read), Op::Signal(object, Signal::HasRead)))
        }
        ObjectKind::RwLock => {
            Some((Op::Request(object, Request::Write), Op::Signal(object, Signal::HasWritten)))
        }
        ObjectKind::Semaphore(_) | ObjectKind::Condition | ObjectKind::Flag => None,
    }
}

/// Whether an operation is about an object.
fn concerns(op: &Op, object: u32) -> bool {
    match *op {
        Op::Lock(it) | Op::TryLock(it) | Op::Unlock(it) | Op::Request(it, _) | Op::Signal(it, _) => {
            it == object
        }
        Op::WaitFor { condition, lock, .. } => condition == object || lock == object,
        _ => false,
    }
}
