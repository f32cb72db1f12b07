//! The SCASH paper's Table 3 (page update) and Figure 2 (empty memory barrier), on this machine.

use super::Session;
use super::runner::{Job, On, Rounds};
use super::table::{Table, number};
use scash_bench::figures::{median, speed};
use scash_bench::record::Record;
use scash_bench::size;

const PROVIDERS: [&str; 2] = ["shm", "tcp"];
const TRANSFERS: [&str; 2] = ["message", "zero-copy"];
/// The paper's figures, on Myrinet in 1999: µs a page and MB/s, by message and by zero copy, and how many
/// times as fast the latter is.
const PAPER: [&str; 6] = ["SCASH on Myrinet, 1999", "122", "31.9", "49.6", "78.8", "2.46"];

/// A figure of a record, with the factor of its unit.
fn figure(records: Option<&[Record]>, name: &str) -> Option<f64> {
    records?.first()?.figures.get(name).copied()
}

/// Table 3: brings pages from their home to one sharer; whether everything could be measured.
pub(super) fn table3(session: &Session) -> bool {
    let quick: &[&str] = if session.how.quick { &["--rounds", "10"] } else { &[] };
    let arguments = ["update"].iter().chain(quick);
    // By provider and transfer.
    let mut results = PROVIDERS.map(|_| TRANSFERS.map(|_| Rounds::new()));
    for _ in 0..session.how.rounds(3) {
        for (provider, results) in PROVIDERS.into_iter().zip(&mut results) {
            for (transfer, results) in TRANSFERS.into_iter().zip(results) {
                let job = Job::new("scash-micro", On::Ranks(2, provider), arguments.clone());
                let records = session.measure(&job.with("SCASH_TRANSFER", transfer));
                records.iter().flatten().for_each(|record| session.object(record));
                results.push(records);
            }
        }
    }
    let mut table = Table::new(["", "message µs/page", "MB/s", "zero copy µs/page", "MB/s", "faster"]);
    table.line(PAPER);
    for (provider, results) in PROVIDERS.into_iter().zip(&results) {
        for (part, time, rate) in [
            ("the whole barrier", "page_us", "rate_mib_s"),
            ("the home's part", "home_page_us", "home_rate_mib_s"),
        ] {
            table.line(table3_line(&format!("{provider}, {part}"), results, time, rate));
        }
    }
    session.show(&format!(
        "Page update, every byte changed, from the home to one sharer in a barrier (the SCASH paper's Table 3; MB of 2^20 bytes)\n{table}"
    ));
    results.iter().flatten().flatten().all(Option::is_some)
}

/// A time that came out as less than nothing, on a disturbed machine, is none.
fn table3_line(name: &str, results: &[Rounds; 2], time: &str, rate: &str) -> Vec<String> {
    let series = |transfer: usize, figure_name: &str| -> Vec<Option<f64>> {
        let told = |figure: &f64| *figure > 0.0;
        results[transfer].iter().map(|records| figure(records.as_deref(), figure_name).filter(told)).collect()
    };
    let mut cells = vec![name.to_owned()];
    for transfer in 0..TRANSFERS.len() {
        cells.extend([number(median(&series(transfer, time))), number(median(&series(transfer, rate)))]);
    }
    let faster = speed(&series(0, time), &series(1, time));
    cells.push(number(faster.map(|spread| spread.median)));
    cells
}

/// The empty memory barrier against the number of ranks (Figure 2 of the SCASH paper)
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Figure2 {
    /// Shared memory in use meanwhile, which must not matter: one or more sizes, such as 128M,1G,8G
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = size::parse)]
    in_use: Vec<usize>,
}

const RANKS: [u32; 4] = [1, 2, 4, 8];

/// Figure 2: empty memory barriers; whether everything could be measured.
pub(super) fn figure2(session: &Session, options: &Figure2) -> bool {
    let sizes = if options.in_use.is_empty() { vec![0] } else { options.in_use.clone() };
    let columns: Vec<(usize, &str)> =
        sizes.iter().flat_map(|&size| PROVIDERS.map(|provider| (size, provider))).collect();
    // By number of ranks and column: each round's median.
    let mut results = vec![vec![Vec::new(); columns.len()]; RANKS.len()];
    for _ in 0..session.how.rounds(3) {
        for (ranks, results) in RANKS.into_iter().zip(&mut results) {
            for ((size, provider), results) in columns.iter().zip(results) {
                let job = barrier(*size, On::Ranks(ranks, provider), session.how.quick);
                let records = session.measure(&job);
                records.iter().flatten().for_each(|record| session.object(record));
                results.push(figure(records.as_deref(), "barrier_us"));
            }
        }
    }
    let name = |&(bytes, provider): &(usize, &str)| match bytes {
        0 => format!("{provider} µs"),
        _ => format!("{provider} µs, {} in use", size::text(bytes)),
    };
    let mut table = Table::new(std::iter::once("ranks".to_owned()).chain(columns.iter().map(name)));
    for (ranks, results) in RANKS.iter().zip(&results) {
        let cells = results.iter().map(|rounds| number(median(rounds)));
        table.line(std::iter::once(ranks.to_string()).chain(cells));
    }
    session.show(&format!("Empty memory barrier (the SCASH paper's Figure 2)\n{table}"));
    results.iter().flatten().flatten().all(Option::is_some)
}

fn barrier(in_use: usize, on: On, quick: bool) -> Job {
    let mut arguments = vec!["barrier".to_owned(), "--in-use".to_owned(), in_use.to_string()];
    if quick {
        arguments.extend(["--rounds", "5", "--length", "20"].map(str::to_owned));
    }
    Job::new("scash-micro", on, arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(page: f64, rate: f64) -> Option<Vec<Record>> {
        let line = format!(
            r#"{{"program":"scash-micro","mode":"update","ranks":2,"threads":1,"provider":"shm","engine":"uffd","seconds":1.0,
            "check":"equal","barrier":{{"sync":0.0,"diff":0.0,"update":0.0}},"faults":0,"messages":0,"bytes":0,
            "figures":{{"page_us":{page},"rate_mib_s":{rate}}},"transfer":"message"}}"#
        );
        Some(scash_bench::record::parse(&line.replace('\n', "")).unwrap())
    }

    #[test]
    fn table_3_shows_the_median_of_the_rounds_and_how_much_faster_zero_copy_is() {
        let message = vec![printed(3.0, 1300.0), printed(4.0, 976.0), printed(5.0, 781.0)];
        let zero_copy = vec![printed(1.0, 3906.0), printed(1.0, 3906.0), None];
        let cells = table3_line("shm", &[message, zero_copy], "page_us", "rate_mib_s");
        assert_eq!(cells, ["shm", "4.00", "976", "1.00", "3906", "3.50"]);
    }

    #[test]
    fn a_time_less_than_nothing_counts_for_nothing() {
        let zero_copy = vec![printed(-1.0, 1.0), printed(2.0, 1953.0)];
        let message = vec![printed(3.0, 1300.0), printed(4.0, 976.0)];
        let cells = table3_line("shm", &[message, zero_copy], "page_us", "rate_mib_s");
        assert_eq!((&cells[3], &cells[5]), (&"2.00".to_owned(), &"2.00".to_owned()));
    }

    #[test]
    fn what_was_never_measured_is_a_dash() {
        let cells = table3_line("tcp", &[vec![None], vec![None]], "page_us", "rate_mib_s");
        assert_eq!(cells, ["tcp", "-", "-", "-", "-", "-"]);
    }
}
