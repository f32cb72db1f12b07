//! What else message passing does: MMP's figures and tables, long queues, start-up and memory.

use super::lines::{BenchCommand, Pick, Results};
use super::place::{Transport, Transports};
use crate::Session;
use crate::runner::{Job, On, Rounds};
use crate::table::{Table, number, spread};
use scash_bench::figures::median;
use std::collections::BTreeMap;

/// A line of the table.
struct Line {
    about: &'static str,
    shows: Shows,
    /// What a paper has, and what is to hold here.
    paper: &'static str,
    goal: &'static str,
}

/// What a line shows.
enum Shows {
    /// A figure, in so many of its units.
    Figure(Pick, f64),
    /// A figure in times of another, with how far the rounds reach.
    Ratio(Pick, Pick),
}

const MEGA: f64 = 1e6;
const PAIR: BenchCommand = BenchCommand { ranks: 2, words: "transfer", lengths: &[8, 4 << 10, 1 << 20] };
const SOCKETS: BenchCommand = BenchCommand { words: "sockets", ..PAIR };
const GET: BenchCommand = BenchCommand { ranks: 2, words: "get", lengths: &[4 << 10] };
const ALL_TO_ALL: BenchCommand =
    BenchCommand { ranks: 4, words: "all-to-all", lengths: &[8, 4 << 10, 64 << 10] };
const PUSH: BenchCommand = BenchCommand::new(2, "random --protocol eager-push");
const RENDEZVOUS: BenchCommand = BenchCommand::new(2, "random --protocol eager-rendezvous");
const OVERLAP: BenchCommand = BenchCommand::new(2, "overlap");
const MATCHING: BenchCommand = BenchCommand::new(2, "matching");
const MANY: u64 = 10_000;

const fn line(about: &'static str, pick: Pick) -> Line {
    Line { about, shows: Shows::Figure(pick, 1.0), paper: "", goal: "" }
}

const fn mega(about: &'static str, pick: Pick) -> Line {
    Line { about, shows: Shows::Figure(pick, MEGA), paper: "", goal: "" }
}

const fn ratio(about: &'static str, of: Pick, to: Pick) -> Line {
    Line { about, shows: Shows::Ratio(of, to), paper: "", goal: "" }
}

const fn barrier(ranks: u32) -> Pick {
    BenchCommand::new(ranks, "barrier").pick("barrier_us")
}

const fn behind(posted: u64, figure: &'static str) -> Pick {
    Pick { work: MATCHING, of: Some(("posted", posted)), figure }
}

const LINES: [Line; 26] = [
    line("8 bytes one way, µs", PAIR.at(8, "latency_us")).with_goal("≤ 0.2 shm"),
    line("4 KiB one way, µs", PAIR.at(4 << 10, "latency_us")).with_goal("≤ 1.0 shm"),
    line("1 MiB, MB/s", PAIR.at(1 << 20, "rate_mb_s")),
    ratio(
        "  both ways at once, × one way",
        PAIR.at(1 << 20, "both_ways_mb_s"),
        PAIR.at(1 << 20, "rate_mb_s"),
    )
    .with_paper("1.37"),
    ratio("8 bytes one way, × bare connection", PAIR.at(8, "latency_us"), SOCKETS.at(8, "latency_us"))
        .with_goal("≤ 1.15"),
    ratio(
        "4 KiB one way, × bare connection",
        PAIR.at(4 << 10, "latency_us"),
        SOCKETS.at(4 << 10, "latency_us"),
    )
    .with_goal("≤ 1.15"),
    ratio("1 MiB, MB/s, × bare connection", PAIR.at(1 << 20, "rate_mb_s"), SOCKETS.at(1 << 20, "rate_mb_s"))
        .with_goal("≥ 0.95"),
    line("get of 4 KiB while its owner waits, µs", GET.at(4 << 10, "get_us"))
        .with_goal("≤ 0.6 shm, 7.6 two hosts"),
    ratio("  × bare connection", GET.at(4 << 10, "get_us"), GET.at(4 << 10, "bare_us")),
    line("barrier, 2 ranks, µs", barrier(2)).with_paper("9.7").with_goal("≤ 0.25 shm"),
    line("  4 ranks", barrier(4)).with_paper("10.7"),
    line("  8 ranks", barrier(8)).with_paper("13.8").with_goal("≤ 12 shm, 90 tcp"),
    line("all-to-all, 4 ranks, 8 bytes, µs", ALL_TO_ALL.at(8, "all_to_all_us")),
    line("  4 KiB, MB/s of all", ALL_TO_ALL.at(4 << 10, "rate_mb_s")),
    line("  64 KiB, MB/s of all", ALL_TO_ALL.at(64 << 10, "rate_mb_s")),
    line("random sizes, not posted: active zero copy, messages/s", PUSH.pick("messages_s")),
    line("  eager and rendezvous, messages/s", RENDEZVOUS.pick("messages_s")),
    ratio(
        "  active zero copy, × eager and rendezvous",
        PUSH.pick("messages_s"),
        RENDEZVOUS.pick("messages_s"),
    )
    .with_paper("1.4")
    .with_goal("≥ 1.4"),
    line("4 MiB, until both know that it is there, µs", OVERLAP.pick("transfer_us")),
    line("  and as long a computation of the sender, × that alone", OVERLAP.pick("sender_times"))
        .with_goal("≤ 1.1"),
    line("  of the receiver", OVERLAP.pick("receiver_times")).with_goal("≤ 1.1"),
    line("  of both", OVERLAP.pick("both_times")),
    line("2 bytes one way, nothing else posted, µs", behind(0, "latency_us")),
    line("  behind 10,000 posted receives", behind(MANY, "latency_us")),
    line("  10,000 from the last posted to the first, µs each", behind(MANY, "reverse_us")),
    mega("memory a rank of 8, resident, MB", BenchCommand::new(8, "memory").pick("resident_bytes"))
        .with_goal("< 4"),
];

impl Line {
    const fn with_paper(self, paper: &'static str) -> Line {
        Line { paper, ..self }
    }

    const fn with_goal(self, goal: &'static str) -> Line {
        Line { goal, ..self }
    }

    fn picks(&self) -> impl Iterator<Item = Pick> {
        let (one, two) = match self.shows {
            Shows::Figure(pick, _) => (pick, None),
            Shows::Ratio(of, to) => (of, Some(to)),
        };
        [one].into_iter().chain(two)
    }

    fn cell(&self, results: &Results) -> String {
        match &self.shows {
            Shows::Figure(pick, units) => number(results.median(pick).map(|median| median / units)),
            Shows::Ratio(of, to) => spread(results.ratio(of, to)),
        }
    }
}

/// Measures all of them in all places, in turns; whether everything could be measured.
pub(super) fn run(session: &Session, places: &Transports) -> bool {
    let mut columns: Vec<(Transport, Results)> =
        places.all().iter().map(|place| (*place, Results::default())).collect();
    let mut others = Others::default();
    for _ in 0..session.how.rounds(3) {
        for (place, results) in &mut columns {
            for work in works(*place) {
                let job = places.job(*place, work.ranks, &work.words(session.how.quick));
                results.add(session, work, session.measure(&job));
            }
            others.measure(session, places, *place);
        }
    }
    let names = columns.iter().map(|(place, _)| place.name());
    let mut table = Table::new([""].into_iter().chain(names).chain(["MMP", "goal"]));
    for line in &LINES {
        let cells = columns.iter().map(|(_, results)| line.cell(results));
        let ends = [line.paper.to_owned(), line.goal.to_owned()];
        table.line([line.about.to_owned()].into_iter().chain(cells).chain(ends));
    }
    others.lines(&columns.iter().map(|(place, _)| *place).collect::<Vec<_>>(), &mut table);
    session.show(&format!(
        "Message passing, 2 ranks unless said (beside MMP on Maestro2, 2006): medians, and how far ratios reach\n{table}"
    ));
    columns.iter().all(|(_, results)| results.is_complete()) && others.is_complete()
}

/// What all lines need in a place, each once.
fn works(place: Transport) -> Vec<BenchCommand> {
    let mut works: Vec<BenchCommand> = LINES.iter().flat_map(Line::picks).map(|pick| pick.work).collect();
    works.sort_unstable();
    works.dedup();
    // There is nothing like a bare connection within a host.
    works.retain(|work| place != Transport::Shm || *work != SOCKETS);
    works
}

/// What is not measured by `scash-comm-bench` between its ranks: the start of a job, and puts, which
/// `scash-micro network` measures.
#[derive(Default)]
struct Others {
    /// Milliseconds from `scash run` to the first line.
    start: BTreeMap<Transport, Vec<Option<f64>>>,
    network: BTreeMap<Transport, Rounds>,
}

const START: u32 = 8;

impl Others {
    fn measure(&mut self, session: &Session, places: &Transports, place: Transport) {
        let job = places.job(place, START, "hello");
        let time = (session.runner.command(&job))
            .and_then(|command| session.runner.time_to_first_line(command, &job))
            .map_err(|why| crate::say(&why));
        let milliseconds = time.ok().map(|time| time.as_secs_f64() * 1e3);
        session
            .object(&serde_json::json!({ "place": place.name(), "ranks": START, "start_ms": milliseconds }));
        self.start.entry(place).or_default().push(milliseconds);
        // It has no launcher, so there are neither hosts nor libfabric.
        if matches!(place, Transport::Shm | Transport::Tcp) {
            let quick: &[&str] = if session.how.quick { &["--rounds", "2"] } else { &[] };
            let words = ["network", "--provider", place.name()];
            let records = session.measure(&Job::new("scash-micro", On::Alone, words.iter().chain(quick)));
            records.iter().flatten().for_each(|record| session.object(record));
            self.network.entry(place).or_default().push(records);
        }
    }

    fn lines(&self, places: &[Transport], table: &mut Table) {
        let mut line = |about: &str, goal: &str, cell: &dyn Fn(&Transport) -> Option<f64>| {
            let cells = places.iter().map(|place| number(cell(place)));
            table.line([about.to_owned()].into_iter().chain(cells).chain([String::new(), goal.to_owned()]));
        };
        line("put of 4 KiB, until it is there, µs", "≤ 0.6 shm", &|place| {
            let rounds = self.network.get(place)?.iter();
            let of =
                |records: &Option<Vec<_>>| BenchCommand::new(1, "").pick("put_us").value(records.as_deref()?);
            median(&rounds.map(of).collect::<Vec<_>>())
        });
        line("8 ranks, from `scash run` to the first line, ms", "< 60", &|place| {
            median(self.start.get(place)?)
        });
    }

    fn is_complete(&self) -> bool {
        let started = self.start.values().flatten().all(Option::is_some);
        started && self.network.values().flatten().all(Option::is_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_of_a_work_that_is_measured_once() {
        let works = super::works(Transport::Tcp);
        assert!(LINES.iter().flat_map(Line::picks).all(|pick| works.contains(&pick.work)));
        assert!(works.windows(2).all(|pair| pair[0] != pair[1]) && works.contains(&SOCKETS));
        assert!(!super::works(Transport::Shm).contains(&SOCKETS));
    }
}
