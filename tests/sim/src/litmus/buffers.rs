//! Producers and consumers: what is announced is there, whichever way it is announced.

use super::{Job, load, section, store};
use crate::program::{Change, Op, Span, Word};
use scash_proto::Pages;
use scash_proto::node::ObjectKind;
use scash_proto::wire::sync::{Request, Signal};

/// Places of a buffer.
const PLACES: u32 = 3;
/// Values that go through a buffer.
const ITEMS: u64 = 9;

/// A place of a buffer: two words, so that it is seen whether all was written before it was announced.
type BufferSlot = [Word; 2];

fn buffer(job: &mut Job) -> Vec<BufferSlot> {
    let halves = [job.words(PLACES), job.words(PLACES)];
    (0..PLACES as usize).map(|n| halves.each_ref().map(|words| words[n])).collect()
}

fn fill(places: &[BufferSlot], item: u64) -> [Op; 2] {
    places[place(item)].map(|word| store(word, 1 + item))
}

fn empty(places: &[BufferSlot], item: u64) -> [Op; 2] {
    places[place(item)].map(load)
}

fn place(item: u64) -> usize {
    usize::try_from(item % u64::from(PLACES)).unwrap_or(0)
}

/// Rank 0 fills a buffer for all others, and raises a flag with each value. Each of the others has a flag for
/// what it has read.
pub fn with_flags(job: &mut Job) {
    let (places, flags) = (buffer(job), job.objects(ObjectKind::Flag, job.ranks));
    let ranks = job.ranks;
    job.interval(|rank| {
        let produce = |item: u64| {
            let read = (item + 1).saturating_sub(u64::from(PLACES));
            let free = (1..ranks).map(move |r| Op::Request(flags + r, Request::AtLeast(read)));
            free.chain(fill(&places, item))
                .chain([Op::Signal(flags, Signal::Raise(item + 1))])
                .collect::<Vec<_>>()
        };
        let consume = |item: u64| {
            let mut ops = vec![Op::Request(flags, Request::AtLeast(item + 1))];
            ops.extend(empty(&places, item));
            ops.push(Op::Signal(flags + rank, Signal::Raise(item + 1)));
            ops
        };
        (0..ITEMS).flat_map(|item| if rank == 0 { produce(item) } else { consume(item) }).collect()
    });
}

/// All other ranks fill a buffer that rank 0 empties, with a lock and two conditions.
pub fn with_conditions(job: &mut Job) {
    let (places, lock) = (buffer(job), job.objects(ObjectKind::Lock, 1));
    let not_full = job.objects(ObjectKind::Condition, 1);
    let not_empty = job.objects(ObjectKind::Condition, 1);
    let number = |item: u64| u32::try_from(item).unwrap_or(u32::MAX);
    // Events: value n is there (2n), and is gone (2n + 1).
    let (there, gone) = (|item: u64| 2 * number(item), |item: u64| 2 * number(item) + 1);
    let others = u64::from(job.ranks - 1);
    job.interval(|rank| {
        let produce = |item: u64| {
            let full = item.checked_sub(u64::from(PLACES));
            let wait = full.map(|before| Op::WaitFor { condition: not_full, lock, event: gone(before) });
            let fill = fill(&places, item).into_iter().chain([Op::Announce(there(item))]);
            let mut ops = section(lock, wait.into_iter().chain(fill));
            ops.push(Op::Signal(not_empty, Signal::WakeOne));
            ops
        };
        let consume = |item: u64| {
            let wait = Op::WaitFor { condition: not_empty, lock, event: there(item) };
            let tell = [Op::Announce(gone(item)), Op::Signal(not_full, Signal::WakeAll)];
            section(lock, [wait].into_iter().chain(empty(&places, item)).chain(tell))
        };
        match rank {
            0 => (0..ITEMS).flat_map(consume).collect(),
            _ => (0..ITEMS).filter(|item| 1 + item % others == u64::from(rank)).flat_map(produce).collect(),
        }
    });
}

/// A chain of ranks with a buffer between each and the next, whose free and full places are counted by
/// semaphores.
pub fn with_semaphores(job: &mut Job) {
    let links = job.ranks - 1;
    let buffers: Vec<Vec<BufferSlot>> = (0..links).map(|_| buffer(job)).collect();
    let free = job.objects(ObjectKind::Semaphore(PLACES), links);
    let full = job.objects(ObjectKind::Semaphore(0), links);
    job.interval(|rank| {
        let take = |item: u64, link: u32| {
            let mut ops = vec![Op::Request(full + link, Request::Take)];
            ops.extend(empty(&buffers[link as usize], item));
            ops.push(Op::Signal(free + link, Signal::Post(1)));
            ops
        };
        let give = |item: u64, link: u32| {
            let mut ops = vec![Op::Request(free + link, Request::Take)];
            ops.extend(fill(&buffers[link as usize], item));
            ops.push(Op::Signal(full + link, Signal::Post(1)));
            ops
        };
        let step = |item: u64| {
            let taken = rank.checked_sub(1).map(|link| take(item, link));
            let given = (rank < links).then(|| give(item, rank));
            taken.into_iter().chain(given).flatten()
        };
        (0..ITEMS).flat_map(step).collect()
    });
}

/// Rank 0 fills pages, and tells of each by an atomic word. The others look at that, and read the pages from
/// their homes; they have looked at bytes beside before, and other threads of them do so meanwhile.
pub fn read_from_home(job: &mut Job) {
    let (pages, told) = (job.pages(4), job.words(1)[0]);
    // So that homes are known at once.
    job.objects(ObjectKind::Lock, 1);
    let bytes = |page: u32, first: usize| Span { page, first, len: 64 };
    job.threads(2, |rank, thread| {
        let fill = |page: u32| {
            let all = Pages::one(page);
            [Op::Write(bytes(page, 0), 7), Op::WriteBack(all), Op::Operate(told, Change::Add(1))]
        };
        let read = |(number, page): (u64, u32)| {
            let wait = [Op::Operate(told, Change::Load), Op::Until { least: number, back: 1 }];
            let so_far = Pages { first: pages.first, count: page + 1 - pages.first };
            wait.into_iter().chain([Op::ReadHome(so_far), Op::Read(bytes(page, 0))])
        };
        let look = pages.iter().map(|page| Op::Read(bytes(page, 2048)));
        match (rank, thread) {
            (0, 0) => pages.iter().flat_map(fill).collect(),
            (0, _) => Vec::new(),
            (_, 0) => look.chain((1..).zip(pages.iter()).flat_map(read)).collect(),
            _ => look.clone().chain(look.clone()).chain(look).collect(),
        }
    });
}

/// One rank after the other changes a value that no lock protects: a turn does, which each looks at under a
/// lock until it has come.
pub fn with_a_turn(job: &mut Job) {
    let (places, turn, lock) = (buffer(job), job.words(1)[0], job.objects(ObjectKind::Lock, 1));
    let ranks = u64::from(job.ranks);
    job.interval(|rank| {
        let mine = (0..2 * ranks).filter(|turn| turn % ranks == u64::from(rank));
        let take_turn = |now: u64| {
            let mut ops = section(lock, [load(turn)]);
            ops.push(Op::Until { least: now, back: ops.len() });
            ops.extend(empty(&places, now + u64::from(PLACES) - 1));
            ops.extend(fill(&places, now));
            ops.extend(section(lock, [store(turn, now + 1)]));
            ops
        };
        mine.flat_map(take_turn).collect()
    });
}
