//! Latency, bandwidth and half-bandwidth point of each protocol (CLUMP's Table 4), and the curves that they
//! are of.

use super::lines::{BenchCommand, Pick, Results};
use super::place::{Transport, Transports};
use crate::Session;
use crate::table::{Table, number, spread};
use scash_bench::figures::half_bandwidth;
use scash_bench::size;

/// A protocol: its name, the work that measures it, and whether it needs memory that ranks share.
struct Protocol {
    name: &'static str,
    words: &'static str,
    is_within_hosts: bool,
}

const fn protocol(name: &'static str, words: &'static str, is_within_hosts: bool) -> Protocol {
    Protocol { name, words, is_within_hosts }
}

const PROTOCOLS: [Protocol; 7] = [
    protocol("eager", "transfer --protocol eager", false),
    protocol("push (active zero copy)", "transfer --protocol push", false),
    protocol("rendezvous", "transfer --protocol rendezvous", false),
    protocol("get", "transfer --protocol get", true),
    protocol("get, registered", "transfer --protocol registered-get", true),
    protocol("default", "transfer", false),
    protocol("default, registered", "transfer --protocol registered", true),
];
const SOCKETS: Protocol = protocol("a bare connection", "sockets", false);
/// What gets, which copy once, are compared with: protocols that copy twice, at one go and piece by piece.
const TWO_COPIES: [&Protocol; 2] = [&PROTOCOLS[0], &PROTOCOLS[1]];
const GETS: [&Protocol; 2] = [&PROTOCOLS[3], &PROTOCOLS[4]];

const LENGTHS: [u64; 16] = [
    0,
    8,
    64,
    256,
    1 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
    4 << 20,
];
/// Lengths that tables show.
const SHOWN: [u64; 8] = [8, 256, 4 << 10, 16 << 10, 64 << 10, 128 << 10, 1 << 20, 4 << 20];
/// From here on get is to be twice as fast as two copies.
const LONG: [u64; 4] = [128 << 10, 256 << 10, 1 << 20, 4 << 20];

/// CLUMP's Table 4: µs, MB/s, and half-bandwidth point in bytes, within a host and between hosts.
const PAPER_WITHIN: [[&str; 4]; 2] =
    [["CLUMP, 1999: eager", "8.62", "48.0", "300"], ["CLUMP, 1999: get", "9.98", "100", "2500"]];
const PAPER_BETWEEN: [[&str; 4]; 2] =
    [["CLUMP, 1999: eager", "11.1", "54.9", "-"], ["CLUMP, 1999: rendezvous", "12.8", "97.7", "-"]];

impl Protocol {
    fn work(&self) -> BenchCommand {
        BenchCommand { ranks: 2, words: self.words, lengths: &LENGTHS }
    }

    fn pick(&self, length: u64, figure: &'static str) -> Pick {
        self.work().at(length, figure)
    }

    /// Lengths and rates.
    fn curve(&self, results: &Results) -> Vec<(f64, f64)> {
        let point = |length: u64| Some((length as f64, results.median(&self.pick(length, "rate_mb_s"))?));
        LENGTHS.into_iter().filter_map(point).collect()
    }
}

/// Measures every protocol in every place; whether everything could be measured.
pub(super) fn run(session: &Session, places: &Transports) -> bool {
    let one = |place: &Transport| {
        let protocols = of(*place);
        let mut results = Results::default();
        for _ in 0..session.how.rounds(3) {
            for protocol in &protocols {
                let work = protocol.work();
                let job = places.job(*place, work.ranks, &work.words(session.how.quick));
                results.add(session, work, session.measure(&job));
            }
        }
        show(session, *place, &protocols, &results);
        results.is_complete()
    };
    let incomplete = places.all().iter().filter(|place| !one(place)).count();
    incomplete == 0
}

fn of(place: Transport) -> Vec<&'static Protocol> {
    let sockets = (place != Transport::Shm).then_some(&SOCKETS);
    PROTOCOLS
        .iter()
        .filter(|protocol| place == Transport::Shm || !protocol.is_within_hosts)
        .chain(sockets)
        .collect()
}

fn show(session: &Session, place: Transport, protocols: &[&Protocol], results: &Results) {
    let title = format!("Protocols over {} (2 ranks; CLUMP's Table 4)", place.name());
    session.show(&format!("{title}\n{}", summary(place, protocols, results)));
    for (title, figure) in [
        ("µs one way", "latency_us"),
        ("MB/s, many messages one after the other", "rate_mb_s"),
        ("MB/s, both ways at once", "both_ways_mb_s"),
    ] {
        session.show(&format!("{title}, over {}\n{}", place.name(), curves(figure, protocols, results)));
    }
    if place == Transport::Shm {
        session.show(&format!(
            "Bandwidth of one copy, in times of that of two (CLUMP: 2.1), with how far the rounds reach\n{}",
            gets(results)
        ));
    }
}

/// Latency of 8 bytes, greatest bandwidth, and half-bandwidth point.
fn summary(place: Transport, protocols: &[&Protocol], results: &Results) -> Table {
    let mut table = Table::new(["", "8 bytes µs", "MB/s", "n½ bytes"]);
    let paper = if place == Transport::Shm { PAPER_WITHIN } else { PAPER_BETWEEN };
    paper.into_iter().for_each(|line| table.line(line));
    for protocol in protocols {
        let curve = protocol.curve(results);
        table.line([
            protocol.name.to_owned(),
            number(results.median(&protocol.pick(8, "latency_us"))),
            number(curve.iter().map(|(_, rate)| *rate).reduce(f64::max)),
            number(half_bandwidth(&curve)),
        ]);
    }
    table
}

fn curves(figure: &'static str, protocols: &[&Protocol], results: &Results) -> Table {
    let lengths = SHOWN.map(text);
    let mut table = Table::new([String::new()].into_iter().chain(lengths));
    for protocol in protocols {
        let cells = SHOWN.map(|length| number(results.median(&protocol.pick(length, figure))));
        table.line([protocol.name.to_owned()].into_iter().chain(cells));
    }
    table
}

fn gets(results: &Results) -> Table {
    let mut table = Table::new([String::new()].into_iter().chain(LONG.map(text)));
    for (get, other) in GETS.into_iter().flat_map(|get| TWO_COPIES.map(|other| (get, other))) {
        let cells = LONG.map(|length| {
            let rate = |protocol: &Protocol| protocol.pick(length, "rate_mb_s");
            spread(results.ratio(&rate(get), &rate(other)))
        });
        table.line([format!("{}, × {}", get.name, other.name)].into_iter().chain(cells));
    }
    table
}

fn text(length: u64) -> String {
    usize::try_from(length).map_or_else(|_| length.to_string(), size::text)
}
