//! What a run took, as text and as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};

use scash::{CheckpointStats, Stats};
use serde::Serialize;
use std::time::Duration;

/// What a rank did for coherence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CoherenceCost {
    /// Seconds in the memory barrier's first part: waiting for all ranks.
    pub sync: f64,
    /// Seconds in its second part: finding and sending what changed.
    pub diff: f64,
    /// Seconds in its third part: bringing copies up to date.
    pub update: f64,
    /// Page faults taken.
    pub faults: u64,
    /// Messages sent.
    pub messages: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// What the protocol counted, in the order of [`FIGURES`].
    #[serde(skip)]
    pub figures: [u64; FIGURES.len()],
}

/// A figure's name, whose last word is the unit, and where it is found.
pub type Figure = (&'static str, fn(&Stats) -> u64);

/// What reports have of the protocol's counters.
pub const FIGURES: [Figure; 29] = [
    ("fetched_pages", |stats| stats.protocol.fetched),
    ("prefetched_pages", |stats| stats.protocol.prefetched),
    ("predicted_writes", |stats| stats.protocol.predicted),
    ("noticed_writes", |stats| stats.protocol.noticed),
    ("diff_pages", |stats| stats.protocol.diffs),
    ("subscribed_pages", |stats| stats.protocol.subscribed),
    ("updated_pages", |stats| stats.protocol.updates),
    ("migrated_pages", |stats| stats.protocol.migrated),
    ("renewed_pages", |stats| stats.protocol.renewed),
    ("brought_pages", |stats| stats.protocol.brought),
    ("spared_pages", |stats| stats.protocol.spared),
    ("tracked_pages", |stats| stats.protocol.tracked),
    ("taken_locks", |stats| stats.protocol.locks),
    ("cached_locks", |stats| stats.protocol.cached_locks),
    ("ahead_locks", |stats| stats.protocol.asked_ahead),
    ("ahead_taken_locks", |stats| stats.protocol.taken_ahead),
    ("invalidated_pages", |stats| stats.protocol.invalidated),
    ("evicted_pages", |stats| stats.protocol.evicted),
    ("written_evicted_pages", |stats| stats.protocol.evicted_written),
    ("cached_pages", |stats| stats.protocol.most_cached),
    ("committed_checkpoints", |stats| checkpoints(stats).committed),
    ("checkpoint_copied_pages", |stats| checkpoints(stats).copied),
    ("checkpoint_stop_us", |stats| microseconds(checkpoints(stats).stop)),
    ("checkpoint_image_us", |stats| microseconds(checkpoints(stats).image)),
    ("checkpoint_scan_us", |stats| microseconds(checkpoints(stats).scan)),
    ("checkpoint_shared_us", |stats| microseconds(checkpoints(stats).shared)),
    ("checkpoint_copy_us", |stats| microseconds(checkpoints(stats).copy)),
    ("checkpoint_fence_us", |stats| microseconds(checkpoints(stats).fence)),
    ("checkpoint_meeting_us", |stats| microseconds(checkpoints(stats).meeting)),
];

/// What was counted of checkpoints: nothing where ranks do not come back.
fn checkpoints(stats: &Stats) -> CheckpointStats {
    stats.checkpoints.unwrap_or_default()
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl CoherenceCost {
    /// What was added to `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            sync: self.sync - earlier.sync,
            diff: self.diff - earlier.diff,
            update: self.update - earlier.update,
            faults: self.faults - earlier.faults,
            messages: self.messages - earlier.messages,
            bytes: self.bytes - earlier.bytes,
            figures: std::array::from_fn(|at| self.figures[at] - earlier.figures[at]),
        }
    }
}

impl std::ops::Add for CoherenceCost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            sync: self.sync + other.sync,
            diff: self.diff + other.diff,
            update: self.update + other.update,
            faults: self.faults + other.faults,
            messages: self.messages + other.messages,
            bytes: self.bytes + other.bytes,
            figures: std::array::from_fn(|at| self.figures[at] + other.figures[at]),
        }
    }
}

/// What one worker, or all workers of a rank, saw of one repetition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// What the computation took.
    pub seconds: f64,
    /// Whether the result equals the sequential one, as far as was looked, if that was asked for.
    pub equal: Option<bool>,
    /// What it cost that there are other ranks.
    pub cost: CoherenceCost,
}

/// Words of a [`Timing`] on its way to another rank.
pub const RECORD: usize = PLAIN + FIGURES.len();
/// Those of them that are no figures.
const PLAIN: usize = 8;

impl Timing {
    /// What several saw, as one: of each repetition the longest time, no difference anywhere, and all costs.
    pub fn merge(all: &[Vec<Timing>]) -> Vec<Timing> {
        let two = |a: &Timing, b: &Timing| Timing {
            seconds: a.seconds.max(b.seconds),
            equal: a.equal.zip(b.equal).map(|(a, b)| a && b),
            cost: a.cost + b.cost,
        };
        let merge = |a: Vec<Timing>, b: &Vec<Timing>| a.iter().zip(b).map(|(a, b)| two(a, b)).collect();
        let Some((first, others)) = all.split_first() else { return Vec::new() };
        others.iter().fold(first.clone(), merge)
    }

    /// The timing as words.
    pub fn to_record(self) -> [u64; RECORD] {
        let Self { seconds, equal, cost } = self;
        let equal = equal.map_or(2, u64::from);
        let [seconds, sync, diff, update] = [seconds, cost.sync, cost.diff, cost.update].map(f64::to_bits);
        let plain: [u64; PLAIN] =
            [seconds, equal, sync, diff, update, cost.faults, cost.messages, cost.bytes];
        std::array::from_fn(|at| plain.get(at).copied().unwrap_or_else(|| cost.figures[at - PLAIN]))
    }

    /// The timing that `to_record` made into words.
    pub fn from_record(record: [u64; RECORD]) -> Self {
        let (plain, figures) = record.split_first_chunk().expect("a record begins with what is no figure");
        let [seconds, equal, sync, diff, update, faults, messages, bytes]: [u64; PLAIN] = *plain;
        let [seconds, sync, diff, update] = [seconds, sync, diff, update].map(f64::from_bits);
        let equal = if equal == 2 { None } else { Some(equal == 1) };
        let figures = std::array::from_fn(|at| figures[at]);
        Self { seconds, equal, cost: CoherenceCost { sync, diff, update, faults, messages, bytes, figures } }
    }
}

/// What was run, and on what.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// The program's name.
    pub program: &'static str,
    /// The mode's name.
    pub mode: &'static str,
    /// Threads of each rank.
    pub threads: usize,
    /// What carries data between the ranks.
    pub provider: Option<&'static str>,
    /// What notices accesses to shared memory.
    pub engine: Option<&'static str>,
}

/// All repetitions of a run.
#[derive(Clone, Debug)]
pub struct Report {
    setting: Setting,
    repetitions: Vec<Repetition>,
    verified: Option<bool>,
}

#[derive(Clone, Debug)]
struct Repetition {
    all: Timing,
    ranks: Vec<CoherenceCost>,
}

/// One line of JSON. `P` adds the program's parameters.
#[derive(Serialize)]
struct Line<'a, P> {
    #[serde(flatten)]
    setting: &'a Setting,
    ranks: usize,
    #[serde(flatten)]
    parameters: &'a P,
    repetition: usize,
    seconds: f64,
    check: Option<&'static str>,
    /// Only programs whose results are published have it, with their last repetition.
    #[serde(skip_serializing_if = "Option::is_none")]
    verification: Option<&'static str>,
    barrier: Barrier,
    faults: u64,
    messages: u64,
    bytes: u64,
    figures: BTreeMap<&'static str, u64>,
    per_rank: &'a [CoherenceCost],
}

/// The three parts of the memory barrier, in seconds: means over the ranks.
#[derive(Serialize)]
struct Barrier {
    sync: f64,
    diff: f64,
    update: f64,
}

impl Report {
    /// The report of a run, from what each rank saw of each repetition, and how the last result compares with
    /// published values, if there are any.
    pub fn new(setting: Setting, ranks: &[Vec<Timing>], verified: Option<bool>) -> Self {
        let costs = |r: usize| ranks.iter().map(|timings| timings[r].cost).collect();
        let repetitions = Timing::merge(ranks).into_iter().enumerate();
        let repetitions = repetitions.map(|(r, all)| Repetition { all, ranks: costs(r) }).collect();
        Self { setting, repetitions, verified }
    }

    /// Whether a result was checked and is not the sequential one, or not the published one.
    pub fn differs(&self) -> bool {
        self.verified == Some(false)
            || self.repetitions.iter().any(|repetition| repetition.all.equal == Some(false))
    }

    /// Of a repetition, how its result compares with the published one.
    fn verification(&self, repetition: usize) -> Option<&'static str> {
        let verified = self.verified.filter(|_| repetition + 1 == self.repetitions.len());
        verified.map(|verified| if verified { "successful" } else { "FAILED" })
    }

    /// One line per repetition, for people, and with a DSM one more for each rank.
    ///
    /// # Errors
    /// If `out` takes no more.
    pub fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        let Setting { program, mode, threads, provider, engine } = self.setting;
        for (repetition, Repetition { all, ranks }) in self.repetitions.iter().enumerate() {
            write!(out, "{program}, {mode}, ")?;
            if let (Some(provider), Some(engine)) = (provider, engine) {
                write!(out, "{provider}, {engine}, {} of ", count(ranks.len(), "rank"))?;
            }
            let check = match all.equal {
                None => "",
                Some(true) => ", equal to the sequential result",
                Some(false) => ", DIFFERENT from the sequential result",
            };
            write!(out, "{}: {:.3} ms{check}", count(threads, "thread"), all.seconds * 1e3)?;
            if let Some(verification) = self.verification(repetition) {
                write!(out, ", verification {verification}")?;
            }
            writeln!(out)?;
            if provider.is_some() {
                ranks.iter().enumerate().try_for_each(|(rank, cost)| write_cost(out, rank, cost))?;
            }
        }
        Ok(())
    }

    /// One JSON object per repetition and line, with the program's `parameters`.
    ///
    /// # Errors
    /// If `out` takes no more.
    pub fn write_json(&self, out: &mut impl Write, parameters: &impl Serialize) -> io::Result<()> {
        for (repetition, Repetition { all, ranks }) in self.repetitions.iter().enumerate() {
            let CoherenceCost { sync, diff, update, faults, messages, bytes, figures } = all.cost;
            let mean = |sum: f64| sum / ranks.len() as f64;
            let line = Line {
                setting: &self.setting,
                ranks: ranks.len(),
                parameters,
                repetition,
                seconds: all.seconds,
                check: all.equal.map(|equal| if equal { "equal" } else { "different" }),
                verification: self.verification(repetition),
                barrier: Barrier { sync: mean(sync), diff: mean(diff), update: mean(update) },
                faults,
                messages,
                bytes,
                figures: FIGURES.iter().map(|(name, _)| *name).zip(figures).collect(),
                per_rank: ranks,
            };
            serde_json::to_writer(&mut *out, &line)?;
            writeln!(out)?;
        }
        Ok(())
    }
}

fn write_cost(out: &mut impl Write, rank: usize, cost: &CoherenceCost) -> io::Result<()> {
    let [sync, diff, update] = [cost.sync, cost.diff, cost.update].map(|seconds| seconds * 1e3);
    let CoherenceCost { faults, messages, bytes, .. } = cost;
    write!(out, "  rank {rank}: barrier sync {sync:.3} ms, diff {diff:.3} ms, update {update:.3} ms; ")?;
    writeln!(out, "{faults} faults, {messages} messages, {bytes} bytes")
}

/// A number of things, in words.
fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(seconds: f64, equal: Option<bool>) -> Timing {
        let figures = std::array::from_fn(|at| at as u64);
        let cost =
            CoherenceCost { sync: 0.25, diff: 0.5, update: 1.0, faults: 1, messages: 2, bytes: 3, figures };
        Timing { seconds, equal, cost }
    }

    #[test]
    fn a_timing_survives_its_way_to_another_rank() {
        for equal in [None, Some(false), Some(true)] {
            assert_eq!(Timing::from_record(timing(2.0, equal).to_record()), timing(2.0, equal));
        }
    }

    #[test]
    fn a_job_takes_as_long_as_its_last_rank_and_is_right_if_all_are() {
        let setting =
            Setting { program: "p", mode: "dsm", threads: 1, provider: Some("shm"), engine: Some("uffd") };
        let right = [vec![timing(1.0, Some(true))], vec![timing(2.0, Some(true))]];
        let mut json = Vec::new();
        Report::new(setting.clone(), &right, None).write_json(&mut json, &()).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(
            (&json["seconds"], &json["check"], &json["ranks"]),
            (&2.0.into(), &"equal".into(), &2.into())
        );
        assert_eq!((&json["barrier"]["diff"], &json["bytes"]), (&0.5.into(), &6.into()));
        assert_eq!(json["per_rank"][1]["messages"], 2);
        assert_eq!(json["figures"][FIGURES[5].0], 10, "those of both ranks");

        let wrong = [vec![timing(1.0, Some(true))], vec![timing(1.0, Some(false))]];
        let report = Report::new(setting.clone(), &wrong, None);
        let mut text = Vec::new();
        report.write_text(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(
            report.differs() && text.starts_with("p, dsm, shm, uffd, 2 ranks of 1 thread: 1000.000 ms, DIFF")
        );
        assert_eq!(text.lines().count(), 3);

        let (mut json, mut text) = (Vec::new(), Vec::new());
        let report = Report::new(setting, &[vec![timing(1.0, None); 2]], Some(false));
        report.write_json(&mut json, &()).unwrap();
        report.write_text(&mut text).unwrap();
        let (json, text) = (String::from_utf8(json).unwrap(), String::from_utf8(text).unwrap());
        let failed = |text: &str| text.lines().map(|line| line.contains("FAILED")).collect::<Vec<_>>();
        assert!(
            report.differs() && failed(&json) == [false, true],
            "only the last result is verified: {json}"
        );
        assert_eq!(failed(&text), [false, false, true, false], "{text}");
    }
}
