//! What a thread of a job has in hand: [`Dsm`], or one of the [`Worker`](crate::Worker)s that it makes.
//!
//! **Why a reference into shared memory never outlives its interval.** Each reference is borrowed from a
//! session, and each call that may end an interval, or change what a reference shows, takes a session
//! mutably. A thread has one session at a time: while there are workers, the [`Dsm`] is borrowed by
//! [`Dsm::crew`]. And such a call comes about when all sessions of the rank have come to it, each by a
//! mutable borrow: so no thread of the rank has a reference then.

use crate::api::division::Division;
use crate::api::dsm::Dsm;
use crate::api::matrix::Matrix;
use crate::api::partition::Partition;
use crate::api::shared::{Plain, SharedSlice};
use crate::api::split::{self, Split, Turn};
use crate::api::team::{Outcome, TeamCall};
use crate::error::{Error, Result};
use crate::runtime::Runtime;
use scash_proto::AllocOptions;
use scash_proto::node::Collective;
use std::ops::Range;

pub(crate) mod sealed {
    use super::{Outcome, Result, Runtime, TeamCall};

    /// What only this crate can make: without it the methods below could be called by whoever has a bound on
    /// `Session`.
    #[derive(Clone, Copy, Debug)]
    pub struct Seal(pub(crate) ());

    /// What this crate has to know of a session.
    pub trait SessionAccess {
        /// The untyped interface, for calls that change no bytes that references lead to.
        fn job(&self, seal: Seal) -> &'static Runtime;

        /// Runs a collective call, once for all sessions of the rank, when all have come for it.
        fn together(
            &mut self,
            call: TeamCall,
            run: &mut dyn FnMut() -> Result<Outcome>,
            seal: Seal,
        ) -> Result<Outcome>;

        /// What errors call the session of that number.
        fn name(&self, index: usize, seal: Seal) -> String;
    }
}

pub(crate) use sealed::Seal;
use sealed::SessionAccess;

/// A thread's part in a job: a [`Dsm`], or a [`Worker`](crate::Worker) of a rank that has several. Functions
/// that take one serve both.
///
/// The sessions of a job meet at barriers, and own the parts of arrays. There are as many as ranks; within
/// [`Dsm::crew`], as many as workers.
pub trait Session: SessionAccess {
    /// This rank, from 0.
    fn rank(&self) -> usize {
        self.job(Seal(())).rank() as usize
    }

    /// Number of ranks.
    fn size(&self) -> usize {
        self.job(Seal(())).size() as usize
    }

    /// The number of this session among those of all ranks, from 0.
    fn index(&self) -> usize;

    /// How many sessions the job has.
    fn count(&self) -> usize;

    /// This session's part when all take neighbouring ones of `len` things, as equal as can be.
    fn part(&self, len: usize) -> Range<usize> {
        part(len, self.index(), self.count())
    }

    /// The memory barrier of all sessions: [`Dsm::barrier`].
    ///
    /// # Errors
    /// As there; of a worker, as [`Worker::barrier`](crate::Worker::barrier). So it is with all calls below.
    fn barrier(&mut self) -> Result<()> {
        barrier(self)
    }

    /// [`Dsm::turn`], by all sessions.
    ///
    /// # Errors
    /// As there.
    fn turn<'a>(&mut self, turns: impl IntoIterator<Item = Turn<'a>>) -> Result<()>
    where
        Self: Sized,
    {
        split::turn(self, turns.into_iter().collect())
    }

    /// [`Dsm::alloc`], by all sessions.
    ///
    /// # Errors
    /// As there.
    fn alloc<T: Plain>(&mut self, len: usize) -> Result<SharedSlice<T>>
    where
        Self: Sized,
    {
        alloc(self, len, AllocOptions::default())
    }

    /// [`Dsm::free`], by all sessions.
    ///
    /// # Errors
    /// As there.
    fn free<T: Plain>(&mut self, slice: SharedSlice<T>) -> Result<()>
    where
        Self: Sized,
    {
        free(self, slice)
    }

    /// [`Dsm::partition`], by all sessions, each of which owns a part.
    ///
    /// # Errors
    /// As there.
    fn partition<T: Plain>(&mut self, len: usize) -> Result<Partition<T>>
    where
        Self: Sized,
    {
        Partition::new(self, len)
    }

    /// [`Dsm::matrix`], by all sessions, each of which owns neighbouring rows.
    ///
    /// # Errors
    /// As there.
    fn matrix<T: Plain>(&mut self, rows: usize, columns: usize) -> Result<Matrix<T>>
    where
        Self: Sized,
    {
        Matrix::by_rows(self, rows, columns)
    }

    /// [`Dsm::matrix_in_blocks`], by all sessions, each of which owns a block.
    ///
    /// # Errors
    /// As there.
    fn matrix_in_blocks<T: Plain>(&mut self, rows: usize, columns: usize) -> Result<Matrix<T>>
    where
        Self: Sized,
    {
        Matrix::in_blocks(self, rows, columns)
    }

    /// [`Dsm::split`], by all sessions.
    ///
    /// # Errors
    /// As there.
    fn split<T: Plain>(&mut self, division: &Division) -> Result<Split<T>>
    where
        Self: Sized,
    {
        Split::new(self, division)
    }

    /// [`Dsm::divide`], by all sessions, each of which names its ranges.
    ///
    /// # Errors
    /// As there.
    fn divide(&mut self, len: usize, mine: &[Range<usize>]) -> Result<Division> {
        Division::gather(self, len, mine)
    }
}

/// The part of one of `count` that take neighbouring ones of `len` things: the first ones have one more each
/// where they are not equal.
pub(crate) fn part(len: usize, index: usize, count: usize) -> Range<usize> {
    let (each, more) = (len / count, len % count);
    let start = |index: usize| each * index + index.min(more);
    start(index)..start(index + 1)
}

impl SessionAccess for Dsm {
    fn job(&self, _: Seal) -> &'static Runtime {
        self.untyped()
    }

    fn together(
        &mut self,
        _call: TeamCall,
        run: &mut dyn FnMut() -> Result<Outcome>,
        _: Seal,
    ) -> Result<Outcome> {
        run()
    }

    fn name(&self, index: usize, _: Seal) -> String {
        format!("rank {index}")
    }
}

impl Session for Dsm {
    fn index(&self) -> usize {
        self.rank()
    }

    fn count(&self) -> usize {
        self.size()
    }
}

/// The untyped interface, for calls that change no bytes that references lead to.
pub(crate) fn job<S: Session + ?Sized>(session: &S) -> &'static Runtime {
    session.job(Seal(()))
}

/// A collective call of all sessions. Each session's `run` may be the one that is called, so all do the same.
pub(crate) fn together<S: Session + ?Sized>(
    session: &mut S,
    call: Collective,
    run: impl Fn() -> Result<Outcome>,
) -> Result<Outcome> {
    session.together(TeamCall::Collective(call), &mut || run(), Seal(()))
}

/// The memory barrier of all sessions.
pub(crate) fn barrier<S: Session + ?Sized>(session: &mut S) -> Result<()> {
    let runtime = job(session);
    together(session, Collective::Barrier, || runtime.barrier().map(|()| Outcome::Done)).map(drop)
}

/// As [`Dsm::alloc_with`].
pub(crate) fn alloc<S: Session + ?Sized, T: Plain>(
    session: &mut S,
    len: usize,
    options: AllocOptions,
) -> Result<SharedSlice<T>> {
    let runtime = job(session);
    let bytes = len.saturating_mul(size_of::<T>());
    let call = Collective::Alloc(bytes as u64, options);
    let allocated = together(session, call, || {
        let (address, generation) = runtime.alloc_live(bytes, options)?;
        Ok(Outcome::Allocated(SharedSlice::new(address, bytes, generation)))
    })?;
    match allocated {
        Outcome::Allocated(bytes) => Ok(bytes.of(len)),
        _ => Err(Error::Broken("the allocation had no outcome".to_owned())),
    }
}

/// As [`Dsm::free`].
pub(crate) fn free<S: Session + ?Sized, T: Plain>(session: &mut S, slice: SharedSlice<T>) -> Result<()> {
    let runtime = job(session);
    let page = runtime.first_page(slice.allocation()?)?;
    together(session, Collective::Free(page), || runtime.free(slice.allocation()?).map(|()| Outcome::Done))
        .map(drop)
}

/// A memory barrier at which all sessions of all ranks must mean the same by an array: they compare what
/// `digest` stands for.
pub(crate) fn agree<S: Session + ?Sized, T: Plain>(
    session: &mut S,
    array: SharedSlice<T>,
    digest: [u64; 2],
) -> Result<()> {
    let runtime = job(session);
    let page = runtime.first_page(array.allocation()?)?;
    together(session, Collective::Divide { page, digest }, || {
        runtime.divide(page, digest).map(|()| Outcome::Done)
    })
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_one_after_another_and_differ_by_one_at_most() {
        for (len, count) in [(0, 1), (0, 3), (1, 3), (7, 3), (9, 3), (100, 7), (usize::MAX, 3)] {
            let parts: Vec<_> = (0..count).map(|index| part(len, index, count)).collect();
            assert_eq!((parts[0].start, parts[count - 1].end), (0, len));
            assert!(parts.windows(2).all(|two| two[0].end == two[1].start && two[0].len() >= two[1].len()));
            assert!(parts[0].len() - parts[count - 1].len() <= 1, "{len} among {count}");
        }
    }
}
