//! The empty memory barrier (Figure 2 of the SCASH paper, with other numbers of ranks): nobody has written
//! anything.

use scash::{Dsm, Placement, Protocol};
use scash_bench::figures::Samples;
use scash_bench::size;

use crate::Result;
use crate::area::{Area, PAGE};
use crate::outcome::{Outcome, Stopwatch, microseconds, samples};

/// An empty memory barrier
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Shared memory that is in use, which must not matter: each rank touches its part of it before
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "0")]
    in_use: usize,

    /// Samples
    #[arg(long, value_name = "B", default_value_t = 50)]
    rounds: usize,

    /// Barriers in a sample
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    length: u32,
}

/// Measures on all ranks; rank 0 tells.
pub(crate) fn measure(dsm: &mut Dsm, options: &Options) -> Result<Option<Outcome>> {
    occupy(dsm, options.in_use)?;
    let watch = Stopwatch::start(dsm);
    let empty = empty(dsm, options.rounds, options.length)?;
    let outcome = Outcome::new(watch.stop(dsm)).parameter("in_use", options.in_use).times("barrier", &empty);
    Ok((dsm.rank() == 0).then_some(outcome))
}

/// Puts so much shared memory to use. Every rank touches its own part.
pub(crate) fn occupy(dsm: &mut Dsm, bytes: usize) -> Result<()> {
    let pages = bytes.div_ceil(PAGE);
    if pages == 0 {
        return Ok(());
    }
    let area = Area::alloc(dsm, pages, Placement::Block, Protocol::Adaptive)?;
    let cut = |rank| pages * rank / dsm.size();
    (cut(dsm.rank())..cut(dsm.rank() + 1)).for_each(|page| area.poke(dsm, page, 1));
    Ok(dsm.barrier()?)
}

/// Microseconds of an empty barrier. All ranks take part.
pub(crate) fn empty(dsm: &mut Dsm, rounds: usize, length: u32) -> Result<Samples> {
    (0..length).try_for_each(|_| dsm.barrier())?;
    let mut each = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let (time, done) = microseconds(|| (0..length).try_for_each(|_| dsm.barrier()));
        done?;
        each.push(time / f64::from(length));
    }
    samples(each)
}
