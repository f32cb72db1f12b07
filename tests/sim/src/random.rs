//! Data-race-free programs from a seed.
//!
//! A program allocates a few *areas*. Each has a character, drawn once in a while: how its pages are cut in
//! pieces, who writes which piece, who reads it, and how often. Stencils, rotating owners, read-mostly
//! tables, byte-interleaved false sharing and chaos are points of this space. Characters change in the course
//! of a program, so that what the protocol has learnt becomes wrong.
//!
//! In each interval a piece has at most one writing thread, and is read by others only if nobody writes it:
//! so there is no data race. (Or see the module `sync`.) A word of it may be operated on, by anybody and at
//! any time: then nothing before its end is touched otherwise.

mod accesses;
mod calls;
mod character;
mod destroy;
mod operations;
mod own;
mod race;
mod sync;

use super::program::{Interval, Op, Program, Span};
use super::rng::{Rng, mix};
use super::world::Setup;
use character::Character;
pub use race::Planted;
use scash_proto::heap::Heap;
use scash_proto::node::{Collective, Eviction, Outcome};
use scash_proto::{AllocOptions, PAGE_SIZE, Pages, Placement, Protocol, Transfer};
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
        exact_after: Rng::part(seed, 14).pick(&[0, 1, 1, 2, 7]),
        bring: Rng::part(seed, 15).chance(70),
        board: Rng::part(seed, 19).chance(50),
        ahead: Rng::part(seed, 17).pick(&[0, 1, 3, 32]),
        most_got: Rng::part(seed, 13).pick(&[1, 2, 3, 64]),
        watch_from: rng.below(4),
        exclusion: rng.chance(50),
        tears: Rng::part(seed, 9).pick(&[0, 50, 80]),
        burst: rng.pick(&[0, 50, 90]),
        slow: rng.pick(&[0, 10, 40]),
        slowness: rng.pick(&[5, 25, 200]),
        cache: if rng.chance(30) { rng.between(1, 12) } else { 0 },
        eviction: rng.pick(&[Eviction::Fifo, Eviction::Sieve]),
        races: Rng::part(seed, 4).chance(30),
        base: Rng::part(seed, 7).pick(&[2, 2, 3, 16]),
        ..Setup::new(size, rng.between(4, 48))
    }
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
    /// Orders are torn: then writers also change what they have written, and change it back.
    torn: bool,
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
            objects: Objects::new(&mut rng, setup.seed),
            torn: setup.tears > 0,
            planted: None,
            rng,
        }
    }

    /// Decides what ends the interval, and knows how it will end.
    fn end(&mut self) -> (Collective, Outcome) {
        if let Some(call) = self.objects.destroy_or_make_again() {
            return call;
        }
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
                6 => Placement::Cyclic {
                    pages: NonZeroU32::new(rng.between(1, 3)).unwrap_or(NonZeroU32::MIN),
                    first: rng.below(self.size),
                },
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
        if c.locked > 0 && self.objects.guards() > 0 {
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
        if let Some(interval) = self.give_back() {
            return Some(interval);
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
        self.objects.begin();
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
        self.make_and_end_own(&mut work);
        if let Some(planted) = self.planted {
            self.use_arena(planted.page, &mut work);
        }
        let (end, outcome) = self.end();
        let outcome = self.perhaps_in_use(end, outcome, &mut work);
        self.next += 1;
        Some(Interval { work, end, outcome, zeroed })
    }
}
