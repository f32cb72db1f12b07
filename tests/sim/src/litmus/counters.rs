//! Numbers that all ranks add to under locks: none misses an addition.

use super::{Job, add, load, section};
use crate::program::{Op, Span, Word};
use crate::report::Report;
use scash_proto::node::ObjectKind;
use scash_proto::wire::sync::{Request, Signal};

/// Additions of a thread in an interval.
const TURNS: u64 = 6;
/// Intervals with additions.
const INTERVALS: u64 = 3;
/// Counters of [`many`].
pub const MANY: u32 = 5;
/// Turns after which the one in [`late_comer`] comes: more than a history has records of one rank.
const LATE: u64 = 80;
/// Threads of a rank in [`many`].
const THREADS: u32 = 2;

/// One counter.
pub fn one(job: &mut Job) {
    let (word, lock) = (job.words(1)[0], job.objects(ObjectKind::Lock, 1));
    for _ in 0..INTERVALS {
        job.interval(|_| (0..TURNS).flat_map(|_| section(lock, [add(word, 1)])).collect());
    }
    job.interval(|_| vec![load(word)]);
}

/// What all ranks find in the end in the counter of [`one`].
pub fn sum(ranks: u32) -> u64 {
    u64::from(ranks) * TURNS * INTERVALS
}

/// Several counters, each with its lock, in an order that differs from thread to thread.
pub fn many(job: &mut Job) {
    let (words, locks) = (job.words(MANY), job.objects(ObjectKind::Lock, MANY));
    for _ in 0..INTERVALS {
        job.threads(THREADS, |rank, thread| {
            let nth = |turn: u32| (turn * (rank % (MANY - 1) + 1) + thread) % MANY;
            (0..MANY).map(nth).flat_map(|n| section(locks + n, [add(words[n as usize], 1)])).collect()
        });
    }
    job.interval(|_| words.iter().map(|&word| load(word)).collect());
}

/// What all ranks find in the end in each counter of [`many`].
pub fn sum_of_many(ranks: u32) -> u64 {
    u64::from(ranks * THREADS) * INTERVALS
}

/// What all ranks found in the last interval.
pub fn seen_last(report: &Report) -> Vec<u64> {
    let last = report.seen.last().map(|seen| seen.interval);
    report.seen.iter().filter(|seen| Some(seen.interval) == last).map(|seen| seen.value).collect()
}

/// Two ranks add in turns, so often that what they wrote first is joined in their histories. One that comes
/// late has copies from before; rank 0 wrote one of these pages in its first turn only.
pub fn late_comer(job: &mut Job) {
    let (first, count) = (job.pages(1), job.pages(1));
    let word = Word { page: count.first, first: 0, width: 8 };
    let flags = job.objects(ObjectKind::Flag, 2);
    let begin = job.objects(ObjectKind::Semaphore(0), 1);
    let (whole, late) = (Op::Read(Span::page(first.first)), job.ranks - 1);
    job.interval(|rank| match rank {
        0 => {
            (1..=LATE).flat_map(|turn| turn_of_first(turn, begin, flags, first.first, add(word, 1))).collect()
        }
        1 => (1..=LATE)
            .flat_map(|turn| {
                let wait = Op::Request(flags, Request::AtLeast(turn));
                [wait, add(word, 1), Op::Signal(flags + 1, Signal::Raise(turn))]
            })
            .collect(),
        r if r == late => vec![
            whole,
            load(word),
            Op::Signal(begin, Signal::Post(1)),
            Op::Request(flags + 1, Request::AtLeast(LATE)),
            whole,
            load(word),
        ],
        _ => Vec::new(),
    });
}

/// What rank 0 does in a turn of [`late_comer`].
fn turn_of_first(turn: u64, begin: u32, flags: u32, page: u32, add: Op) -> Vec<Op> {
    let mut ops = match turn {
        1 => vec![Op::Request(begin, Request::Take), Op::Write(Span::page(page), 7)],
        _ => vec![Op::Request(flags + 1, Request::AtLeast(turn - 1))],
    };
    ops.extend([add, Op::Signal(flags, Signal::Raise(turn))]);
    ops
}
