//! All threads of all ranks fault at the same time: first all on one page, then each on another, for reading
//! and for writing.

#![allow(clippy::print_stdout, reason = "a rank tells that all was right")]

use scash::{Dsm, Result};
use std::process::ExitCode;
use std::sync::Barrier;

const PAGES: usize = 16;
const PAGE: usize = 4096;
const ROUNDS: usize = 60;

/// What a thread knows.
#[derive(Clone, Copy)]
struct Worker<'a> {
    /// Among all threads of the job.
    number: usize,
    /// Where the shared memory begins, as a number, as threads may share those.
    start: usize,
    /// Where this rank's threads wait for each other.
    line: &'a Barrier,
}

impl Worker<'_> {
    fn byte(self, page: usize, offset: usize) -> *mut u8 {
        assert!(page < PAGES && offset < PAGE);
        std::ptr::with_exposed_provenance_mut(self.start + page * PAGE + offset)
    }

    /// The order in which a thread visits the pages: all the same, or each its own.
    fn way(self, apart: bool) -> impl Iterator<Item = usize> {
        let first = if apart { self.number * 3 } else { 0 };
        (0..PAGES).map(move |i| (i + first) % PAGES)
    }

    /// Writes the thread's own byte of every page.
    fn write(self, round: usize) {
        for page in self.way(round.is_multiple_of(2)) {
            self.line.wait();
            // SAFETY: inside the allocation; this byte is written by this thread alone, and read after the
            // next memory barrier.
            unsafe { self.byte(page, self.number).write_volatile(value(round, page, self.number)) };
        }
    }

    /// Reads all threads' bytes of every page; returns how many are wrong.
    fn read(self, round: usize, of: usize) -> usize {
        let mut wrong = 0;
        for page in self.way(round % 4 < 2) {
            self.line.wait();
            for number in 0..of {
                // SAFETY: inside the allocation; nobody writes in this interval.
                let found = unsafe { self.byte(page, number).read_volatile() };
                wrong += usize::from(found != value(round, page, number));
            }
        }
        wrong
    }
}

fn value(round: usize, page: usize, number: usize) -> u8 {
    (round * 31 + page * 7 + number).to_le_bytes()[0]
}

/// Runs work on all threads of this rank.
fn all(dsm: &Dsm, start: usize, work: impl Fn(Worker<'_>) -> usize + Sync) -> usize {
    let threads = dsm.threads();
    let line = Barrier::new(threads);
    let first = dsm.rank() * threads;
    std::thread::scope(|scope| {
        let (line, work) = (&line, &work);
        let running: Vec<_> = (first..first + threads)
            .map(|number| scope.spawn(move || work(Worker { number, start, line })))
            .collect();
        running.into_iter().map(|thread| thread.join().unwrap_or(1)).sum()
    })
}

fn run() -> Result<usize> {
    let mut dsm = Dsm::init()?;
    let start = dsm.alloc::<u8>(PAGES * PAGE)?.as_ptr().expose_provenance();
    let everybody = dsm.size() * dsm.threads();
    let mut wrong = 0;
    for round in 0..ROUNDS {
        all(&dsm, start, |worker| {
            worker.write(round);
            0
        });
        dsm.barrier()?;
        wrong += all(&dsm, start, |worker| worker.read(round, everybody));
        dsm.barrier()?;
    }
    let rank = dsm.rank();
    dsm.finalize()?;
    println!("rank {rank}: {wrong} bytes are wrong");
    Ok(wrong)
}

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("storm: {error}");
            ExitCode::FAILURE
        }
    }
}
