//! Locks: one that is here and nobody else wants, and one that all ranks want, with a page that it protects.
//!
//! `cached` is the time of taking and giving back a lock that is here, in ranks that do it at the same time
//! with a lock each. In `hand_over`, all ranks take the same lock again and again, and write a word of one
//! page: the time from the first to the last, for each time that the lock went to another rank.
//!
//! In `in_turn`, ranks take it one after the other, and the others wait for them meanwhile: the time from
//! asking for it until the pages are written. A request and its answer are the least that this takes over a
//! network: `round_trip` is that, of an atomic operation at the next rank, in turn as well.

use scash::{Dsm, Lock, Placement, Protocol};

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
    let turns = in_turn(dsm, common, area, options)?;
    total += turns.taken;
    let held = common.hold(dsm)?;
    let right = (0..options.pages).all(|page| area.peek(dsm, page) == total);
    drop(held);
    if dsm.rank() != 0 {
        return Ok(None);
    }
    let (cached, handed, share) = (samples(cached)?, samples(handed)?, samples(share)?);
    let outcome = Outcome::new(watch.stop(dsm)).right(right).parameter("pages", options.pages);
    let outcome = outcome.figure("cached", cached.median(), Unit::Nanoseconds);
    // Ranks that run one after the other each find the lock where they left it.
    let outcome = if share.median() > 0.0 { outcome.times("hand_over", &handed) } else { outcome };
    let outcome = outcome.figure("handed", share.median() * 100.0, Unit::Percent);
    let Some(times) = turns.times else { return Ok(Some(outcome)) };
    let (taking, trip) = (samples(times.taking)?, samples(times.trip)?);
    Ok(Some(outcome.times("in_turn", &taking).times("round_trip", &trip)))
}

/// What one rank measured while ranks took turns.
struct Turns {
    /// How often all ranks together took the lock.
    taken: u64,
    /// µs, of rank 0, if there is another one.
    times: Option<Times>,
}

struct Times {
    taking: Vec<f64>,
    trip: Vec<f64>,
}

/// Ranks take the lock in turn, and write the pages.
fn in_turn(dsm: &mut Dsm, lock: Lock, area: Area, options: &Options) -> Result<Turns> {
    let (rank, size) = (dsm.rank(), dsm.size());
    let words = Area::alloc(dsm, size, Placement::Block, Protocol::Adaptive)?;
    let mut times = Times { taking: Vec::new(), trip: Vec::new() };
    for turn in 0..options.times as usize * size {
        dsm.meet()?;
        if turn % size != rank {
            continue;
        }
        let (time, done) = microseconds(|| {
            let held = lock.hold(dsm)?;
            (0..options.pages).for_each(|page| area.poke(dsm, page, area.peek(dsm, page) + 1));
            Ok::<_, Error>(held)
        });
        drop(done?);
        times.taking.push(time);
    }
    for turn in 0..options.times as usize * size {
        dsm.meet()?;
        if turn % size == rank {
            let (time, done) = microseconds(|| words.count(dsm, (rank + 1) % size));
            done?;
            times.trip.push(time);
        }
    }
    dsm.barrier()?;
    words.free(dsm)?;
    let taken = u64::from(options.times) * size as u64;
    Ok(Turns { taken, times: (rank == 0 && size > 1).then_some(times) })
}
