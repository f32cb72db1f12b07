//! `scash bench micro`: what single operations cost between two ranks.

use super::Session;
use super::runner::{Job, On, Rounds};
use super::table::{Table, number};
use scash_bench::figures::median;
use scash_bench::record::Record;

const PROVIDERS: [&str; 2] = ["shm", "tcp"];

/// A measurement of `scash-micro`, and what is shown of it.
struct Measurement {
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

const MEASUREMENTS: [Measurement; 7] = [
    Measurement {
        arguments: &["barrier"],
        quick: &["--rounds", "5", "--length", "20"],
        figures: &[goal("empty memory barrier, µs", "barrier_us", 2.0)],
    },
    Measurement {
        arguments: &["barrier", "--in-use", "128M"],
        quick: &["--rounds", "5", "--length", "20"],
        figures: &[goal("the same with 128 MiB in use, µs", "barrier_us", 2.0)],
    },
    Measurement {
        arguments: &["read"],
        quick: FEW,
        figures: &[
            goal("cold page read, scattered, µs", "scattered_us", 3.0),
            figure("cold page read, in order, µs a page", "in_order_us"),
        ],
    },
    Measurement {
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
        arguments: &["fault"],
        quick: FEW,
        figures: &[
            figure("first touch, scattered, µs", "first_touch_us"),
            figure("first touch, in order, µs a page", "first_touch_in_order_us"),
            figure("read-only to writable, with twin, µs", "read_only_to_writable_us"),
        ],
    },
    Measurement {
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
        arguments: &["memory"],
        quick: &["--in-use", "1M"],
        figures: &[
            mebibytes("memory a rank besides shared memory, MiB", "own_bytes"),
            mebibytes("the kernel's page tables for a rank, MiB", "page_tables_bytes"),
        ],
    },
];

/// Measures all operations; whether everything could be measured.
pub(super) fn run(session: &Session) -> bool {
    // By measurement and provider.
    let mut results = MEASUREMENTS.map(|_| PROVIDERS.map(|_| Rounds::new()));
    for _ in 0..session.how.rounds(3) {
        for (measurement, results) in MEASUREMENTS.iter().zip(&mut results) {
            for (provider, results) in PROVIDERS.into_iter().zip(results) {
                let quick = if session.how.quick { measurement.quick } else { &[] };
                let arguments = measurement.arguments.iter().chain(quick);
                let records = session.measure(&Job::new("scash-micro", On::Ranks(2, provider), arguments));
                records.iter().flatten().for_each(|record| session.object(record));
                results.push(records);
            }
        }
    }
    let mut table = Table::new(["", "shm", "tcp", "goal, shm"]);
    for (measurement, results) in MEASUREMENTS.iter().zip(&results) {
        measurement.figures.iter().for_each(|figure| table.line(line(figure, results)));
    }
    session.show(&format!("Single operations, 2 ranks: medians (and the least)\n{table}"));
    results.iter().flatten().flatten().all(Option::is_some)
}

fn line(figure: &Figure, results: &[Rounds; 2]) -> Vec<String> {
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
