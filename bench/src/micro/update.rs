//! Page update (Table 3 of the SCASH paper): the memory barrier brings pages that their home has changed
//! throughout to a sharer. `SCASH_TRANSFER=message` copies them into messages and out of them again,
//! `zero-copy` writes into the sharer's frames.
//!
//! In each round, rank 0, the home, writes the pages and comes to the barrier, where rank 1, the sharer,
//! waits; then the sharer looks whether it has everything. Two figures: what the home's part of the barrier
//! took that finds and sends the changes, by the runtime's own clock; and by how much the whole barrier took
//! longer than an empty one, in which the sharer's part is included.

use scash::{Dsm, FrameSharing, Placement, Protocol};

use crate::area::{Area, PAGE};
use crate::outcome::{Outcome, Spent, Stopwatch, Unit, microseconds, samples};
use crate::{Error, Result, two_ranks};

/// Pages brought from their home to one sharer by the memory barrier: by message or zero copy, as
/// SCASH_TRANSFER says
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Pages in a barrier
    #[arg(long, value_name = "K", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pages: u32,

    /// Samples
    #[arg(long, value_name = "R", default_value_t = 200)]
    rounds: usize,
}

/// Rounds in which the sharer subscribes, and home and sharer find their pace.
const WARM_UP: usize = 12;

/// What the home measured in some rounds, in microseconds.
#[derive(Default)]
struct UpdateTimes {
    part: Vec<f64>,
    whole: Vec<f64>,
    empty: Vec<f64>,
}

/// Measures between ranks 0 and 1; rank 0 tells.
pub(crate) fn measure(dsm: &mut Dsm, options: &Options) -> Result<Option<Outcome>> {
    two_ranks(dsm)?;
    if dsm.stats().frames == FrameSharing::Shared {
        let why = "the ranks share frames, so no page is brought to anybody: \
                   set SCASH_SHARE=off to measure the protocol";
        return Err(Error::NotMeasured(why.to_owned()));
    }
    let pages = options.pages as usize;
    let area = Area::alloc(dsm, pages, Placement::Rank(0), Protocol::Update)?;
    let wrong = dsm.alloc::<u64>(1)?;
    let mut times = UpdateTimes::default();
    let watch = Stopwatch::start(dsm);
    for round in 0..WARM_UP + options.rounds {
        if dsm.rank() == 0 {
            area.fill(dsm, 0..pages, round);
        }
        let (whole, spent) = timed_barrier(dsm)?;
        if dsm.rank() == 1 && !area.holds(dsm, 0..pages, round) {
            wrong.set(dsm, 0, 1);
        }
        dsm.barrier()?;
        let (empty, _) = timed_barrier(dsm)?;
        // While the sharer has not subscribed, there is nothing to bring to it.
        if round >= WARM_UP && spent.count(|c| c.updates) == u64::from(options.pages) {
            times.part.push(spent.update() * 1e6);
            times.whole.push(whole);
            times.empty.push(empty);
        }
    }
    let right = wrong.get(dsm, 0) == 0;
    (dsm.rank() == 0).then(|| outcome(watch.stop(dsm), times, options.pages, right)).transpose()
}

fn timed_barrier(dsm: &mut Dsm) -> Result<(f64, Spent)> {
    let watch = Stopwatch::start(dsm);
    let (time, done) = microseconds(|| dsm.barrier());
    done?;
    Ok((time, watch.stop(dsm)))
}

fn outcome(spent: Spent, times: UpdateTimes, pages: u32, right: bool) -> Result<Outcome> {
    if times.part.is_empty() {
        return Err(Error::NotMeasured("no barrier brought the pages to their sharer".to_owned()));
    }
    let (part, whole, empty) = (samples(times.part)?, samples(times.whole)?, samples(times.empty)?);
    let each = |time: f64| time / f64::from(pages);
    let page = each(whole.median() - empty.median());
    let (home, home_min) = (each(part.median()), each(part.min()));
    let outcome = Outcome::new(spent)
        .right(right)
        .parameter("transfer", transfer())
        .parameter("pages", pages)
        .time("page", page, each(whole.min() - empty.min()))
        .time("home_page", home, home_min)
        .figure("home_rate", rate(home), Unit::MebibytesPerSecond);
    // Where others disturb, a barrier with pages may seem to take less than an empty one: nothing can be told
    // then.
    Ok(if page > 0.0 { outcome.figure("rate", rate(page), Unit::MebibytesPerSecond) } else { outcome })
}

/// Mebibytes a second, if a page takes so many microseconds.
fn rate(page: f64) -> f64 {
    PAGE as f64 / f64::from(1 << 20) / (page * 1e-6)
}

/// How the runtime, which has checked the variable, moves pages.
fn transfer() -> String {
    std::env::var("SCASH_TRANSFER")
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "zero-copy".to_owned())
}
