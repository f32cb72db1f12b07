//! Objects of synchronisation as the protocol has them: what threads want and give goes through the node, and
//! between ranks in messages.

use super::answer::this_thread;
use super::checks::{must_be, not_the_holder, taken_twice, waits_without_lock};
use super::objects::{Ask, Objects};
use super::{Runtime, lock};
use crate::error::Result;
use crate::runtime::core::Core;
use crate::runtime::owned::Guard;
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
        runtime.answer_to(core, number)
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
        runtime.answer_to(core, number).map(drop)
    }

    fn as_any(&self) -> &dyn Any {
        self
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
