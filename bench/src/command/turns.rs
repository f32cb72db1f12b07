//! Programs that are run in several ways in turns: what each way costs, beside the first of them.
//!
//! A round runs every way once, one after the other; ratios are of neighbours in a round, and what is shown
//! are medians.

use super::Session;
use super::runner::{Job, On};
use scash_bench::figures::{Spread, median, speed};
use scash_bench::record::Record;
use serde::Serialize;

/// A program, and how it is called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) parameters: &'static [&'static str],
    /// Parameters when little is to be done.
    pub(super) quick: &'static [&'static str],
    /// Repetitions in a round.
    pub(super) repeat: u32,
}

impl Program {
    /// A program with the parameters that it has if nobody gives any.
    pub(super) const fn named(name: &'static str) -> Program {
        Program { name, parameters: &[], quick: &[], repeat: 3 }
    }

    fn arguments(self, quick: bool) -> &'static [&'static str] {
        if quick { self.quick } else { self.parameters }
    }

    /// One run on ranks.
    pub(super) fn job(self, on: On, quick: bool) -> Job {
        let repeat = if quick { 1 } else { self.repeat }.to_string();
        let arguments = self.arguments(quick).iter().copied().map(str::to_owned);
        Job::new(self.name, on, arguments.chain(["--repeat".to_owned(), repeat]))
    }

    /// The program and its parameters, for people.
    pub(super) fn title(self, quick: bool) -> String {
        [self.name].iter().chain(self.arguments(quick)).copied().collect::<Vec<_>>().join(" ")
    }
}

/// A way of running a program: its name in tables, and the settings that make it.
#[derive(Clone, Debug, Default)]
pub(super) struct Variant {
    pub(super) name: String,
    pub(super) settings: Vec<(&'static str, String)>,
}

impl Variant {
    /// The job in this way.
    pub(super) fn of(&self, job: Job) -> Job {
        self.settings.iter().fold(job, |job, (name, value)| job.with(name, value.clone()))
    }
}

/// Which repetitions of a round count.
#[derive(Clone, Copy, Debug)]
pub(super) enum Counted {
    /// All but the first, in which homes are found and buffers made, if there are others: their medians.
    Later,
    /// All: their means.
    All,
}

impl Counted {
    /// One record for the repetitions of a round.
    fn one(self, mut records: Vec<Record>) -> Option<Record> {
        if matches!(self, Counted::Later) && records.len() > 1 {
            records.remove(0);
        }
        let records: Vec<Option<Record>> = records.into_iter().map(Some).collect();
        combined(&records, if matches!(self, Counted::Later) { median } else { mean })
    }
}

/// What a way took.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Line {
    /// The way's name.
    pub(super) way: String,
    /// The settings that make it, as `NAME=value`.
    pub(super) settings: Vec<String>,
    /// The last repetition of the last round, with medians of all rounds as times and counts.
    #[serde(flatten)]
    pub(super) record: Record,
    /// How many rounds there were.
    pub(super) rounds: usize,
    /// How many times as long as the first way it takes.
    pub(super) times: Option<Spread>,
}

impl Line {
    /// A counter of the protocol.
    pub(super) fn figure(&self, name: &str) -> Option<f64> {
        self.record.figures.get(name).copied()
    }
}

/// Runs the program in all ways, in turns. A way that failed in every round has no line.
pub(super) fn measure(
    session: &Session,
    program: Program,
    on: On,
    variants: &[Variant],
    counted: Counted,
) -> Vec<Option<Line>> {
    let one = |variant: &Variant| session.measure(&variant.of(program.job(on, session.how.quick)));
    in_turns(session, variants, |variant| one(variant).and_then(|records| counted.one(records)))
}

/// Runs what `measure` does in all ways, in turns. A way that failed in every round has no line.
pub(super) fn in_turns(
    session: &Session,
    variants: &[Variant],
    measure: impl Fn(&Variant) -> Option<Record>,
) -> Vec<Option<Line>> {
    let mut rounds: Vec<Vec<Option<Record>>> = vec![Vec::new(); variants.len()];
    for _ in 0..session.how.rounds(5) {
        for (variant, rounds) in variants.iter().zip(&mut rounds) {
            rounds.push(measure(variant));
        }
    }
    let lines: Vec<Option<Line>> =
        variants.iter().zip(&rounds).map(|(variant, own)| line(variant, own, &rounds[0])).collect();
    lines.iter().flatten().for_each(|line| session.object(line));
    lines
}

/// The median, or another middle, of each number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what lies in the middle of counts is a count, and some fraction"
)]
fn combined(records: &[Option<Record>], middle: fn(&[Option<f64>]) -> Option<f64>) -> Option<Record> {
    let last = records.iter().flatten().last()?.clone();
    let of = |number: &dyn Fn(&Record) -> f64| {
        middle(&records.iter().map(|record| record.as_ref().map(number)).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    let count = |number: &dyn Fn(&Record) -> u64| of(&|record| number(record) as f64) as u64;
    let figure = |name: &String| of(&|record| record.figures.get(name).copied().unwrap_or(0.0));
    Some(Record {
        seconds: of(&|record| record.seconds),
        faults: count(&|record| record.faults),
        messages: count(&|record| record.messages),
        bytes: count(&|record| record.bytes),
        figures: last.figures.keys().map(|name| (name.clone(), figure(name))).collect(),
        ..last
    })
}

fn mean(values: &[Option<f64>]) -> Option<f64> {
    let known: Vec<f64> = values.iter().flatten().copied().collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

fn line(variant: &Variant, own: &[Option<Record>], first: &[Option<Record>]) -> Option<Line> {
    let seconds = |records: &[Option<Record>]| -> Vec<Option<f64>> {
        records.iter().map(|record| Some(record.as_ref()?.seconds)).collect()
    };
    Some(Line {
        way: variant.name.clone(),
        settings: variant.settings.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        record: combined(own, median)?,
        rounds: own.len(),
        // How many times as fast the first is, so many times as long it takes.
        times: speed(&seconds(own), &seconds(first)),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn record(seconds: f64, faults: u64, fetched: f64) -> Record {
        let line = format!(
            r#"{{"program":"p","mode":"dsm","ranks":2,"threads":1,"provider":"shm","engine":"uffd","seconds":{seconds},"check":null,
            "barrier":{{"sync":0.0,"diff":0.0,"update":0.0}},"faults":{faults},"messages":8,"bytes":4096,
            "figures":{{"fetched_pages":{fetched}}}}}"#
        );
        scash_bench::record::parse(&line.replace('\n', "")).unwrap().remove(0)
    }

    fn variant(name: &str) -> Variant {
        Variant { name: name.to_owned(), settings: vec![("SCASH_CACHE", "1M".to_owned())] }
    }

    #[test]
    fn a_way_is_compared_with_the_first_one_within_each_round() {
        let first = [Some(record(1.0, 5, 1.0)), Some(record(4.0, 5, 1.0)), None];
        let own = [Some(record(2.0, 7, 3.0)), Some(record(10.0, 9, 5.0)), Some(record(9.0, 9, 5.0))];
        let line = line(&variant("half"), &own, &first).unwrap();
        let times = line.times.unwrap();
        assert!((times.min, times.max) == (2.0, 2.5), "{times:?}");
        assert_eq!((line.record.faults, line.figure("fetched_pages"), line.rounds), (9, Some(5.0), 3));
        let json = serde_json::to_value(&line).unwrap();
        assert_eq!((&json["way"], &json["settings"][0]), (&"half".into(), &"SCASH_CACHE=1M".into()));
    }

    #[test]
    fn the_first_repetition_counts_where_all_do_or_it_is_alone() {
        let all = [9.0, 2.0, 4.0].map(|seconds| record(seconds, 1, 1.0));
        let seconds = |counted: Counted, records: &[Record]| counted.one(records.to_vec()).unwrap().seconds;
        assert_eq!(seconds(Counted::Later, &all), 3.0);
        assert_eq!(seconds(Counted::Later, &all[..1]), 9.0);
        assert_eq!(seconds(Counted::All, &all), 5.0);
    }

    #[test]
    fn a_way_that_always_failed_has_no_line() {
        assert!(line(&variant("none"), &[None, None], &[Some(record(1.0, 1, 1.0)), None]).is_none());
    }
}
