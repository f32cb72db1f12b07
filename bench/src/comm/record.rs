//! What a measurement found, as a line that `scash bench comm` reads.

use crate::{Error, Result};
use scash_bench::figures::Samples;
use scash_bench::record::{BarrierSeconds, Record};
use scash_join::boot::vars;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

/// The program's name in its records.
const PROGRAM: &str = "scash-comm-bench";

/// Numbers with names. The last word of a name is the unit.
#[derive(Debug, Default)]
pub(crate) struct Figures(BTreeMap<String, f64>);

impl Figures {
    /// With one figure more.
    pub(crate) fn figure(mut self, name: &str, value: f64) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    /// With a time: the median in microseconds, and the least.
    pub(crate) fn times(self, name: &str, samples: &Samples) -> Self {
        self.figure(&format!("{name}_us"), samples.median()).figure(&format!("{name}_min_us"), samples.min())
    }
}

/// What rank 0 has to tell.
pub(crate) struct BenchResult<'a> {
    /// What was measured,
    pub(crate) mode: &'a str,
    /// between how many ranks,
    pub(crate) ranks: u32,
    /// how long that took,
    pub(crate) seconds: f64,
    /// and of what: lengths and numbers.
    pub(crate) parameters: &'a [(&'a str, usize)],
    pub(crate) figures: Figures,
}

impl BenchResult<'_> {
    /// Prints one line, in one write.
    pub(crate) fn print(self, json: bool) -> Result<()> {
        let line = if json {
            serde_json::to_string(&self.record()).map_err(std::io::Error::from)?
        } else {
            self.text()
        };
        Ok(std::io::stdout().lock().write_all((line + "\n").as_bytes())?)
    }

    fn text(&self) -> String {
        let mut text = format!("{}, {} ranks", self.mode, self.ranks);
        for (name, value) in self.parameters {
            text += &format!(", {name} {value}");
        }
        for ((name, value), before) in
            self.figures.0.iter().zip([": "].into_iter().chain(std::iter::repeat(", ")))
        {
            text += &format!("{before}{name} {value:.3}");
        }
        text
    }

    fn record(self) -> Record {
        let parameters = self.parameters.iter().map(|&(name, value)| (name.to_owned(), value.into()));
        Record {
            program: PROGRAM.to_owned(),
            mode: self.mode.to_owned(),
            ranks: self.ranks as usize,
            threads: 1,
            provider: std::env::var(vars::PROVIDER).ok(),
            engine: None,
            seconds: self.seconds,
            check: None,
            barrier: BarrierSeconds::default(),
            faults: 0,
            messages: 0,
            bytes: 0,
            figures: self.figures.0,
            parameters: parameters.collect(),
        }
    }
}

/// Microseconds of something that may fail.
pub(crate) fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64() * 1e6)
}

/// Samples of a measurement that takes at least one.
pub(crate) fn samples(samples: Vec<f64>) -> Result<Samples> {
    Samples::new(samples).ok_or(Error::NoSamples)
}
