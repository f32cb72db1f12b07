//! What was simulated, as tables.

use super::ScalePoint;
use crate::Session;
use crate::table::{Table, number};
use scash_bench::scale::growth::Growth;
use scash_bench::scale::{Machine, Time};
use std::iter;

/// The machine's parameters.
pub(super) fn machine(session: &Session, machine: &Machine) {
    session.object(machine);
    let Machine { name, network, pages, compute } = machine;
    let us = |time: Time| format!("{} µs", number(Some(time.as_seconds() * 1e6)));
    let access = if network.direct { "; puts and gets are copies that the issuer makes" } else { "" };
    session.show(&format!(
        "{name}\n  network: L {}, o {}, g {}, G {} ns a byte, a get is answered in {}{access}\n  \
         pages: fault {}, mapping call {}, zeros {}, copy {}, compare {}, encode {}, apply {}\n  \
         arithmetic: LAPLACE {} ns an element, LU {} GFlop/s",
        us(network.latency),
        us(network.overhead),
        us(network.gap),
        number(Some(network.per_byte.as_seconds() * 1e9)),
        us(network.serve),
        us(pages.fault),
        us(pages.call),
        us(pages.zero),
        us(pages.copy),
        us(pages.compare),
        us(pages.encode),
        us(pages.apply),
        number(Some(compute.cell * 1e9)),
        number(Some(1e-9 / compute.flop)),
    ));
}

/// The names of a program's columns. All costs are those of the whole timed part.
const COLUMNS: [&str; 12] = [
    "ranks",
    "speed-up",
    "ms",
    "µs a barrier",
    "messages a rank",
    "most",
    "KiB a rank",
    "most",
    "faults a rank",
    "directory KiB",
    "notices KiB",
    "meetings",
];

/// A program on a machine, and beside it the paper's speed-up on so many nodes, if it is the paper's machine.
pub(super) fn points(session: &Session, title: &str, paper: Option<(u32, f64)>, points: &[ScalePoint]) {
    let mut table = Table::new(COLUMNS);
    points.iter().for_each(|point| table.line(cells(point)));
    let compared = |(nodes, speed_up): (u32, f64)| {
        let here = points.iter().find(|point| point.ranks == nodes)?.speed_up;
        Some(format!("The SCASH paper measured {speed_up} on {nodes} nodes; here it is {here:.1}."))
    };
    session.show(&format!("{title} (simulated)\n{table}{}", paper.and_then(compared).unwrap_or_default()));
}

fn cells(point: &ScalePoint) -> [String; 12] {
    let (totals, ranks) = (&point.totals, f64::from(point.ranks));
    let milliseconds = totals.time.as_seconds() * 1e3;
    let kib = |bytes: f64| number(Some(bytes / 1024.0));
    [
        point.ranks.to_string(),
        number(Some(point.speed_up)),
        number(Some(milliseconds)),
        number(Some(milliseconds * 1e3 / totals.barriers.max(1) as f64)),
        number(Some(totals.sent.messages as f64 / ranks)),
        totals.most.messages.to_string(),
        kib(totals.sent.bytes as f64 / ranks),
        kib(totals.most.bytes as f64),
        number(Some(totals.faults as f64 / ranks)),
        kib(totals.directory as f64),
        kib(totals.notices as f64),
        totals.meetings.to_string(),
    ]
}

/// What is linear by construction, where no simulation is needed to see it.
const BESIDES: &str = "\
Beside the protocol's messages, linear by construction: a rank's page table, in the pages of all shared memory in use (8 to 20 bytes each, 0.5 %), since it
knows their homes; over tcp its connections, three with every other rank; within a host its rings, one of at least 16 KiB from every other rank there.";

/// What grows with the number of ranks; reasons are numbered, and told below the table.
pub(super) fn growth(session: &Session, ranks: &[u32], all: &[Growth]) {
    let counts = ranks.iter().map(|count| format!("{count} ranks"));
    let first = "at the rank where it is greatest".to_owned();
    let mut table = Table::new(iter::once(first).chain(counts).chain(["growth".to_owned()]));
    let mut reasons: Vec<&str> = Vec::new();
    for growth in all {
        let note = growth.reason.map(|reason| {
            let known = reasons.iter().position(|known| *known == reason);
            let number = known.unwrap_or_else(|| {
                reasons.push(reason);
                reasons.len() - 1
            });
            format!(" [{}]", number + 1)
        });
        let values = growth.values.iter().map(|(_, value)| number(Some(*value)));
        let law = format!("{}{}", growth.law.name(), note.unwrap_or_default());
        let name = format!("{}: {}", growth.pattern, growth.cost.name());
        table.line(iter::once(name).chain(values).chain([law]));
    }
    let reasons: String =
        reasons.iter().enumerate().map(|(at, reason)| format!("[{}] {reason}\n", at + 1)).collect();
    session.show(&format!(
        "What grows with the number of ranks, if each has as much to do\n{table}{reasons}{BESIDES}"
    ));
}
