//! Checkpoints of private and shared memory: the first one, which copies all of it, and later ones, which
//! find and copy what has changed (`scash run --replicas 1 --checkpoint every=1000000`).
//!
//! From the moment at which a rank begins with a checkpoint until all is in its store: stopping threads, the
//! image, shared pages, the fence.

use scash::{CheckpointStats, Dsm, Placement, Protocol};
use scash_bench::figures::Samples;
use scash_bench::size;
use std::ops::Range;
use std::time::Duration;

use crate::area::{Area, PAGE};
use crate::outcome::{Outcome, Stopwatch, Unit, samples};
use crate::{Error, Result};

/// Checkpoints of memory of which little changes
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Private memory of each rank, with random contents
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "100M")]
    private: usize,

    /// Shared memory in use: each rank writes its part
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "0")]
    shared: usize,

    /// How many of a hundred pages are written between two checkpoints
    #[arg(long, value_name = "PERCENT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(..=100))]
    changed: u32,

    /// Checkpoints behind the first one
    #[arg(long, value_name = "N", default_value_t = 30)]
    rounds: usize,
}

/// Measures on all ranks; rank 0 tells.
pub(crate) fn measure(dsm: &mut Dsm, options: &Options) -> Result<Option<Outcome>> {
    let mut memory = Random::of(options.private);
    let pages = options.shared / PAGE;
    let area = Area::alloc(dsm, pages.max(1), Placement::Block, Protocol::Adaptive)?;
    let cut = |rank| pages * rank / dsm.size();
    let mine = cut(dsm.rank())..cut(dsm.rank() + 1);
    mine.clone().for_each(|page| area.poke(dsm, page, page as u64));
    let mut change = |dsm: &Dsm| {
        let changed = memory.change(options.changed);
        changed_pages(mine.clone(), options.changed).for_each(|page| area.poke(dsm, page, changed));
    };
    let watch = Stopwatch::start(dsm);
    let first = checkpoint(dsm)?;
    // The second one begins to have the kernel remember what is written.
    change(dsm);
    checkpoint(dsm)?;
    let mut later = Vec::with_capacity(options.rounds);
    for _ in 0..options.rounds {
        change(dsm);
        later.push(checkpoint(dsm)?);
    }
    let outcome = Outcome::new(watch.stop(dsm))
        .parameter("private", options.private)
        .parameter("shared", options.shared)
        .parameter("changed", options.changed)
        .figure("first", first.all(), Unit::Microseconds);
    let outcome = outcome.times("later", &of_each(&later, ImageCost::all)?);
    let outcome = PARTS.iter().try_fold(outcome, |outcome, (name, part)| {
        Ok::<_, Error>(outcome.figure(name, of_each(&later, part)?.median(), Unit::Microseconds))
    })?;
    let copied = of_each(&later, |cost| cost.copied)?.median();
    let outcome = outcome.figure("copied", copied, Unit::Pages);
    std::hint::black_box(&memory);
    Ok((dsm.rank() == 0).then_some(outcome))
}

fn of_each(costs: &[ImageCost], part: impl Fn(&ImageCost) -> f64) -> Result<Samples> {
    samples(costs.iter().map(part).collect())
}

/// A part of a checkpoint.
type CheckpointPart = (&'static str, fn(&ImageCost) -> f64);

const PARTS: [CheckpointPart; 6] = [
    ("stop", |cost| cost.stop),
    ("image", |cost| cost.image),
    ("scan", |cost| cost.scan),
    ("shared", |cost| cost.shared),
    ("copy", |cost| cost.copy),
    ("fence", |cost| cost.fence),
];

/// What a checkpoint cost this rank, in microseconds, and in pages.
#[derive(Clone, Copy, Debug)]
struct ImageCost {
    stop: f64,
    image: f64,
    /// How much of `image` the kernel has looked which pages were written.
    scan: f64,
    shared: f64,
    /// How much of `image` and `shared` was copying.
    copy: f64,
    fence: f64,
    copied: f64,
}

impl ImageCost {
    fn all(&self) -> f64 {
        self.stop + self.image + self.shared + self.fence
    }
}

/// Takes a checkpoint, which must be committed.
fn checkpoint(dsm: &mut Dsm) -> Result<ImageCost> {
    let before = counted(dsm)?;
    if !dsm.checkpoint()? {
        return Err(Error::NotMeasured("a checkpoint was left out".to_owned()));
    }
    let after = counted(dsm)?;
    let time = |part: fn(&CheckpointStats) -> Duration| (part(&after) - part(&before)).as_secs_f64() * 1e6;
    Ok(ImageCost {
        stop: time(|s| s.stop),
        image: time(|s| s.image),
        scan: time(|s| s.scan),
        shared: time(|s| s.shared),
        copy: time(|s| s.copy),
        fence: time(|s| s.fence),
        copied: (after.copied - before.copied) as f64,
    })
}

/// What was counted of checkpoints.
pub(crate) fn counted(dsm: &Dsm) -> Result<CheckpointStats> {
    dsm.stats().checkpoints.ok_or_else(|| {
        Error::NotMeasured("this is measured where ranks come back: `scash run --replicas 1`".to_owned())
    })
}

/// Memory with random contents, and the numbers that are drawn for it.
pub(crate) struct Random {
    words: Vec<u64>,
    state: u64,
}

impl Random {
    /// So many bytes.
    pub(crate) fn of(bytes: usize) -> Random {
        let mut memory = Random { words: Vec::with_capacity(bytes / 8), state: 0x9E37_79B9_7F4A_7C15 };
        for _ in 0..bytes / 8 {
            let word = memory.draw();
            memory.words.push(word);
        }
        memory
    }

    /// The next number (xorshift64).
    fn draw(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// A number below that one.
    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.draw() % limit as u64).unwrap_or(0)
    }

    /// Writes a word of each page of so many of a hundred, which lie all over the memory. Returns one of
    /// them.
    fn change(&mut self, percent: u32) -> u64 {
        let pages = self.words.len() * 8 / PAGE;
        for page in changed_pages(0..pages, percent) {
            let word = self.below(PAGE / 8);
            self.words[page * PAGE / 8 + word] = self.state;
        }
        self.draw()
    }
}

/// So many of a hundred of these pages, all over them.
fn changed_pages(pages: Range<usize>, percent: u32) -> impl Iterator<Item = usize> {
    pages.step_by(100usize.checked_div(percent as usize).unwrap_or(usize::MAX))
}
