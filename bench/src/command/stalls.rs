//! How long a job on several hosts stands still when one of them is lost, and when a rank moves.

use super::Session;
use super::hosts::Hosts;
use super::runner::{Job, On};
use super::table::{Table, number};
use scash_bench::figures::median;
use scash_bench::namespaces::address;
use scash_bench::record::Record;
use scash_bench::size;
use scash_ft::Moment;
use std::time::Duration;

/// Two hosts, with as many ranks on each.
pub(super) const HOSTS: u32 = 2;
const RANKS: u32 = 4;
const ON: On = On::Hosts(RANKS, HOSTS);
const OPTIONS: [&str; 5] = ["--replicas", "1", "--checkpoint", "seconds=0.25", "--no-rejoin"];
/// Where the launcher is.
const FIRST: u32 = 1;
/// The host to which that is done.
const LAST: u32 = HOSTS;

/// What is done to a job.
#[derive(Clone, Copy, Debug)]
enum Event {
    Kill,
    Cut,
    Migrate,
}

const EVENTS: [(Event, &str); 3] = [
    (Event::Kill, "all processes of a host are killed"),
    (Event::Cut, "a host is cut off, without a word"),
    (Event::Migrate, "a rank moves (scash migrate)"),
];

/// Shared memory of all ranks, and private memory of each.
const MEMORIES: [(&str, &str); 2] = [("1M", "1M"), ("256M", "100M")];

/// Measures all of it; whether everything could be measured.
pub(super) fn run(session: &Session, hosts: &Hosts) -> bool {
    let mut table = Table::new([
        "shared by all, private of each of 4 ranks",
        "",
        "all stand still for, ms",
        "first checkpoint, ms",
        "to other hosts, MB",
        "MB/s",
    ]);
    let mut complete = true;
    for (shared, private) in MEMORIES {
        for (event, what) in EVENTS {
            let once = |_| measure(session, hosts, event, [shared, private]);
            let rounds: Vec<Option<Record>> = (0..session.how.rounds(3)).map(once).collect();
            rounds.iter().flatten().for_each(|record| session.object(record));
            complete &= rounds.iter().all(Option::is_some);
            let ms = |name: &str| {
                let figure = |record: &Record| record.figures.get(name).copied();
                let all: Vec<Option<f64>> = rounds.iter().map(|record| figure(record.as_ref()?)).collect();
                median(&all).map(|us| us / 1e3)
            };
            let (still, first) = (ms("still_us"), ms("first_us"));
            let copied = copied_mb(shared, private);
            // Something may have been done before the first checkpoint.
            let rate = copied.zip(first.filter(|ms| *ms > 0.0)).map(|(mb, ms)| 1e3 * mb / ms);
            let cells = [still, first, copied, rate].map(number);
            table.line([format!("{shared}, {private}"), what.to_owned()].into_iter().chain(cells));
        }
    }
    let link = link(session, hosts);
    let carries = number(link);
    session.show(&format!(
        "{ON}\n{table}One bare TCP connection between the hosts carries {carries} MB/s, both ways together.\n"
    ));
    complete && link.is_some()
}

/// What the first checkpoint copies to other hosts, in megabytes, but for what a rank has besides the memory
/// that it was told to write.
fn copied_mb(shared: &str, private: &str) -> Option<f64> {
    let bytes = |text| size::parse(text).ok();
    let all = bytes(shared)? + RANKS as usize * bytes(private)?;
    Some(all as f64 / 1e6)
}

/// What the network between two hosts carries: megabytes a second, both ways together.
fn link(session: &Session, hosts: &Hosts) -> Option<f64> {
    let words = ["sockets", "--lengths", "1M"];
    let job = hosts.reached_by(Job::new("scash-comm-bench", On::Hosts(2, HOSTS), words));
    let once = |_| {
        let record = session.measured(session.runner.run(&job))?.into_iter().next()?;
        session.object(&record);
        record.figures.get("both_ways_mb_s").copied()
    };
    let all: Vec<Option<f64>> = (0..session.how.rounds(3)).map(once).collect();
    median(&all)
}

fn measure(session: &Session, hosts: &Hosts, event: Event, [shared, private]: [&str; 2]) -> Option<Record> {
    let file = hosts.file("event");
    let noted = file.to_string_lossy();
    let seconds = if session.how.quick { ["--seconds", "2"] } else { ["--seconds", "5"] };
    let words = ["stall", "--shared", shared, "--private", private, "--event", &noted];
    let job = Job::new("scash-micro", ON, words.into_iter().chain(seconds)).with_options(OPTIONS);
    let job = hosts.reached_by(job);
    // The launcher is on the other host: how it misses a host, it learns from the network between them.
    let command = session.measured(session.runner.command(&job))?;
    let outcome = session.runner.run_beside(&job, hosts.on(FIRST, &command), |launcher| {
        std::thread::sleep(Duration::from_millis(if session.how.quick { 1000 } else { 2500 }));
        std::fs::write(&file, Moment::now().to_string()).map_err(|error| error.to_string())?;
        match event {
            Event::Kill => hosts.namespaces().kill(LAST).map(drop).map_err(|error| error.to_string()),
            Event::Cut => hosts.namespaces().cut(LAST).map_err(|error| error.to_string()),
            Event::Migrate => {
                let words = ["migrate", &launcher.to_string(), "3", &address(FIRST)];
                let done = hosts.on(FIRST, &session.runner.scash(&words)).output();
                let done = done.map_err(|error| error.to_string())?;
                let said = String::from_utf8_lossy(&done.stderr);
                if done.status.success() { Ok(()) } else { Err(said.trim_end().to_owned()) }
            }
        }
    });
    if matches!(event, Event::Cut) {
        let plugged_in = hosts.namespaces().plug_in(LAST).map_err(|error| error.to_string());
        session.measured(plugged_in)?;
    }
    session.measured(outcome)?.into_iter().next()
}
