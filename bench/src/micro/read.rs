//! Cold page reads: rank 1 reads one word of each page that rank 0 has written and is home to.
//!
//! In turn: scattered, where every read fetches its page and the figure is the median time of a read, from
//! before the load to after it; and in order, where neighbours may come along, and the figure is the time of
//! all reads for each page.

use scash::{Dsm, Placement, Protocol};

use crate::area::{APART, Area, scattered};
use crate::outcome::{Outcome, Spent, Stopwatch, Unit, microseconds, samples};
use crate::{Result, two_ranks};

/// Reads of pages that this rank has not, from another rank
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Pages in a sample
    #[arg(long, value_name = "K", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pages: u32,

    /// Samples
    #[arg(long, value_name = "R", default_value_t = 5)]
    rounds: usize,
}

/// Measures between ranks 0 and 1; rank 1 tells.
pub(crate) fn measure(dsm: &mut Dsm, options: &Options) -> Result<Option<Outcome>> {
    two_ranks(dsm)?;
    let pages = options.pages as usize;
    let (mut single, mut in_order, mut widths) = (Vec::new(), Vec::new(), Vec::new());
    let mut right = true;
    let watch = Stopwatch::start(dsm);
    for round in 0..options.rounds {
        let area = Area::alloc(dsm, pages * APART, Placement::Rank(0), Protocol::Adaptive)?;
        write(dsm, area, pages * APART, round)?;
        if dsm.rank() == 1 {
            for page in scattered(pages) {
                let (time, word) = microseconds(|| area.peek(dsm, page));
                single.push(time);
                right &= word == stamp(round, page);
            }
        }
        area.free(dsm)?;
        let area = Area::alloc(dsm, pages, Placement::Rank(0), Protocol::Adaptive)?;
        write(dsm, area, pages, round)?;
        if dsm.rank() == 1 {
            let watch = Stopwatch::start(dsm);
            right &= (0..pages).all(|page| area.peek(dsm, page) == stamp(round, page));
            let spent = watch.stop(dsm);
            in_order.push(spent.seconds * 1e6 / f64::from(options.pages));
            widths.push(pages_a_fault(&spent));
        }
        area.free(dsm)?;
    }
    if dsm.rank() != 1 {
        return Ok(None);
    }
    let (single, in_order, widths) = (samples(single)?, samples(in_order)?, samples(widths)?);
    let outcome = Outcome::new(watch.stop(dsm)).right(right).parameter("pages", options.pages);
    let outcome = outcome.times("scattered", &single).times("in_order", &in_order).figure(
        "in_order_fault",
        widths.median(),
        Unit::Pages,
    );
    Ok(Some(outcome))
}

/// Rank 0 writes all pages. Includes a barrier.
fn write(dsm: &mut Dsm, area: Area, pages: usize, round: usize) -> Result<()> {
    if dsm.rank() == 0 {
        (0..pages).for_each(|page| area.poke(dsm, page, stamp(round, page)));
    }
    Ok(dsm.barrier()?)
}

/// What a page is to hold.
fn stamp(round: usize, page: usize) -> u64 {
    (round + 1) as u64 * 1_000_003 + page as u64
}

/// How many pages a fault brought.
fn pages_a_fault(spent: &Spent) -> f64 {
    spent.count(|c| c.fetched) as f64 / spent.count(|c| c.read_faults).max(1) as f64
}
