//! The traces of `scash_bench::scale` do what the programs do: each rank initialises, and writes in the end,
//! what is its own.
#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_apps::crew::WorkerNumber;
use scash_apps::laplace::Laplace;
use scash_apps::lock::Lock;
use scash_apps::lu::Lu;
use scash_apps::memory::{Heap, Memory};
use scash_apps::program::Program;
use scash_apps::semaphore::Semaphore;
use scash_apps::shared::{Element, KeepAlive, Shared};
use scash_apps::word::Word;
use scash_bench::scale::trace::{self, Op, Trace};
use std::ops::Range;

/// Bytes as ascending runs that do not touch.
fn union(mut bytes: Vec<Range<u64>>) -> Vec<Range<u64>> {
    bytes.retain(|run| !run.is_empty());
    bytes.sort_by_key(|run| run.start);
    bytes.dedup_by(|next, run| {
        let joins = next.start <= run.end;
        run.end = if joins { run.end.max(next.end) } else { run.end };
        joins
    });
    bytes
}

/// The bytes of an array that a rank writes in some intervals.
fn written(trace: &dyn Trace, rank: u32, intervals: Range<u32>, array: usize) -> Vec<Range<u64>> {
    let mut ops = Vec::new();
    intervals.for_each(|interval| trace.work(rank, interval, &mut ops));
    let of_array = |op: Op| match op {
        Op::Write(at, bytes) | Op::Clear(at, bytes) if at == array => Some(bytes),
        _ => None,
    };
    union(ops.into_iter().filter_map(of_array).collect())
}

/// The bytes of the result that belong to a worker.
fn owned(program: &impl Program, index: u32, count: u32) -> Vec<Range<u64>> {
    let who = WorkerNumber { index: index as usize, count: count as usize };
    let bytes = |at: usize| at as u64 * 8;
    let mut lengths = Lengths::default();
    let arrays = program.allocate(who.count, &mut lengths).unwrap();
    let len = program.result(&arrays).len();
    union(
        program.owned(who, len).into_iter().map(|run| bytes(run.range.start)..bytes(run.range.end)).collect(),
    )
}

/// Memory that notes what is asked for, in bytes.
#[derive(Default)]
struct Lengths {
    heap: Heap,
    bytes: Vec<u64>,
}

impl Memory for Lengths {
    fn memory<T: Element>(&mut self, len: usize) -> scash_apps::Result<(Shared<T>, KeepAlive)> {
        self.bytes.push((len * size_of::<T>()) as u64);
        self.heap.memory(len)
    }

    fn word(&mut self) -> scash_apps::Result<Word> {
        self.heap.word()
    }

    fn semaphore(&mut self) -> scash_apps::Result<Semaphore> {
        self.heap.semaphore()
    }

    fn locks(&mut self, count: usize) -> scash_apps::Result<Vec<Lock>> {
        self.heap.locks(count)
    }
}

fn arrays(program: &impl Program, ranks: u32) -> Vec<u64> {
    let mut lengths = Lengths::default();
    program.allocate(ranks as usize, &mut lengths).unwrap();
    lengths.bytes
}

#[test]
fn laplace_initialises_the_rows_of_the_program() {
    for (size, ranks) in [(30, 1), (30, 4), (1022, 64), (5, 8)] {
        let program = Laplace::new(size, 2).unwrap();
        let trace = trace::Laplace::square(size as u64, 2, ranks);
        assert_eq!(trace.arrays(), arrays(&program, ranks));
        for rank in 0..ranks {
            let own = owned(&program, rank, ranks);
            assert_eq!(written(&trace, rank, 0..1, 0), own, "{size}, rank {rank} of {ranks}");
            assert_eq!(written(&trace, rank, 0..1, 1), own, "{size}, rank {rank} of {ranks}");
        }
    }
}

#[test]
fn lu_initialises_and_writes_the_blocks_of_the_program() {
    for (size, block, ranks) in [(64, 16, 1), (96, 16, 4), (60, 12, 6), (2048, 64, 64), (32, 16, 9)] {
        let program = Lu::new(size, block).unwrap();
        let trace = trace::Lu::new(size as u64, block as u64, ranks);
        assert_eq!(trace.arrays(), arrays(&program, ranks));
        for rank in 0..ranks {
            let own = owned(&program, rank, ranks);
            assert_eq!(written(&trace, rank, 0..1, 0), own, "{size}, rank {rank} of {ranks}");
            let all = 1..1 + trace.timed();
            assert_eq!(written(&trace, rank, all, 0), own, "{size}, rank {rank} of {ranks}");
        }
    }
}
