//! Objects that one rank makes, and one destroys, on words.
//!
//! The node gives the numbers ([`Node::make_own`](scash_proto::Node::make_own)), and the record of an object
//! says whether it is there. So destroying one takes no message; its maker finds its place free when it makes
//! others.

use super::record::ThreadId;
use super::{Around, Ask, CallStart, HostObjects};
use crate::error::{Error, Result};
use crate::runtime::checks::{destroyed_by_holder, is_meeting};
use crate::runtime::lock;
use scash_proto::Rank;
use scash_proto::node::ObjectKind;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// The objects that this rank has made, as far as it has not found that they are no more. It looks at some of
/// them with each that it makes.
#[derive(Default)]
pub(super) struct MadeHere(Mutex<VecDeque<u32>>);

impl MadeHere {
    pub(super) fn go_on_as(&self, old: &MadeHere) {
        // What the old process had is not given back.
        let old = std::mem::take(&mut *lock(&old.0));
        *lock(&self.0) = old;
    }
}

#[cfg(test)]
impl MadeHere {
    pub(super) fn numbers(&self) -> Vec<u32> {
        lock(&self.0).iter().copied().collect()
    }
}

/// How many it looks at. With two, no more than as many as are there can be gone and not found.
const LOOKS: usize = 2;

/// How the end of an object has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndStart {
    /// It is over; or the object is as it was, because a thread of that rank waits for it.
    Over(Option<Rank>),
    /// The thread has the object: [`HostObjects::end_owned`] follows.
    Taken,
    /// It waits for it in that slot; then likewise.
    Waits(u32),
}

/// What a thread asks for that destroys an object; `None` if nobody has such an object.
fn taken_to_end(kind: ObjectKind) -> Option<Ask> {
    match kind {
        ObjectKind::Lock => Some(Ask::Lock),
        ObjectKind::RwLock => Some(Ask::Write),
        ObjectKind::Semaphore(_) | ObjectKind::Condition | ObjectKind::Flag => None,
    }
}

impl HostObjects {
    pub(super) fn begin_own_with(&self, around: &impl Around, number: u32, kind: ObjectKind) -> Result<()> {
        if self.meeting.load(SeqCst) {
            return Err(is_meeting(number, kind));
        }
        // The guard: a thread may have it that has an older number of the place.
        let guarded = self.guard(around, number)?;
        let guarded =
            guarded.ok_or_else(|| Error::Broken(format!("there is no room for object {number}")))?;
        guarded.record.begin(number, kind);
        drop(guarded);
        lock(&self.made_here.0).push_back(number);
        Ok(())
    }

    pub(super) fn find_gone(&self, of_all: bool) -> Vec<u32> {
        let mut made = lock(&self.made_here.0);
        let looks = if of_all { made.len() } else { LOOKS.min(made.len()) };
        let mut gone = Vec::new();
        for number in made.drain(..looks).collect::<Vec<_>>() {
            let record = &self.table().records[super::place(number) as usize];
            if record.kind.load(Relaxed) == number {
                made.push_back(number);
            } else {
                gone.push(number);
            }
        }
        gone
    }

    /// A thread destroys an object: at once, if nobody can have such a one.
    pub(super) fn begin_end(
        &self,
        around: &impl Around,
        number: u32,
        kind: ObjectKind,
        me: ThreadId,
    ) -> Result<EndStart> {
        let Some(ask) = taken_to_end(kind) else {
            return self.end_unowned(around, number, kind).map(EndStart::Over);
        };
        let guarded = self.enter(around, number, kind)?;
        if guarded.owner() == Some(me) || guarded.reader(me).is_some() {
            return Err(destroyed_by_holder(number, kind));
        }
        drop(guarded);
        Ok(match self.begin(around, number, ask, me)? {
            CallStart::Waits { slot, .. } => EndStart::Waits(slot),
            CallStart::Granted | CallStart::Refused => EndStart::Taken,
        })
    }

    /// Destroys an object that nobody can have, unless a thread waits for it, whose rank is returned then.
    fn end_unowned(&self, around: &impl Around, number: u32, kind: ObjectKind) -> Result<Option<Rank>> {
        let guarded = self.enter(around, number, kind)?;
        let user = guarded.first_waiter();
        if user.is_none() {
            guarded.record.end();
        }
        Ok(user.map(rank))
    }

    /// Destroys an object that the calling thread has taken for that; or gives it back, if a thread waits for
    /// it, whose rank is returned then.
    pub(super) fn end_owned(&self, around: &impl Around, number: u32) -> Result<Option<Rank>> {
        let Some(guarded) = self.guard(around, number)? else { return Ok(None) };
        let user = guarded.first_waiter();
        match user {
            None => guarded.record.end(),
            Some(_) => self.disown(guarded),
        }
        Ok(user.map(rank))
    }
}

fn rank(thread: ThreadId) -> Rank {
    Rank(thread.rank())
}
