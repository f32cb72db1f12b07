//! A shared array of which each rank owns a part: safe, without a word of `unsafe` in the program.
//!
//! The array exists twice. In an interval each rank writes its part of the *next* state and reads anything of the *present* one, which nobody writes; at
//! [`Partition::publish`] the two change roles. So what is read is what the last barrier made public, whatever the
//! other ranks are writing, and no two references ever lead to the same value.

use crate::api::dsm::Dsm;
use crate::api::shared::{Plain, SharedSlice};
use crate::error::{Error, Result};
use std::ops::Range;

/// An array of `T` of which each rank owns one contiguous part.
///
/// A publication that fails may have succeeded at other ranks, which write from then on what is read here. So a partition whose publication
/// has failed leads to its memory no more: calls that return a [`Result`] say so, the others panic. (One that was refused before it began,
/// with [`Error::Argument`], has changed nothing, and can be made again.)
#[derive(Debug)]
pub struct Partition<T: Plain> {
    states: [SharedSlice<T>; 2],
    /// Which of the two is the present state; `None` after a publication that has failed, when ranks may not agree on it.
    present: Option<usize>,
    mine: Range<usize>,
}

/// What is said of a partition whose publication has failed.
const FAILED: &str = "a publication of this partition has failed, and ranks may not agree on its present state: \
     end the job as the error of Partition::publish says";

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
    pub(crate) fn new(dsm: &mut Dsm, len: usize) -> Result<Partition<T>> {
        if size_of::<T>() == 0 {
            return Err(Error::Argument("a partition of values that have no bytes".to_owned()));
        }
        let first = dsm.alloc(len)?;
        let second = match dsm.alloc(len) {
            Err(e @ Error::OutOfSpace(_)) => {
                dsm.free(first)?;
                return Err(e);
            }
            second => second?,
        };
        let states = [first, second];
        let bound = |rank: usize| rank * len / dsm.size();
        Ok(Partition { states, present: Some(0), mine: bound(dsm.rank())..bound(dsm.rank() + 1) })
    }

    /// Number of values in the whole.
    pub fn len(&self) -> usize {
        self.states[0].len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.states[0].is_empty()
    }

    /// The part that this rank owns.
    pub fn mine(&self) -> Range<usize> {
        self.mine.clone()
    }

    /// The two states for this interval: write `mine`, read everything else.
    ///
    /// # Panics
    /// If a publication has failed.
    pub fn parts<'a>(&'a mut self, dsm: &'a Dsm) -> Parts<'a, T> {
        let [present, next] = self.now();
        let (start, end) = (self.mine.start, self.mine.end);
        // SAFETY: the present state is written by nobody before `publish`: only `mine` is handed out for writing, and it is of the other state.
        let read = |range: Range<usize>| unsafe { present.slice(dsm, range) };
        // SAFETY: this part of the next state belongs to this rank alone (parts are disjoint), and `self` is borrowed mutably.
        let mine = unsafe { next.slice_mut(dsm, self.mine.clone()) };
        Parts { mine, old: read(start..end), before: read(0..start), after: read(end..present.len()), start }
    }

    /// The whole present state.
    ///
    /// # Panics
    /// If a publication has failed.
    pub fn all<'a>(&'a self, dsm: &'a Dsm) -> &'a [T] {
        let [present, _] = self.now();
        // SAFETY: the present state is written by nobody before the next `publish`.
        unsafe { present.slice(dsm, 0..present.len()) }
    }

    /// The present state and the next one.
    fn now(&self) -> [SharedSlice<T>; 2] {
        let [first, second] = self.states;
        match self.present {
            Some(0) => [first, second],
            Some(_) => [second, first],
            None => panic!("{FAILED}"),
        }
    }

    /// Makes what every rank wrote the present state. Collective: this is a memory barrier.
    ///
    /// # Errors
    /// As those of [`Dsm::barrier`]; a publication has failed before.
    pub fn publish(&mut self, dsm: &mut Dsm) -> Result<()> {
        // Not just any barrier: were it one for other ranks, they would write what is the present state here.
        let present = self.present.take().ok_or_else(|| Error::Broken(FAILED.to_owned()))?;
        let published = dsm.publish(self.states[0]);
        self.present = match &published {
            Ok(()) => Some(1 - present),
            Err(Error::Argument(_)) => Some(present),
            Err(_) => None,
        };
        published
    }

    /// Frees the array. Collective.
    ///
    /// # Errors
    /// As those of [`Dsm::free`].
    pub fn free(self, dsm: &mut Dsm) -> Result<()> {
        let [a, b] = self.states;
        dsm.free(a)?;
        dsm.free(b)
    }
}
