//! The workers of a program and how they meet, in each mode.
//!
//! A program is written once, for one [`Worker`]: it knows its number and how many there are, and can wait for the
//! others. What that takes depends on the mode: nothing for a single worker, a [`SpinBarrier`] between the threads of
//! one process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::{Error, Result};

/// Which of the workers, and of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    /// From 0 to `count - 1`.
    pub index: usize,
    /// At least 1.
    pub count: usize,
}

impl Who {
    /// The only worker.
    pub const ALONE: Self = Self { index: 0, count: 1 };

    /// All `count` workers.
    pub fn all(count: usize) -> impl Iterator<Item = Self> {
        (0..count).map(move |index| Self { index, count })
    }
}

/// One worker's view of its crew.
pub trait Worker {
    /// Which worker this is.
    fn who(&self) -> Who;

    /// Waits for all workers. What each wrote before, all see afterwards.
    ///
    /// # Errors
    /// If the others cannot be reached any more.
    fn barrier(&mut self) -> Result<()>;
}

/// A worker without others.
#[derive(Debug)]
pub struct Solo;

impl Worker for Solo {
    fn who(&self) -> Who {
        Who::ALONE
    }

    fn barrier(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A worker that is a thread among others of one process.
#[derive(Debug)]
pub struct Member<'a> {
    who: Who,
    barrier: &'a SpinBarrier,
}

impl Worker for Member<'_> {
    fn who(&self) -> Who {
        self.who
    }

    fn barrier(&mut self) -> Result<()> {
        self.barrier.wait()
    }
}

/// Runs `work` on `count` threads, the calling one among them, and returns what each made of it.
///
/// With `pin`, every thread stays on a processor of its own while there are enough of them.
///
/// # Errors
/// The first error of `work`, or of starting the threads. Those that wait for a worker that failed fail too.
pub fn run_threads<T: Send>(
    count: usize,
    pin: bool,
    work: impl Fn(&mut Member<'_>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let barrier = SpinBarrier::new(count);
    let processors = if pin { Some(allowed_processors()?) } else { None };
    let member = |who: Who| {
        let mut guard = BreakUnlessDone { barrier: &barrier, done: false };
        if let Some(processors) = &processors {
            pin_to(processors[who.index % processors.len()])?;
        }
        let result = work(&mut Member { who, barrier: &barrier });
        guard.done = result.is_ok();
        result
    };
    let results: Vec<Result<T>> = thread::scope(|scope| {
        let mut all = Who::all(count);
        let first = all.next().expect("at least one worker");
        let others: Vec<_> = all
            .map(|who| {
                let member = &member;
                let started = thread::Builder::new().spawn_scoped(scope, move || member(who));
                started.inspect_err(|_| barrier.break_up()).map_err(Error::Thread)
            })
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<T>>| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        std::iter::once(member(first)).chain(others.into_iter().map(|other| other.and_then(join))).collect()
    });
    let (done, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    let mut errors = failed.into_iter().filter_map(Result::err).collect::<Vec<_>>();
    errors.sort_by_key(|error| matches!(error, Error::Deserted));
    match errors.into_iter().next() {
        Some(error) => Err(error),
        None => done.into_iter().collect(),
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

/// A value alone on its cache lines (two: processors fetch them in pairs).
#[derive(Debug)]
#[repr(align(128))]
struct Alone<T>(T);

/// A barrier for threads that expect each other soon: it spins, and gives its processor away when the others take
/// longer, or when there are not enough processors for all.
#[derive(Debug)]
pub struct SpinBarrier {
    /// How many threads have yet to arrive in this round.
    missing: Alone<AtomicUsize>,
    /// How many rounds are complete, or [`BROKEN`].
    round: Alone<AtomicUsize>,
    count: usize,
    spins: u32,
}

/// Turns of the waiting loop before a thread yields: some tens of microseconds, more than the workers of a balanced
/// program are apart, and less than the kernel's time slice.
const SPINS: u32 = 1 << 12;

/// The round of a barrier at which somebody will never arrive.
const BROKEN: usize = usize::MAX;

impl SpinBarrier {
    /// A barrier for `count` threads.
    pub fn new(count: usize) -> Self {
        let enough = thread::available_parallelism().is_ok_and(|processors| count <= processors.get());
        Self {
            missing: Alone(AtomicUsize::new(count)),
            round: Alone(AtomicUsize::new(0)),
            count,
            spins: if enough { SPINS } else { 0 },
        }
    }

    /// Waits until all threads have called this.
    ///
    /// 1. Every thread reads the round, which cannot end before it arrives itself, and arrives: `missing` is counted
    ///    down with acquire-release, so that the last to arrive has seen what all did before.
    /// 2. The last one sets `missing` up again: nobody else touches it until the round ends.
    /// 3. It ends the round with a release, which makes steps 1 and 2 visible to those whose acquire sees it.
    ///
    /// # Errors
    /// If the barrier is broken.
    pub fn wait(&self) -> Result<()> {
        let round = self.round.0.load(Ordering::Relaxed);
        if round == BROKEN {
            return Err(Error::Deserted);
        }
        if self.missing.0.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.missing.0.store(self.count, Ordering::Relaxed);
            self.round.0.store(round + 1, Ordering::Release);
            return Ok(());
        }
        let mut spins = self.spins;
        loop {
            match self.round.0.load(Ordering::Acquire) {
                now if now == round => {}
                BROKEN => return Err(Error::Deserted),
                _ => return Ok(()),
            }
            if spins > 0 {
                spins -= 1;
                std::hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }

    /// Makes all who wait, or come to wait, give up. Only for a thread that is not waiting and will not: then no round
    /// can end any more, and nothing overwrites the mark.
    pub fn break_up(&self) {
        self.round.0.store(BROKEN, Ordering::Release);
    }
}

#[cfg(test)]
pub(crate) mod tests;
