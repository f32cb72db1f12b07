//! From the death of a rank until all compute again (`scash run --replicas 1 --checkpoint every=1000000`).
//!
//! Between two checkpoints the last rank notes the time in a file and kills itself. When all ranks have met
//! again, in their next incarnation, rank 0 looks how long ago that was.

use nix::sys::signal::{Signal, raise};
use scash::{Dsm, Placement, Protocol, RestartTime};
use scash_bench::figures::Samples;
use scash_bench::size;
use std::path::PathBuf;
use std::time::Duration;

use crate::area::{Area, PAGE};
use crate::image::{Random, counted};
use crate::outcome::{Outcome, Stopwatch, Unit, samples};
use crate::{Error, Result};

/// Restarts of ranks, one after the other
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Shared memory in use: each rank writes its part
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "256M")]
    shared: usize,

    /// Private memory of each rank, with random contents
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "100M")]
    private: usize,

    /// Restarts
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// A part of a restart.
type RestartPart = (&'static str, fn(&RestartTime) -> Duration);

const PARTS: [RestartPart; 6] = [
    ("end", |time| time.end),
    ("start", |time| time.start),
    ("image", |time| time.image),
    ("join", |time| time.join),
    ("shared", |time| time.shared),
    ("resume", |time| time.resume),
];

/// Measures on all ranks; rank 0 tells.
pub(crate) fn measure(dsm: &mut Dsm, options: &Options) -> Result<Option<Outcome>> {
    let memory = Random::of(options.private);
    let area = write(dsm, options.shared)?;
    let place = DeathFile::new();
    let watch = Stopwatch::start(dsm);
    let (mut all, mut parts, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..u64::from(options.rounds) {
        checkpoint(dsm)?;
        if dsm.incarnation() == round {
            dsm.barrier()?;
            if dsm.rank() + 1 == dsm.size() {
                place.note_and_die()?;
            }
        }
        dsm.barrier()?;
        if dsm.rank() == 0 {
            all.push(place.since()?.as_secs_f64() * 1e6);
        }
        let counts = counted(dsm)?;
        kept.push(counts.kept);
        parts.push(counts.restart.unwrap_or_default());
    }
    let right = is_written(dsm, &area, options.shared);
    std::hint::black_box(&memory);
    if dsm.rank() != 0 {
        return Ok(None);
    }
    let grown = kept.last().unwrap_or(&0).saturating_sub(kept[0]);
    let outcome = Outcome::new(watch.stop(dsm)).right(right);
    let outcome = outcome.parameter("shared", options.shared).parameter("private", options.private);
    let outcome = outcome.times("restart", &samples(all)?);
    let outcome = PARTS.iter().try_fold(outcome, |outcome, part| {
        Ok::<_, Error>(outcome.figure(part.0, of_each(&parts, part)?.median(), Unit::Microseconds))
    })?;
    Ok(Some(outcome.figure("grown", grown as f64, Unit::Pages)))
}

/// So many bytes of shared memory, of which each rank has written its part.
pub(crate) fn write(dsm: &mut Dsm, bytes: usize) -> Result<Area> {
    let area = Area::alloc(dsm, bytes.div_ceil(PAGE).max(1), Placement::Block, Protocol::Adaptive)?;
    let cut = |rank| bytes / PAGE * rank / dsm.size();
    let mine = cut(dsm.rank())..cut(dsm.rank() + 1);
    mine.for_each(|page| area.poke(dsm, page, page as u64 + 1));
    Ok(area)
}

/// Whether that is what they have written.
pub(crate) fn is_written(dsm: &Dsm, area: &Area, bytes: usize) -> bool {
    (0..bytes / PAGE).all(|page| area.peek(dsm, page) == page as u64 + 1)
}

fn of_each(times: &[RestartTime], (_, part): &RestartPart) -> Result<Samples> {
    samples(times.iter().map(|time| part(time).as_secs_f64() * 1e6).collect())
}

fn checkpoint(dsm: &mut Dsm) -> Result<()> {
    if dsm.checkpoint()? { Ok(()) } else { Err(Error::NotMeasured("a checkpoint was left out".to_owned())) }
}

/// A file that all ranks know, for the time of a death.
struct DeathFile(PathBuf);

impl DeathFile {
    fn new() -> DeathFile {
        // All ranks have one launcher.
        DeathFile(std::env::temp_dir().join(format!("scash-micro-restart.{}", nix::unistd::getppid())))
    }

    fn note_and_die(&self) -> Result<()> {
        std::fs::write(&self.0, scash_ft::Moment::now().to_string())?;
        raise(Signal::SIGKILL).map_err(std::io::Error::from)?;
        Ok(())
    }

    /// How long ago that was.
    fn since(&self) -> Result<Duration> {
        let then = std::fs::read_to_string(&self.0)?;
        let then = then.parse().map_err(|_| Error::NotMeasured(format!("{then:?} is no time")))?;
        let since = scash_ft::Moment::now().since(then);
        std::fs::remove_file(&self.0)?;
        Ok(since)
    }
}
