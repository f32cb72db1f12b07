//! Several threads of a rank in the typed interface: a crew, and its workers.

use crate::api::division::Division;
use crate::api::dsm::Dsm;
use crate::api::matrix::Matrix;
use crate::api::partition::Partition;
use crate::api::reduce::{self, Reducible};
use crate::api::session::sealed::SessionAccess;
use crate::api::session::{self, Seal, Session};
use crate::api::shared::{Plain, SharedSlice};
use crate::api::split::{self, Split, Turn};
use crate::api::team::{Outcome, Team, TeamCall, WorkEnd};
use crate::error::{Error, Result};
use crate::runtime::Runtime;
use scash_proto::AllocOptions;
use scash_proto::wire::reduce::{Combine, NumberKind};
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

/// One of the threads that [`Dsm::crew`] runs on each rank, seen from itself. It belongs to that thread.
///
/// It is to the thread what a [`Dsm`] is to a rank: locks, atomic operations and arrays are used with it,
/// references into shared memory are borrowed from it, and its collective calls are calls of all workers of
/// all ranks. So no reference outlives the interval in which it was made, whichever thread has it:
///
/// ```compile_fail,E0502
/// # fn f(worker: &mut scash::Worker<'_>, field: &mut scash::Partition<f64>) -> scash::Result<()> {
/// let parts = field.parts(worker);
/// worker.barrier()?; // error: `parts` still borrows it
/// parts.mine[0] = 1.0;
/// # Ok(()) }
/// ```
///
/// ```compile_fail,E0277
/// # fn f(worker: &mut scash::Worker<'_>) {
/// std::thread::scope(|scope| {
///     scope.spawn(|| worker.barrier()); // error: a worker is one thread's
/// });
/// # }
/// ```
#[derive(Debug)]
pub struct Worker<'a> {
    runtime: Job,
    team: &'a Team,
    thread: usize,
    _thread: PhantomData<*mut ()>,
}

/// The job, which says nothing of itself in a report.
#[derive(Clone, Copy)]
struct Job(&'static Runtime);

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {} of {}", self.0.rank(), self.0.size())
    }
}

impl SessionAccess for Worker<'_> {
    fn job(&self, _: Seal) -> &'static Runtime {
        self.runtime.0
    }

    fn together(
        &mut self,
        call: TeamCall,
        run: &mut dyn FnMut() -> Result<Outcome>,
        _: Seal,
    ) -> Result<Outcome> {
        self.team.meet(call, run)
    }

    fn name(&self, index: usize, _: Seal) -> String {
        let threads = self.team.threads();
        format!("thread {} of rank {}", index % threads, index / threads)
    }
}

impl Session for Worker<'_> {
    fn index(&self) -> usize {
        Worker::index(self)
    }

    fn count(&self) -> usize {
        Worker::count(self)
    }
}

impl Worker<'_> {
    /// This rank, from 0.
    pub fn rank(&self) -> usize {
        self.runtime.0.rank() as usize
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.runtime.0.size() as usize
    }

    /// This thread among those of its rank, from 0.
    pub fn thread(&self) -> usize {
        self.thread
    }

    /// How many threads each rank has in the crew.
    pub fn threads(&self) -> usize {
        self.team.threads()
    }

    /// The number of this worker among those of all ranks, from 0. The workers of a rank have neighbouring
    /// numbers.
    pub fn index(&self) -> usize {
        self.rank() * self.threads() + self.thread
    }

    /// How many workers all ranks have.
    pub fn count(&self) -> usize {
        self.size() * self.threads()
    }

    /// This worker's part when all take neighbouring ones of `len` things, as equal as can be.
    pub fn part(&self, len: usize) -> Range<usize> {
        Session::part(self, len)
    }

    /// The memory barrier: returns when all workers of all ranks have called it; then each sees what any
    /// wrote before.
    ///
    /// # Errors
    /// As those of [`Dsm::barrier`]; [`Error::Deserted`], if a thread of the crew has left; threads of the
    /// rank made different collective calls.
    pub fn barrier(&mut self) -> Result<()> {
        session::barrier(self)
    }

    /// As [`Dsm::turn`], by all workers.
    ///
    /// # Errors
    /// As there and for [`barrier`](Self::barrier).
    pub fn turn<'b>(&mut self, turns: impl IntoIterator<Item = Turn<'b>>) -> Result<()> {
        split::turn(self, turns.into_iter().collect())
    }

    /// As [`Dsm::alloc`], by all workers: they get one allocation.
    ///
    /// # Errors
    /// As there and for [`barrier`](Self::barrier).
    pub fn alloc<T: Plain>(&mut self, len: usize) -> Result<SharedSlice<T>> {
        self.alloc_with(len, AllocOptions::default())
    }

    /// As [`Dsm::alloc_with`], by all workers.
    ///
    /// # Errors
    /// As there and for [`barrier`](Self::barrier).
    pub fn alloc_with<T: Plain>(&mut self, len: usize, options: AllocOptions) -> Result<SharedSlice<T>> {
        session::alloc(self, len, options)
    }

    /// As [`Dsm::free`], by all workers.
    ///
    /// # Errors
    /// As there and for [`barrier`](Self::barrier).
    pub fn free<T: Plain>(&mut self, slice: SharedSlice<T>) -> Result<()> {
        session::free(self, slice)
    }

    /// As [`Dsm::partition`], by all workers, each of which owns a contiguous part.
    ///
    /// # Errors
    /// As there and for [`barrier`](Self::barrier).
    pub fn partition<T: Plain>(&mut self, len: usize) -> Result<Partition<T>> {
        Partition::new(self, len)
    }

    /// As [`Dsm::matrix`], by all workers, each of which owns neighbouring rows.
    ///
    /// # Errors
    /// As there and for [`barrier`](Self::barrier).
    pub fn matrix<T: Plain>(&mut self, rows: usize, columns: usize) -> Result<Matrix<T>> {
        Matrix::by_rows(self, rows, columns)
    }

    /// As [`Dsm::matrix_in_blocks`], by all workers, each of which owns a block.
    ///
    /// # Errors
    /// As there and for [`barrier`](Self::barrier).
    pub fn matrix_in_blocks<T: Plain>(&mut self, rows: usize, columns: usize) -> Result<Matrix<T>> {
        Matrix::in_blocks(self, rows, columns)
    }

    /// As [`Dsm::split`], by all workers.
    ///
    /// # Errors
    /// As there and for [`barrier`](Self::barrier).
    pub fn split<T: Plain>(&mut self, division: &Division) -> Result<Split<T>> {
        Split::new(self, division)
    }

    /// As [`Dsm::divide`], by all workers, each of which names its ranges.
    ///
    /// # Errors
    /// As there and for [`barrier`](Self::barrier).
    pub fn divide(&mut self, len: usize, mine: &[Range<usize>]) -> Result<Division> {
        Division::gather(self, len, mine)
    }

    /// All workers' values become one, element by element, at every worker. Collective, and no memory
    /// barrier, as [`Dsm::all_reduce`].
    ///
    /// Floating-point sums have the same bits at every worker, and in every run on as many ranks with as many
    /// threads.
    ///
    /// # Errors
    /// As there and for [`barrier`](Self::barrier).
    pub fn all_reduce<T: Reducible>(&self, combine: Combine, values: &mut [T]) -> Result<()> {
        reduce::replace(values, |number, words| self.reduce_words(combine, number, words))
    }

    /// As [`all_reduce`](Self::all_reduce), for one value a worker.
    ///
    /// # Errors
    /// As there.
    pub fn reduce<T: Reducible>(&self, combine: Combine, value: T) -> Result<T> {
        let mut values = [value];
        self.all_reduce(combine, &mut values)?;
        Ok(values[0])
    }

    fn reduce_words(&self, combine: Combine, number: NumberKind, words: Vec<u64>) -> Result<Vec<u64>> {
        let runtime = self.runtime.0;
        runtime.check_reduction(combine, number, words.len())?;
        let call = TeamCall::Reduce(combine, number, words.len());
        let reduced = self.team.meet_with(call, self.thread, words, |brought| {
            let all = crate::api::team::combine(combine, number, brought);
            Ok(Outcome::Reduced(runtime.all_reduce(combine, number, all)?))
        })?;
        match reduced {
            Outcome::Reduced(words) => Ok(words),
            _ => Err(Error::Broken("the reduction had no outcome".to_owned())),
        }
    }
}

/// Tells the others when a thread leaves the crew, also by a panic.
struct Leave<'a> {
    team: &'a Team,
    thread: usize,
    end: WorkEnd,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.team.leave(self.thread, self.end);
    }
}

impl Dsm {
    /// Runs `work` on so many threads of this rank, the calling one among them, each with a [`Worker`] of its
    /// own. Returns what each made of it, by thread, when all are done. Collective: all ranks run as many.
    ///
    /// `scash run --threads` is asked for by [`threads`](Self::threads).
    ///
    /// ```no_run
    /// fn main() -> scash::Result<()> {
    ///     let mut dsm = scash::Dsm::init()?;
    ///     let hits = dsm.mutex(0u64)?;
    ///     let threads = dsm.threads();
    ///     dsm.crew(threads, |worker| -> scash::Result<()> {
    ///         let mut field = worker.partition::<f64>(1 << 20)?; // each worker owns a part
    ///         field.parts(worker).mine.fill(worker.index() as f64);
    ///         field.publish(worker)?; // the memory barrier of all workers
    ///         *hits.lock(worker)? += field.all(worker).iter().filter(|x| **x > 0.0).count() as u64;
    ///         field.free(worker)
    ///     })?;
    ///     dsm.finalize()
    /// }
    /// ```
    ///
    /// What is borrowed from the `Dsm` ends before the crew begins:
    ///
    /// ```compile_fail,E0502
    /// # fn f(dsm: &mut scash::Dsm, field: &scash::Partition<f64>) -> scash::Result<()> {
    /// let all = field.all(dsm);
    /// dsm.crew(2, |worker| worker.barrier())?; // error: `all` still borrows it
    /// assert_eq!(all[0], 0.0);
    /// # Ok(()) }
    /// ```
    ///
    /// A thread that returns, or panics, comes to no further collective call; the others are told so
    /// ([`Error::Deserted`]) at their next one. When all have returned, a panic goes on in the calling
    /// thread.
    ///
    /// # Errors
    /// That of the thread whose work failed first; no threads, or other ranks want another number; the system
    /// gives no thread; a rank is gone.
    pub fn crew<T, E>(
        &mut self,
        threads: usize,
        work: impl Fn(&mut Worker<'_>) -> std::result::Result<T, E> + Sync,
    ) -> std::result::Result<Vec<T>, E>
    where
        T: Send,
        E: From<Error> + Send,
    {
        self.agree_on_threads(threads)?;
        let (runtime, team) = (Job(self.untyped()), Team::new(self.rank(), threads));
        let run = |thread: usize| {
            let mut leave = Leave { team: &team, thread, end: WorkEnd::Panicked };
            let mut worker = Worker { runtime, team: &team, thread, _thread: PhantomData };
            let made = work(&mut worker);
            leave.end = if made.is_ok() { WorkEnd::Done } else { WorkEnd::Failed };
            made
        };
        let mut made: Vec<std::result::Result<T, E>> = thread::scope(|scope| {
            let start = |thread| {
                let run = &run;
                let started = thread::Builder::new().spawn_scoped(scope, move || run(thread));
                started.inspect_err(|_| team.leave(thread, WorkEnd::Failed)).map_err(|e| no_thread(&e))
            };
            let others: Vec<_> = (1..threads).map(start).collect();
            let first = run(0);
            let ended = others.into_iter().map(|other| match other.map(ScopedJoinHandle::join) {
                Ok(Ok(made)) => made,
                Ok(Err(panic)) => resume_unwind(panic),
                Err(error) => Err(error.into()),
            });
            std::iter::once(first).chain(ended).collect()
        });
        if let Some(first) = team.first_to_fail() {
            made = vec![made.swap_remove(first)];
        }
        made.into_iter().collect()
    }

    /// All ranks must run as many threads: by that number the workers are counted.
    fn agree_on_threads(&self, threads: usize) -> Result<()> {
        if threads == 0 {
            return Err(Error::Argument("a crew of 0 threads: ask for at least one".to_owned()));
        }
        let mine = threads as u64;
        let mut all = [mine, !mine];
        self.all_reduce(Combine::Max, &mut all)?;
        let [most, least] = [all[0], !all[1]];
        if most == least {
            return Ok(());
        }
        Err(Error::Mismatch(format!(
            "ranks run crews of {least} to {most} threads, this one of {threads}: all ranks must run as many"
        )))
    }
}

fn no_thread(error: &std::io::Error) -> Error {
    Error::Broken(format!("cannot start a thread of a crew (see `ulimit -u`): {error}"))
}
