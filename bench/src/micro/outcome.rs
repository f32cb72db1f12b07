//! What a measurement found, and how it is printed.

use std::io::Write;
use std::time::{Duration, Instant};

use scash::fault::EngineKind;
use scash::{Dsm, FrameSharing, Stats};
use scash_bench::figures::Samples;
use scash_bench::record::{BarrierSeconds, Record};
use serde_json::Value;

use crate::{Error, Result};

/// A unit of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Microseconds,
    Nanoseconds,
    /// 2^20 bytes a second.
    MebibytesPerSecond,
    Bytes,
    Pages,
    /// Of a hundred.
    Percent,
}

impl Unit {
    /// As people write it, and as the end of a name in JSON.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Unit::Microseconds => ("µs", "us"),
            Unit::Nanoseconds => ("ns", "ns"),
            Unit::MebibytesPerSecond => ("MiB/s", "mib_s"),
            Unit::Bytes => ("bytes", "bytes"),
            Unit::Pages => ("pages", "pages"),
            Unit::Percent => ("%", "percent"),
        }
    }
}

/// Where something was measured.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    ranks: usize,
    provider: Option<String>,
    engine: Option<String>,
}

impl Setting {
    /// On the ranks of a job.
    pub(crate) fn of(dsm: &Dsm) -> Self {
        let provider = Some(dsm.provider().to_owned());
        let shared = dsm.stats().frames == FrameSharing::Shared;
        let engine = if shared { "shared frames" } else { dsm.engine() };
        Self { ranks: dsm.size(), provider, engine: Some(engine.to_owned()) }
    }

    /// In a process that belongs to no job.
    pub(crate) fn without_job(engine: EngineKind) -> Self {
        Self { ranks: 1, provider: None, engine: Some(engine.name().to_owned()) }
    }

    /// Between two endpoints that belong to no job: nothing faults.
    pub(crate) fn of_provider(name: &str) -> Self {
        Self { ranks: 2, provider: Some(name.to_owned()), engine: None }
    }
}

/// A number with a name.
#[derive(Clone, Debug)]
struct Figure {
    name: String,
    value: f64,
    unit: Unit,
}

/// What a rank found.
#[derive(Debug)]
pub(crate) struct Outcome {
    spent: Spent,
    right: Option<bool>,
    figures: Vec<Figure>,
    parameters: Vec<(&'static str, Value)>,
}

impl Outcome {
    /// An outcome without figures yet.
    pub(crate) fn new(spent: Spent) -> Self {
        Self { spent, right: None, figures: Vec::new(), parameters: Vec::new() }
    }

    /// With one figure more. The name is of letters and `_`.
    pub(crate) fn figure(mut self, name: &str, value: f64, unit: Unit) -> Self {
        self.figures.push(Figure { name: name.to_owned(), value, unit });
        self
    }

    /// With a time in microseconds: its median, and the least, under the name with `_min`.
    pub(crate) fn time(mut self, name: &str, median: f64, min: f64) -> Self {
        for (name, value) in [(name.to_owned(), median), (format!("{name}_min"), min)] {
            self.figures.push(Figure { name, value, unit: Unit::Microseconds });
        }
        self
    }

    /// The same for a time of which there are samples.
    pub(crate) fn times(self, name: &str, samples: &Samples) -> Self {
        self.time(name, samples.median(), samples.min())
    }

    /// With a parameter that the measurement had.
    pub(crate) fn parameter(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.parameters.push((name, value.into()));
        self
    }

    /// With a word on whether all that was read was right.
    pub(crate) fn right(mut self, right: bool) -> Self {
        self.right = Some(right);
        self
    }

    /// Whether nothing that was read was wrong.
    pub(crate) fn is_right(&self) -> bool {
        self.right != Some(false)
    }

    /// Prints one line, in one write.
    pub(crate) fn print(&self, place: &Setting, name: &str, json: bool) -> Result<()> {
        let record = self.record(place, name);
        let line = if json {
            serde_json::to_string(&record).map_err(std::io::Error::from)?
        } else {
            self.text(&record)
        };
        Ok(std::io::stdout().lock().write_all((line + "\n").as_bytes())?)
    }

    fn record(&self, place: &Setting, name: &str) -> Record {
        let (seconds, barrier, faults, messages, bytes) = self.spent.totals();
        let figures = self.figures.iter().map(|f| (format!("{}_{}", f.name, f.unit.names().1), f.value));
        let parameters = self.parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        Record {
            program: "scash-micro".to_owned(),
            mode: name.to_owned(),
            ranks: place.ranks,
            threads: 1,
            provider: place.provider.clone(),
            engine: place.engine.clone(),
            seconds,
            check: self.right.map(|right| if right { "equal" } else { "different" }.to_owned()),
            barrier,
            faults,
            messages,
            bytes,
            figures: figures.collect(),
            parameters: parameters.collect(),
        }
    }

    fn text(&self, record: &Record) -> String {
        let mut text = record.mode.clone();
        for name in [&record.provider, &record.engine].into_iter().flatten() {
            text += &format!(", {name}");
        }
        if record.provider.is_some() {
            text += &format!(", {} ranks", record.ranks);
        }
        for (name, value) in &self.parameters {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            text += &format!(", {} {value}", words(name));
        }
        for (figure, before) in self.figures.iter().zip([": "].into_iter().chain(std::iter::repeat(", "))) {
            let digits = if matches!(figure.unit, Unit::Bytes | Unit::Nanoseconds) { 0 } else { 3 };
            text += &format!(
                "{before}{} {:.digits$} {}",
                words(&figure.name),
                figure.value,
                figure.unit.names().0
            );
        }
        if !self.is_right() {
            text += "; WRONG DATA";
        }
        text
    }
}

fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// What a rank counted and timed between two points.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    /// Seconds between them.
    pub(crate) seconds: f64,
    before: Stats,
    after: Stats,
}

impl Spent {
    /// What a process spent that belongs to no job, and how many faults it took.
    pub(crate) fn without_job(time: Duration, faults: u64) -> Self {
        let before = Stats::default();
        Self { seconds: time.as_secs_f64(), before, after: Stats { faults, ..before } }
    }

    /// Seconds that the home's part of bringing pages to their sharers took.
    pub(crate) fn update(&self) -> f64 {
        (self.after.barrier.update - self.before.barrier.update).as_secs_f64()
    }

    /// How much one of the protocol's counters has grown.
    pub(crate) fn count(&self, counter: impl Fn(&scash_proto::node::Counters) -> u64) -> u64 {
        counter(&self.after.protocol) - counter(&self.before.protocol)
    }

    fn totals(&self) -> (f64, BarrierSeconds, u64, u64, u64) {
        let (a, b) = (&self.after, &self.before);
        let parts = BarrierSeconds {
            sync: (a.barrier.sync - b.barrier.sync).as_secs_f64(),
            diff: (a.barrier.diff - b.barrier.diff).as_secs_f64(),
            update: self.update(),
        };
        let traffic = (a.traffic.messages - b.traffic.messages, a.traffic.bytes - b.traffic.bytes);
        (self.seconds, parts, a.faults - b.faults, traffic.0, traffic.1)
    }
}

/// A stop watch that keeps the counters too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch {
    before: Stats,
    start: Instant,
}

impl Stopwatch {
    /// Starts now.
    pub(crate) fn start(dsm: &Dsm) -> Self {
        Self { before: dsm.stats(), start: Instant::now() }
    }

    /// What was spent since the start.
    pub(crate) fn stop(&self, dsm: &Dsm) -> Spent {
        let seconds = self.start.elapsed().as_secs_f64();
        Spent { seconds, before: self.before, after: dsm.stats() }
    }
}

/// What some work takes, in microseconds.
pub(crate) fn microseconds<R>(work: impl FnOnce() -> R) -> (f64, R) {
    let start = Instant::now();
    let result = work();
    (start.elapsed().as_secs_f64() * 1e6, result)
}

/// Samples of a measurement that takes at least one.
pub(crate) fn samples(samples: Vec<f64>) -> Result<Samples> {
    Samples::new(samples)
        .ok_or_else(|| Error::NotMeasured("there are no samples: ask for more rounds".to_owned()))
}
