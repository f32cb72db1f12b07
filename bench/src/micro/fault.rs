//! What a fault costs the program, with the fault engine in use: from before the access to after it, protocol
//! included. What the engines cost by themselves is measured by [`engine`](crate::engine).
//!
//! Rank 1 takes them: the first touch of a page that is nobody's yet, and the first write to a page of rank 0
//! that it has read, which makes a twin. Scattered, so that every access takes its fault; first touches in
//! order too, where neighbours may be mapped along.

use scash::{Dsm, Placement, Protocol};

use crate::area::{APART, Area, scattered};
use crate::outcome::{Outcome, Stopwatch, microseconds, samples};
use crate::{Result, two_ranks};

/// Faults: first touches, and first writes to pages that were read
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Pages in a sample
    #[arg(long, value_name = "K", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pages: u32,

    /// Samples
    #[arg(long, value_name = "R", default_value_t = 5)]
    rounds: usize,
}

/// Measures on rank 1, which tells.
pub(crate) fn measure(dsm: &mut Dsm, options: &Options) -> Result<Option<Outcome>> {
    two_ranks(dsm)?;
    let pages = options.pages as usize;
    let (mut touch, mut in_order, mut write) = (Vec::new(), Vec::new(), Vec::new());
    let watch = Stopwatch::start(dsm);
    for _ in 0..options.rounds {
        let area = Area::alloc(dsm, pages * APART, Placement::FirstTouch, Protocol::Adaptive)?;
        if dsm.rank() == 1 {
            touch.extend(scattered(pages).map(|page| microseconds(|| area.poke(dsm, page, 1)).0));
        }
        area.free(dsm)?;
        let area = Area::alloc(dsm, pages, Placement::FirstTouch, Protocol::Adaptive)?;
        if dsm.rank() == 1 {
            let (all, ()) = microseconds(|| (0..pages).for_each(|page| area.poke(dsm, page, 1)));
            in_order.push(all / f64::from(options.pages));
        }
        area.free(dsm)?;
        let area = Area::alloc(dsm, pages * APART, Placement::Rank(0), Protocol::Adaptive)?;
        if dsm.rank() == 1 {
            for page in scattered(pages) {
                area.peek(dsm, page);
            }
            write.extend(scattered(pages).map(|page| microseconds(|| area.poke(dsm, page, 1)).0));
        }
        area.free(dsm)?;
    }
    if dsm.rank() != 1 {
        return Ok(None);
    }
    let (touch, in_order, write) = (samples(touch)?, samples(in_order)?, samples(write)?);
    let outcome = Outcome::new(watch.stop(dsm)).parameter("pages", options.pages);
    let outcome = outcome
        .times("first_touch", &touch)
        .times("first_touch_in_order", &in_order)
        .times("read_only_to_writable", &write);
    Ok(Some(outcome))
}
