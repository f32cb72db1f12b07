//! Programs whose ranks see each other's writes between memory barriers.

use super::{REGION, array, read, write};
use scash_proto::PAGE_SIZE;
use scash_proto::node::ObjectKind;
use scash_proto::wire::sync::{Request, Signal};
use scash_sim::program::{Op, Script};
use std::ops::Range;

/// Relaxation whose ranks do not wait for each other: who writes the edges of its rows, or reads those of a
/// neighbour, has the lock of their owner. A memory barrier follows after every five of twenty iterations. A
/// row is a page.
pub(super) fn sor(ranks: u32) -> Script {
    const ROWS: usize = 8;
    let row = |rank: u32, row: usize| -> Range<usize> {
        let start = (rank as usize * ROWS + row) * PAGE_SIZE;
        start..start + PAGE_SIZE
    };
    let mut script = Script::new(ranks, REGION);
    let grid = array(&mut script, ranks as usize * ROWS * PAGE_SIZE);
    let first = script.make(ObjectKind::Lock, ranks);
    for turn in 0..4 {
        script.interval(|i| {
            for (rank, iteration) in (0..ranks).flat_map(|rank| (0..5).map(move |n| (rank, 5 * turn + n))) {
                let above = rank.checked_sub(1).map(|above| (above, ROWS - 1));
                let below = Some((rank + 1, 0)).filter(|&(below, _)| below < ranks);
                for (neighbour, edge) in [above, below].into_iter().flatten() {
                    i.push(rank, Op::Lock(first + neighbour));
                    read(i, rank, grid, row(neighbour, edge));
                    i.push(rank, Op::Unlock(first + neighbour));
                }
                (1..ROWS - 1).for_each(|inner| write(i, rank, grid, row(rank, inner), iteration));
                i.push(rank, Op::Lock(first + rank));
                [0, ROWS - 1].into_iter().for_each(|edge| write(i, rank, grid, row(rank, edge), iteration));
                i.push(rank, Op::Unlock(first + rank));
            }
        });
    }
    script
}

/// Each rank adds to a number under a lock, 20 times, and all look at it in the end.
pub(super) fn counter(ranks: u32) -> Script {
    let mut script = Script::new(ranks, REGION);
    let number = array(&mut script, 8);
    let lock = script.make(ObjectKind::Lock, 1);
    script.interval(|i| {
        for (rank, turn) in (0..ranks).flat_map(|rank| (0..20).map(move |turn| (rank, turn))) {
            i.push(rank, Op::Lock(lock));
            read(i, rank, number, 0..8);
            write(i, rank, number, 0..8, 20 * rank + turn);
            i.push(rank, Op::Unlock(lock));
        }
    });
    script.interval(|i| (0..ranks).for_each(|rank| read(i, rank, number, 0..8)));
    script
}

/// Each rank adds to 64 numbers, each behind a lock of its own, and begins with its own part of them. Three
/// times, with a memory barrier in between. A page has 16 numbers.
pub(super) fn walk(ranks: u32) -> Script {
    const NUMBERS: u32 = 64;
    const WIDTH: usize = PAGE_SIZE / 16;
    let mut script = Script::new(ranks, REGION);
    let numbers = array(&mut script, NUMBERS as usize * WIDTH);
    let first = script.make(ObjectKind::Lock, NUMBERS);
    for turn in 0..3 {
        script.interval(|i| {
            for rank in 0..ranks {
                let own = rank * NUMBERS / ranks;
                for number in (own..NUMBERS).chain(0..own) {
                    let bytes = number as usize * WIDTH..number as usize * WIDTH + 8;
                    i.push(rank, Op::Lock(first + number));
                    read(i, rank, numbers, bytes.clone());
                    write(i, rank, numbers, bytes, turn * ranks + rank);
                    i.push(rank, Op::Unlock(first + number));
                }
            }
        });
    }
    script
}

/// Two pages go round with their lock: each rank reads and writes them 12 times.
pub(super) fn migratory(ranks: u32) -> Script {
    let mut script = Script::new(ranks, REGION);
    let pages = array(&mut script, 2 * PAGE_SIZE);
    let lock = script.make(ObjectKind::Lock, 1);
    script.interval(|i| {
        for (rank, turn) in (0..ranks).flat_map(|rank| (0..12).map(move |turn| (rank, turn))) {
            i.push(rank, Op::Lock(lock));
            read(i, rank, pages, 0..2 * PAGE_SIZE);
            write(i, rank, pages, 0..2 * PAGE_SIZE, 12 * rank + turn);
            i.push(rank, Op::Unlock(lock));
        }
    });
    script
}

/// Rank 0 fills 16 pages, and raises a flag with each, for which all others wait before they read it. Three
/// times, with a memory barrier in between.
pub(super) fn producer(ranks: u32) -> Script {
    const ITEMS: usize = 16;
    let mut script = Script::new(ranks, REGION);
    let pages = array(&mut script, ITEMS * PAGE_SIZE);
    let flag = script.make(ObjectKind::Flag, 1);
    for turn in 0..3 {
        script.interval(|i| {
            for (item, number) in (0..ITEMS).zip(1 + 16 * turn..) {
                let page = item * PAGE_SIZE..(item + 1) * PAGE_SIZE;
                write(i, 0, pages, page.clone(), number);
                i.push(0, Op::Signal(flag, Signal::Raise(u64::from(number))));
                for rank in 1..ranks {
                    i.push(rank, Op::Request(flag, Request::AtLeast(u64::from(number))));
                    read(i, rank, pages, page.clone());
                }
            }
        });
    }
    script
}
