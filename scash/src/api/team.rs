//! How the threads of a [crew](crate::Dsm::crew) make a collective call together: all come, the last one
//! makes it, and all are told what came of it.
//!
//! A thread may leave: its work is done, it failed, or it panicked. Then no call of the others can come about
//! any more, and they are told so, those that wait among them.
//!
//! 1. A thread comes: it adds itself to `come`. The first one says what the call is; one that comes for
//!    another call breaks the team.
//! 2. The last one makes the call. Nobody else is outside of [`Team::meet`] then, so the others wait for it
//!    alone.
//! 3. It puts down what came of the call, and raises `passed` (release). A thread that sees that (acquire)
//!    has all that any thread of the rank wrote before.
//! 4. What came of a call stays until all have taken it: the next call needs all of them.

use crate::api::shared::SharedSlice;
use crate::error::{Error, Result};
use crate::runtime::lock;
use scash_proto::node::Collective;
use scash_proto::wire::reduce::{Combine, NumberKind, Reduction};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// How often a thread that waits looks before it sleeps: about as long as it takes to wake a thread up.
const LOOKS: u32 = 10_000;

/// What threads come for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TeamCall {
    /// A collective call of the rank's.
    Collective(Collective),
    /// A reduction of so many values.
    Reduce(Combine, NumberKind, usize),
}

/// What came of a call, for all threads alike.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It is done.
    Done,
    /// Memory was allocated.
    Allocated(SharedSlice<u8>),
    /// Values were combined.
    Reduced(Vec<u64>),
}

/// The threads of a crew on one rank.
#[derive(Debug)]
pub(crate) struct Team {
    rank: usize,
    threads: usize,
    state: Mutex<State>,
    /// A call is over, or none can come about any more.
    over: Condvar,
    /// How many calls are over.
    passed: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Threads that have come.
    come: usize,
    /// What they came for.
    call: Option<TeamCall>,
    /// What the threads have brought, by thread.
    brought: Vec<Vec<u64>>,
    /// How the last call ended.
    ended: Option<Result<Outcome>>,
    /// Why no further call can come about.
    broken: Option<Error>,
    /// The first thread whose work failed.
    failed: Option<usize>,
}

/// How a thread's work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkEnd {
    Done,
    Failed,
    Panicked,
}

impl Team {
    pub(crate) fn new(rank: usize, threads: usize) -> Team {
        let state = State { brought: vec![Vec::new(); threads], ..State::default() };
        Team { rank, threads, state: Mutex::new(state), over: Condvar::new(), passed: AtomicU64::new(0) }
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Comes for a call. All threads have; the last one runs it.
    pub(crate) fn meet(&self, call: TeamCall, run: impl FnOnce() -> Result<Outcome>) -> Result<Outcome> {
        self.meet_with(call, 0, Vec::new(), |_| run())
    }

    /// As [`meet`](Self::meet), for calls to which each thread brings values: they are given to `run`, by
    /// thread.
    pub(crate) fn meet_with(
        &self,
        call: TeamCall,
        thread: usize,
        values: Vec<u64>,
        run: impl FnOnce(&[Vec<u64>]) -> Result<Outcome>,
    ) -> Result<Outcome> {
        let mut state = lock(&self.state);
        if let Some(broken) = &state.broken {
            return Err(broken.clone());
        }
        let first = *state.call.get_or_insert(call);
        if first != call {
            let error = self.mismatch(first, call);
            state.broken = Some(error.clone());
            drop(state);
            self.over.notify_all();
            return Err(error);
        }
        let before = self.passed.load(Ordering::Relaxed);
        if let TeamCall::Reduce(..) = call {
            state.brought[thread] = values;
        }
        state.come += 1;
        if state.come < self.threads {
            drop(state);
            return self.wait(before);
        }
        let brought = std::mem::take(&mut state.brought);
        drop(state);
        let ended = run(&brought);
        let mut state = lock(&self.state);
        state.brought = brought;
        (state.come, state.call, state.ended) = (0, None, Some(ended.clone()));
        self.passed.store(before + 1, Ordering::Release);
        drop(state);
        self.over.notify_all();
        ended
    }

    fn wait(&self, before: u64) -> Result<Outcome> {
        for _ in 0..LOOKS {
            if self.passed.load(Ordering::Acquire) != before {
                break;
            }
            spin_loop();
        }
        let mut state = lock(&self.state);
        loop {
            // First: the call may be over, and a thread gone since.
            if self.passed.load(Ordering::Acquire) != before {
                let never = || Err(Error::Broken("a collective call had no outcome".to_owned()));
                return state.ended.clone().unwrap_or_else(never);
            }
            if let Some(broken) = &state.broken {
                return Err(broken.clone());
            }
            state = self.over.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A thread comes no more.
    pub(crate) fn leave(&self, thread: usize, end: WorkEnd) {
        let mut state = lock(&self.state);
        if end == WorkEnd::Failed {
            state.failed.get_or_insert(thread);
        }
        let how = match end {
            WorkEnd::Done => "has done its work and comes to no further call",
            WorkEnd::Failed => "has failed",
            WorkEnd::Panicked => "has panicked",
        };
        let why =
            format!("thread {thread} of rank {} {how}, and other threads of the crew wait for it", self.rank);
        state.broken.get_or_insert(Error::Deserted(why));
        drop(state);
        self.over.notify_all();
    }

    /// The first thread whose work failed: the others' may have failed because of it.
    pub(crate) fn first_to_fail(&self) -> Option<usize> {
        lock(&self.state).failed
    }

    fn mismatch(&self, first: TeamCall, second: TeamCall) -> Error {
        Error::Mismatch(format!(
            "threads of rank {} made different collective calls: one {}, another {}; \
             all threads of a crew make the same calls in the same order",
            self.rank,
            name(first),
            name(second)
        ))
    }
}

/// What a program calls a call.
fn name(call: TeamCall) -> String {
    match call {
        TeamCall::Collective(Collective::Barrier) => "Worker::barrier".to_owned(),
        TeamCall::Collective(Collective::Publish(page)) => {
            format!("publish of the partition at page {page}")
        }
        TeamCall::Collective(Collective::Divide { page, .. }) => {
            format!("Worker::turn (or the making) of arrays, the first of them at page {page}")
        }
        TeamCall::Collective(Collective::Alloc(bytes, _)) => format!("Worker::alloc of {bytes} bytes"),
        TeamCall::Collective(Collective::Free(page)) => {
            format!("Worker::free of the allocation at page {page}")
        }
        TeamCall::Collective(other) => format!("{other:?}"),
        TeamCall::Reduce(combine, number, values) => {
            format!("Worker::all_reduce of {values} values ({number:?}) for their {combine:?}")
        }
    }
}

/// The values of all threads as one, in the order of threads: floating-point sums have the same bits in every
/// run.
pub(crate) fn combine(combine: Combine, number: NumberKind, brought: &[Vec<u64>]) -> Vec<u64> {
    let what = Reduction::All(combine, number);
    let (first, others) = brought.split_first().expect("a crew has a thread");
    others.iter().fold(first.clone(), |all, values| {
        all.iter().zip(values).map(|(&a, &b)| what.combine(a, b)).collect()
    })
}

#[cfg(test)]
mod tests;
