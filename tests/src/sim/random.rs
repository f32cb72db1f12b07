//! Data-race-free programs from a seed.
//!
//! A program allocates a few *areas*. Each has a character, drawn once in a while: how its pages are cut in pieces, who writes which piece, who
//! reads it, and how often. Stencils, rotating owners, read-mostly tables, byte-interleaved false sharing and chaos are points of this space. Characters change in the
//! course of a program, so that what the protocol has learnt becomes wrong.
//!
//! In each interval a piece has at most one writing thread, and is read by others only if nobody writes it: so there is no data race. (Or see the module `sync`.) A word of it may
//! be operated on, by anybody and at any time: then nothing before its end is touched otherwise.

mod race;
mod sync;

use super::program::{Change, Interval, Op, Program, Span, Word};
use super::rng::{Rng, mix};
use super::world::Setup;
pub use race::Planted;
use scash_proto::heap::Heap;
use scash_proto::node::{Collective, Eviction, Outcome};
use scash_proto::{AllocOptions, PAGE_SIZE, Pages, Placement, Protocol, Rank, Transfer};
use std::num::NonZeroU32;
use sync::{Free, Objects, Units};

/// Draws what a job is like: mostly a few ranks, at times up to 64.
pub fn setup(seed: u64) -> Setup {
    let mut rng = Rng::part(seed, 2);
    let size = match rng.below(100) {
        0..3 => 1,
        3..90 => rng.between(2, 8),
        90..98 => rng.between(9, 24),
        _ => rng.between(25, 64),
    };
    let fetch_first = rng.between(1, 4);
    Setup {
        seed,
        puts_at_once: rng.chance(50),
        transfer: if rng.chance(70) { Transfer::ZeroCopy } else { Transfer::Message },
        messaged: rng.pick(&[0, 0, 50]),
        fetch_first,
        fetch_most: fetch_first + rng.below(16),
        predict: rng.chance(80),
        migrate_after: rng.pick(&[0, 1, 1, 2, 3]),
        renewals: rng.pick(&[0, 1, 3, 15]),
        watch_from: rng.below(4),
        exclusion: rng.chance(50),
        burst: rng.pick(&[0, 50, 90]),
        slow: rng.pick(&[0, 10, 40]),
        slowness: rng.pick(&[5, 25, 200]),
        cache: if rng.chance(30) { rng.between(1, 12) } else { 0 },
        eviction: rng.pick(&[Eviction::Fifo, Eviction::Sieve]),
        races: Rng::part(seed, 4).chance(30),
        ..Setup::new(size, rng.between(4, 48))
    }
}

/// Who writes a piece.
#[derive(Clone, Copy, Debug)]
enum Writers {
    /// The rank whose part of the area it is.
    Owner,
    /// One rank all of it.
    One(u32),
    /// A rank for each piece.
    Fixed,
    /// The next rank every few intervals.
    Rotating(u32),
    /// Anybody.
    Chaos,
}

/// Who reads a piece.
#[derive(Clone, Copy, Debug)]
enum Readers {
    /// Ranks next to the writer.
    Neighbours,
    /// All ranks.
    All,
    /// Some ranks, for each piece the same.
    Fixed(u32),
    /// Each rank at times.
    Chaos(u32),
}

/// When something is done.
#[derive(Clone, Copy, Debug)]
enum When {
    Always,
    /// Every k-th interval, in turns.
    Every(u32),
    /// Now and then.
    Often(u32),
    /// For so many intervals on, and so many off.
    Phases(u32, u32),
}

/// How an area is used for a while.
#[derive(Clone, Copy, Debug)]
struct Character {
    salt: u64,
    pieces: u32,
    writers: Writers,
    readers: Readers,
    write: When,
    read: When,
    /// How many, in a hundred, of the writes change nothing.
    silent: u32,
    /// How many, in a hundred, are undone before the interval's end.
    flickers: u32,
    /// How many, in a hundred, of the ranks use the area in an interval, in critical sections; 0: locks are not for this area.
    locked: u32,
    /// How many, in a hundred, of the intervals use the area for batons, and not at all else.
    batons: u32,
    /// How many, in a hundred, of the critical sections are left out if their lock is not free.
    tried: u32,
    /// How many, in a hundred, of the pieces have a word that is operated on in an interval.
    operated: u32,
    /// Interval in which it ends.
    until: u32,
}

struct Area {
    pages: Pages,
    character: Character,
}

/// A random program.
pub struct RandomProgram {
    rng: Rng,
    size: u32,
    threads: u32,
    intervals: u32,
    next: u32,
    heap: Heap<AllocOptions>,
    areas: Vec<Area>,
    zeroed: Option<Pages>,
    /// How many, in a thousand, of the intervals have a call of some kind.
    calls: u32,
    /// How many, in a thousand, end in a broadcast.
    broadcasts: u32,
    /// How many, in a thousand, have reductions.
    reduces: u32,
    objects: Objects,
    /// A data race, if it is to have one.
    planted: Option<Planted>,
}

impl RandomProgram {
    /// The program of a seed.
    pub fn new(setup: &Setup) -> Self {
        let mut rng = Rng::part(setup.seed, 3);
        let most = if setup.size > 8 { 16 } else { 48 };
        RandomProgram {
            size: setup.size,
            threads: if rng.chance(25) { rng.between(2, 4) } else { 1 },
            intervals: rng.between(4, most),
            next: 0,
            heap: Heap::new(setup.pages),
            areas: Vec::new(),
            zeroed: None,
            calls: rng.pick(&[0, 50, 400]),
            broadcasts: rng.pick(&[0, 0, 0, 20, 300]),
            reduces: rng.pick(&[0, 0, 50, 700]),
            objects: Objects::new(&mut rng),
            planted: None,
            rng,
        }
    }

    fn character(&mut self) -> Character {
        let rng = &mut self.rng;
        let n = self.size;
        let whens = |rng: &mut Rng| match rng.below(8) {
            0..3 => When::Always,
            3 => When::Every(rng.between(2, 4)),
            4 | 5 => When::Often(rng.between(5, 80)),
            _ => When::Phases(rng.between(1, 10), rng.between(1, 25)),
        };
        let until = self.next + if rng.chance(50) { 1000 } else { rng.between(1, 25) };
        Character {
            salt: rng.bits(),
            pieces: rng.pick(&[1, 1, 1, 2, 3, 5, 16]),
            writers: match rng.below(8) {
                0..3 => Writers::Owner,
                3 => Writers::One(rng.below(n)),
                4 | 5 => Writers::Fixed,
                6 => Writers::Rotating(rng.between(1, 5)),
                _ => Writers::Chaos,
            },
            readers: match rng.below(6) {
                0 | 1 => Readers::Neighbours,
                2 => Readers::All,
                3 | 4 => Readers::Fixed(rng.between(1, 60)),
                _ => Readers::Chaos(rng.between(1, 60)),
            },
            write: whens(rng),
            read: whens(rng),
            silent: rng.pick(&[0, 0, 10, 100]),
            flickers: rng.pick(&[0, 0, 30]),
            locked: if self.objects.guards() > 0 { rng.pick(&[0, 20, 60, 100]) } else { 0 },
            batons: if self.objects.has_batons() { rng.pick(&[0, 0, 50, 100]) } else { 0 },
            tried: rng.pick(&[0, 0, 30, 100]),
            operated: rng.pick(&[0, 0, 10, 50]),
            until,
        }
    }

    /// Decides what ends the interval, and knows how it will end.
    fn end(&mut self) -> (Collective, Outcome) {
        if self.rng.chance(30)
            && let Some(call) = self.objects.make()
        {
            return call;
        }
        let wanted = self.areas.is_empty() || self.next < 2 || self.rng.chance(4);
        if wanted && self.next < 8 || self.rng.below(1000) < self.calls / 8 {
            return self.alloc();
        }
        if !self.areas.is_empty() && self.rng.below(1000) < self.calls / 10 {
            let n = u32::try_from(self.areas.len()).unwrap_or(1);
            let area = self.areas.swap_remove(self.rng.below(n) as usize);
            let freed = self.heap.free(area.pages.first);
            return (Collective::Free(freed.expect("areas are allocations").first), Outcome::Done);
        }
        if !self.areas.is_empty() && self.rng.below(1000) < self.broadcasts {
            let n = u32::try_from(self.areas.len()).unwrap_or(1);
            let area = self.rng.below(n) as usize;
            return (Collective::Broadcast(self.some_pages(area)), Outcome::Done);
        }
        (Collective::Barrier, Outcome::Done)
    }

    /// Any run of an area's pages.
    fn some_pages(&mut self, area: usize) -> Pages {
        let pages = self.areas[area].pages;
        let first = pages.first + self.rng.below(pages.count);
        Pages { first, count: self.rng.between(1, pages.end() - first) }
    }

    fn alloc(&mut self) -> (Collective, Outcome) {
        let rng = &mut self.rng;
        let pages = if rng.chance(10) { rng.between(1, 60) } else { rng.between(1, 14) };
        let options = AllocOptions {
            placement: match rng.below(8) {
                0..4 => Placement::FirstTouch,
                4 | 5 => Placement::Block,
                6 => {
                    Placement::Cyclic { pages: NonZeroU32::new(rng.between(1, 3)).unwrap_or(NonZeroU32::MIN) }
                }
                _ => Placement::Rank(rng.below(self.size)),
            },
            protocol: rng.pick(&[
                Protocol::Adaptive,
                Protocol::Adaptive,
                Protocol::Update,
                Protocol::Invalidate,
            ]),
            block: rng.pick(&[1, 1, 2, 3, 4]),
        };
        let bytes = u64::from(pages) * PAGE_SIZE as u64 - u64::from(rng.below(4000));
        let align = NonZeroU32::new(options.block).unwrap_or(NonZeroU32::MIN);
        let outcome = match self.heap.alloc(bytes, align, options) {
            Ok(a) => Outcome::Allocated(Pages { first: a.first, count: a.pages }),
            Err(e) => Outcome::OutOfSpace(e),
        };
        if let Outcome::Allocated(pages) = outcome {
            let character = self.character();
            self.areas.push(Area { pages, character });
            self.zeroed = Some(pages);
        }
        (Collective::Alloc(bytes, options), outcome)
    }

    /// What is done with an area in this interval.
    fn work(
        &mut self,
        area: usize,
        work: &mut [Vec<Vec<Op>>],
        sections: &mut Units,
        batons: &mut (Free, Units),
    ) {
        if self.next > self.areas[area].character.until {
            self.areas[area].character = self.character();
        }
        let Area { pages, character: c } = self.areas[area];
        self.operations(pages, &c, work);
        if self.rng.chance(c.batons) {
            return self.batons(pages, &c, &mut batons.0, &mut batons.1);
        }
        if c.locked > 0 {
            return self.sections(pages, &c, sections);
        }
        let cells = pages.count * c.pieces;
        for cell in 0..cells {
            if !self.is_worth_it(cells) {
                continue;
            }
            let name = mix(c.salt ^ u64::from(cell));
            let writer = self.writer(&c, cell, cells, name);
            let Some(span) = self.span(pages, &c, cell) else { continue };
            if self.is_time(c.write, name) {
                self.write(&c, writer, name, span, work);
            } else if self.is_time(c.read, 0) {
                self.reads(&c, writer, name, span, work);
            }
        }
    }

    /// Large jobs do less with each page.
    fn is_worth_it(&mut self, cells: u32) -> bool {
        let budget = (24 * self.size.min(8)).max(64);
        cells <= budget || self.rng.below(cells) <= budget
    }

    /// The word of a piece that is operated on in this interval, if one is.
    fn word(&self, pages: Pages, c: &Character, cell: u32) -> Option<Word> {
        let name = mix(c.salt ^ u64::from(cell));
        let dice = mix(name ^ u64::from(self.next));
        let span = piece(pages.first + cell / c.pieces, cell % c.pieces, c.pieces, name);
        let width = if dice >> 32 & 1 == 0 { 4 } else { 8 };
        let first = span.first.next_multiple_of(width);
        let operated = dice % 100 < u64::from(c.operated) && first + width <= span.first + span.len;
        operated.then_some(Word { page: span.page, first, width })
    }

    /// What is read and written of a piece in this interval: all that is behind its word.
    fn span(&self, pages: Pages, c: &Character, cell: u32) -> Option<Span> {
        let name = mix(c.salt ^ u64::from(cell));
        let span = piece(pages.first + cell / c.pieces, cell % c.pieces, c.pieces, name);
        let skip = self.word(pages, c, cell).map_or(0, |word| word.first + word.width - span.first);
        (skip < span.len).then_some(Span { first: span.first + skip, len: span.len - skip, ..span })
    }

    /// Atomic operations on the words of an area.
    fn operations(&mut self, pages: Pages, c: &Character, work: &mut [Vec<Vec<Op>>]) {
        let cells = pages.count * c.pieces;
        for cell in 0..cells {
            if let Some(word) = self.word(pages, c, cell)
                && self.is_worth_it(cells)
            {
                self.operations_on(word, work);
            }
        }
    }

    /// Some of a thread's operations come between what it does in its critical sections.
    fn operate_within(&mut self, list: &mut Vec<Op>, sections: &mut [Vec<Op>]) {
        let Some(most) = u32::try_from(sections.len()).ok().filter(|&n| n > 0) else { return };
        list.retain(|&op| {
            let moves = matches!(op, Op::Operate(..)) && self.rng.chance(40);
            if moves {
                let section = &mut sections[self.rng.below(most) as usize];
                let last = u32::try_from(section.len()).map_or(1, |len| len - 1);
                section.insert(self.rng.between(1, last) as usize, op);
            }
            !moves
        });
    }

    fn operations_on(&mut self, word: Word, work: &mut [Vec<Vec<Op>>]) {
        let (percent, most) = (self.rng.pick(&[20, 60, 100]), self.rng.pick(&[1, 3, 10]));
        for threads in work {
            if !self.rng.chance(percent) {
                continue;
            }
            for _ in 0..self.rng.between(1, most) {
                let thread = self.rng.below(self.threads) as usize;
                let number = self.rng.bits();
                let change = self.rng.pick(&[
                    Change::Load,
                    Change::Add(1),
                    Change::Add(number),
                    Change::Swap(number % 256),
                    Change::SwapIfEven(number),
                ]);
                threads[thread].push(Op::Operate(word, change));
            }
        }
    }

    fn writer(&mut self, c: &Character, cell: u32, cells: u32, name: u64) -> u32 {
        let n = u64::from(self.size);
        let rank = match c.writers {
            Writers::Owner => u64::from(cell) * n / u64::from(cells),
            Writers::One(rank) => u64::from(rank),
            Writers::Fixed => name % n,
            Writers::Rotating(every) => (name + u64::from(self.next / every)) % n,
            Writers::Chaos => u64::from(self.rng.below(self.size)),
        };
        u32::try_from(rank).unwrap_or(0)
    }

    fn is_time(&mut self, when: When, name: u64) -> bool {
        let turn = self.next.wrapping_add(u32::try_from(name % 64).unwrap_or(0));
        match when {
            When::Always => true,
            When::Every(k) => turn.is_multiple_of(k),
            When::Often(percent) => self.rng.chance(percent),
            When::Phases(on, off) => turn % (on + off) < on,
        }
    }

    fn thread_of(&self, name: u64) -> usize {
        usize::try_from((name >> 32) % u64::from(self.threads)).unwrap_or(0)
    }

    fn write(&mut self, c: &Character, writer: u32, name: u64, span: Span, work: &mut [Vec<Vec<Op>>]) {
        let list = &mut work[writer as usize][self.thread_of(name)];
        for part in self.rng.cut(span) {
            if self.rng.chance(c.silent) {
                list.push(Op::Rewrite(part));
            } else if self.rng.chance(c.flickers) {
                list.push(Op::Flicker(part, self.rng.bits().to_le_bytes()[0]));
            } else if self.rng.chance(90) {
                list.push(Op::Write(part, self.rng.bits().to_le_bytes()[0]));
            }
            if self.rng.chance(20) {
                list.push(Op::Read(part));
            }
        }
    }

    /// Nobody writes the piece: whoever likes reads it.
    fn reads(&mut self, c: &Character, writer: u32, name: u64, span: Span, work: &mut [Vec<Vec<Op>>]) {
        for rank in 0..self.size {
            let reads = match c.readers {
                Readers::Neighbours => rank.abs_diff(writer) == 1,
                Readers::All => true,
                Readers::Fixed(percent) => mix(name ^ u64::from(rank)) % 100 < u64::from(percent),
                Readers::Chaos(percent) => self.rng.chance(percent),
            };
            if reads {
                let thread = self.rng.below(self.threads) as usize;
                let part = self.rng.cut(span)[0];
                work[rank as usize][thread].push(Op::Read(part));
            }
        }
    }

    /// The numbers of the interval's reductions, by reduction and rank.
    fn reductions(&mut self) -> Vec<Vec<u64>> {
        let count = if self.rng.below(1000) < self.reduces { self.rng.between(1, 4) } else { 0 };
        (0..count).map(|_| (0..self.size).map(|_| self.rng.bits()).collect()).collect()
    }

    /// Lets a thread come to the interval's reductions, in their order, at any time at which it is in no critical section. `first`: before all else, because others
    /// may wait for what it does then.
    fn reduce(&mut self, rank: usize, reductions: &[Vec<u64>], first: bool, thread: &mut Vec<Op>) {
        let mut from = 0;
        for numbers in reductions {
            let mut held = thread[..from].iter().fold(0i32, |n, op| n + holds(op));
            let last = if first { from } else { thread.len() };
            let free = (from..=last).filter(|&at| {
                let free = held == 0;
                held += thread.get(at).map_or(0, holds);
                free
            });
            let places: Vec<usize> = free.collect();
            let at = places[self.rng.below(u32::try_from(places.len()).unwrap_or(1)) as usize];
            let sum = numbers.iter().fold(0u64, |a, &b| a.wrapping_add(b));
            thread.insert(at, Op::Reduce(numbers[rank], sum));
            from = at + 1;
        }
    }

    /// Calls that change where pages live and how they are kept.
    fn calls(&mut self, work: &mut [Vec<Vec<Op>>]) {
        for area in 0..self.areas.len() {
            if self.rng.below(1000) >= self.calls {
                continue;
            }
            let some = self.some_pages(area);
            let first = some.first;
            let op = match self.rng.below(6) {
                0 => Op::SetHome(some, Rank(self.rng.below(self.size))),
                1 => {
                    let protocol =
                        self.rng.pick(&[Protocol::Adaptive, Protocol::Update, Protocol::Invalidate]);
                    // Usually all ranks make the call; nothing breaks if they differ.
                    if self.rng.chance(70) {
                        let op = Op::SetProtocol(first, protocol);
                        work.iter_mut().for_each(|threads| threads[0].push(op));
                        continue;
                    }
                    Op::SetProtocol(first, protocol)
                }
                2 | 3 => Op::WriteBack(some),
                _ => Op::ReadHome(some),
            };
            let (rank, thread) = (self.rng.below(self.size) as usize, self.rng.below(self.threads) as usize);
            let length = u32::try_from(work[rank][thread].len()).unwrap_or(0);
            let at = self.rng.below(length + 1) as usize;
            if matches!(op, Op::WriteBack(_)) {
                write_no_more(some, &mut work[rank], thread, at);
            }
            work[rank][thread].insert(at, op);
        }
    }

    /// The last interval: every rank reads everything.
    fn read_all(&mut self) -> Interval {
        let mut interval = Interval::idle(self.size);
        interval.zeroed = self.zeroed.take();
        for threads in &mut interval.work {
            let pages = self.areas.iter().flat_map(|a| a.pages.iter());
            threads[0] = pages.map(|p| Op::Read(Span::page(p))).collect();
            self.rng.shuffle(&mut threads[0]);
        }
        interval.end = Collective::Finalize;
        interval
    }
}

impl Program for RandomProgram {
    fn next(&mut self) -> Option<Interval> {
        if self.next > self.intervals {
            return None;
        }
        if self.next == self.intervals {
            self.next += 1;
            return Some(self.read_all());
        }
        if let Some(planted) = self.planted.filter(|planted| self.next == 0 || self.next == planted.interval)
        {
            self.next += 1;
            return Some(if self.next == 1 { self.arena() } else { self.race(planted) });
        }
        let mut work = vec![vec![Vec::new(); self.threads as usize]; self.size as usize];
        let mut sections: Units = vec![vec![Vec::new(); self.threads as usize]; self.size as usize];
        let mut batons = (self.objects.free(), sections.clone());
        let zeroed = self.zeroed.take();
        // Now and then all rest.
        if !self.rng.chance(5) {
            (0..self.areas.len()).for_each(|area| self.work(area, &mut work, &mut sections, &mut batons));
        }
        let reductions: Vec<Vec<u64>> = self.reductions();
        let handed_on = batons.1.iter().flatten().any(|units| !units.is_empty());
        let silent = self.rng.chance(10).then(|| self.rng.below(self.size));
        for (rank, ((threads, sections), batons)) in (0u32..).zip(work.iter_mut().zip(sections).zip(batons.1))
        {
            for ((list, mut sections), batons) in threads.iter_mut().zip(sections).zip(batons) {
                self.operate_within(list, &mut sections);
                let mut units: Vec<Vec<Op>> = list.drain(..).map(|op| vec![op]).chain(sections).collect();
                self.rng.shuffle(&mut units);
                if Some(rank) == silent {
                    units.clear();
                }
                *list = self.rng.merge(units, batons).concat();
            }
            self.reduce(rank as usize, &reductions, handed_on, &mut threads[0]);
        }
        self.calls(&mut work);
        if let Some(planted) = self.planted {
            self.use_arena(planted.page, &mut work);
        }
        let (end, outcome) = self.end();
        self.next += 1;
        Some(Interval { work, end, outcome, zeroed })
    }
}

/// Piece number `i` of a page that is cut in `of` pieces: each of any length, at its place.
fn piece(page: u32, i: u32, of: u32, name: u64) -> Span {
    let slot = PAGE_SIZE / of as usize;
    let start = i as usize * slot;
    let skip = usize::try_from(name >> 40).unwrap_or(0) % slot;
    let room = slot - skip;
    let len = match name >> 30 & 3 {
        0 => room,
        1 => 1 + usize::try_from(name >> 24).unwrap_or(0) % room,
        2 => room.min(8),
        _ => return Span { page, first: start, len: slot },
    };
    Span { page, first: start + skip, len }
}

/// How many locks and the like more a thread has after an operation of a critical section.
fn holds(op: &Op) -> i32 {
    match op {
        Op::Lock(_) | Op::TryLock(_) | Op::Wish(..) => 1,
        Op::Unlock(_) | Op::Deed(..) => -1,
        _ => 0,
    }
}

/// What was written back is not written again in the same interval: `thread` stops writing the pages at its operation number `at`,
/// the rank's other threads do not write them at all.
fn write_no_more(pages: Pages, threads: &mut [Vec<Op>], thread: usize, at: usize) {
    for (t, list) in threads.iter_mut().enumerate() {
        let mut index = 0;
        list.retain(|op| {
            index += 1;
            let late = t != thread || index > at;
            let hit = |span: &Span| (pages.first..pages.end()).contains(&span.page);
            !(late && matches!(op, Op::Write(span, _) | Op::Flicker(span, _) if hit(span)))
        });
    }
}

impl Rng {
    /// Some parts of a span, at least one, that do not touch each other.
    fn cut(&mut self, span: Span) -> Vec<Span> {
        if span.len < 3 || self.chance(60) {
            return vec![span];
        }
        let n = u32::try_from(span.len).unwrap_or(3);
        let a = self.between(1, n - 2);
        let b = self.between(a, n - 1);
        let first = Span { len: a as usize, ..span };
        let second = Span { first: span.first + b as usize, len: (n - b) as usize, ..span };
        vec![first, second]
    }
}
