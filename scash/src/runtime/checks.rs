//! Objects of synchronisation as calls name them: what they are called, and whether they may be used now.

use crate::error::{Error, Result};
use crate::runtime::core::Core;
use crate::runtime::objects::{Objects, c_name, name};
use scash_proto::node::{Collective, ObjectKind, OwnNumber};
use std::ops::Range;

/// Checks that this rank can come to a collective call: not while one of its threads waits for an object. But
/// where what is to be destroyed is what it waits for, all ranks are to be told.
pub(super) fn may_come(core: &Core, objects: &dyn Objects, call: Collective) -> Result<()> {
    if let Collective::Destroy { kind, first, count } = call
        && core.node.in_use(must_all_be(core, first, count, kind)?).is_some()
    {
        return Ok(());
    }
    let Some(number) = core.node.awaited().or_else(|| objects.awaited()) else { return Ok(()) };
    let what = core.node.kind(number).map_or("object", name);
    Err(Error::Argument(format!(
        "a collective call while another thread of this rank waits for {what} {number}: let all threads go on first"
    )))
}

/// Checks that there are so many objects of that kind, one after the other, and that now is a time to use
/// them.
fn must_all_be(core: &Core, first: u32, count: u32, kind: ObjectKind) -> Result<Range<u32>> {
    if OwnNumber::of(first).is_some() {
        return Err(Error::Argument(format!(
            "{} {first} was made by one rank, and all are to destroy it: let one rank destroy it (dsm_{}_delete, \
             `delete` of the handle)",
            name(kind),
            c_name(kind)
        )));
    }
    // There is no object of the greatest number.
    let least = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let end = u64::from(first) + u64::from(count);
    let mut at = u64::from(first);
    while at < end {
        must_be(core, least(at), kind)?;
        at = core.node.run_end(least(at)).map_or(end, u64::from);
    }
    Ok(first..least(end))
}

/// Checks that there is an object of that number, that it is one of that kind, and that now is a time to use
/// it.
pub(super) fn must_be(core: &Core, number: u32, kind: ObjectKind) -> Result<()> {
    let wanted = name(kind);
    if core.node.in_collective_call() {
        return Err(is_meeting(number, kind));
    }
    let why = match (core.node.kind(number).map(name), core.node.objects()) {
        (Some(found), _) if found == wanted => return Ok(()),
        (Some(found), _) => {
            format!("{number} is a {found}: use a number that was returned when {wanted}s were made")
        }
        (None, _) if OwnNumber::of(number).is_some() => return Err(absent(number, kind)),
        (None, 0) => format!("there is no {wanted} {number}: none were made"),
        (None, count) if number < count => {
            format!("there is no {wanted} {number} any more: it was destroyed; make another one")
        }
        (None, count) => {
            format!(
                "there is no {wanted} {number}: locks, semaphores and the like have numbers 0 to {}",
                count - 1
            )
        }
    };
    Err(Error::Argument(why))
}

/// An object that one rank has made is no more.
pub(super) fn absent(number: u32, kind: ObjectKind) -> Error {
    let wanted = name(kind);
    Error::Argument(format!(
        "there is no {wanted} {number} any more, or there never was: one that a rank makes is there until a rank destroys it"
    ))
}

/// A thread destroys a lock that it has.
pub(super) fn destroyed_by_holder(number: u32, kind: ObjectKind) -> Error {
    Error::Argument(format!(
        "{} {number} is destroyed by the thread that has it: give it back first",
        name(kind)
    ))
}

/// An object is used at the wrong time.
pub(super) fn is_meeting(number: u32, kind: ObjectKind) -> Error {
    Error::Argument(format!(
        "{} {number} is used while another thread of this rank is in a collective call: let that return first",
        name(kind)
    ))
}

/// A thread takes a lock that it has, to read or to write.
pub(super) fn taken_twice(number: u32, kind: ObjectKind, how: &str) -> Error {
    Error::Argument(if kind == ObjectKind::Lock {
        format!(
            "lock {number} is taken by the thread that has it: give it back first (locks are not recursive)"
        )
    } else {
        format!(
            "reader-writer lock {number} is taken by the thread that has it to {how}: give it back first (it is not recursive, and no reader becomes a writer)"
        )
    })
}

/// A thread gives a lock back that it does not have. `here`: another thread of its rank has it, as far as is
/// known.
pub(super) fn not_the_holder(number: u32, kind: ObjectKind, here: bool) -> Error {
    let whose = if here { ": another thread of this rank has" } else { "" };
    Error::Argument(format!("{} {number} is given back by a thread that does not have it{whose}", name(kind)))
}

/// A thread waits for a condition with a lock that it does not have.
pub(super) fn waits_without_lock(condition: u32, number: u32) -> Error {
    Error::Argument(format!(
        "a thread waits for condition {condition} with lock {number}, which it does not have: take the lock first"
    ))
}
