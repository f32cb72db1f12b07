//! Pages rewritten by another rank than their home: rank 1 changes every byte of pages of rank 0, and the
//! memory barrier merges the changes there.
//!
//! Rank 1 has read the pages before, so a write finds them mapped for reading. It writes them twice: the
//! first time takes a fault a page, which makes its twin; the second time is plain writing, and is taken off.
//! What the barrier takes longer than an empty one is comparing, sending and merging. Rank 0 waits in the
//! barrier meanwhile.
//!
//! Pages that are written in *every* interval need no fault. What they take from one barrier to the next is
//! the figure `again`.

use scash::{Dsm, Placement, Protocol};
use scash_bench::figures::Samples;

use crate::area::Area;
use crate::barrier::empty;
use crate::outcome::{Outcome, Stopwatch, microseconds, samples};
use crate::{Result, two_ranks};

/// Pages rewritten by another rank than their home, from the write to the changes merged there
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Pages in a sample
    #[arg(long, value_name = "K", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pages: u32,

    /// Samples
    #[arg(long, value_name = "R", default_value_t = 15)]
    rounds: usize,
}

/// Rounds after which pages that are always written are known as such.
const WARM_UP: usize = 6;
/// Barriers in a sample of the empty one.
const EMPTY: u32 = 50;

/// What rank 1 measured in some rounds, in microseconds for all pages.
struct Cold {
    /// Writing for the first time.
    first: Samples,
    /// Writing again.
    second: Samples,
    /// The barrier after it.
    barrier: Samples,
}

/// Measures between ranks 0 and 1; rank 1 tells.
pub(crate) fn measure(dsm: &mut Dsm, options: &Options) -> Result<Option<Outcome>> {
    two_ranks(dsm)?;
    let pages = options.pages as usize;
    let watch = Stopwatch::start(dsm);
    let mut wrong = false;
    let cold = cold(dsm, pages, options.rounds, &mut wrong)?;
    let again = again(dsm, pages, options.rounds, &mut wrong)?;
    let empty = empty(dsm, options.rounds, EMPTY)?;
    let right = agree(dsm, !wrong)?;
    if dsm.rank() != 1 {
        return Ok(None);
    }
    let each = |time: f64| time / f64::from(options.pages);
    let less =
        |all: &Samples, part: &Samples| [each(all.median() - part.median()), each(all.min() - part.min())];
    let fault = less(&cold.first, &cold.second);
    let (merge, again) = (less(&cold.barrier, &empty), less(&again, &empty));
    let outcome = Outcome::new(watch.stop(dsm)).right(right).parameter("pages", options.pages);
    let outcome = outcome
        .time("page", fault[0] + merge[0], fault[1] + merge[1])
        .time("fault_and_twin", fault[0], fault[1])
        .time("diff_and_merge", merge[0], merge[1])
        .time("again", again[0], again[1]);
    Ok(Some(outcome))
}

/// Whether all ranks found everything right.
fn agree(dsm: &mut Dsm, right: bool) -> Result<bool> {
    let wrong = dsm.alloc::<u64>(1)?;
    if !right {
        wrong.set(dsm, 0, 1);
    }
    dsm.barrier()?;
    Ok(wrong.get(dsm, 0) == 0)
}

/// Pages that are written for the first time. Ranks other than 1 have no times of writing that mean anything.
fn cold(dsm: &mut Dsm, pages: usize, rounds: usize, wrong: &mut bool) -> Result<Cold> {
    let (mut firsts, mut seconds, mut barriers) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let area = Area::alloc(dsm, pages, Placement::Rank(0), Protocol::Adaptive)?;
        if dsm.rank() == 0 {
            area.fill(dsm, 0..pages, round);
        }
        dsm.barrier()?;
        *wrong |= dsm.rank() == 1 && !area.holds(dsm, 0..pages, round);
        firsts.push(write(dsm, area, pages, round + 1));
        seconds.push(write(dsm, area, pages, round + 2));
        let (barrier, done) = microseconds(|| dsm.barrier());
        done?;
        barriers.push(barrier);
        *wrong |= dsm.rank() == 0 && !area.holds(dsm, 0..pages, round + 2);
        area.free(dsm)?;
    }
    Ok(Cold { first: samples(firsts)?, second: samples(seconds)?, barrier: samples(barriers)? })
}

/// The same pages in every interval: writing them, and the barrier.
fn again(dsm: &mut Dsm, pages: usize, rounds: usize, wrong: &mut bool) -> Result<Samples> {
    let area = Area::alloc(dsm, pages, Placement::Rank(0), Protocol::Adaptive)?;
    let mut times = Vec::new();
    for round in 0..WARM_UP + rounds {
        let writing = write(dsm, area, pages, round);
        let (barrier, done) = microseconds(|| dsm.barrier());
        done?;
        if round >= WARM_UP {
            times.push(writing + barrier);
        }
    }
    *wrong |= dsm.rank() == 0 && !area.holds(dsm, 0..pages, WARM_UP + rounds - 1);
    samples(times)
}

/// Rank 1 writes all pages; how long that takes.
fn write(dsm: &Dsm, area: Area, pages: usize, round: usize) -> f64 {
    let writes = dsm.rank() == 1;
    let (time, ()) = microseconds(|| area.fill(dsm, 0..if writes { pages } else { 0 }, round));
    time
}
