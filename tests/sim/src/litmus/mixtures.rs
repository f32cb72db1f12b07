//! Locks and memory barriers together.

use super::{Job, add, load, section, store};
use crate::program::{Op, Span};
use scash_proto::PAGE_SIZE;
use scash_proto::node::ObjectKind;

/// The same words are under locks in one interval, each rank's own in the next, and everybody's to read in
/// the third.
pub fn in_turns(job: &mut Job) {
    let ranks = job.ranks;
    let (words, locks) = (job.words(ranks), job.objects(ObjectKind::Lock, ranks));
    let word = |n: u32| words[(n % ranks) as usize];
    for round in 0..4 {
        job.interval(|rank| {
            let visit = |n: u32| section(locks + n % ranks, [add(word(n), 1)]);
            (rank..2 * ranks).flat_map(visit).collect()
        });
        job.interval(|rank| {
            vec![load(word(rank + round)), store(word(rank + round), u64::from(100 * round))]
        });
        job.interval(|_| words.iter().map(|&word| load(word)).collect());
    }
}

/// A stencil: each rank writes its row, and reads those of its neighbours as they were before the memory
/// barrier; in the same intervals it adds to a sum under a lock. A row ends in the middle of a page.
pub fn together(job: &mut Job) {
    let ranks = job.ranks;
    let (pages, lock) = (job.pages(2 * ranks), job.objects(ObjectKind::Lock, 1));
    let sum = job.words(1)[0];
    let half = |row: u32, side: u32| {
        // Two generations of rows, each shifted by half a page, so that neighbours share pages.
        let at = (2 * row + 1 + side) * 2048 + (row % 2) * 64;
        let page = pages.first + at / 4096 % pages.count;
        Span { page, first: at as usize % PAGE_SIZE, len: 1024 }
    };
    let row = |generation: u32, rank: u32| [0, 1].map(|side| half(generation * ranks + rank, side));
    for round in 0..6u32 {
        job.interval(|rank| {
            let (before, now) = ((round + 1) % 2, round % 2);
            let neighbours = [rank + ranks - 1, rank + 1].map(|n| n % ranks);
            let reads = neighbours.into_iter().flat_map(|n| row(before, n)).map(Op::Read);
            let salt = (16 * round + rank).to_le_bytes()[0];
            let writes = row(now, rank).map(|span| Op::Write(span, salt));
            reads.chain(writes).chain(section(lock, [add(sum, u64::from(rank))])).collect()
        });
        let teller = round % ranks;
        job.interval(
            |rank| if rank == teller { section(lock, [load(sum), store(sum, 0)]) } else { Vec::new() },
        );
    }
}
