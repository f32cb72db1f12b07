//! A shared array of which each rank owns a part: safe, without a word of `unsafe` in the program.
//!
//! The array exists twice. In an interval each rank writes its part of the *next* state and reads anything of
//! the *present* one, which nobody writes; at [`Partition::publish`] the two change roles. So what is read is
//! what the last barrier made public, whatever the other ranks are writing, and no two references ever lead
//! to the same value.

use crate::api::session::{self, Session};
use crate::api::shared::{Plain, SharedSlice};
use crate::api::team::Outcome;
use crate::error::{Error, Result};
use crate::runtime::alike::digest;
use scash_proto::AllocOptions;
use scash_proto::node::Collective;
use std::hash::Hash;
use std::ops::Range;

/// An array of `T` of which each rank owns one contiguous part; each [`Worker`](crate::Worker), if workers
/// have made it.
///
/// A publication that fails may have succeeded at other ranks, which write from then on what is read here. So
/// a partition whose publication has failed leads to its memory no more: calls that return a [`Result`] say
/// so, the others panic. (One that was refused before it began, with [`Error::Argument`], has changed
/// nothing, and can be made again.)
#[derive(Debug)]
pub struct Partition<T: Plain> {
    states: States<T>,
    mine: Range<usize>,
}

/// An array that exists twice. Which of the two is the present state, all handles of a rank see in the phase
/// of the first one: how often it was published, or that this has failed and ranks may not agree on it.
#[derive(Debug)]
pub(crate) struct States<T: Plain>([SharedSlice<T>; 2]);

/// What is said of a partition whose publication has failed.
const FAILED: &str = "a publication of this partition has failed, and ranks may not agree on its present state: \
     end the job as the error of Partition::publish says";

impl<T: Plain> States<T> {
    /// Two states of `len` values. `shape` says which parts sessions own: the same at all of them.
    pub(crate) fn new<S: Session + ?Sized>(session: &mut S, len: usize, shape: impl Hash) -> Result<Self> {
        if size_of::<T>() == 0 {
            return Err(Error::Argument("a partition of values that have no bytes".to_owned()));
        }
        let first = session::alloc(session, len, AllocOptions::default())?;
        let second = match session::alloc(session, len, AllocOptions::default()) {
            Err(e @ Error::OutOfSpace(_)) => {
                session::free(session, first)?;
                return Err(e);
            }
            second => second?,
        };
        // Allocations of as many bytes may be of other values, and divided in another way.
        let shape = digest(&("partition", size_of::<T>(), len, session.count(), shape));
        session::agree(session, first, shape)?;
        Ok(States([first, second]))
    }

    pub(crate) fn len(&self) -> usize {
        self.0[0].len()
    }

    /// The present state and the next one.
    pub(crate) fn now(&self) -> [SharedSlice<T>; 2] {
        let [first, second] = self.0;
        match first.generation().phase() {
            Some(phase) if phase.is_multiple_of(2) => [first, second],
            Some(_) => [second, first],
            None => panic!("{FAILED}"),
        }
    }

    /// Makes the next state the present one.
    pub(crate) fn publish<S: Session + ?Sized>(&self, session: &mut S) -> Result<()> {
        // Not just any barrier: were it one for other ranks, they would write what is the present state here.
        let (first, runtime) = (self.0[0], session::job(session));
        let address = first.allocation()?;
        let memory = first.generation();
        let phase = memory.phase().ok_or_else(|| Error::Broken(FAILED.to_owned()))?;
        let call = Collective::Publish(runtime.first_page(address)?);
        session::together(session, call, || {
            let published = runtime.publish(address);
            match &published {
                Ok(()) => memory.set_phase(Some(phase + 1)),
                // Refused before it began.
                Err(Error::Argument(_)) => {}
                Err(_) => memory.set_phase(None),
            }
            published.map(|()| Outcome::Done)
        })
        .map(drop)
    }

    pub(crate) fn free<S: Session + ?Sized>(self, session: &mut S) -> Result<()> {
        let [first, second] = self.0;
        session::free(session, first)?;
        session::free(session, second)
    }
}

/// One interval's view of a [`Partition`].
#[derive(Debug)]
pub struct Parts<'a, T> {
    /// This rank's part of the next state, to be written. It holds what this rank wrote two publications ago.
    pub mine: &'a mut [T],
    /// This rank's part of the present state.
    pub old: &'a [T],
    /// What lies before this rank's part, as of the last publication.
    pub before: &'a [T],
    /// What lies behind it.
    pub after: &'a [T],
    /// Index of the first value of `mine` in the whole.
    pub start: usize,
}

impl<T: Plain> Partition<T> {
    pub(crate) fn new<S: Session + ?Sized>(session: &mut S, len: usize) -> Result<Partition<T>> {
        let states = States::new(session, len, "contiguous")?;
        let bound = |index: usize| index * len / session.count();
        Ok(Partition { states, mine: bound(session.index())..bound(session.index() + 1) })
    }

    /// Number of values in the whole.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.states.len() == 0
    }

    /// The part that this rank owns.
    pub fn mine(&self) -> Range<usize> {
        self.mine.clone()
    }

    /// The two states for this interval: write `mine`, read everything else.
    ///
    /// # Panics
    /// If a publication has failed.
    pub fn parts<'a, S: Session + ?Sized>(&'a mut self, _session: &'a S) -> Parts<'a, T> {
        let [present, next] = self.states.now();
        let (start, end) = (self.mine.start, self.mine.end);
        // SAFETY: the present state is written by nobody before `publish`: only `mine` is handed out for
        // writing, and it is of the other state.
        let read = |range: Range<usize>| unsafe { present.part(range) };
        // SAFETY: this part of the next state belongs to this handle alone (parts are disjoint), which is
        // borrowed mutably; and a session is borrowed, which a publication ends.
        let mine = unsafe { next.part_mut(self.mine.clone()) };
        Parts { mine, old: read(start..end), before: read(0..start), after: read(end..present.len()), start }
    }

    /// The whole present state.
    ///
    /// # Panics
    /// If a publication has failed.
    pub fn all<'a, S: Session + ?Sized>(&'a self, _session: &'a S) -> &'a [T] {
        let [present, _] = self.states.now();
        // SAFETY: the present state is written by nobody before the next `publish`.
        unsafe { present.part(0..present.len()) }
    }

    /// Makes what every rank wrote the present state. Collective: this is a memory barrier.
    ///
    /// # Errors
    /// As those of [`Dsm::barrier`](crate::Dsm::barrier); a publication has failed before.
    pub fn publish<S: Session + ?Sized>(&mut self, session: &mut S) -> Result<()> {
        self.states.publish(session)
    }

    /// Frees the array. Collective.
    ///
    /// # Errors
    /// As those of [`Dsm::free`](crate::Dsm::free).
    pub fn free<S: Session + ?Sized>(self, session: &mut S) -> Result<()> {
        self.states.free(session)
    }
}
