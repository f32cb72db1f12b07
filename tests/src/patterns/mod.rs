//! Programs with well-known patterns of sharing, for the simulator: what each rank reads, writes and waits
//! for, without the arithmetic.
//!
//! They are small, and for any number of ranks that divides their arrays. What they cost is counted in
//! `tests/traffic.rs`.

mod arrays;
mod locks;
mod turns;

use scash_bench::scale::Trace;
use scash_bench::scale::trace::{self, Laplace, Lu};
use scash_proto::{AllocOptions, PAGE_SIZE, Pages};
use scash_sim::program::{Interval, Op, Script, Span};
use std::ops::Range;

/// A program.
pub struct Pattern {
    /// Its name in tables.
    pub name: &'static str,
    /// What it does on so many ranks.
    pub script: fn(u32) -> Script,
}

/// All programs, first those that have memory barriers only.
pub const ALL: [Pattern; 16] = [
    Pattern { name: "laplace", script: |ranks| replay(&Laplace::square(126, 20, ranks), ranks) },
    Pattern { name: "lu", script: |ranks| replay(&Lu::new(256, 32, ranks), ranks) },
    Pattern { name: "matmul", script: arrays::matmul },
    Pattern { name: "fft", script: arrays::fft },
    Pattern { name: "radix", script: arrays::radix },
    Pattern { name: "scatter", script: arrays::scatter },
    Pattern { name: "kmeans", script: arrays::kmeans },
    Pattern { name: "false-sharing", script: turns::false_sharing },
    Pattern { name: "migratory", script: turns::migratory },
    Pattern { name: "shifting", script: turns::shifting },
    Pattern { name: "changing-producer", script: turns::changing_producer },
    Pattern { name: "sor-locks", script: locks::sor },
    Pattern { name: "counter-lock", script: locks::counter },
    Pattern { name: "walk-locks", script: locks::walk },
    Pattern { name: "migratory-lock", script: locks::migratory },
    Pattern { name: "producer-flag", script: locks::producer },
];

/// Pages of the region: enough for each of them.
pub const REGION: u32 = 512;

/// Plain shared memory of so many bytes.
fn array(script: &mut Script, bytes: usize) -> Pages {
    let pages = bytes.div_ceil(PAGE_SIZE).max(1);
    script.alloc(u32::try_from(pages).unwrap_or(u32::MAX), AllocOptions::default())
}

/// The part of so many bytes that belongs to a rank, where all have as many.
fn part(bytes: usize, rank: u32, ranks: u32) -> Range<usize> {
    let each = bytes / ranks as usize;
    rank as usize * each..(rank as usize + 1) * each
}

/// The parts of pages that hold these bytes of an array, in order.
fn spans(array: Pages, bytes: Range<usize>) -> impl Iterator<Item = Span> {
    let pages = bytes.start / PAGE_SIZE..bytes.end.div_ceil(PAGE_SIZE);
    pages.zip(array.first + u32::try_from(bytes.start / PAGE_SIZE).unwrap_or(u32::MAX)..).map(
        move |(at, page)| {
            let first = bytes.start.max(at * PAGE_SIZE);
            let end = bytes.end.min((at + 1) * PAGE_SIZE);
            Span { page, first: first - at * PAGE_SIZE, len: end - first }
        },
    )
}

fn read(interval: &mut Interval, rank: u32, array: Pages, bytes: Range<usize>) {
    spans(array, bytes).for_each(|span| interval.push(rank, Op::Read(span)));
}

/// `salt` tells this write's bytes from those of others.
fn write(interval: &mut Interval, rank: u32, array: Pages, bytes: Range<usize>, salt: u32) {
    spans(array, bytes).for_each(|span| interval.push(rank, Op::Write(span, salt.to_le_bytes()[0])));
}

/// A program of which there is a trace.
fn replay(trace: &dyn Trace, ranks: u32) -> Script {
    let mut script = Script::new(ranks, REGION);
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let arrays: Vec<Pages> = trace.arrays().into_iter().map(|len| array(&mut script, bytes(len))).collect();
    let range = |range: Range<u64>| bytes(range.start)..bytes(range.end);
    for number in 0..trace.untimed() + trace.timed() {
        script.interval(|interval| {
            for rank in 0..ranks {
                let mut ops = Vec::new();
                trace.work(rank, number, &mut ops);
                for op in ops {
                    match op {
                        trace::Op::Read(at, place) => read(interval, rank, arrays[at], range(place)),
                        trace::Op::Write(at, place) | trace::Op::Clear(at, place) => {
                            write(interval, rank, arrays[at], range(place), number)
                        }
                        trace::Op::Compute(_) => {}
                    }
                }
            }
        });
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_an_array_are_divided_among_its_pages() {
        let array = Pages { first: 7, count: 3 };
        assert!(spans(array, 0..0).eq([]));
        assert!(spans(array, 4096..8192).eq([Span::page(8)]));
        let expected = [(7, 4000, 96), (8, 0, 4096), (9, 0, 8)];
        assert!(spans(array, 4000..8200).eq(expected.map(|(page, first, len)| Span { page, first, len })));
    }
}
