//! Programs with memory barriers in which who writes what changes, or in which all write the same page.

use super::{REGION, array, part, read, write};
use scash_proto::PAGE_SIZE;
use scash_sim::program::Script;

/// Each rank writes its part of one page; then all read the whole of it. Twenty times.
pub(super) fn false_sharing(ranks: u32) -> Script {
    let mut script = Script::new(ranks, REGION);
    let page = array(&mut script, PAGE_SIZE);
    for turn in 0..20 {
        script.interval(|i| {
            (0..ranks).for_each(|rank| write(i, rank, page, part(PAGE_SIZE, rank, ranks), turn));
        });
        script.interval(|i| (0..ranks).for_each(|rank| read(i, rank, page, 0..PAGE_SIZE)));
    }
    script
}

/// Four pages go round: one rank an interval reads and writes them. Six rounds.
pub(super) fn migratory(ranks: u32) -> Script {
    let mut script = Script::new(ranks, REGION);
    let pages = array(&mut script, 4 * PAGE_SIZE);
    for turn in 0..6 * ranks {
        script.interval(|i| {
            read(i, turn % ranks, pages, 0..4 * PAGE_SIZE);
            write(i, turn % ranks, pages, 0..4 * PAGE_SIZE, turn);
        });
    }
    script
}

/// Each rank rewrites a part of 16 pages, after a look at the page behind it; every eight intervals the parts
/// change hands. Four times.
pub(super) fn shifting(ranks: u32) -> Script {
    let bytes = ranks as usize * 16 * PAGE_SIZE;
    let mut script = Script::new(ranks, REGION);
    let pages = [array(&mut script, bytes), array(&mut script, bytes)];
    for turn in 0..32 {
        let (from, to) = (pages[turn as usize % 2], pages[1 - turn as usize % 2]);
        script.interval(|i| {
            for rank in 0..ranks {
                let mine = part(bytes, (rank + turn / 8) % ranks, ranks);
                read(i, rank, from, mine.start..(mine.end + PAGE_SIZE).min(bytes));
                write(i, rank, to, mine, turn);
            }
        });
    }
    script
}

/// One rank writes eight pages, then all others read them; after six times it is another one's turn. Each
/// rank has one.
pub(super) fn changing_producer(ranks: u32) -> Script {
    let mut script = Script::new(ranks, REGION);
    let pages = array(&mut script, 8 * PAGE_SIZE);
    for turn in 0..6 * ranks {
        let producer = turn / 6;
        script.interval(|i| write(i, producer, pages, 0..8 * PAGE_SIZE, turn));
        script.interval(|i| {
            (0..ranks)
                .filter(|&rank| rank != producer)
                .for_each(|rank| read(i, rank, pages, 0..8 * PAGE_SIZE));
        });
    }
    script
}
