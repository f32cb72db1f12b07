//! Litmus programs: small, each with a name and a question that only the right order of memory answers.
//! Programs that ask real processes the same are in `src/bin/litmus`.
//!
//! A program is written down anew for each seed, which also draws the job: its schedule, network and tuning;
//! where variables are, and which homes they have; which rank manages which lock. One job in two has a limit
//! on cached pages, and one in two has copies that are updated, the other ones that are invalidated.
//!
//! What is read is compared with the oracle, but where several answers are right: there the program loads
//! words, and the test compares what was seen with what is possible under sequential consistency.

pub mod buffers;
pub mod bytes;
pub mod claims;
pub mod counters;
pub mod mixtures;
pub mod orders;

use super::program::{Change, Op, Script, Word};
use super::report::Report;
use super::rng::Rng;
use super::world::{Failure, Setup, World};
use scash_proto::node::{Eviction, ObjectKind};
use scash_proto::{AllocOptions, Pages, Placement, Protocol, Sharing};
use std::num::NonZeroU32;

/// Pages of the region.
const REGION: u32 = 48;

/// Which run of a litmus program.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Decides everything that the program does not say.
    pub seed: u64,
    /// Number of ranks.
    pub ranks: u32,
    /// Whether the program lacks the synchronisation that gives its question an answer.
    pub racy: bool,
    /// Which memory ranks have in common.
    pub sharing: Sharing,
    /// Whether to tell every step.
    pub trace: bool,
}

impl Run {
    /// Runs the program that is written down by `write`.
    pub fn of(self, write: impl FnOnce(&mut Job)) -> Result<Report, Failure> {
        let Run { seed, ranks, racy, sharing, trace } = self;
        let mut job = Job::new(seed, ranks);
        write(&mut job);
        World::new(Setup { trace, racy, sharing, ..setup(seed, ranks) }, job.script.into_program()).run()
    }
}

/// What a job of a seed is like.
fn setup(seed: u64, ranks: u32) -> Setup {
    let mut rng = Rng::part(seed, 6);
    let limited = seed & 1 == 0;
    Setup {
        seed,
        board: Rng::part(seed, 19).chance(50),
        puts_at_once: rng.chance(50),
        messaged: rng.pick(&[0, 0, 50]),
        fetch_first: rng.between(1, 2),
        predict: rng.chance(80),
        cache: if limited { rng.between(1, 3) } else { 0 },
        eviction: rng.pick(&[Eviction::Fifo, Eviction::Sieve]),
        migrate_after: rng.pick(&[0, 1, 2]),
        renewals: rng.pick(&[0, 0, 1, 15]),
        bring: Rng::part(seed, 15).chance(70),
        most_got: Rng::part(seed, 13).pick(&[1, 2, 64]),
        watch_from: rng.below(3),
        base: Rng::part(seed, 8).pick(&[2, 16]),
        exclusion: rng.chance(50),
        burst: rng.pick(&[0, 50, 90]),
        slow: rng.pick(&[0, 20, 40]),
        slowness: rng.pick(&[5, 25, 200]),
        ..Setup::new(ranks, REGION)
    }
}

/// A litmus program that is being written down.
#[derive(Debug)]
pub struct Job {
    ranks: u32,
    script: Script,
    protocol: Protocol,
    rng: Rng,
}

impl Job {
    fn new(seed: u64, ranks: u32) -> Self {
        let protocol = if seed & 2 == 0 { Protocol::Update } else { Protocol::Invalidate };
        let (script, rng) = (Script::new(ranks, REGION), Rng::part(seed, 7));
        Job { ranks, script, protocol, rng }
    }

    /// Shared pages.
    fn pages(&mut self, count: u32) -> Pages {
        let placement = match self.rng.below(4) {
            0 => Placement::FirstTouch,
            1 => Placement::Block,
            2 => Placement::Cyclic { pages: NonZeroU32::MIN, first: 0 },
            _ => Placement::Rank(self.rng.below(self.ranks)),
        };
        self.script.alloc(count, AllocOptions { placement, protocol: self.protocol, block: 1 })
    }

    /// Pages that whoever touches them first is the home of, one by one or two together.
    fn untouched(&mut self, count: u32) -> Pages {
        let (placement, block) = (Placement::FirstTouch, self.rng.between(1, 2));
        self.script.alloc(count, AllocOptions { placement, protocol: self.protocol, block })
    }

    /// Variables: side by side in one page, or each in a page of its own.
    fn words(&mut self, count: u32) -> Vec<Word> {
        if self.rng.chance(40) {
            let page = self.pages(1).first;
            return (0..count).map(|i| Word { page, first: 8 * i as usize, width: 8 }).collect();
        }
        (0..count).map(|i| Word { page: self.pages(1).first, first: 64 * i as usize, width: 8 }).collect()
    }

    /// Objects of synchronisation, managed by any ranks.
    fn objects(&mut self, kind: ObjectKind, count: u32) -> u32 {
        let others = self.rng.below(self.ranks);
        if others > 0 {
            self.script.make(ObjectKind::Lock, others);
        }
        self.script.make(kind, count)
    }

    /// An interval in which each rank does as it is told, in one thread.
    fn interval(&mut self, work: impl Fn(u32) -> Vec<Op>) {
        let ranks = self.ranks;
        self.script.interval(|i| {
            (0..ranks).for_each(|rank| work(rank).into_iter().for_each(|op| i.push(rank, op)));
        });
    }

    /// An interval in which some threads of each rank do as they are told.
    fn threads(&mut self, threads: u32, work: impl Fn(u32, u32) -> Vec<Op>) {
        let ranks = self.ranks;
        self.script.interval(|i| {
            i.work = (0..ranks).map(|rank| (0..threads).map(|t| work(rank, t)).collect()).collect();
        });
    }
}

/// A critical section.
fn section(lock: u32, inside: impl IntoIterator<Item = Op>) -> Vec<Op> {
    [Op::Lock(lock)].into_iter().chain(inside).chain([Op::Unlock(lock)]).collect()
}

fn load(word: Word) -> Op {
    Op::Plainly(word, Change::Load)
}

fn store(word: Word, value: u64) -> Op {
    Op::Plainly(word, Change::Swap(value))
}

fn add(word: Word, value: u64) -> Op {
    Op::Plainly(word, Change::Add(value))
}
