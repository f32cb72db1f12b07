//! `scash bench apps`: LAPLACE and LU on one thread, on two threads of one process, and on ranks of one host,
//! two and four.
//!
//! The kernel is the same everywhere. In each round every program runs in every way, one after the other; a
//! way's time in a round is the median of its repetitions, and its speed is compared with its neighbours' in
//! the same round.

use super::Session;
use super::hosts::Hosts;
use super::runner::{Job, On};
use super::table::{Table, number, spread};
use scash_bench::figures::{Spread, median, speed};
use scash_bench::record::Record;
use serde::Serialize;

/// LAPLACE and LU: sequential, two threads of one process, 2 and 4 ranks that share frames (the default on
/// one host), 1, 2 and 4 ranks over shm and tcp with frames of their own (what the protocol does), and ranks
/// on 2 and 4 hosts (network namespaces)
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Options {
    /// The same programs in C too
    #[arg(long)]
    c: bool,

    /// Compare every result with the sequential one, bit for bit
    #[arg(long)]
    check: bool,
}

/// A program, and how it is called.
#[derive(Clone, Copy, Debug)]
struct Program {
    name: &'static str,
    about: &'static str,
    /// Repetitions in a round.
    repeat: u32,
    /// Parameters when little is to be done.
    quick: &'static [&'static str],
    in_c: bool,
}

const LAPLACE: Program = Program {
    name: "laplace",
    about: "1022×1022 inner elements, 50 iterations",
    repeat: 7,
    quick: &["--size", "254", "--iterations", "10"],
    in_c: false,
};
const LU: Program = Program {
    name: "lu",
    about: "2048×2048, blocks of 64×64",
    repeat: 3,
    quick: &["--size", "256", "--block", "32"],
    in_c: false,
};
const PROGRAMS: [Program; 4] = [
    LAPLACE,
    LU,
    Program { name: "laplace-c", in_c: true, ..LAPLACE },
    Program { name: "lu-c", in_c: true, ..LU },
];

/// The way that others are compared with, and the one that ranks are to come close to.
const SEQUENTIAL: usize = 0;
const THREADS: usize = 1;
const WAYS: [On; 13] = [
    On::Sequential,
    On::Threads(2),
    On::Ranks(1, "shm"),
    On::Ranks(2, "shm"),
    On::Ranks(4, "shm"),
    On::Sharing(2),
    On::Sharing(4),
    On::Ranks(1, "tcp"),
    On::Ranks(2, "tcp"),
    On::Ranks(4, "tcp"),
    On::Hosts(2, 2),
    On::Hosts(4, 2),
    On::Hosts(4, 4),
];
/// The most hosts of these.
const MOST_HOSTS: u32 = 4;

/// What one way of running a program took in each round: nothing where it failed.
#[derive(Debug, Default)]
struct Series {
    seconds: Vec<Option<f64>>,
    /// The first repetition's time, in those of the later ones.
    first: Vec<Option<f64>>,
    last: Option<Record>,
}

impl Series {
    fn add(&mut self, records: Option<Vec<Record>>) {
        let all: Vec<Option<f64>> = records.iter().flatten().map(|record| Some(record.seconds)).collect();
        self.seconds.push(median(&all));
        let later = median(all.get(1..).unwrap_or_default());
        self.first.push(all.first().copied().flatten().zip(later).map(|(first, later)| first / later));
        self.last = records.and_then(|mut records| records.pop()).or(self.last.take());
    }
}

/// A line of the result.
#[derive(Debug, Serialize)]
struct Line {
    /// The last repetition of the last round, with the median of all rounds as its time.
    #[serde(flatten)]
    record: Record,
    /// How many rounds there were.
    rounds: usize,
    /// How many times as fast as the sequential program.
    of_sequential: Option<Spread>,
    /// How many times as fast as two threads.
    of_threads: Option<Spread>,
    /// What the first repetition takes, in times of the later ones.
    first: Option<f64>,
}

/// Measures all programs in all ways; whether everything could be measured.
pub(super) fn run(session: &Session, options: &Options) -> bool {
    let programs: Vec<Program> = PROGRAMS.into_iter().filter(|program| options.c || !program.in_c).collect();
    let hosts = Hosts::new(MOST_HOSTS);
    if let Err(why) = &hosts {
        session.show(&format!("Not measured: ranks on several hosts: {why}\n"));
    }
    let is_possible = |on: &On| hosts.is_ok() || !matches!(on, On::Hosts(..));
    let possible: Vec<On> = WAYS.into_iter().filter(is_possible).collect();
    let mut results: Vec<Vec<Series>> =
        programs.iter().map(|_| possible.iter().map(|_| Series::default()).collect()).collect();
    for _ in 0..session.how.rounds(7) {
        for (program, ways) in programs.iter().zip(&mut results) {
            for (&on, series) in possible.iter().zip(ways) {
                let job = job(*program, on, session.how.quick, options.check);
                let job = match (&hosts, on) {
                    (Ok(hosts), On::Hosts(..)) => hosts.reached_by(job),
                    _ => job,
                };
                series.add(session.measure(&job));
            }
        }
    }
    for (program, ways) in programs.iter().zip(&results) {
        let lines = lines(ways);
        lines.iter().flatten().for_each(|line| session.object(line));
        session.show(&text(*program, session.how.quick, &lines));
    }
    results.iter().flatten().all(|series| series.seconds.iter().all(Option::is_some))
}

fn job(program: Program, on: On, quick: bool, check: bool) -> Job {
    let repeat = if quick { 2 } else { program.repeat };
    let parameters = if quick { program.quick } else { &[] };
    let mut arguments: Vec<String> = parameters.iter().map(ToString::to_string).collect();
    arguments.extend(["--repeat".to_owned(), repeat.to_string()]);
    arguments.extend(check.then(|| "--check".to_owned()));
    Job::new(program.name, on, arguments)
}

/// The result of each way; nothing for one that never ended in order.
fn lines(ways: &[Series]) -> Vec<Option<Line>> {
    let line = |series: &Series| {
        let seconds = median(&series.seconds)?;
        Some(Line {
            record: Record { seconds, ..series.last.clone()? },
            rounds: series.seconds.len(),
            of_sequential: speed(&ways[SEQUENTIAL].seconds, &series.seconds),
            of_threads: speed(&ways[THREADS].seconds, &series.seconds),
            first: median(&series.first),
        })
    };
    ways.iter().map(line).collect()
}

fn text(program: Program, quick: bool, lines: &[Option<Line>]) -> String {
    let parameters = if quick { program.quick.join(" ") } else { program.about.to_owned() };
    let names = ["", "ms", "× sequential", "× 2 threads", "first/later", "faults", "messages", "KiB"];
    let mut table = Table::new(names);
    for (on, line) in WAYS.iter().zip(lines) {
        let Some(line) = line else {
            table.line([on.to_string(), "failed".to_owned()]);
            continue;
        };
        let record = &line.record;
        table.line([
            on.to_string(),
            number(Some(record.seconds * 1e3)),
            spread(line.of_sequential),
            spread(line.of_threads),
            number(line.first),
            record.faults.to_string(),
            record.messages.to_string(),
            (record.bytes >> 10).to_string(),
        ]);
    }
    format!("{} ({parameters})\n{table}", program.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use scash_bench::record::BarrierSeconds;

    fn records(seconds: &[f64]) -> Option<Vec<Record>> {
        let record = |&seconds: &f64| Record {
            program: "p".to_owned(),
            mode: "dsm".to_owned(),
            ranks: 2,
            threads: 1,
            provider: Some("shm".to_owned()),
            engine: Some("uffd".to_owned()),
            seconds,
            check: None,
            barrier: BarrierSeconds::default(),
            faults: 7,
            messages: 8,
            bytes: 4096,
            figures: Default::default(),
            parameters: Default::default(),
        };
        Some(seconds.iter().map(record).collect())
    }

    fn ways(rounds: [[f64; 2]; 2]) -> Vec<Series> {
        let mut ways: Vec<Series> = WAYS.map(|_| Series::default()).into();
        for [sequential, ranks] in rounds {
            ways[SEQUENTIAL].add(records(&[sequential]));
            ways[THREADS].add(records(&[sequential / 2.0]));
            ways[3].add(records(&[ranks * 1.5, ranks, ranks, ranks]));
        }
        ways
    }

    #[test]
    fn speeds_are_medians_of_neighbours_and_the_first_repetition_shows() {
        let lines = lines(&ways([[0.04, 0.02], [0.08, 0.05]]));
        let line = lines[3].as_ref().unwrap();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let speed = line.of_sequential.unwrap();
        assert!(close(speed.median, 1.8) && close(speed.min, 1.6) && close(speed.max, 2.0), "{speed:?}");
        assert!(close(line.of_threads.unwrap().median, 0.9));
        assert!(close(line.first.unwrap(), 1.5) && close(line.record.seconds, 0.035));
        let json = serde_json::to_value(line).unwrap();
        assert_eq!((&json["rounds"], &json["program"], &json["faults"]), (&2.into(), &"p".into(), &7.into()));
    }

    #[test]
    fn a_way_that_failed_is_shown_and_does_not_hide_the_others() {
        let mut ways = ways([[0.04, 0.02], [0.04, 0.02]]);
        ways[4].add(None);
        ways[4].add(None);
        let text = text(LAPLACE, false, &lines(&ways));
        let mut rows = text.lines().skip(2);
        assert!(text.starts_with("laplace (1022×1022"), "{text}");
        assert!(rows.next().unwrap().starts_with("sequential"), "{text}");
        assert!(
            rows.any(|row| row.starts_with("2 ranks, shm") && row.contains("2.00 (2.00–2.00)")),
            "{text}"
        );
        assert!(rows.any(|row| row.starts_with("4 ranks, shm") && row.ends_with("failed")), "{text}");
    }
}
