//! Objects of synchronisation as the protocol has them: what threads want and give goes through the node, and
//! between ranks in messages.

use super::answer::this_thread;
use super::checks::{absent, destroyed_by_holder, must_be, not_the_holder, taken_twice, waits_without_lock};
use super::objects::{Ask, Objects, name};
use super::{Runtime, lock};
use crate::error::{Error, Result};
use crate::runtime::core::Core;
use crate::runtime::owned::Guard;
use scash_proto::Rank;
use scash_proto::interpreter::Answer;
use scash_proto::node::{Input, ObjectKind};
use scash_proto::wire::sync::{Request, Signal};
use std::any::Any;

/// See [the module](self).
pub(crate) struct NodeObjects;

impl Objects for NodeObjects {
    fn ask(&self, runtime: &Runtime, number: u32, ask: Ask) -> Result<bool> {
        let mut core = lock(&runtime.core);
        must_be(&core, number, ask.kind())?;
        let who = this_thread();
        if let Some(how) = holds(&core, number, ask.kind()) {
            return Err(taken_twice(number, ask.kind(), how));
        }
        let request = |request| Input::Request { object: number, who, request };
        core.node.handle(match ask {
            Ask::Lock => Input::Acquire { lock: number, who },
            Ask::TryLock => Input::TryAcquire { lock: number, who },
            Ask::Read => request(Request::Read),
            Ask::Write => request(Request::Write),
            Ask::Take => request(Request::Take),
            Ask::AtLeast(least) => request(Request::AtLeast(least)),
        })?;
        granted(runtime.answer_to(core, number)?, ask.kind())
    }

    fn give_back(&self, runtime: &Runtime, number: u32, kind: ObjectKind) -> Result<()> {
        let mut core = lock(&runtime.core);
        must_be(&core, number, kind)?;
        let who = this_thread();
        if kind == ObjectKind::RwLock {
            let held = core.node.holding(number, who);
            let signal = held.ok_or_else(|| not_the_holder(number, kind, false))?;
            return give(runtime, core, Input::Signal { object: number, who, signal });
        }
        let holder = core.node.holder(number);
        if holder != Some(who) {
            return Err(not_the_holder(number, kind, holder.is_some()));
        }
        core.node.handle(Input::Release(number))?;
        give_on(runtime, core)
    }

    fn signal(&self, runtime: &Runtime, number: u32, kind: ObjectKind, signal: Signal) -> Result<()> {
        let core = lock(&runtime.core);
        must_be(&core, number, kind)?;
        give(runtime, core, Input::Signal { object: number, who: this_thread(), signal })
    }

    fn wait(&self, runtime: &Runtime, condition: u32, number: u32) -> Result<()> {
        let mut core = lock(&runtime.core);
        must_be(&core, condition, ObjectKind::Condition)?;
        must_be(&core, number, ObjectKind::Lock)?;
        let who = this_thread();
        if core.node.holder(number) != Some(who) {
            return Err(waits_without_lock(condition, number));
        }
        core.node.handle(Input::Wait { condition, lock: number, who })?;
        let answer = runtime.answer_to(core, number)?;
        let kind = if answer == Answer::Absent(condition) { ObjectKind::Condition } else { ObjectKind::Lock };
        granted(answer, kind).map(drop)
    }

    fn unmake(&self, runtime: &Runtime, number: u32, kind: ObjectKind) -> Result<Option<Rank>> {
        let mut core = lock(&runtime.core);
        must_be(&core, number, kind)?;
        let who = this_thread();
        if holds(&core, number, kind).is_some() {
            return Err(destroyed_by_holder(number, kind));
        }
        core.node.handle(Input::Unmake { object: number, who })?;
        match runtime.answer_to(core, number)? {
            Answer::Unmade(user) => Ok(user),
            other => granted(other, kind).map(|_| None),
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Whether a thread has what it has asked an object of that kind for.
fn granted(answer: Answer, kind: ObjectKind) -> Result<bool> {
    match answer {
        Answer::Granted => Ok(true),
        Answer::Refused => Ok(false),
        Answer::Absent(number) => Err(absent(number, kind)),
        Answer::Unmade(_) => Err(Error::Broken(format!(
            "a thread waits for a {}, and hears that it was destroyed",
            name(kind)
        ))),
    }
}

/// How the calling thread has an object, if it has it.
fn holds(core: &Core, number: u32, kind: ObjectKind) -> Option<&'static str> {
    match kind {
        ObjectKind::Lock => (core.node.holder(number) == Some(this_thread())).then_some("write"),
        ObjectKind::RwLock => core.node.holding(number, this_thread()).map(|how| match how {
            Signal::HasRead => "read",
            _ => "write",
        }),
        _ => None,
    }
}

fn give(runtime: &Runtime, mut core: Guard<'_, Core>, input: Input) -> Result<()> {
    core.node.handle(input)?;
    give_on(runtime, core)
}

fn give_on(runtime: &Runtime, mut core: Guard<'_, Core>) -> Result<()> {
    runtime.look_around(&mut core)?;
    runtime.settle(&mut core)
}
