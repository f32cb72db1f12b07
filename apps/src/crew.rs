//! The workers of a program and how they meet, in each mode.
//!
//! A program is written once, for one [`Worker`]: it knows its number and how many there are, and can wait
//! for the others. The workers are threads of one process, which meet at a [`SpinBarrier`]; and that process
//! may be one rank of a [`Job`], whose ranks meet each time their threads have.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::life::Life;
use crate::report::CoherenceCost;
use crate::turn::{self, Turn};
use crate::{Error, Result};

/// Which of the workers, and of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerNumber {
    /// From 0 to `count - 1`.
    pub index: usize,
    /// At least 1.
    pub count: usize,
}

impl WorkerNumber {
    /// The only worker.
    pub const ALONE: Self = Self { index: 0, count: 1 };

    /// All `count` workers.
    pub fn all(count: usize) -> impl Iterator<Item = Self> {
        (0..count).map(move |index| Self { index, count })
    }

    /// This worker's part when all take neighbouring ones of `len` things, as equal as can be.
    pub fn part(self, len: usize) -> Range<usize> {
        // Every worker gets the same number, and the first ones one more each: no product that could
        // overflow.
        let (each, more) = (len / self.count, len % self.count);
        let start = |worker: usize| each * worker + worker.min(more);
        start(self.index)..start(self.index + 1)
    }
}

/// The processes that a program runs in, seen from one of them.
pub trait Job: Sync {
    /// Which process this is, from 0.
    fn rank(&self) -> usize;

    /// How many there are.
    fn ranks(&self) -> usize;

    /// Waits for all processes. What each wrote before, all see afterwards. One thread of each makes the
    /// call. Where they bring numbers, all must bring the same.
    ///
    /// # Errors
    /// If the others cannot be reached any more, or bring other numbers.
    fn barrier(&self, alike: Option<[u64; 2]>) -> Result<()>;

    /// What it has cost this process up to now that there are others.
    fn cost(&self) -> CoherenceCost;
}

/// A process without others.
#[derive(Debug)]
pub struct Sequential;

impl Job for Sequential {
    fn rank(&self) -> usize {
        0
    }

    fn ranks(&self) -> usize {
        1
    }

    fn barrier(&self, _alike: Option<[u64; 2]>) -> Result<()> {
        Ok(())
    }

    fn cost(&self) -> CoherenceCost {
        CoherenceCost::default()
    }
}

/// One of the workers, seen from itself. It belongs to its thread.
pub struct Worker<'a> {
    who: WorkerNumber,
    /// Which of the threads of its process.
    thread: usize,
    /// Barriers that it has come to.
    interval: u64,
    threads: &'a Threads,
    job: &'a dyn Job,
    _thread: PhantomData<*mut ()>,
}

/// The threads of a process.
struct Threads {
    barrier: SpinBarrier,
    life: Arc<Life>,
    /// What each thread has come to the barrier for.
    calls: Vec<Apart<[AtomicU64; 2]>>,
}

impl Worker<'_> {
    /// Which worker this is.
    pub fn who(&self) -> WorkerNumber {
        self.who
    }

    /// Waits for all workers. What each wrote before, all see afterwards.
    ///
    /// # Errors
    /// If one of them failed, or cannot be reached any more.
    pub fn barrier(&mut self) -> Result<()> {
        self.meet(None, &[])
    }

    /// As [`barrier`](Self::barrier), and elements of arrays come to have other owners: the same, at all
    /// workers.
    ///
    /// # Errors
    /// As there; or if workers do not mean the same.
    pub fn turn(&mut self, turns: &[Turn<'_>]) -> Result<()> {
        let digest = turn::digest(turns, &self.threads.life, self.who.count)?;
        self.meet(Some(digest), turns)
    }

    fn meet(&mut self, alike: Option<[u64; 2]>, turns: &[Turn<'_>]) -> Result<()> {
        self.interval += 1;
        let threads = self.threads;
        let call =
            |thread: usize| threads.calls[thread].0.each_ref().map(|word| word.load(Ordering::Relaxed));
        for (word, number) in threads.calls[self.thread].0.iter().zip(alike.unwrap_or_default()) {
            word.store(number, Ordering::Relaxed);
        }
        threads.barrier.wait(|| {
            if (0..threads.calls.len()).any(|thread| call(thread) != call(0)) {
                return Err(Error::Disagree);
            }
            self.job.barrier(alike)?;
            turns.iter().for_each(Turn::bring_about);
            Ok(())
        })
    }

    /// Which of the threads of its process this is.
    pub(crate) fn thread(&self) -> usize {
        self.thread
    }

    /// How many barriers it has come to, from 1.
    pub(crate) fn interval(&self) -> u64 {
        self.interval
    }

    /// The threads' crew.
    pub(crate) fn life(&self) -> &Arc<Life> {
        &self.threads.life
    }

    /// What its process's part in the job has cost up to now; the first worker of a process tells it for all.
    pub fn cost(&self) -> CoherenceCost {
        if self.thread == 0 { self.job.cost() } else { CoherenceCost::default() }
    }
}

/// Runs `work` on `threads` threads of this process, the calling one among them, and returns what each made
/// of it.
///
/// With `pin`, every thread stays on a processor of its own while there are enough of them.
///
/// # Errors
/// The first error of `work`, or of starting the threads. Those that wait for a worker that failed fail too.
pub fn run_crew<T: Send>(
    job: &dyn Job,
    threads: usize,
    pin: bool,
    work: impl Fn(&mut Worker<'_>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let count = job.ranks() * threads;
    let crew = Threads {
        barrier: SpinBarrier::new(threads, count),
        life: Life::new(threads),
        calls: (0..threads).map(|_| Apart(Default::default())).collect(),
    };
    let barrier = &crew.barrier;
    let _end = EndCrew(&crew.life);
    let processors = if pin { Some(allowed_processors()?) } else { None };
    let run_member = |thread: usize| {
        let mut guard = BreakUnlessDone { barrier, done: false };
        if let Some(processors) = &processors {
            pin_to(processors[thread % processors.len()])?;
        }
        let who = WorkerNumber { index: job.rank() * threads + thread, count };
        let mut worker = Worker { who, thread, interval: 1, threads: &crew, job, _thread: PhantomData };
        let result = work(&mut worker);
        guard.done = result.is_ok();
        result
    };
    let results: Vec<Result<T>> = thread::scope(|scope| {
        let start = |thread| {
            let run_member = &run_member;
            let started = thread::Builder::new().spawn_scoped(scope, move || run_member(thread));
            started.inspect_err(|_| barrier.break_up()).map_err(Error::Thread)
        };
        let others: Vec<_> = (1..threads).map(start).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<T>>| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let first = run_member(0);
        std::iter::once(first).chain(others.into_iter().map(|other| other.and_then(join))).collect()
    });
    let cause = |error: &&Error| !matches!(error, Error::Deserted);
    if results.iter().any(|result| result.as_ref().err().as_ref().is_some_and(cause)) {
        return results.into_iter().filter(|result| !matches!(result, Err(Error::Deserted))).collect();
    }
    results.into_iter().collect()
}

/// Says that a crew is over, also after a panic: its threads have ended then.
struct EndCrew<'a>(&'a Life);

impl Drop for EndCrew<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Breaks the barrier when a worker leaves early, by an error or a panic, so that nobody waits for it.
struct BreakUnlessDone<'a> {
    barrier: &'a SpinBarrier,
    done: bool,
}

impl Drop for BreakUnlessDone<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.barrier.break_up();
        }
    }
}

fn allowed_processors() -> Result<Vec<usize>> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).map_err(Error::Pin)?;
    Ok((0..CpuSet::count()).filter(|&processor| allowed.is_set(processor).unwrap_or(false)).collect())
}

fn pin_to(processor: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(processor).map_err(Error::Pin)?;
    sched_setaffinity(Pid::from_raw(0), &set).map_err(Error::Pin)
}

/// A value with cache lines of its own (two: processors fetch them in pairs).
#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(T);

/// A barrier for threads that expect each other soon: it spins, gives its processor away when the others
/// take longer, or when there are not enough processors for all, and sleeps now and then when they take
/// long.
#[derive(Debug)]
pub struct SpinBarrier {
    /// How many threads have yet to arrive in this round.
    missing: Apart<AtomicUsize>,
    /// How many rounds are complete, or [`BROKEN`].
    round: Apart<AtomicUsize>,
    count: usize,
    spins: u32,
}

/// Turns of the waiting loop before a thread yields: some tens of microseconds, more than the workers of a
/// balanced program are apart, and less than the kernel's time slice.
const SPINS: u32 = 1 << 12;

/// How often a thread yields before it sleeps. Threads that do nothing else keep others from running: on
/// Linux 6.18 whatever else two processors had to do, the kernel's own threads too, waited for up to 108 s.
const YIELDS: u32 = 400;

/// How long it sleeps then.
const NAP: Duration = Duration::from_micros(50);

/// The round of a barrier at which somebody will never arrive.
const BROKEN: usize = usize::MAX;

impl SpinBarrier {
    /// A barrier for `count` threads, which with others make up a `crowd` that needs processors.
    pub fn new(count: usize, crowd: usize) -> Self {
        let enough = thread::available_parallelism().is_ok_and(|processors| crowd <= processors.get());
        Self {
            missing: Apart(AtomicUsize::new(count)),
            round: Apart(AtomicUsize::new(0)),
            count,
            spins: if enough { SPINS } else { 0 },
        }
    }

    /// Waits until all threads have called this, and the last of them has come back from `last`.
    ///
    /// 1. Every thread reads the round, which cannot end before it arrives itself, and arrives: `missing` is
    ///    counted down with acquire-release, so that the last to arrive has seen what all did before.
    /// 2. The last one calls `last` and sets `missing` up again: nobody else touches it until the round ends.
    /// 3. It ends the round with a release, which makes steps 1 and 2 visible to those whose acquire sees it.
    ///
    /// # Errors
    /// That of `last`, for the thread that called it; or if the barrier is broken.
    pub fn wait(&self, last: impl FnOnce() -> Result<()>) -> Result<()> {
        let round = self.round.0.load(Ordering::Relaxed);
        if round == BROKEN {
            return Err(Error::Deserted);
        }
        if self.missing.0.fetch_sub(1, Ordering::AcqRel) == 1 {
            last()?;
            self.missing.0.store(self.count, Ordering::Relaxed);
            self.round.0.store(round + 1, Ordering::Release);
            return Ok(());
        }
        let (mut spins, mut yields) = (self.spins, YIELDS);
        loop {
            match self.round.0.load(Ordering::Acquire) {
                now if now == round => {}
                BROKEN => return Err(Error::Deserted),
                _ => return Ok(()),
            }
            if spins > 0 {
                spins -= 1;
                std::hint::spin_loop();
            } else if yields > 0 {
                yields -= 1;
                thread::yield_now();
            } else {
                thread::sleep(NAP);
            }
        }
    }

    /// Makes all who wait, or come to wait, give up. Only for a thread that is not waiting and will not: then
    /// no round can end any more, and nothing overwrites the mark.
    pub fn break_up(&self) {
        self.round.0.store(BROKEN, Ordering::Release);
    }
}

#[cfg(test)]
pub(crate) mod tests;
