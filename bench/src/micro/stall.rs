//! For how long all ranks stand still while something is done to their job: a host is lost, a rank moves
//! (`scash run --host … --replicas 1 --checkpoint seconds=0.25`).
//!
//! Ranks come to one memory barrier after the other. Whoever does something to the job notes the moment in a
//! file. Rank 0 keeps the moments of its barriers, and looks at the end which two lie farthest apart, before
//! the event and from it on: before it that is the first checkpoint, which copies all that ranks have.

use scash::Dsm;
use scash_bench::size;
use scash_ft::Moment;
use std::path::PathBuf;
use std::time::Duration;

use crate::image::Random;
use crate::outcome::{Outcome, Stopwatch, Unit};
use crate::restart::{is_written, write};
use crate::{Error, Result};

/// How long ranks stand still while something is done to them
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Shared memory in use: each rank writes its part
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "256M")]
    shared: usize,

    /// Private memory of each rank, with random contents
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "100M")]
    private: usize,

    /// For how long
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,

    /// Where the moment is noted at which something is done
    #[arg(long, value_name = "FILE")]
    event: PathBuf,
}

/// Measures on all ranks; rank 0 tells.
pub(crate) fn measure(dsm: &mut Dsm, options: &Options) -> Result<Option<Outcome>> {
    let memory = Random::of(options.private);
    let area = write(dsm, options.shared)?;
    let watch = Stopwatch::start(dsm);
    let mut barriers = vec![Moment::now()];
    // Rank 0 says how long: the clocks of hosts differ.
    while dsm.broadcast_value(u8::from(is_on(&barriers, options.seconds)), 0)? == 1 {
        dsm.barrier()?;
        barriers.push(Moment::now());
    }
    let right = is_written(dsm, &area, options.shared);
    std::hint::black_box(&memory);
    if dsm.rank() != 0 {
        return Ok(None);
    }
    let event = std::fs::read_to_string(&options.event)?;
    let event = event.parse().map_err(|_| Error::NotMeasured(format!("{event:?} is no time")))?;
    let (first, still) = longest(&barriers, event);
    let outcome = Outcome::new(watch.stop(dsm)).right(right);
    let outcome = outcome.parameter("shared", options.shared).parameter("private", options.private);
    let outcome = outcome.figure("first", first.as_secs_f64() * 1e6, Unit::Microseconds);
    Ok(Some(outcome.figure("still", still.as_secs_f64() * 1e6, Unit::Microseconds)))
}

fn is_on(barriers: &[Moment], seconds: u64) -> bool {
    let last = barriers.last().zip(barriers.first());
    last.is_some_and(|(last, first)| last.since(*first) < Duration::from_secs(seconds))
}

/// The longest times between two barriers: before an event, and from it on.
fn longest(barriers: &[Moment], event: Moment) -> (Duration, Duration) {
    let (mut before, mut after) = (Duration::ZERO, Duration::ZERO);
    for pair in barriers.windows(2) {
        if pair[1] <= event {
            before = before.max(pair[1].since(pair[0]));
        } else {
            after = after.max(pair[1].since(pair[0].max(event)));
        }
    }
    (before, after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_time_is_counted_from_the_event_on() {
        let at = |milliseconds: u64| (milliseconds * 1_000_000).to_string().parse::<Moment>().unwrap();
        let barriers = [0, 70, 100, 110, 400, 500].map(at);
        let milliseconds = |(first, still): (Duration, Duration)| (first.as_millis(), still.as_millis());
        assert_eq!(milliseconds(longest(&barriers, at(150))), (70, 250));
        assert_eq!(milliseconds(longest(&barriers, at(110))), (70, 290));
        assert_eq!(milliseconds(longest(&barriers, at(600))), (290, 0));
    }
}
