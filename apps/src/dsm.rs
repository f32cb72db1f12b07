//! A program on the ranks of a DSM job.

use std::ptr::NonNull;

use scash::runtime::{ObjectKind, Runtime};
use scash::{Dsm, FrameSharing};

use crate::crew::{Job, WorkerNumber, run_crew};
use crate::lock::Lock;
use crate::memory::Memory;
use crate::options::Options;
use crate::program::Program;
use crate::repetitions::{Reference, work};
use crate::report::{CoherenceCost, FIGURES, RECORD, Report, Setting, Timing};
use crate::semaphore::Semaphore;
use crate::shared::{Element, KeepAlive, Shared};
use crate::word::Word;
use crate::{Error, Result};

/// This process as a rank.
struct Rank(&'static Runtime);

impl Job for Rank {
    fn rank(&self) -> usize {
        self.0.rank() as usize
    }

    fn ranks(&self) -> usize {
        self.0.size() as usize
    }

    fn barrier(&self, alike: Option<[u64; 2]>) -> Result<()> {
        Ok(alike.map_or_else(|| self.0.barrier(), |numbers| self.0.barrier_alike(numbers))?)
    }

    fn cost(&self) -> CoherenceCost {
        let stats = self.0.stats();
        CoherenceCost {
            sync: stats.barrier.sync.as_secs_f64(),
            diff: stats.barrier.diff.as_secs_f64(),
            update: stats.barrier.update.as_secs_f64(),
            faults: stats.faults,
            messages: stats.traffic.messages,
            bytes: stats.traffic.bytes,
            figures: FIGURES.map(|(_, of)| of(&stats)),
        }
    }
}

/// Runs the program on all threads of all ranks, in plain shared arrays: placement, protocol and all else as
/// the DSM does it when it is not asked for anything. Rank 0 returns the report.
pub(crate) fn run<P: Program>(program: &P, options: &Options) -> Result<Option<Report>> {
    let mut dsm = Dsm::init().map_err(Error::Join)?;
    let reference = if options.check { Some(Reference::compute(program)?) } else { None };
    let workers = dsm.size() * dsm.threads();
    let mut arrays = program.allocate(workers, &mut dsm)?;
    // SAFETY: what workers see of the arrays between barriers is `work`'s concern; nothing here holds a
    // reference into them.
    let (rank, threads) = (Rank(unsafe { dsm.runtime() }), dsm.threads());
    let timings = run_crew(&rank, threads, false, |worker| {
        work(program, worker, &arrays, options.repeat.get(), reference.as_ref())
    })?;
    let mut timings = Timing::merge(&timings);
    if let (Some(reference), Some(last)) = (&reference, timings.last_mut()) {
        // Each worker has compared what it owns. The last result is also compared as a whole by every rank,
        // which would disturb the next repetition if there were one.
        let result = program.result_mut(&mut arrays).whole();
        let everything: Vec<_> =
            WorkerNumber::all(workers).flat_map(|who| program.owned(who, result.len())).collect();
        let equal = reference.equals(|run| &result[run], &everything);
        last.equal = last.equal.map(|owned| owned && equal);
    }
    let report = gather(&mut dsm, &timings)?.map(|ranks| -> Result<Report> {
        let verified = program.verify(&mut arrays);
        program.finish(&mut arrays)?;
        let shared = dsm.stats().frames == FrameSharing::Shared;
        let (provider, engine) = (dsm.provider(), if shared { "shared frames" } else { dsm.engine() });
        let setting = Setting {
            program: P::NAME,
            mode: "dsm",
            threads,
            provider: Some(provider),
            engine: Some(engine),
        };
        Ok(Report::new(setting, &ranks, verified))
    });
    let report = report.transpose()?;
    dsm.finalize()?;
    Ok(report)
}

impl Memory for Dsm {
    fn memory<T: Element>(&mut self, len: usize) -> Result<(Shared<T>, KeepAlive)> {
        let array = self.alloc::<T>(len)?;
        let start = NonNull::new(array.as_ptr()).expect("shared memory is not at address 0");
        // SAFETY: it holds `len` plain values, and is freed at the end of the process.
        Ok((unsafe { Shared::new(start, len) }, None))
    }

    fn word(&mut self) -> Result<Word> {
        let (word, _) = self.memory(1)?;
        // SAFETY: no slices are made of the word.
        Ok(Word::of_job(unsafe { self.runtime() }, word))
    }

    fn semaphore(&mut self) -> Result<Semaphore> {
        // SAFETY: making a semaphore changes no bytes that references lead to, as making locks does not.
        let runtime = unsafe { self.runtime() };
        Ok(Semaphore::of_job(runtime, runtime.make_objects(ObjectKind::Semaphore(0), 1)?))
    }

    fn locks(&mut self, count: usize) -> Result<Vec<Lock>> {
        // SAFETY: locks change no bytes that references lead to: the arrays' slices are made by workers, who
        // have not begun.
        let runtime = unsafe { self.runtime() };
        // More than a job can have are refused there.
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let first = runtime.make_locks(count)?;
        Ok((first..).take(count as usize).map(|number| Lock::of_job(runtime, number)).collect())
    }
}

/// Brings the timings of all ranks to rank 0, through shared memory.
fn gather(dsm: &mut Dsm, timings: &[Timing]) -> Result<Option<Vec<Vec<Timing>>>> {
    let repeat = timings.len();
    let records = dsm.alloc::<[u64; RECORD]>(dsm.size() * repeat)?;
    for (r, timing) in timings.iter().enumerate() {
        records.set(dsm, dsm.rank() * repeat + r, timing.to_record());
    }
    dsm.barrier()?;
    if dsm.rank() != 0 {
        return Ok(None);
    }
    let timing = |rank: usize, r: usize| Timing::from_record(records.get(dsm, rank * repeat + r));
    Ok(Some((0..dsm.size()).map(|rank| (0..repeat).map(|r| timing(rank, r)).collect()).collect()))
}
