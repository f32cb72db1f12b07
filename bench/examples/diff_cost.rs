//! What a diff costs: nanoseconds a page for comparing, encoding and applying, and the diff's size, for
//! typical pages.
//!
//!     cargo run --release -p scash-bench --example diff_cost
//!
//! Each figure is the least of many rounds, so that other load on the machine does not count. Pages are in
//! the first-level cache.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use scash_proto::PAGE_SIZE;
use scash_proto::diff::{Changes, Diff, PageBytes, apply, encode};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 100;
const CALLS: u32 = 1000;

/// Least time of one call in nanoseconds.
fn cost<R>(mut call: impl FnMut() -> R) -> f64 {
    let round = |_| {
        let start = Instant::now();
        for _ in 0..CALLS {
            black_box(call());
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}

/// Marsaglia's xorshift: the same pages in every run.
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn page(&mut self) -> PageBytes {
        std::array::from_fn(|_| self.word().to_le_bytes()[3])
    }
}

/// A page of 512 numbers.
fn numbers(number: impl FnMut(usize) -> f64) -> PageBytes {
    let words: Vec<u8> = (0..PAGE_SIZE / 8).map(number).flat_map(f64::to_le_bytes).collect();
    words.try_into().unwrap_or([0; PAGE_SIZE])
}

/// `old` with the bytes that `which` names changed for certain.
fn touched(old: &PageBytes, which: impl Fn(usize) -> bool) -> PageBytes {
    std::array::from_fn(|i| if which(i) { !old[i] } else { old[i] })
}

fn cases() -> Vec<(&'static str, PageBytes, PageBytes)> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let old = random.page();
    let smooth = |x: usize| (x as f64 / 300.0).sin() + 2.0;
    let cell = |x: usize| 0.25 * (smooth(x.max(1) - 1) + smooth(x + 1) + 1.98 * smooth(x));
    let low_bytes = |i: usize, random: u64| i % 8 < if random >> (i / 8 % 64) & 1 == 0 { 6 } else { 7 };
    let pattern = random.word();
    vec![
        ("equal", old, old),
        ("one byte", old, touched(&old, |i| i == 1000)),
        ("one f64", old, touched(&old, |i| (2000..2007).contains(&i))),
        ("one line of 64 bytes", old, touched(&old, |i| i / 64 == 20)),
        ("half the page, one run", old, touched(&old, |i| (100..2148).contains(&i))),
        ("all bytes", old, touched(&old, |_| true)),
        ("all bytes at random", old, random.page()),
        ("f64: low 6 bytes of all", old, touched(&old, |i| i % 8 < 6)),
        ("f64: low 6 or 7 bytes of all", old, touched(&old, |i| low_bytes(i, pattern))),
        ("f64: a stencil's step", numbers(smooth), numbers(cell)),
        ("f64: every 8th number", old, touched(&old, |i| i % 64 < 6)),
        ("every second byte", old, touched(&old, |i| i % 2 == 0)),
        ("the longest diff", old, touched(&old, |i| !(0..175).any(|gap| i == 12 + gap * PAGE_SIZE / 175))),
    ]
}

fn main() {
    println!(
        "{:30} {:>7} {:>5} {:>8} {:>8} {:>8} {:>8}",
        "ns a page", "bytes", "runs", "compare", "encode", "apply", "pieces"
    );
    for (name, old, new) in cases() {
        let changes = Changes::between(&old, &new);
        let mut diff = Vec::new();
        let len = encode(&old, &new, &mut diff);
        let mut page = old;
        let compare = cost(|| Changes::between(black_box(&old), black_box(&new)));
        let mut out = Vec::new();
        let encode = cost(|| {
            out.clear();
            encode(black_box(&old), black_box(&new), &mut out)
        });
        let apply = cost(|| apply(black_box(&diff), black_box(&mut page)));
        assert!(page == new, "{name}");
        let pieces = cost(|| {
            let parsed = Diff::parse(black_box(&diff));
            parsed
                .iter()
                .flat_map(Diff::pieces)
                .for_each(|(run, bytes)| page[run.range()].copy_from_slice(bytes));
            black_box(&mut page);
        });
        let runs = changes.runs().count();
        println!("{name:30} {len:>7} {runs:>5} {compare:>8.0} {encode:>8.0} {apply:>8.0} {pieces:>8.0}");
    }
}
