//! Locks: one that is here and nobody else wants, and one that all ranks want, with a page that it protects.
//!
//! `cached` is the time of taking and giving back a lock that is here, in ranks that do it at the same time
//! with a lock each. In `hand_over`, all ranks take the same lock again and again, and write a word of one
//! page: the time from the first to the last, for each time that the lock went to another rank.

use scash::{Dsm, Placement, Protocol};

use crate::area::Area;
use crate::outcome::{Outcome, Stopwatch, Unit, microseconds, samples};
use crate::{Error, Result};

/// A lock that is here, and one that goes from rank to rank with a page that was written
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Times that each rank takes the lock in a sample
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    times: u32,

    /// Samples
    #[arg(long, value_name = "R", default_value_t = 21)]
    rounds: usize,

    /// Pages written in a critical section
    #[arg(long, value_name = "K", default_value_t = 1)]
    pages: usize,
}

/// Measures on all ranks; rank 0 tells.
pub(crate) fn measure(dsm: &mut Dsm, options: &Options) -> Result<Option<Outcome>> {
    let locks = dsm.locks(2 * dsm.size())?;
    let (own, common) = (locks[dsm.rank()], locks[dsm.size()]);
    let area = Area::alloc(dsm, options.pages.max(1), Placement::Rank(0), Protocol::Adaptive)?;
    let watch = Stopwatch::start(dsm);
    let (mut cached, mut handed, mut share) = (Vec::new(), Vec::new(), Vec::new());
    let mut total = 0;
    for _ in 0..options.rounds {
        dsm.barrier()?;
        let (time, done) = microseconds(|| (0..options.times).try_for_each(|_| own.hold(dsm).map(drop)));
        done?;
        cached.push(time * 1e3 / f64::from(options.times));
        dsm.barrier()?;
        let before = dsm.stats().protocol.handed_locks;
        let (time, done) = microseconds(|| {
            for _ in 0..options.times {
                let held = common.hold(dsm)?;
                for page in 0..options.pages {
                    area.poke(dsm, page, area.peek(dsm, page) + 1);
                }
                drop(held);
            }
            dsm.barrier()
        });
        done?;
        // Where ranks take turns, each hands the lock on as often as it takes it.
        let hands = dsm.stats().protocol.handed_locks - before;
        handed.push(time / (hands.max(1) as f64 * dsm.size() as f64));
        share.push(hands as f64 / f64::from(options.times));
        total += u64::from(options.times) * dsm.size() as u64;
    }
    let held = common.hold(dsm)?;
    let right = (0..options.pages).all(|page| area.peek(dsm, page) == total);
    drop(held);
    if dsm.rank() != 0 {
        return Ok(None);
    }
    let (cached, handed, share) = (samples(cached)?, samples(handed)?, samples(share)?);
    if share.median() == 0.0 && dsm.size() > 1 {
        return Err(Error::NotMeasured("the lock never went to another rank".to_owned()));
    }
    let outcome = Outcome::new(watch.stop(dsm)).right(right).parameter("pages", options.pages);
    let outcome = outcome.figure("cached", cached.median(), Unit::Nanoseconds);
    Ok(Some(outcome.times("hand_over", &handed).figure("handed", share.median() * 100.0, Unit::Percent)))
}
