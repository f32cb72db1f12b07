//! The typed interface: a job seen from one of its ranks.

use crate::api::matrix::Matrix;
use crate::api::messages::Messages;
use crate::api::mutex::{DsmMutex, Lock};
use crate::api::partition::Partition;
use crate::api::rwlock::DsmRwLock;
use crate::api::session;
use crate::api::shared::{Plain, SharedSlice};
use crate::api::signals::{Condvar, Flag, Semaphore};
use crate::error::Result;
use crate::runtime::alike::digest;
use crate::runtime::stats::Stats;
use crate::runtime::{self, ObjectKind, Runtime};
use scash_proto::{AllocOptions, Protocol};
use std::marker::PhantomData;

/// This rank's part in a job. There is one a process, and it belongs to one thread.
///
/// References into shared memory are borrowed from it, and [`barrier`](Self::barrier) borrows it mutably: so
/// no reference outlives the interval in which it was made.
///
/// ```compile_fail,E0502
/// # fn f(dsm: &mut scash::Dsm, field: &mut scash::Partition<f64>) -> scash::Result<()> {
/// let parts = field.parts(dsm);
/// dsm.barrier()?; // error: `parts` still borrows it
/// parts.mine[0] = 1.0;
/// # Ok(()) }
/// ```
pub struct Dsm {
    runtime: &'static Runtime,
    /// Message passing, if the program has asked for it.
    pub(crate) messages: Option<Messages>,
    /// One thread makes the collective calls.
    _thread: PhantomData<*mut ()>,
}

impl std::fmt::Debug for Dsm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dsm").field("rank", &self.rank()).field("size", &self.size()).finish_non_exhaustive()
    }
}

impl Dsm {
    /// Joins the job that `scash run` or another launcher started this process for; a process that none has
    /// started is a job of one rank. Once a process.
    ///
    /// # Errors
    /// Settings that make no sense; ranks that run different programs; no fault engine; no memory.
    pub fn init() -> Result<Dsm> {
        Ok(Dsm { runtime: runtime::init()?, messages: None, _thread: PhantomData })
    }

    /// This rank, from 0.
    pub fn rank(&self) -> usize {
        self.runtime.rank() as usize
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.runtime.size() as usize
    }

    /// Threads that the user asked for in each rank (`scash run --threads`). The program starts them.
    pub fn threads(&self) -> usize {
        self.runtime.threads() as usize
    }

    /// Name of the provider that carries this job: `shm`, `tcp`, `ofi`, or `composite` for `shm` within hosts
    /// and `tcp` between them.
    pub fn provider(&self) -> &'static str {
        self.runtime.provider()
    }

    /// Name of this rank's fault engine: `uffd` or `mprotect`. Where ranks share frames it is `mprotect`, and
    /// notices only accesses to what is not allocated.
    pub fn engine(&self) -> &'static str {
        self.runtime.engine()
    }

    /// The untyped interface.
    ///
    /// # Safety
    /// Its calls end intervals, free memory and bring other ranks' bytes without borrowing anything from this
    /// `Dsm`. While one of them that changes bytes runs, no reference into the memory that it changes may be
    /// alive.
    pub unsafe fn runtime(&self) -> &'static Runtime {
        self.runtime
    }

    /// The memory barrier: returns when all ranks have called it; then each sees what any wrote before.
    pub fn barrier(&mut self) -> Result<()> {
        self.runtime.barrier()
    }

    /// The memory barrier, and at it a checkpoint, whatever `scash run --checkpoint` says. Whether it was
    /// committed: if ranks die after that, all go on from here. It is not where ranks do not come back
    /// (`scash run --replicas`), nor if one of them cannot be saved, which is said once.
    ///
    /// # Errors
    /// As for [`barrier`](Self::barrier).
    pub fn checkpoint(&mut self) -> Result<bool> {
        self.runtime.checkpoint()
    }

    /// How often the ranks of this job have come back (`scash run --replicas`). For what a program says of
    /// itself: its results do not depend on it.
    pub fn incarnation(&self) -> u64 {
        self.runtime.incarnation()
    }

    /// Allocates `len` zeroed values that all ranks share, at one address. Collective. Where ranks do not
    /// share frames, pages have their home where they are touched first.
    pub fn alloc<T: Plain>(&mut self, len: usize) -> Result<SharedSlice<T>> {
        self.alloc_with(len, AllocOptions::default())
    }

    /// As [`alloc`](Self::alloc), with a say in placement, protocol and coherence block.
    pub fn alloc_with<T: Plain>(&mut self, len: usize, options: AllocOptions) -> Result<SharedSlice<T>> {
        session::alloc(self, len, options)
    }

    /// Allocates blocks of values, one right behind the other, each at home at a rank of its own: (values,
    /// rank). A page that several blocks share is at home at the rank of the first of these. Collective: all
    /// ranks come with the same blocks.
    ///
    /// # Errors
    /// As for [`alloc`](Self::alloc); a rank that does not exist; a placement in `options`, which the blocks
    /// take the place of.
    pub fn alloc_blocks<T: Plain>(
        &mut self,
        blocks: &[(usize, usize)],
        options: AllocOptions,
    ) -> Result<SharedSlice<T>> {
        let bytes = |&(len, rank): &(usize, usize)| {
            (len.saturating_mul(size_of::<T>()), u32::try_from(rank).unwrap_or(u32::MAX))
        };
        let in_bytes: Vec<(usize, u32)> = blocks.iter().map(bytes).collect();
        self.runtime.check_blocks(&in_bytes, options)?;
        let len = blocks.iter().fold(0usize, |sum, (len, _)| sum.saturating_add(*len));
        let slice = self.alloc_with(len, options)?;
        self.runtime.place_blocks(slice.allocation()?, &in_bytes)?;
        Ok(slice)
    }

    /// Makes `count` locks. Collective.
    pub fn locks(&mut self, count: usize) -> Result<Vec<Lock>> {
        let first = self.make(ObjectKind::Lock, count)?;
        Ok((first..).take(count).map(Lock::new).collect())
    }

    /// A value that all ranks share and one at a time uses. Collective, with the same value at all ranks.
    pub fn mutex<T: Plain>(&mut self, value: T) -> Result<DsmMutex<T>> {
        Ok(self.mutexes(1, |_| value)?[0])
    }

    /// `count` values, each with a lock of its own. Collective. Each rank says what some of them are in the
    /// beginning, and, where ranks do not share frames, is the home of these.
    pub fn mutexes<T: Plain>(
        &mut self,
        count: usize,
        value: impl Fn(usize) -> T,
    ) -> Result<Vec<DsmMutex<T>>> {
        let first = self.make(ObjectKind::Lock, count)?;
        Ok(DsmMutex::all(first, self.values("mutexes", count, value)?))
    }

    /// A value that all ranks share, and read together or write one at a time. Collective, with the same
    /// value at all ranks.
    pub fn rwlock<T: Plain>(&mut self, value: T) -> Result<DsmRwLock<T>> {
        Ok(self.rwlocks(1, |_| value)?[0])
    }

    /// `count` values, each with a reader–writer lock of its own. Collective. As [`mutexes`](Self::mutexes).
    pub fn rwlocks<T: Plain>(
        &mut self,
        count: usize,
        value: impl Fn(usize) -> T,
    ) -> Result<Vec<DsmRwLock<T>>> {
        let first = self.make(ObjectKind::RwLock, count)?;
        Ok(DsmRwLock::all(first, self.values("rwlocks", count, value)?))
    }

    /// A semaphore whose count is `initial`. Collective, with the same number at all ranks.
    pub fn semaphore(&mut self, initial: u32) -> Result<Semaphore> {
        Ok(self.semaphores(1, initial)?[0])
    }

    /// `count` semaphores, each with a count of `initial`. Collective.
    pub fn semaphores(&mut self, count: usize, initial: u32) -> Result<Vec<Semaphore>> {
        let first = self.make(ObjectKind::Semaphore(initial), count)?;
        Ok((first..).take(count).map(Semaphore).collect())
    }

    /// A condition variable. Collective.
    pub fn condvar(&mut self) -> Result<Condvar> {
        Ok(Condvar(self.make(ObjectKind::Condition, 1)?))
    }

    /// `count` flags, all 0. Collective.
    pub fn flags(&mut self, count: usize) -> Result<Vec<Flag>> {
        let first = self.make(ObjectKind::Flag, count)?;
        Ok((first..).take(count).map(Flag).collect())
    }

    fn make(&mut self, kind: ObjectKind, count: usize) -> Result<u32> {
        self.runtime.make_objects(kind, u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Allocates values, of which each rank sets some. For all ranks they are those of such objects: no rank
    /// has them as an array, whose elements it may change at any time.
    fn values<T: Plain>(
        &mut self,
        objects: &str,
        count: usize,
        value: impl Fn(usize) -> T,
    ) -> Result<SharedSlice<T>> {
        let values = self.alloc::<T>(count)?;
        let part = |rank: usize| count * rank / self.size();
        for index in part(self.rank())..part(self.rank() + 1) {
            values.set(self, index, value(index));
        }
        session::agree(self, values, digest(&(objects, size_of::<T>(), count)))?;
        Ok(values)
    }

    /// The untyped interface, for calls that change no bytes that references lead to.
    pub(crate) fn untyped(&self) -> &'static Runtime {
        self.runtime
    }

    /// Frees what `alloc` returned. Collective. No copy of the handle can be used any more.
    pub fn free<T: Plain>(&mut self, slice: SharedSlice<T>) -> Result<()> {
        self.runtime.free(slice.allocation()?)
    }

    /// Allocates `len` values of which each rank owns a contiguous part. Collective.
    pub fn partition<T: Plain>(&mut self, len: usize) -> Result<Partition<T>> {
        Partition::new(self, len)
    }

    /// Allocates a matrix of which each rank owns neighbouring rows. Collective, with the same numbers at all
    /// ranks.
    ///
    /// # Errors
    /// No room, or none of the numbers may be 0; ranks made different collective calls; a rank is gone.
    pub fn matrix<T: Plain>(&mut self, rows: usize, columns: usize) -> Result<Matrix<T>> {
        Matrix::by_rows(self, rows, columns)
    }

    /// Allocates a matrix of which each rank owns a block of rows and columns: ranks form a grid, as square
    /// as their number allows. Collective, with the same numbers at all ranks.
    ///
    /// # Errors
    /// As for [`matrix`](Self::matrix).
    pub fn matrix_in_blocks<T: Plain>(&mut self, rows: usize, columns: usize) -> Result<Matrix<T>> {
        Matrix::in_blocks(self, rows, columns)
    }

    /// The home of the page that holds element `index`; `None` while nobody has touched it. Where ranks share
    /// frames ([`FrameSharing`](crate::FrameSharing)) it is the rank that the allocation or
    /// [`set_home`](Self::set_home) has named; `None` if neither has.
    pub fn home<T: Plain>(&self, slice: SharedSlice<T>, index: usize) -> Result<Option<usize>> {
        let home = self.runtime.home(slice.address(index..index.saturating_add(1))?.0)?;
        Ok(home.map(|rank| rank as usize))
    }

    /// From the next memory barrier on, `rank` is the home of the pages of these elements; from the next but
    /// one on, that of pages which were touched for the first time since the last.
    pub fn set_home<T: Plain>(
        &mut self,
        slice: SharedSlice<T>,
        elements: std::ops::Range<usize>,
        rank: usize,
    ) -> Result<()> {
        let (address, bytes) = slice.address(elements)?;
        self.runtime.set_home(address, bytes, u32::try_from(rank).unwrap_or(u32::MAX))
    }

    /// From now on, copies of this allocation are kept coherent by `protocol`. To be called by all ranks.
    pub fn set_protocol<T: Plain>(&mut self, slice: SharedSlice<T>, protocol: Protocol) -> Result<()> {
        self.runtime.set_protocol(slice.allocation()?, protocol)
    }

    /// Gives an allocation a name, by which it is called where a data race is told (`SCASH_RACES`). To be
    /// called by all ranks.
    pub fn name<T: Plain>(&self, slice: SharedSlice<T>, name: &str) -> Result<()> {
        self.runtime.name(slice.allocation()?, name)
    }

    /// Brings this rank's changes to their homes before the next memory barrier.
    pub fn write_back<T: Plain>(
        &mut self,
        slice: SharedSlice<T>,
        elements: std::ops::Range<usize>,
    ) -> Result<()> {
        let (address, bytes) = slice.address(elements)?;
        self.runtime.write_back(address, bytes)
    }

    /// Brings cached pages up to what their homes hold now; what this rank wrote stays.
    pub fn read_home<T: Plain>(
        &mut self,
        slice: SharedSlice<T>,
        elements: std::ops::Range<usize>,
    ) -> Result<()> {
        let (address, bytes) = slice.address(elements)?;
        self.runtime.read_home(address, bytes)
    }

    /// Brings these elements to all ranks, so that reading them takes no fault until the next memory barrier.
    /// Collective, and includes a memory barrier.
    pub fn broadcast<T: Plain>(
        &mut self,
        slice: SharedSlice<T>,
        elements: std::ops::Range<usize>,
    ) -> Result<()> {
        let (address, bytes) = slice.address(elements)?;
        self.runtime.broadcast(address, bytes)
    }

    /// Makes these elements ready to be read by the system, until the next memory barrier. A system call that
    /// is given shared memory fails with `EFAULT` where a plain access would have fetched the page.
    pub fn touch<T: Plain>(&self, slice: SharedSlice<T>, elements: std::ops::Range<usize>) -> Result<()> {
        let (address, bytes) = slice.address(elements)?;
        self.runtime.touch(address, bytes, false)
    }

    /// As [`touch`](Self::touch), for system calls that write: `read` a file into shared memory, say.
    pub fn touch_mut<T: Plain>(&self, slice: SharedSlice<T>, elements: std::ops::Range<usize>) -> Result<()> {
        let (address, bytes) = slice.address(elements)?;
        self.runtime.touch(address, bytes, true)
    }

    /// What this rank has counted and timed so far.
    pub fn stats(&self) -> Stats {
        self.runtime.stats()
    }

    /// Ends this rank's part in the job, together with all others.
    pub fn finalize(self) -> Result<()> {
        if let Some(messages) = &self.messages {
            messages.barrier()?;
        }
        self.runtime.finalize()
    }
}
