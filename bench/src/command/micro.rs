//! `scash bench micro`: what single operations cost between two ranks, over each provider; and what faults
//! cost, with each fault engine that works here.

use super::Session;
use super::runner::{Job, On, Rounds};
use super::table::{Table, number};
use scash::fault::{EngineKind, Probe};
use scash_bench::figures::median;
use scash_bench::record::Record;

/// What jobs of two ranks run on: a column of a table.
#[derive(Clone, Copy)]
struct Column {
    name: &'static str,
    on: On,
    /// The one that ranks would choose, or that the user asks for, if there is none here.
    engine: Option<EngineKind>,
}

/// Frames that ranks share, and then the protocol over each provider, with the fault engine that a job takes.
const COLUMNS: [Column; 3] = [
    Column { name: "shared frames", on: On::Sharing(2), engine: None },
    Column { name: "shm", on: On::Ranks(2, "shm"), engine: None },
    Column { name: "tcp", on: On::Ranks(2, "tcp"), engine: None },
];

/// A measurement of `scash-micro`, and what is shown of it.
struct Measurement {
    /// Whether it is of one process, and not of a job.
    alone: bool,
    arguments: &'static [&'static str],
    /// What is added when little is to be done.
    quick: &'static [&'static str],
    figures: &'static [Figure],
}

/// A line of the table.
struct Figure {
    about: &'static str,
    name: &'static str,
    /// What the table's unit has of the figure's.
    units: f64,
    /// Less than so much is what scash is built for, over shm.
    goal: Option<f64>,
}

const fn figure(about: &'static str, name: &'static str) -> Figure {
    Figure { about, name, units: 1.0, goal: None }
}

const fn goal(about: &'static str, name: &'static str, goal: f64) -> Figure {
    Figure { about, name, units: 1.0, goal: Some(goal) }
}

const MEBIBYTE: f64 = (1 << 20) as f64;
const fn mebibytes(about: &'static str, name: &'static str) -> Figure {
    Figure { about, name, units: MEBIBYTE, goal: None }
}

const FEW: &[&str] = &["--rounds", "2", "--pages", "32"];

/// Shown in each of these columns.
const OPERATIONS: [Measurement; 6] = [
    Measurement {
        alone: false,
        arguments: &["barrier"],
        quick: &["--rounds", "5", "--length", "20"],
        figures: &[goal("empty memory barrier, µs", "barrier_us", 2.0)],
    },
    Measurement {
        alone: false,
        arguments: &["barrier", "--in-use", "128M"],
        quick: &["--rounds", "5", "--length", "20"],
        figures: &[goal("the same with 128 MiB in use, µs", "barrier_us", 2.0)],
    },
    Measurement {
        alone: false,
        arguments: &["read"],
        quick: FEW,
        figures: &[
            goal("cold page read, scattered, µs", "scattered_us", 3.0),
            figure("cold page read, in order, µs a page", "in_order_us"),
        ],
    },
    Measurement {
        alone: false,
        arguments: &["rewrite"],
        quick: FEW,
        figures: &[
            goal("page rewritten, until merged at its home, µs", "page_us", 6.0),
            figure("  of that, write fault and twin", "fault_and_twin_us"),
            figure("  of that, diff, sending and merging", "diff_and_merge_us"),
            figure("page rewritten in every interval, µs", "again_us"),
        ],
    },
    Measurement {
        alone: false,
        arguments: &["diff"],
        quick: FEW,
        figures: &[
            figure("diff of equal pages: encode, ns", "equal_encode_ns"),
            figure("diff of a page changed throughout: encode, ns", "dense_encode_ns"),
            figure("  apply, ns", "dense_apply_ns"),
            figure("diff of 512 numbers changed a little: encode, ns", "f64_encode_ns"),
            figure("  apply, ns", "f64_apply_ns"),
        ],
    },
    Measurement {
        alone: false,
        arguments: &["memory"],
        quick: &["--in-use", "1M"],
        figures: &[
            mebibytes("memory a rank besides shared memory, MiB", "own_bytes"),
            mebibytes("the kernel's page tables for a rank, MiB", "page_tables_bytes"),
        ],
    },
];

/// Shown for each fault engine.
const FAULTS: [Measurement; 2] = [
    Measurement {
        alone: true,
        arguments: &["engine"],
        quick: FEW,
        figures: &[
            figure("a signal whose handler only returns, µs", "signal_us"),
            figure("the engine alone: absent to readable, µs", "absent_to_readable_us"),
            figure("  read-only to writable, µs", "read_only_to_writable_us"),
            figure("  first write to a watched page (no signal), µs", "watched_write_us"),
        ],
    },
    Measurement {
        alone: false,
        arguments: &["fault"],
        quick: FEW,
        figures: &[
            figure("with the protocol: first touch, scattered, µs", "first_touch_us"),
            figure("  first touch, in order, µs a page", "first_touch_in_order_us"),
            figure("  read-only to writable, with twin, scattered, µs", "read_only_to_writable_us"),
        ],
    },
];

/// Measures all operations; whether everything could be measured.
pub(super) fn run(session: &Session) -> bool {
    let by_column = measure(session, &OPERATIONS, &COLUMNS);
    let table = table(["", "shared frames", "shm", "tcp", "goal, shm"], &OPERATIONS, &by_column);
    session.show(&format!("Single operations, 2 ranks: medians (and the least)\n{table}"));
    let probe = Probe::run();
    let (working, missing): (Vec<EngineKind>, Vec<EngineKind>) =
        EngineKind::ALL.into_iter().partition(|kind| probe.engine(*kind).is_there());
    let engine =
        |kind: &EngineKind| Column { name: kind.name(), on: On::Ranks(2, "shm"), engine: Some(*kind) };
    let engines: Vec<Column> = working.iter().map(engine).collect();
    let by_engine = measure(session, &FAULTS, &engines);
    let names = [""].into_iter().chain(engines.iter().map(|column| column.name));
    let table = self::table(names, &FAULTS, &by_engine);
    session.show(&format!("Faults, by fault engine: medians (and the least)\n{table}"));
    missing.iter().for_each(|kind| session.show(&format!("Not measured: {}", probe.engine(*kind))));
    [by_column, by_engine].iter().flatten().flatten().flatten().all(Option::is_some)
}

/// Measures everything in every column, in turns. By measurement and column.
fn measure(session: &Session, measurements: &[Measurement], columns: &[Column]) -> Vec<Vec<Rounds>> {
    let mut results = vec![vec![Rounds::new(); columns.len()]; measurements.len()];
    for _ in 0..session.how.rounds(3) {
        for (measurement, results) in measurements.iter().zip(&mut results) {
            for (column, results) in columns.iter().zip(results) {
                let records = session.measure(&job(measurement, *column, session.how.quick));
                records.iter().flatten().for_each(|record| session.object(record));
                results.push(records);
            }
        }
    }
    results
}

fn job(measurement: &Measurement, column: Column, quick: bool) -> Job {
    let on = if measurement.alone { On::Alone } else { column.on };
    let quick = if quick { measurement.quick } else { &[] };
    let job = Job::new("scash-micro", on, measurement.arguments.iter().chain(quick));
    match column.engine {
        Some(kind) => job.with("SCASH_FAULT", kind.name()),
        None => job,
    }
}

fn table<'a>(
    names: impl IntoIterator<Item = &'a str>,
    measurements: &[Measurement],
    results: &[Vec<Rounds>],
) -> Table {
    let mut table = Table::new(names);
    for (measurement, results) in measurements.iter().zip(results) {
        measurement.figures.iter().for_each(|figure| table.line(line(figure, results)));
    }
    table
}

/// A figure in every column, and its goal.
fn line(figure: &Figure, results: &[Rounds]) -> Vec<String> {
    let cell = |rounds: &Rounds, name: &str| {
        let rounds: Vec<_> = rounds.iter().map(|records| greatest(records.as_deref()?, name)).collect();
        median(&rounds).map(|figure_median| figure_median / figure.units)
    };
    let least = figure.name.strip_suffix("_us").map(|name| format!("{name}_min_us"));
    let cells = results.iter().map(|rounds| match &least {
        Some(least) => format!("{} ({})", number(cell(rounds, figure.name)), number(cell(rounds, least))),
        None => number(cell(rounds, figure.name)),
    });
    let goal = figure.goal.map_or(String::new(), |goal| format!("< {goal}"));
    [figure.about.to_owned()].into_iter().chain(cells).chain([goal]).collect()
}

/// A figure; where several ranks tell it, the greatest.
fn greatest(records: &[Record], name: &str) -> Option<f64> {
    records.iter().filter_map(|record| record.figures.get(name)).copied().reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(figures: &str) -> Vec<Record> {
        let line = format!(
            r#"{{"program":"scash-micro","mode":"m","ranks":2,"threads":1,"provider":"shm","engine":"uffd","seconds":1.0,"check":null,
            "barrier":{{"sync":0.0,"diff":0.0,"update":0.0}},"faults":0,"messages":0,"bytes":0,"figures":{{{figures}}}}}"#
        );
        scash_bench::record::parse(&line.replace('\n', "")).unwrap()
    }

    #[test]
    fn a_time_is_shown_with_its_least_and_beside_its_goal() {
        let shm = vec![Some(printed(r#""page_us":4.0,"page_min_us":3.0"#)), None];
        assert_eq!(line(&goal("it", "page_us", 6.0), &[shm, vec![]]), ["it", "4.00 (3.00)", "- (-)", "< 6"]);
    }

    #[test]
    fn of_what_every_rank_tells_the_greatest_counts() {
        let both = [printed(r#""own_bytes":1048576"#), printed(r#""own_bytes":3145728"#)].concat();
        assert_eq!(
            line(&mebibytes("own", "own_bytes"), &[vec![Some(both)], vec![]]),
            ["own", "3.00", "-", ""]
        );
    }
}
